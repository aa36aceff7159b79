// What attention is told of positions: masks and biases by distance, sines and cosines, turned pairs of features.
#include <algorithm>
#include <cmath>

#include <capstan/create.hpp>
#include <capstan/ops/attention.hpp>
#include <capstan/ops/index.hpp>

#include "autograd/ops.hpp"

namespace capstan {

namespace {

void check_lengths(const char* op, std::int64_t queries, std::int64_t keys, Where where) {
  if (queries < 0 || keys < 0)
    base::fail<ShapeError>(where, op, ": ", queries, " queries and ", keys, " keys were asked for; both must be >= 0.");
}

void check_floating(const char* op, DType dtype, Where where) {
  if (!is_floating(dtype))
    base::fail<DTypeError>(where, op, ": ", dtype, " was asked for; it must be a floating type.");
}

void check_base(const char* op, double base, Where where) {
  if (!(base > 0 && std::isfinite(base)))
    base::fail<Error>(where, op, ": the base is ", base, "; it must be above 0 and finite.");
}

/// 0, 1, ... in that type.
Tensor counting(std::int64_t count, DType dtype, Where where) {
  return arange(0, count, 1, {.dtype = dtype, .device = cpu()}, where);
}

/// The authors' slopes: for a power of 2 from 2^(-8/heads) on, each as many times smaller than the one before.
/// [heads, 1, 1]
Tensor slopes_of(std::int64_t heads, Where where) {
  const Tensor slopes = core::make_tensor(Shape({heads, 1, 1}, where), DType::float64, cpu(), where);
  double* next = slopes.impl()->as<double>();
  std::int64_t power = 1;
  while (power <= heads / 2) power *= 2;
  for (std::int64_t i = 1; i <= power; ++i)
    *next++ = std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power));
  for (std::int64_t i = 1; power + i <= heads; ++i)
    *next++ = std::exp2(-8.0 * static_cast<double>(2 * i - 1) / static_cast<double>(2 * power));
  return slopes;
}

}  // namespace

Tensor causal_mask(std::int64_t queries, std::int64_t keys, std::int64_t offset, Where where) {
  check_lengths("causal_mask", queries, keys, where);
  const std::int64_t shift = std::clamp(offset, -queries, keys);  // beyond these nothing changes; sums could overflow
  const Tensor last = add(counting(queries, DType::int64, where), shift, where);  // that each query sees
  const Tensor seen = less_equal(counting(keys, DType::int64, where), expand_dims(last, 1, where), where);
  return seen.to(default_device(), where);
}

Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t offset,
                  TensorOptions options, Where where) {
  check_lengths("alibi_bias", queries, keys, where);
  if (heads < 1) base::fail<ShapeError>(where, "alibi_bias: ", heads, " heads were asked for; they must be >= 1.");
  check_floating("alibi_bias", options.dtype, where);
  const Tensor places = add(counting(queries, DType::float64, where), static_cast<double>(offset), where);
  const Tensor ahead = sub(counting(keys, DType::float64, where), expand_dims(places, 1, where), where);
  const Tensor slopes = slopes_of(heads, where);
  return mul(abs(ahead, where), neg(slopes, where), where).to(options.dtype, where).to(options.device, where);
}

Tensor sinusoidal_positions(std::int64_t length, std::int64_t features, double base, TensorOptions options,
                            Where where) {
  constexpr const char* op = "sinusoidal_positions";
  if (length < 0 || features < 0)
    base::fail<ShapeError>(where, op, ": ", length, " positions of ", features,
                           " features were asked for; both must be >= 0.");
  check_base(op, base, where);
  check_floating(op, options.dtype, where);
  const std::int64_t pairs = features / 2 + features % 2;  // the last one may be without its cosine
  const Tensor rates = core::make_tensor(Shape({pairs}, where), DType::float64, cpu(), where);
  for (std::int64_t i = 0; i < pairs; ++i)
    rates.impl()->as<double>()[i] = std::pow(base, -static_cast<double>(2 * i) / static_cast<double>(features));
  const Tensor places = arange(0, length, 1, {.dtype = DType::float64, .device = cpu()}, where);
  const Tensor angles = mul(expand_dims(places, 1, where), rates, where);
  const Tensor waves = reshape(stack({sin(angles, where), cos(angles, where)}, 2, where), {length, 2 * pairs}, where);
  const Tensor wanted = narrow(waves, 1, 0, features, where).contiguous(where);
  return wanted.to(options.dtype, where).to(options.device, where);
}

