// Pipelines whose elements are moved to the GPU ahead of the loop.
#include <capstan/capstan.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

auto pairs() {
  const Tensor x = random_in(-1, 1, {40, 3}, DType::float32, 5).to(cpu());
  const Tensor labels = arange(40).to(cpu());
  return data::from(std::pair(x, labels)) | data::shuffle(40, {.seed = 3}) | data::batch(6);
}

}  // namespace

TEST_CASE("prefetch moves elements to the GPU, with the values that they have without it", "[gpu][data]") {
  CAPSTAN_NEEDS_GPUS(1);
  const auto there = pairs() | data::prefetch(2, kGpu);
  std::vector<std::pair<Tensor, Tensor>> here;
  for (const auto& batch : pairs()) here.push_back(batch);
  std::size_t at = 0;
  auto pipeline = there;
  for (const auto& [x, labels] : pipeline) {
    REQUIRE(at < here.size());
    CHECK(x.device() == kGpu);
    CHECK(labels.device() == kGpu);
    CHECK(same((x * 2).to(cpu()), here[at].first * 2));  // on the loop's stream, behind the copy on the other
    CHECK(same(labels.to(cpu()), here[at].second));
    ++at;
  }
  CHECK(at == here.size());
}

TEST_CASE("leaving a loop over elements on the GPU ends its thread and frees its memory", "[gpu][data]") {
  CAPSTAN_NEEDS_GPUS(1);
  auto pipeline = pairs() | data::repeat() | data::prefetch(3, kGpu);
  const auto before = memory::stats(kGpu).in_use;
  for (int turn = 0; turn < 5; ++turn)
    for (const auto& [x, labels] : pipeline) {
      CHECK(sum(x).to(cpu()).numel() == 1);
      if (labels.at<std::int64_t>(0) >= 0) break;
    }
  synchronize(kGpu);
  CHECK(memory::stats(kGpu).in_use == before);
}

TEST_CASE("prefetch moves tensors that structs have as constants", "[gpu][data]") {
  CAPSTAN_NEEDS_GPUS(1);
  struct Fixed {
    const Tensor x, y;
  };
  const Tensor x = random_in(-1, 1, {4, 3}, DType::float32, 6).to(cpu());
  auto batches = data::from(Fixed{x, x * 2}) | data::batch(2) | data::prefetch(2, kGpu);
  int count = 0;
  for (const Fixed& batch : batches) {
    CHECK(batch.x.device() == kGpu);
    CHECK(batch.y.device() == kGpu);
    CHECK(same((batch.x * 2).to(cpu()), batch.y.to(cpu())));
    ++count;
  }
  CHECK(count == 2);
}
