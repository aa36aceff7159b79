#pragma once
// Penalties on the size of parameters, to be added to a loss; and telling apart what weight decay is for.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <capstan/nn/module.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// A penalty: a plain value, made by one of the functions below.
///
///   const Tensor loss = mean(losses) + regularizer::l2(1e-4)(select(net, {"*.weight"}));
class Regularizer {
 public:
  enum class Kind : std::uint8_t { norms, orthogonal_rows, orthogonal_columns };
  constexpr Regularizer(Kind kind, double first, double second) noexcept
      : first_(first), second_(second), kind_(kind) {}

  /// Of one parameter: a single value, differentiable to any order. 16-bit types are added up in float32.
  /// Throws DTypeError  not floating    ShapeError  not what the penalty is for
  Tensor operator()(const Tensor& parameter, Where where = Where::current()) const;
  /// The sum over all of them. Error if there are none.
  Tensor operator()(std::span<const Tensor> parameters, Where where = Where::current()) const;

 private:
  double first_, second_;
  Kind kind_;
};

namespace regularizer {

/// l1 * sum(|x|) + l2 * sum(x*x), Keras's: the gradient of the second is 2*l2*x.
constexpr Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01) noexcept { return {Regularizer::Kind::norms, l1, l2}; }
constexpr Regularizer l1(double strength = 0.01) noexcept { return l1_l2(strength, 0); }
constexpr Regularizer l2(double strength = 0.01) noexcept { return l1_l2(0, strength); }

enum class Direction : std::uint8_t { rows, columns };
/// Keras's OrthogonalRegularizer, for matrices: `strength` times the mean |cosine| between two different rows, or
/// columns. 0 if there are fewer than two.
constexpr Regularizer orthogonal(double strength = 0.01, Direction direction = Direction::rows) noexcept {
  return {direction == Direction::rows ? Regularizer::Kind::orthogonal_rows : Regularizer::Kind::orthogonal_columns,
          strength, 0};
}

}  // namespace regularizer

/// `regularizer::l1(strength)` of all of them together, and l2.
Tensor l1_penalty(std::span<const Tensor> parameters, double strength, Where where = Where::current());
Tensor l2_penalty(std::span<const Tensor> parameters, double strength, Where where = Where::current());

// --- choosing by name ----------------------------------------------------------------------------------------------

/// Whether a name is like a pattern, in which `*` stands for any text and `?` for any character: "encoder.*.bias".
bool matches(std::string_view name, std::string_view pattern) noexcept;

/// Parameters that weight decay is for, and the others: two groups for an optimizer.
struct DecayGroups {
  std::vector<Tensor> decay, plain;
};

namespace detail {
std::vector<Tensor> select(const std::vector<NamedTensor>& named, const std::vector<Tensor>& trainable,
                           std::initializer_list<std::string_view> patterns);
DecayGroups decay_groups(const std::vector<NamedTensor>& named, const std::vector<Tensor>& trainable,
                         std::initializer_list<std::string_view> without);
}  // namespace detail

/// The trainable parameters whose full names match one of the patterns, in the order of the fields.
template <class Model>
std::vector<Tensor> select(Model& model, std::initializer_list<std::string_view> patterns) {
  return detail::select(named_parameters(model), parameters(model), patterns);
}

/// The trainable parameters of a model in two groups: `decay` has those with two axes or more whose full names match
/// none of the patterns, `plain` the others, which are biases and the scales of norms, and whatever `without` names.
/// Axes are all that counts: name there the biases and scales that have several, as those of a LayerNorm over several
/// sizes, and the `b` of a BahdanauAttention: `decay_groups(net, {"*norm.*", "attention.b"})`.
template <class Model>
DecayGroups decay_groups(Model& model, std::initializer_list<std::string_view> without = {}) {
  return detail::decay_groups(named_parameters(model), parameters(model), without);
}

}  // namespace nn
}  // namespace capstan
