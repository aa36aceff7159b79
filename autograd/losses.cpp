// Losses between numbers, probabilities and rates, and what all losses share.
#include <cmath>

#include <capstan/ops/activation.hpp>
#include <capstan/tape.hpp>

#include "autograd/losses.hpp"
#include "autograd/reducing.hpp"

namespace capstan {

using autograd::computing_type;
using autograd::loss_of_pairs;
using autograd::Pair;
using autograd::reduced;
using autograd::require_alike;
using autograd::Rollback;

namespace autograd {

void require_alike(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b,
                   Where where) {
  const TensorImpl &x = core::defined(op, a, where), &y = core::defined(op, b, where);
  require_floating(op, x, where);
  require_floating(op, y, where);
  core::require_same_device(op, x, y, where);
  if (x.shape != y.shape)
    base::fail<ShapeError>(where, op, ": the ", first, " ", x.shape, " and the ", second, " ", y.shape,
                           "; the shapes must be equal.");
}

void require_weight(const char* op, const char* name, const TensorImpl& losses, const Tensor& weight, Where where) {
  const TensorImpl& w = core::defined(op, weight, where);
  if (!is_floating(w.dtype))
    base::fail<DTypeError>(where, op, ": the ", name, " is ", w.dtype, "; it must be a floating type.");
  core::require_same_device(op, losses, w, where);
  const int extra = losses.rank() - w.rank();
  bool fits = extra >= 0;
  for (int axis = 0; fits && axis < w.rank(); ++axis)
    fits = w.shape[axis] == 1 || w.shape[axis] == losses.shape[axis + extra];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the ", name, " is ", w.shape, " and the losses are ", losses.shape, "; the ",
                           name, " must broadcast to their shape.");
}

Tensor sum_over(const Tensor& losses, double count, Where where) {
  const DType dtype = losses.dtype(where);
  const Tensor total = sum(losses.to(computing_type(dtype), where), {}, {}, where);
  return div(total, count, where).to(dtype, where);
}

Tensor mean_of_rows(const Tensor& x, Where where) {
  return x.size(-1, where) == 0 ? div(sum(x, -1, {}, where), 0.0, where) : mean(x, -1, {}, where);
}

Tensor reduced(const Tensor& losses, Reduction reduction, Where where) {
  if (reduction == Reduction::none) return losses;
  if (reduction == Reduction::sum) return sum(losses, {}, {}, where);
  return losses.numel(where) == 0 ? sum_over(losses, 0, where) : mean(losses, {}, {}, where);
}

Tensor reduced(const char* op, const Tensor& losses, const Tensor& weight, Reduction reduction, Where where) {
  if (!weight.defined()) return reduced(losses, reduction, where);
  require_weight(op, "weight", *losses.impl(), weight, where);
  const DType type = losses.dtype(where), wide = computing_type(type);
  return reduced(mul(losses.to(wide, where), weight.to(wide, where), where), reduction, where).to(type, where);
}

}  // namespace autograd

namespace {

/// All options but the row's number are the same for these.
template <class Row>
Tensor elementwise(const char* op, const Tensor& prediction, const Tensor& target, double p, const Tensor& weight,
                   Reduction reduction, Where where) {
  if (autograd::raises(prediction, target)) [[unlikely]]
    return autograd::raised(&elementwise<Row>, where, op, prediction, target, p, weight, reduction);
  require_alike(op, "prediction is", prediction, "target", target, where);
  const Rollback rollback;
  const Pair pair(prediction, target, reduction, where);
  const Tensor losses = loss_of_pairs<Row>(op, pair.a, pair.b, p, where);
  return reduced(op, losses, weight, reduction, where).to(pair.type, where);
}

/// The smallest (largest) element, or `otherwise`, which also stands for each NaN.
double extreme_or(double otherwise, kernels::Reduction kind, const Tensor& x, Where where) {
  if (x.numel(where) == 0) return otherwise;
  const double extreme = autograd::extreme_of(kind, *x.impl(), where);
  if (!std::isnan(extreme)) return extreme;
  const NoGrad off;
  return autograd::extreme_of(kind, *capstan::where(isnan(x, where), otherwise, x, where).impl(), where);
}

}  // namespace

