#include <capstan/random.hpp>

#include <utility>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/kernels/philox.hpp"

namespace capstan {

std::uint64_t Rng::bits() noexcept {
  const auto block = kernels::random_block(seed_, take(1));
  return std::uint64_t{block[0]} << 32 | block[1];
}

Rng& default_rng() noexcept {
  thread_local Rng rng(0);
  return rng;
}

void seed(std::uint64_t seed) noexcept { default_rng() = Rng(seed); }

namespace core {

std::int64_t random_blocks(RandomKind kind, std::int64_t count) noexcept {
  const int in_block = kind == RandomKind::bernoulli ? 4 : 2;
  return (count + in_block - 1) / in_block;
}

namespace {

Tensor draw(const char* op, const Shape& shape, core::RandomTask task, Rng& rng, TensorOptions options, Where where) {
  if (task.kind != RandomKind::bernoulli && task.kind != RandomKind::integers && !is_floating(options.dtype))
    base::fail<DTypeError>(where, op, ": the type is ", options.dtype, "; it must be float32 or float64.");
  Tensor result = make_tensor(shape, options.dtype, options.device, where);
  task.seed = rng.seed();
  task.first_block = rng.take(static_cast<std::uint64_t>(random_blocks(task.kind, shape.numel())));
  backend_of(options.device, where).random(task, *result.impl());
  return result;
}

}  // namespace
}  // namespace core

using core::RandomKind;

Tensor uniform(const Shape& shape, double low, double high, Rng& rng, TensorOptions options, Where where) {
  if (!(low <= high))
    base::fail<Error>(where, "uniform: the range is [", low, ", ", high, "); low must not exceed high.");
  return core::draw("uniform", shape, {RandomKind::uniform, 0, 0, low, high, 0, 0}, rng, options, where);
}

Tensor normal(const Shape& shape, double mean, double stddev, Rng& rng, TensorOptions options, Where where) {
  if (!(stddev >= 0)) base::fail<Error>(where, "normal: the standard deviation is ", stddev, "; it must be >= 0.");
  return core::draw("normal", shape, {RandomKind::normal, 0, 0, mean, stddev, 0, 0}, rng, options, where);
}
Tensor normal(const Shape& shape, Rng& rng, TensorOptions options, Where where) {
  return normal(shape, 0, 1, rng, options, where);
}

Tensor truncated_normal(const Shape& shape, double mean, double stddev, Rng& rng, TensorOptions options, Where where) {
  if (!(stddev >= 0))
    base::fail<Error>(where, "truncated_normal: the standard deviation is ", stddev, "; it must be >= 0.");
  return core::draw("truncated_normal", shape, {RandomKind::truncated_normal, 0, 0, mean, stddev, 0, 0}, rng, options,
                    where);
}

Tensor bernoulli(const Shape& shape, double probability, Rng& rng, TensorOptions options, Where where) {
  if (!(probability >= 0 && probability <= 1))
    base::fail<Error>(where, "bernoulli: the probability is ", probability, "; it must be in [0, 1].");
  return core::draw("bernoulli", shape, {RandomKind::bernoulli, 0, 0, probability, 0, 0, 0}, rng, options, where);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Rng& rng, Where where) {
  if (low >= high)
    base::fail<ShapeError>(where, "randint: the range [", low, ", ", high, ") is empty; low must be below high.");
  return core::draw("randint", shape, {RandomKind::integers, 0, 0, 0, 0, low, high}, rng, {DType::int64, cpu()}, where);
}

Tensor permutation(std::int64_t count, Rng& rng, Where where) {
  if (count < 0)
    base::fail<ShapeError>(where, "permutation: ", count, " values were asked for; the count must be >= 0.");
  Tensor result = arange(count, where);
  std::int64_t* order = result.impl()->as<std::int64_t>();
  for (std::int64_t i = count - 1; i > 0; --i) {
    const auto j = static_cast<std::int64_t>(kernels::multiply_high(rng.bits(), static_cast<std::uint64_t>(i + 1)));
    std::swap(order[i], order[j]);
  }
  return result;
}

}  // namespace capstan
