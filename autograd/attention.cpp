#include <capstan/ops/attention.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <capstan/ops/dropout.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/drawing.hpp"
#include "autograd/linalg.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::listening;
using autograd::record;
using autograd::Replay;
using autograd::turned;

namespace {

/// Operands that were checked: one type, equal leading axes. Mask and bias, of the operands' type, may be undefined.
struct Operands {
  Tensor query, key, value, mask, bias;
  bool causal;
  double scale;
};

struct Rule {
  bool causal;
  double scale;
};

// --- checks ---

void check_types(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, Where where) {
  const TensorImpl& q = core::defined(op, query, where);
  autograd::require_floating(op, q, where);
  const std::pair<const char*, const Tensor*> others[] = {{"key", &key}, {"value", &value}};
  for (const auto& [name, tensor] : others) {
    const TensorImpl& x = core::defined(op, *tensor, where);
    core::require_same_device(op, q, x, where);
    if (x.dtype != q.dtype)
      base::fail<DTypeError>(where, op, ": the query is ", q.dtype, " and the ", name, " ", x.dtype,
                             "; all three must have one type.");
  }
}

void check_sizes(const char* op, const Shape& q, const Shape& k, const Shape& v, Where where) {
  const std::pair<const char*, const Shape*> all_three[] = {{"query", &q}, {"key", &k}, {"value", &v}};
  for (const auto& [name, shape] : all_three)
    if (shape->rank() < 2)
      base::fail<ShapeError>(where, op, ": the ", name, " is ", *shape,
                             "; it must have two axes or more, [..., length, features].");
  if (q[q.rank() - 1] != k[k.rank() - 1])
    base::fail<ShapeError>(where, op, ": features differ: the query is ", q, " and the key ", k,
                           "; the last sizes must be equal.");
  if (k[k.rank() - 2] != v[v.rank() - 2])
    base::fail<ShapeError>(where, op, ": lengths differ: the key is ", k, " and the value ", v,
                           "; there must be a value for each key.");
}

/// The leading axes of all three, broadcast.
Shape common_leading(const char* op, const Shape& q, const Shape& k, const Shape& v, Where where) {
  const int rank = std::max({q.rank(), k.rank(), v.rank()}) - 2;
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t common = 1;
    for (const Shape* shape : {&q, &k, &v}) {
      const int own = axis - (rank - (shape->rank() - 2));
      const std::int64_t size = own < 0 ? 1 : (*shape)[own];
      if (size == 1 || size == common) continue;
      if (common != 1)
        base::fail<ShapeError>(where, op, ": leading axes do not broadcast: the query is ", q, ", the key ", k,
                               " and the value ", v, "; sizes ", common, " and ", size, " must be equal or 1.");
      common = size;
    }
    sizes[axis] = common;
  }
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
}

/// Throws unless a mask or bias broadcasts to the scores.
void check_beside_scores(const char* op, const char* what, const Tensor& x, const TensorImpl& q, const Shape& scores,
                         Where where) {
  core::require_same_device(op, q, *x.impl(), where);
  const Shape& shape = x.impl()->shape;
  const int extra = scores.rank() - shape.rank();
  bool fits = extra >= 0;
  for (int axis = 0; fits && axis < shape.rank(); ++axis)
    fits = shape[axis] == 1 || shape[axis] == scores[axis + extra];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the ", what, " is ", shape, " and the scores ", scores, "; the ", what,
                           " must broadcast to the scores.");
}