// --- distances between numbers ---

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  return elementwise<kernels::SquaredError>("mse_loss", prediction, target, 0, options.weight, options.reduction,
                                            where);
}

Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  return elementwise<kernels::AbsoluteError>("l1_loss", prediction, target, 0, options.weight, options.reduction,
                                             where);
}

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, const SmoothL1Options& options, Where where) {
  constexpr const char* op = "smooth_l1_loss";
  if (!(options.beta >= 0)) base::fail<Error>(where, op, ": beta is ", options.beta, "; it must be >= 0.");
  if (options.beta == 0)
    return elementwise<kernels::AbsoluteError>(op, prediction, target, 0, options.weight, options.reduction, where);
  return elementwise<kernels::SmoothL1>(op, prediction, target, options.beta, options.weight, options.reduction, where);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options, Where where) {
  constexpr const char* op = "huber_loss";
  if (!(options.delta > 0)) base::fail<Error>(where, op, ": delta is ", options.delta, "; it must be > 0.");
  return elementwise<kernels::Huber>(op, prediction, target, options.delta, options.weight, options.reduction, where);
}

Tensor log_cosh_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  return elementwise<kernels::LogCosh>("log_cosh_loss", prediction, target, 0, options.weight, options.reduction,
                                       where);
}

// --- probabilities and rates ---

Tensor binary_cross_entropy(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  constexpr const char* op = "binary_cross_entropy";
  require_alike(op, "prediction is", prediction, "target", target, where);
  const double low = extreme_or(0, kernels::Reduction::min, prediction, where);
  const double high = extreme_or(1, kernels::Reduction::max, prediction, where);
  if (low < 0 || high > 1)
    base::fail<Error>(where, op, ": the predictions are from ", low, " to ", high, "; each must be in [0, 1].");
  return elementwise<kernels::BinaryCrossEntropy>(op, prediction, target, 0, options.weight, options.reduction, where);
}

Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, const SigmoidCrossEntropyOptions& options,
                             Where where) {
  if (autograd::raises(logits, labels)) [[unlikely]]
    return autograd::raised(&sigmoid_cross_entropy, where, logits, labels, options);
  constexpr const char* op = "sigmoid_cross_entropy";
  require_alike(op, "logits are", logits, "labels", labels, where);
  const Rollback rollback;
  const Pair pair(logits, labels, options.reduction, where);
  Tensor losses;
  if (options.pos_weight.defined()) {  // two sums of one sign: nothing cancels
    autograd::require_weight(op, "pos_weight", *logits.impl(), options.pos_weight, where);
    const Tensor weighted = mul(pair.b, options.pos_weight.to(pair.b.dtype(where), where), where);
    const Tensor of_ones = mul(weighted, log_sigmoid(pair.a, where), where);
    const Tensor of_zeros = mul(add(neg(pair.b, where), 1.0, where), log_sigmoid(neg(pair.a, where), where), where);
    losses = neg(add(of_ones, of_zeros, where), where);
  } else {
    losses = loss_of_pairs<kernels::SigmoidCrossEntropy>(op, pair.a, pair.b, 0, where);
  }
  return reduced(op, losses, options.weight, options.reduction, where).to(pair.type, where);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options, Where where) {
  if (autograd::raises(input, target)) [[unlikely]]
    return autograd::raised(&kl_div, where, input, target, options);
  constexpr const char* op = "kl_div";
  require_alike(op, "input is", input, "target", target, where);
  const Rollback rollback;
  const Pair pair(input, target, options.reduction, where);
  const Tensor losses = options.log_target ? loss_of_pairs<kernels::KlDivergenceOfLog>(op, pair.a, pair.b, 0, where)
                                           : loss_of_pairs<kernels::KlDivergence>(op, pair.a, pair.b, 0, where);
  if (!options.batch_mean || options.reduction != Reduction::mean)
    return reduced(losses, options.reduction, where).to(pair.type, where);
  const std::int64_t batch = losses.rank(where) == 0 ? 1 : losses.size(0, where);
  return autograd::sum_over(losses, static_cast<double>(batch), where).to(pair.type, where);
}

