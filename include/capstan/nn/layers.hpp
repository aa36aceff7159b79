#pragma once
// Layers without memory of what came before: Linear, Dropout, Sequential.
#include <tuple>
#include <utility>

#include <capstan/nn/init.hpp>
#include <capstan/nn/module.hpp>
#include <capstan/ops/neural.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct LinearOptions {
  bool bias = true;
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// y = x @ weight + bias.
///
/// Shapes  x [..., inputs], weight [inputs, outputs], bias [outputs]; y [..., outputs]
/// Throws  ShapeError unless inputs and outputs are >= 1, or if x does not fit
class Linear {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs, const LinearOptions& options = {}, Rng& rng = default_rng(),
         Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(weight, bias);
};

struct DropoutOptions {
  double keep = 0.5;  ///< probability that an element stays, in (0, 1]
};

/// `dropout` in training, nothing otherwise. Draws from the calling thread's default generator.
class Dropout {
 public:
  explicit Dropout(DropoutOptions options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }
  CAPSTAN_FIELDS();

 private:
  double keep_;
  bool training_ = true;
};

/// Calls its parts in turn. A part is a module, or a lambda: `Sequential net{Linear{2, 8}, [](auto& x) { return
/// relu(x); }, Linear{8, 1}};`. Parameters are named by position: `0.weight`, `2.bias`.
template <class... Parts>
class Sequential {
 public:
  explicit Sequential(Parts... parts) : parts_(std::move(parts)...) {}

  Tensor operator()(const Tensor& x, Where where = Where::current()) {
    return std::apply(
        [&](auto&... part) {
          Tensor h = x;
          ((h = call(part, h, where)), ...);
          return h;
        },
        parts_);
  }
  template <std::size_t I>
  auto& part() noexcept {
    return std::get<I>(parts_);
  }

  std::tuple<Parts...>& capstan_parts() noexcept { return parts_; }
  const std::tuple<Parts...>& capstan_parts() const noexcept { return parts_; }

 private:
  /// Modules that take a place are told the caller's, so that their entries and errors name it.
  template <class Part>
  static Tensor call(Part& part, const Tensor& x, Where where) {
    if constexpr (std::is_invocable_v<Part&, const Tensor&, Where>) return part(x, where);
    else return part(x);
  }

  std::tuple<Parts...> parts_;
};

}  // namespace nn
}  // namespace capstan