void check_options(const char* op, const AttentionOptions& options, const TensorImpl& q, const Shape& scores,
                   Where where) {
  if (options.mask.defined()) {
    const DType dtype = core::defined(op, options.mask, where).dtype;
    if (dtype != DType::bool8 && !is_floating(dtype))
      base::fail<DTypeError>(where, op, ": the mask is ", dtype, "; it must be bool or a floating type.");
    check_beside_scores(op, "mask", options.mask, q, scores, where);
  }
  if (options.bias.defined()) {
    const DType dtype = core::defined(op, options.bias, where).dtype;
    if (!is_floating(dtype))
      base::fail<DTypeError>(where, op, ": the bias is ", dtype, "; it must be a floating type.");
    check_beside_scores(op, "bias", options.bias, q, scores, where);
  }
  if (options.scale && !std::isfinite(*options.scale))
    base::fail<Error>(where, op, ": the scale is ", *options.scale, "; it must be finite.");
  if (!(options.keep > 0 && options.keep <= 1))
    base::fail<Error>(where, op, ": keep is ", options.keep, "; it must be in (0, 1].");
}

Tensor stretched(const Tensor& x, const Shape& leading, Where where) {
  const Shape& own = x.impl()->shape;
  const int rank = own.rank();
  const Shape shape = autograd::with_sizes(leading, 0, {own[rank - 2], own[rank - 1]}, where);
  return own == shape ? x : broadcast_to(x, shape, where);
}

Operands checked(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options, Where where) {
  check_types(op, query, key, value, where);
  const TensorImpl& q = *query.impl();
  const Shape &k = key.impl()->shape, &v = value.impl()->shape;
  check_sizes(op, q.shape, k, v, where);
  const Shape leading = common_leading(op, q.shape, k, v, where);
  const Shape scores = autograd::with_sizes(leading, 0, {autograd::rows_of(q), k[k.rank() - 2]}, where);
  check_options(op, options, q, scores, where);

  const std::int64_t features = autograd::columns_of(q);
  const double usual = features > 0 ? 1 / std::sqrt(static_cast<double>(features)) : 1;
  Operands o{stretched(query, leading, where),
             stretched(key, leading, where),
             stretched(value, leading, where),
             {},
             options.bias,
             options.causal,
             options.scale.value_or(usual)};
  if (options.mask.defined()) {
    if (options.mask.impl()->dtype == DType::bool8) o.mask = options.mask;
    else o.bias = o.bias.defined() ? add(o.bias, options.mask, where) : options.mask;
  }
  if (o.bias.defined()) o.bias = o.bias.to(q.dtype, where);
  return o;
}

// --- in ordinary operations ---

Tensor both(const Tensor& a, const Tensor& b, Where where) { return a.defined() ? logical_and(a, b, where) : b; }

/// The operands in the type that is computed in: 16-bit ones are rounded once, in the end.
Operands widened(const Operands& o, Where where) {
  const DType dtype = autograd::computing_type(o.query.dtype());
  Operands wide = o;
  for (Tensor* x : {&wide.query, &wide.key, &wide.value, &wide.bias})
    if (x->defined()) *x = x->to(dtype, where);
  return wide;
}

/// A finite number so low that nothing remains of its exponential beside an ordinary score.
double lowest(DType dtype) { return dtype == DType::float64 ? -1.7e308 : -3.3e38; }

/// 0 for NaN and infinities: for the way back, where queries and keys are multiplied with gradients of scores. That of
/// a score that is not allowed is 0, and times them it would be NaN; that of one they have spoiled is NaN anyhow.
Tensor finite_ones(const Tensor& x, Where where) { return capstan::where(isfinite(x, where), x, 0, where); }

void scores_replay(Replay& r) {
  const Where where = r.where();
  if (r.needs(0)) r.give(0, matmul(r.grad(), turned(finite_ones(r.saved(1), where), where), where));
  if (r.needs(1)) r.give(1, matmul(turned(finite_ones(r.saved(0), where), where), r.grad(), where));
}

/// The product of queries and turned keys, of one type and equal leading axes: `matmul` but for its gradient.
Tensor scores_of(const Tensor& query, const Tensor& turned_key, Where where) {
  const TensorImpl &a = *query.impl(), &b = *turned_key.impl();
  const Shape shape = autograd::with_sizes(a.shape, 1, {autograd::columns_of(b)}, where);
  Tensor out = autograd::result_like(a, shape, a.dtype, where);
  backend_of(a, where).matmul(a, b, nullptr, *out.impl(), false);
  record("matmul", where, &scores_replay, {&query, &turned_key}, {&out}, {&query, &turned_key});
  return out;
}

