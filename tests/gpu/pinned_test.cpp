// Pinned memory of the host, and copies that nobody waits for.
#include <capstan/stream.hpp>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr std::int64_t kMany = 50000;

Tensor on_host(double value, std::int64_t count = kMany) { return full({count}, value, {.device = cpu()}); }

}  // namespace

TEST_CASE("a pinned tensor is one of the CPU, with the same numbers", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_in(-1, 1, {30, 50}, DType::float64).to(cpu());
  Tensor p = pinned(x);
  CHECK(is_pinned(p));
  CHECK_FALSE(is_pinned(x));
  CHECK_FALSE(p.shares_storage(x));
  CHECK(to_string(p.device()) == "cpu");
  CHECK(same(p, x));
  CHECK(is_pinned(p[3]));
  CHECK(is_pinned(transpose(p)));
  CHECK_FALSE(is_pinned(p + 1.0));
  p.mutable_span<double>()[0] = 7;
  CHECK(p.at<double>(0, 0) == 7);
  CHECK(same(pinned(transpose(x)), transpose(x)));
  CHECK(same(pinned(x.to(kGpu)), x));
  CHECK_FALSE(is_pinned(x.to(kGpu)));
  CHECK(is_pinned(pinned(zeros({0, 3}, {.device = cpu()}))));
  CHECK(same(p.to(kGpu), p));
}

TEST_CASE("a copy of a pinned tensor that `to` makes is made when it returns", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor p = pinned(on_host(3));
  const Tensor x = p.to(kGpu);
  p.fill(4);
  CHECK(values(x) == repeated(kMany, 3));
}

TEST_CASE("copy_async copies to the GPU and back", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor there = pinned(random_in(-1, 1, {kMany}, DType::float32, 3)), back = pinned(on_host(0));
  const Tensor x = full_on_gpu({kMany}, 0);
  const Event sent = copy_async(there, x);
  const Event returned = copy_async(x, back);
  returned.synchronize();
  CHECK(sent.reached());
  CHECK(same(back, there.to(cpu())));
  CHECK(same(x, there));
  const Tensor nothing = zeros({0}, {.device = kGpu});
  copy_async(pinned(zeros({0}, {.device = cpu()})), nothing).synchronize();
}

TEST_CASE("copy_async with memory that is not pinned is done when it returns", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor there = on_host(5), back = on_host(0);
  const Tensor x = full_on_gpu({kMany}, 0);
  copy_async(there, x);
  there.fill(6);
  copy_async(x, back);
  CHECK(values(back) == repeated(kMany, 5));
}

TEST_CASE("copy_async on one device is a copy", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({kMany}, 2), y = full_on_gpu({kMany}, 0);
  copy_async(x, y).synchronize();
  CHECK(values(y) == repeated(kMany, 2));
  const Tensor a = on_host(8), b = on_host(0);
  CHECK(copy_async(a, b).reached());
  CHECK(values(b) == repeated(kMany, 8));
}

TEST_CASE("copy_async between GPUs is ordered with both", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(2);
  Tensor x = full_on_gpu({kMany}, 2);
  const Tensor y = zeros({kMany}, {.device = cuda(1)});
  const Tensor z = y + 1.0f;
  const Event copied = copy_async(x * 2.0f, y);
  x.fill(9);
  CHECK(values(y * 3.0f) == repeated(kMany, 12));
  CHECK(values(z) == repeated(kMany, 1));
  copied.synchronize();
  CHECK(copied.reached());
}

TEST_CASE("pinned memory is used again only behind the copies that read it", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  std::vector<Tensor> copies;
  for (int i = 0; i < 20; ++i) {
    const Tensor p = pinned(on_host(i));  // where the one before was, if the copy is done
    copies.push_back(full_on_gpu({kMany}, -1));
    copy_async(p, copies.back());
  }
  for (int i = 0; i < 20; ++i) CHECK(values(copies[static_cast<std::size_t>(i)]) == repeated(kMany, i));
}

TEST_CASE("pinned memory is used again only behind the copies that write it", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream stream = Stream::create(kGpu);
  std::vector<Tensor> kept;
  for (int i = 0; i < 10; ++i) {
    {
      const StreamScope scope(stream);
      const Tensor target = pinned(on_host(0));
      copy_async(full_on_gpu({kMany}, -1), target);
    }
    kept.push_back(pinned(on_host(i)));
  }
  synchronize(kGpu);
  for (int i = 0; i < 10; ++i) CHECK(values(kept[static_cast<std::size_t>(i)]) == repeated(kMany, i));
}

TEST_CASE("batches are copied on one stream while another computes", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream copying = Stream::create(kGpu), computing = Stream::create(kGpu);
  Tensor host[2] = {pinned(on_host(0)), pinned(on_host(0))};
  Tensor batch[2] = {full_on_gpu({kMany}, 0), full_on_gpu({kMany}, 0)};
  std::vector<Event> copied;
  Tensor total = full_on_gpu({kMany}, 0);
  double expected = 0;
  for (int i = 0; i < 16; ++i) {
    const int k = i % 2;
    if (i >= 2) copied[static_cast<std::size_t>(i - 2)].synchronize();  // the host may write again
    host[k].fill(i);
    {
      const StreamScope scope(copying);
      copied.push_back(copy_async(host[k], batch[k]));
    }
    const StreamScope scope(computing);
    total += batch[k] * 2.0f;
    expected += 2 * i;
  }
  CHECK(values(total) == repeated(kMany, expected));
}

TEST_CASE("copy_async says what does not fit", "[gpu][pinned]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = zeros({3, 4}, {.device = kGpu}), host = zeros({3, 4}, {.device = cpu()});
  const Tensor other = zeros({4}, {.device = cpu()}), wide = zeros({3, 4}, {.dtype = DType::float64, .device = cpu()});
  const Tensor turned = transpose(zeros({4, 3}, {.device = cpu()}));
  check_errors(
      {
          {__LINE__, &message_of<ShapeError>, [&] { copy_async(x, other); },
           "copy_async: the source is [3, 4] and the target [4]; they must be equal."},
          {__LINE__, &message_of<DTypeError>, [&] { copy_async(x, wide); },
           "copy_async: the source is float32 and the target float64; they must be equal."},
          {__LINE__, &message_of<ShapeError>, [&] { copy_async(turned, x); },
           "copy_async: the source is not contiguous; both must be."},
          {__LINE__, &message_of<ShapeError>, [&] { copy_async(x, turned); },
           "copy_async: the target is not contiguous; both must be."},
          {__LINE__, &message_of<Error>, [&] { copy_async(Tensor(), x); },
           "copy_async: the tensor is undefined; give it a value first."},
          {__LINE__, &message_of<Error>, [&] { pinned(Tensor()); },
           "pinned: the tensor is undefined; give it a value first."},
      },
      "pinned_test.cpp");
  CHECK(values(x) == repeated(12, 0));
}