// --- rotary ---

namespace {

/// For each feature its rate, the sign of its partner's sine, and its partner.
struct Pairs {
  Tensor rates, signs, partners;

  Pairs(std::int64_t features, const RotaryOptions& options, Where where)
      : rates(core::make_tensor(Shape({features}, where), DType::float64, cpu(), where)),
        signs(core::make_tensor(Shape({features}, where), DType::float64, cpu(), where)),
        partners(core::make_tensor(Shape({features}, where), DType::int64, cpu(), where)) {
    const std::int64_t half = features / 2;
    for (std::int64_t i = 0; i < features; ++i) {
      const bool first = options.interleaved ? i % 2 == 0 : i < half;
      const std::int64_t pair = options.interleaved ? i / 2 : i % half;
      rates.impl()->as<double>()[i] =
          std::pow(options.base, -static_cast<double>(2 * pair) / static_cast<double>(features));
      signs.impl()->as<double>()[i] = first ? -1 : 1;
      const std::int64_t away = options.interleaved ? 1 : half;
      partners.impl()->as<std::int64_t>()[i] = first ? i + away : i - away;
    }
  }
};

/// [..., length, 1] float64
Tensor places_of(const TensorImpl& x, const RotaryOptions& options, Where where) {
  constexpr const char* op = "rotary_embedding";
  const int rows = x.rank() - 1;  // axes of x but the last
  if (!options.positions.defined()) {
    const Tensor places = arange(0, x.shape[rows - 1], 1, {.dtype = DType::float64, .device = cpu()}, where);
    return expand_dims(add(places, static_cast<double>(options.offset), where), 1, where);
  }
  const TensorImpl& p = core::defined(op, options.positions, where);
  if (!is_integer(p.dtype))
    base::fail<DTypeError>(where, op, ": the positions are ", p.dtype, "; they must be of an integer type.");
  core::require_same_device(op, x, p, where);
  bool fits = p.rank() <= rows;
  for (int axis = 0; fits && axis < p.rank(); ++axis)
    fits = p.shape[axis] == 1 || p.shape[axis] == x.shape[axis + rows - p.rank()];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the positions are ", p.shape, " and the tensor ", x.shape,
                           "; they must broadcast to it without its last axis.");
  return expand_dims(options.positions.to(cpu(), where).to(DType::float64, where), -1, where);
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options, Where where) {
  constexpr const char* op = "rotary_embedding";
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  if (impl.rank() < 2)
    base::fail<ShapeError>(where, op, ": the tensor is ", impl.shape,
                           "; it must have two axes or more, [..., length, features].");
  const std::int64_t features = impl.shape[impl.rank() - 1];
  if (features % 2 != 0)
    base::fail<ShapeError>(where, op, ": the tensor is ", impl.shape, "; its last size must be even.");
  check_base(op, options.base, where);
  const autograd::Rollback rollback;
  const Tensor places = places_of(impl, options, where);
  const Pairs pairs(features, options, where);
  const auto here = [&](const Tensor& table) { return table.to(impl.dtype, where).to(impl.device(), where); };
  const Tensor angles = mul(places, pairs.rates, where);
  const Tensor along = here(cos(angles, where)), across = here(mul(sin(angles, where), pairs.signs, where));
  const Tensor partners = gather(x, pairs.partners.to(impl.device(), where), -1, where);
  return add(mul(x, along, where), mul(partners, across, where), where);
}

}  // namespace capstan