/// [..., queries, keys]
Tensor weights_of(const Operands& o, Where where) {
  Tensor scores = scores_of(mul(o.query, o.scale, where), turned(o.key, where), where);
  Tensor allowed = o.mask;
  if (o.bias.defined()) {
    const Tensor counts = not_equal(o.bias, -__builtin_inf(), where);
    scores = add(scores, capstan::where(counts, o.bias, 0, where), where);
    allowed = both(allowed, counts, where);
  }
  if (o.causal) {
    const Tensor past = causal_mask(scores.size(-2), scores.size(-1), 0, where);
    allowed = both(allowed, past.to(scores.device(), where), where);
  }
  if (!allowed.defined()) return softmax(scores, -1, where);
  const Tensor limited = capstan::where(allowed, scores, lowest(scores.dtype()), where);
  return capstan::where(allowed, softmax(limited, -1, where), 0, where);  // a row of nothing else is 0 too
}

AttentionResult by_operations(const Operands& given, double keep, Rng& rng, Where where) {
  const autograd::RngRollback drawn(rng);
  const DType dtype = given.query.dtype();
  const Operands o = widened(given, where);
  const Tensor weights = weights_of(o, where);
  const Tensor output = matmul(keep < 1 ? dropout(weights, keep, rng, where) : weights, o.value, where);
  return {output.to(dtype, where), weights.to(dtype, where)};
}

void replay_by_operations(Replay& r, const Rule& rule) {
  const Where where = r.where();
  const DType dtype = r.saved(0).dtype();
  const Operands o =
      widened({r.saved(0), r.saved(1), r.saved(2), r.saved(4), r.saved(3), rule.causal, rule.scale}, where);
  const Tensor weights = weights_of(o, where), grad = r.grad().to(weights.dtype(), where);
  if (r.needs(2)) r.give(2, matmul(turned(weights, where), grad, where).to(dtype, where));
  if (!r.needs(0) && !r.needs(1) && !r.needs(3)) return;
  const Tensor by_weight = matmul(grad, turned(o.value, where), where);
  const Tensor mean = sum(mul(weights, by_weight, where), -1, {.keepdims = true}, where);
  const Tensor by_score = mul(weights, sub(by_weight, mean, where), where);
  if (r.needs(0)) {
    const Tensor key = finite_ones(o.key, where);
    r.give(0, mul(matmul(by_score, key, where), o.scale, where).to(dtype, where));
  }
  if (r.needs(1)) {
    const Tensor query = mul(finite_ones(o.query, where), o.scale, where);
    r.give(1, matmul(turned(by_score, where), query, where).to(dtype, where));
  }
  if (r.needs(3)) r.give(3, autograd::sum_to(by_score, o.bias.impl()->shape, where).to(dtype, where));
}

// --- in one kernel ---

/// A bias as the kernel takes it, which reads any layout; or none.
Tensor bias_for_kernel(const Tensor& bias, Where where) {
  return bias.defined() ? autograd::converted(bias, autograd::computing_type(bias.impl()->dtype), where) : bias;
}

/// An operand as the kernel takes it: float32 or float64, the last axis contiguous.
Tensor for_kernel(const Tensor& x, Where where) {
  const Tensor wide = autograd::converted(x, autograd::computing_type(x.impl()->dtype), where);
  const TensorImpl& impl = *wide.impl();
  const int last = impl.rank() - 1;
  return impl.shape[last] <= 1 || impl.strides[last] == 1 ? wide : autograd::dense(wide, where);
}

