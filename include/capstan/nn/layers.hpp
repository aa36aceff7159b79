#pragma once
// Layers without memory of what came before: Linear, Bilinear, changes of shape, Sequential.
#include <tuple>
#include <utility>

#include <capstan/nn/dropout.hpp>
#include <capstan/nn/init.hpp>
#include <capstan/nn/module.hpp>
#include <capstan/ops/dropout.hpp>
#include <capstan/ops/shaping.hpp>

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
/// Types   floating; x and the weight promote, as in `linear`, where other layers ask for the weight's type
/// Start   glorot_uniform; the bias 0
/// Throws  ShapeError unless inputs and outputs are >= 1, or if x does not fit
///         DTypeError  a type that is not floating
class Linear {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs, const LinearOptions& options = {}, Rng& rng = default_rng(),
         Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(weight, bias);
};

struct BilinearOptions {
  std::int64_t in1 = 0, in2 = 0, out = 0;  ///< sizes of the last axes, each >= 1
  bool bias = true;
  /// Of the weight; it is told the fans in1*in2 and out.
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// `bilinear`: y = x1^T weight x2 + bias for each output.
///
/// Shapes  x1 [..., in1], x2 [..., in2], weight [out, in1, in2], bias [out]; y [..., out]
/// Throws  ShapeError unless all sizes are >= 1, or if the inputs do not fit
///         DTypeError  a type that is not floating
class Bilinear {
 public:
  explicit Bilinear(const BilinearOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, Rng& rng = default_rng(),
           Where where = Where::current())
      : Bilinear({.in1 = in1, .in2 = in2, .out = out}, rng, where) {}
  Tensor operator()(const Tensor& x1, const Tensor& x2, Where where = Where::current()) const;

  Parameter weight, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(weight, bias);
};

/// `flatten` from the second axis on: [batch, ...] -> [batch, features].
struct Flatten {
  int begin = 1, end = -1;  ///< first and last of the axes that become one
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};

/// `unflatten`: one axis becomes several, of which one size may be -1. `Unflatten{1, {8, 7, 7}}`.
class Unflatten {
 public:
  Unflatten(int axis, const ShapeRequest& sizes) : sizes_(sizes), axis_(axis) {}
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  ShapeRequest sizes_;
  int axis_;
};

/// x itself: what stands where a layer may be left out.
struct Identity {
  Tensor operator()(const Tensor& x) const { return x; }
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
  /// Modules that take a place as part(x, where) are told the caller's, so that their entries and errors name it.
  template <class Part>
  static Tensor call(Part& part, const Tensor& x, Where where) {
    if constexpr (std::is_invocable_v<Part&, const Tensor&, Where>) return part(x, where);
    else return part(x);
  }

  std::tuple<Parts...> parts_;
};

}  // namespace nn
}  // namespace capstan
