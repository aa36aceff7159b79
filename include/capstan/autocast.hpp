#pragma once
// Autocast: products in 16 bits, and what needs range or precision in float32, with models that say nothing of types.
#include <optional>

#include <capstan/dtype.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Mixed precision. As long as it lives, operations that its thread runs bring their operands to the type that suits
/// them; parameters, optimizers and layers stay as they are, in float32.
///
///   cs::GradientTape tape;
///   cs::Tensor loss;
///   {
///     const cs::AutocastScope half(cs::DType::bfloat16);
///     loss = cs::cross_entropy(net(images), labels);
///   }
///   adam.apply(tape.gradient(loss, adam.parameters()));
///
/// With float16 there should be an `optim::LossScaler`; bfloat16, which has the range of float32, needs none.
///
/// in 16 bits   matmul, linear, addmm, bilinear; tensordot, dot, and einsum of two operands or more
///              conv1d..3d, conv_transpose1d..3d, depthwise_conv2d, separable_conv2d
/// in float32   acos, asin, cosh, erfinv, exp, exp2, expm1, log, log10, log1p, log2, pow, reciprocal, rsqrt, sinh,
///              softplus, tan
///              sum, prod, mean, var, std, moments, cumsum, cumprod, logcumsumexp, logsumexp, softmax, log_softmax,
///              vector_norm, matrix_norm
///              layer_norm, rms_norm, batch_norm, batch_norm_training, group_norm, instance_norm, local_response_norm,
///              normalize
///              cosine_similarity, pairwise_distance, and all losses: of ops/losses.hpp, sequence_loss.hpp, ctc.hpp and
///              sampled.hpp
///              rnn, gru, lstm and their cells, whose fused kernels have no 16-bit types
/// in one type  scaled_dot_product_attention, attention_with_weights, grid_sample: operands of several types become
///              float32; those of one stay (attention computes in float32 inside, and rounds its result once)
/// as they are  all others: each computes in the type that it gets, and types that are mixed promote as ever
///
/// Operations that are made of others count as a whole: those that are not in the table compute as they do outside the
/// scope, whatever they are made of, and so do optimizers' steps and changes in place. Layers are made of calls like
/// yours, and each of these is looked up.
///
/// Types      float32, float16 and bfloat16 become one another; operations that have an operand of float64 are left
///            alone, and integers and bool are never touched
/// Gradient   conversions are recorded, as `cast`: a float32 parameter has a float32 gradient. `gradient`, inside the
///            scope or behind it, computes in the types that the results have: in it autocast is off, also for hooks
///            and for the backward functions of `custom_gradient`. `recompute` runs its function as it ran before
/// Nesting    the innermost one counts; with `on` false it switches autocast off
/// Threads    each for itself
/// Cost       a pass over every operand that is converted, each time it is used (PyTorch keeps weights converted until
///            the scope ends); without a scope the test of a byte for each operation of the table
/// Throws     DTypeError  the type is neither float16 nor bfloat16
/// Source     PyTorch's torch.autocast, "Automatic Mixed Precision package", its lists for CUDA. In float32 beyond
///            these lists: exp2, mean, var, std, moments, logsumexp, logcumsumexp, rms_norm, batch and instance norm.
///            Its lists have in 16 bits, and this one has not: prelu and cells of recurrent networks
/// Defined in autograd/autocast.cpp.
class [[nodiscard]] AutocastScope {
 public:
  explicit AutocastScope(DType dtype = DType::float16, bool on = true, Where where = Where::current());
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  DType before_;
};

/// The 16-bit type that products are computed in on this thread, or none if autocast is off.
std::optional<DType> autocast_dtype() noexcept;

}  // namespace capstan