namespace {

/// Stirling's approximation of log(t!) where t is above 1, else 0.
Tensor log_factorial(const Tensor& target, Where where) {
  constexpr double two_pi = 6.2831853071795865;
  const Tensor large = greater(target, 1, where), t = capstan::where(large, target, 1, where);
  const Tensor root = mul(log(mul(t, two_pi, where), where), 0.5, where);
  const Tensor whole = add(sub(mul(t, log(t, where), where), t, where), root, where);
  return capstan::where(large, whole, 0, where);
}

}  // namespace

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllOptions& options, Where where) {
  if (autograd::raises(input, target)) [[unlikely]]
    return autograd::raised(&poisson_nll_loss, where, input, target, options);
  constexpr const char* op = "poisson_nll_loss";
  require_alike(op, "input is", input, "target", target, where);
  const Rollback rollback;
  // both addends of the full loss may exceed 16 bits where it does not
  const Pair pair(input, target, options.full || options.reduction != Reduction::none, where);
  Tensor losses = options.log_input ? loss_of_pairs<kernels::PoissonOfLog>(op, pair.a, pair.b, 0, where)
                                    : loss_of_pairs<kernels::PoissonOfRate>(op, pair.a, pair.b, options.epsilon, where);
  if (options.full) losses = add(losses, log_factorial(pair.b, where), where);
  return reduced(op, losses, options.weight, options.reduction, where).to(pair.type, where);
}

namespace {

/// Like the input, or with a last axis of size 1, or without it.
void check_variance(const char* op, const TensorImpl& x, const TensorImpl& variance, Where where) {
  autograd::require_floating(op, variance, where);
  core::require_same_device(op, x, variance, where);
  const int last = x.rank() - 1;
  bool fits = variance.rank() == x.rank() || variance.rank() == last;
  for (int axis = 0; fits && axis < last; ++axis) fits = variance.shape[axis] == x.shape[axis];
  if (fits && last >= 0 && variance.rank() == x.rank())
    fits = variance.shape[last] == x.shape[last] || variance.shape[last] == 1;
  if (!fits)
    base::fail<ShapeError>(where, op, ": the variance is ", variance.shape, " and the input ", x.shape,
                           "; it must have the input's shape, or one number for each row.");
}

}  // namespace

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options, Where where) {
  if (autograd::raises(input, target, variance)) [[unlikely]]
    return autograd::raised(&gaussian_nll_loss, where, input, target, variance, options);
  constexpr const char* op = "gaussian_nll_loss";
  constexpr double half_log_two_pi = 0.91893853320467274;
  require_alike(op, "input is", input, "target", target, where);
  const TensorImpl& given = core::defined(op, variance, where);
  check_variance(op, *input.impl(), given, where);
  const double low = extreme_or(options.epsilon, kernels::Reduction::min, variance, where);
  if (low < 0) base::fail<Error>(where, op, ": the smallest variance is ", low, "; none may be negative.");

  const Rollback rollback;
  const DType pair = promote(input.dtype(where), target.dtype(where), where);
  const DType type = promote(pair, given.dtype, where), wide = computing_type(type);
  Tensor v = variance.to(wide, where);
  if (given.rank() < input.rank(where)) v = expand_dims(v, -1, where);
  if (!(low >= options.epsilon))  // only the value is raised
    v = add(v, stop_gradient(relu(neg(sub(v, options.epsilon, where), where), where), where), where);
  const Tensor squares =
      loss_of_pairs<kernels::SquaredError>(op, input.to(wide, where), target.to(wide, where), 0, where);
  Tensor losses = mul(add(log(v, where), div(squares, v, where), where), 0.5, where);
  if (options.full) losses = add(losses, half_log_two_pi, where);
  return reduced(losses, options.reduction, where).to(type, where);
}

}  // namespace capstan
