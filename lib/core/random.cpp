#include <capstan/random.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/core/observe.hpp"
#include "lib/core/recording.hpp"
#include "lib/core/rng_rollback.hpp"
#include "lib/kernels/philox.hpp"

namespace capstan {

namespace {

std::uint64_t bits_at(const RngState& state, std::uint64_t position) {
  const auto block = kernels::random_block(state.seed, position, state.stream);
  return std::uint64_t{block[0]} << 32 | block[1];
}

}  // namespace

std::uint64_t Rng::bits() noexcept {
  const RngState before = state();
  return bits_at(before, take(1));
}

std::string to_string(const RngState& state) {
  return "philox4x32-10 seed=" + std::to_string(state.seed) + " stream=" + std::to_string(state.stream) +
         " position=" + std::to_string(state.position);
}

RngState parse_rng_state(std::string_view text, Where where) {
  RngState state;
  const std::pair<std::string_view, std::uint64_t*> parts[] = {
      {"philox4x32-10 seed=", &state.seed}, {" stream=", &state.stream}, {" position=", &state.position}};
  std::string_view rest = text;
  bool fits = true;
  for (const auto& [label, number] : parts) {
    fits = fits && rest.substr(0, label.size()) == label;
    if (!fits) break;
    rest.remove_prefix(label.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *number);
    fits = error == std::errc();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (!fits || !rest.empty())
    base::fail<Error>(where, "parse_rng_state: \"", text, "\" is no generator's state; it must read like ",
                      to_string(RngState{}), ".");
  return state;
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
    base::fail<DTypeError>(where, op, ": the type is ", options.dtype, "; it must be a floating type.");
  require_device(op, options.device, where);
  Tensor result = make_tensor(shape, options.dtype, options.device, where);
  if (Capturing* step = capturing(); step != nullptr) {
    if (options.device == cpu())
      base::fail<Error>(where, op,
                        ": a captured step draws on the host, which a replay would not repeat; give the device.");
    task.advance = step->follow(rng);
  }
  task.seed = rng.seed();
  task.stream = rng.state().stream;
  const RngRollback rollback(rng);
  task.first_block = rng.take(static_cast<std::uint64_t>(random_blocks(task.kind, shape.numel())));
  note_start();
  backend_of(options.device, where).random(task, *result.impl());
  note_made(op, result, where);
  return result;
}

}  // namespace
}  // namespace core

using core::RandomKind;

Tensor uniform(const Shape& shape, double low, double high, Rng& rng, TensorOptions options, Where where) {
  if (!(low <= high))
    base::fail<Error>(where, "uniform: the range is [", low, ", ", high, "); low must not exceed high.");
  if (!std::isfinite(high - low))
    base::fail<Error>(where, "uniform: the range is [", low, ", ", high,
                      "); both limits and their difference must be finite.");
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

Tensor exponential(const Shape& shape, double scale, Rng& rng, TensorOptions options, Where where) {
  if (!(scale >= 0)) base::fail<Error>(where, "exponential: the scale is ", scale, "; it must be >= 0.");
  return core::draw("exponential", shape, {RandomKind::exponential, 0, 0, scale, 0, 0, 0}, rng, options, where);
}

Tensor gumbel(const Shape& shape, double location, double scale, Rng& rng, TensorOptions options, Where where) {
  if (!(scale >= 0)) base::fail<Error>(where, "gumbel: the scale is ", scale, "; it must be >= 0.");
  return core::draw("gumbel", shape, {RandomKind::gumbel, 0, 0, location, scale, 0, 0}, rng, options, where);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Rng& rng, TensorOptions options, Where where) {
  if (low >= high)
    base::fail<ShapeError>(where, "randint: the range [", low, ", ", high, ") is empty; low must be below high.");
  if (!is_integer(options.dtype))
    base::fail<DTypeError>(where, "randint: the type is ", options.dtype, "; it must be an integer type.");
  const bool has_sign = options.dtype != DType::uint8;
  const std::int64_t most = has_sign ? INT64_MAX >> (64 - 8 * size_of(options.dtype)) : 255;
  const std::int64_t least = has_sign ? -most - 1 : 0;
  if (low < least || high - 1 > most)
    base::fail<DTypeError>(where, "randint: the range [", low, ", ", high, ") does not fit ", options.dtype,
                           ", whose values are from ", least, " to ", most, ".");
  return core::draw("randint", shape, {RandomKind::integers, 0, 0, 0, 0, low, high}, rng, options, where);
}

Tensor permutation(std::int64_t count, Rng& rng, Where where) {
  if (count < 0)
    base::fail<ShapeError>(where, "permutation: ", count, " values were asked for; the count must be >= 0.");
  if (core::capturing() != nullptr || core::recording() != nullptr)
    base::fail<Error>(where, "permutation: it is drawn on the host, which a ",
                      core::recording() != nullptr ? "plan" : "captured step", " cannot repeat.");
  Tensor result = arange(0, count, 1, {DType::int64, cpu()}, where);
  std::int64_t* order = result.impl()->as<std::int64_t>();
  constexpr std::int64_t kAtOnce = 64;  // places that are drawn side by side, while their lines come from memory
  std::int64_t places[kAtOnce];
  const RngState state = rng.state();
  const core::RngRollback rollback(rng);
  std::uint64_t next = rng.take(static_cast<std::uint64_t>(count > 0 ? count - 1 : 0));
  for (std::int64_t i = count - 1, drawn = 0; i > 0; i -= drawn) {
    drawn = std::min(i, kAtOnce);
    for (std::int64_t k = 0; k < drawn; ++k) {
      const auto left = static_cast<std::uint64_t>(i - k + 1);
      places[k] = static_cast<std::int64_t>(kernels::multiply_high(bits_at(state, next++), left));
      __builtin_prefetch(order + places[k], 1);
    }
    for (std::int64_t k = 0; k < drawn; ++k) std::swap(order[i - k], order[places[k]]);
  }
  return result.to(default_device(), where);
}

}  // namespace capstan