/// A new tensor of x's type whose rows stand in memory as those of x do: heads side by side at each place, if x's are.
Tensor laid_out_like(const TensorImpl& x, const Shape& shape, Where where) {
  const int rank = shape.rank(), head = rank - 3, place = rank - 2;
  const bool side_by_side =
      rank >= 3 && shape[head] > 1 && shape[place] > 1 && x.strides[head] > 0 && x.strides[head] < x.strides[place];
  if (!side_by_side) return autograd::result_like(x, shape, x.dtype, where);
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::copy(shape.begin(), shape.end(), sizes);
  std::swap(sizes[head], sizes[place]);
  const Shape in_memory(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
  const Tensor memory = autograd::result_like(x, in_memory, x.dtype, where);
  std::copy_n(memory.impl()->strides, rank, strides);
  std::swap(strides[head], strides[place]);
  return core::make_view(*memory.impl(), shape, strides, 0, where);
}

void attention_replay(Replay& r) {
  const auto rule = r.attributes<Rule>();
  if (listening() || r.needs(3)) return replay_by_operations(r, rule);
  const Where where = r.where();
  const Tensor query = for_kernel(r.saved(0), where), key = for_kernel(r.saved(1), where);
  const Tensor value = for_kernel(r.saved(2), where), grad = for_kernel(r.grad(), where);
  const Tensor bias = bias_for_kernel(r.saved(3), where);
  const Tensor* const operands[] = {&query, &key, &value};
  Tensor gradients[3];
  for (int i = 0; i < 3; ++i)
    if (r.needs(i)) gradients[i] = laid_out_like(*operands[i]->impl(), operands[i]->impl()->shape, where);
  backend_of(*query.impl(), where)
      .attention_backward(
          {*query.impl(), *key.impl(), *value.impl(), r.saved(4).impl(), bias.impl(), rule.causal, rule.scale},
          {*r.saved(5).impl(), *r.saved(6).impl(), *grad.impl(), gradients[0].impl(), gradients[1].impl(),
           gradients[2].impl()});
  for (int i = 0; i < 3; ++i)
    if (r.needs(i)) r.give(i, autograd::converted(gradients[i], r.saved(i).impl()->dtype, where));
}

Tensor in_one_kernel(const char* op, const Operands& o, Where where) {
  const Tensor query = for_kernel(o.query, where), key = for_kernel(o.key, where), value = for_kernel(o.value, where);
  const Tensor bias = bias_for_kernel(o.bias, where);
  const TensorImpl& q = *query.impl();
  const Shape shape = autograd::with_sizes(q.shape, 1, {autograd::columns_of(*value.impl())}, where);
  Tensor wide = laid_out_like(q, shape, where);
  const Tensor statistics = autograd::result_like(q, autograd::with_sizes(q.shape, 1, {2}, where), q.dtype, where);
  backend_of(q, where).attention({q, *key.impl(), *value.impl(), o.mask.impl(), bias.impl(), o.causal, o.scale},
                                 *wide.impl(), *statistics.impl());
  Tensor out = autograd::converted(wide, o.query.impl()->dtype, where);
  record(op, where, &attention_replay, {&o.query, &o.key, &o.value, &o.bias}, {&out},
         {&o.query, &o.key, &o.value, &o.bias, &o.mask, &wide, &statistics}, Rule{o.causal, o.scale});
  return out;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, Rng& rng, Where where) {
  if (autograd::evens(query, key, value)) [[unlikely]]
    return autograd::raised(&scaled_dot_product_attention, where, query, key, value, options, rng);
  constexpr const char* op = "scaled_dot_product_attention";
  const autograd::Rollback rollback;
  const Operands o = checked(op, query, key, value, options, where);
  if (options.keep < 1) return by_operations(o, options.keep, rng, where).output;
  return in_one_kernel(op, o, where);
}

AttentionResult attention_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionOptions& options, Rng& rng, Where where) {
  if (autograd::evens(query, key, value)) [[unlikely]]
    return autograd::raised(&attention_with_weights, where, query, key, value, options, rng);
  const autograd::Rollback rollback;
  return by_operations(checked("attention_with_weights", query, key, value, options, where), options.keep, rng, where);
}

}  // namespace capstan
