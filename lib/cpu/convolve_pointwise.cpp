// Convolutions with kernels of one place, which mix the channels of every place: products of matrices, of [channels,
// places] for each image and group; where an image has one place, of [images, channels].
#include <algorithm>
#include <span>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/convolve.hpp"

namespace capstan::on_cpu {
namespace {

/// [batch, groups, channels, places] of images.
Tensor matrices(const TensorImpl& x, std::int64_t groups, bool transposed = false) {
  const std::int64_t batch = x.shape[0], channels = x.shape[1] / groups;
  std::int64_t places = 1;
  for (int i = 2; i < x.rank(); ++i) places *= x.shape[i];
  const std::int64_t strides[] = {groups * channels * places, channels * places, transposed ? 1 : places,
                                  transposed ? places : 1};
  const Shape shape = transposed ? Shape{batch, groups, places, channels} : Shape{batch, groups, channels, places};
  return core::make_view(x, shape, strides, 0, core::calling_place());
}
/// Those of one image.
Tensor image(const Tensor& all, std::int64_t number) {
  const TensorImpl& x = *all.impl();
  return core::make_view(x, {x.shape[1], x.shape[2], x.shape[3]}, x.strides + 1, number * x.strides[0],
                         core::calling_place());
}

/// Where windows that move several places at a time stand.
Tensor places(const TensorImpl& x, const core::Window& window) {
  std::int64_t sizes[kMaxRank] = {x.shape[0], x.shape[1]}, strides[kMaxRank] = {x.strides[0], x.strides[1]};
  for (int i = 0; i < window.axes; ++i)
    sizes[i + 2] = window.axis[i].out, strides[i + 2] = x.strides[i + 2] * window.axis[i].stride;
  const auto rank = static_cast<std::size_t>(window.axes) + 2;
  return core::make_view(x, Shape(std::span<const std::int64_t>(sizes, rank)), strides, 0, core::calling_place());
}
template <class Holds>
bool all_axes(const core::Window& window, Holds holds) {
  return std::all_of(window.axis, window.axis + 3, holds);
}
bool takes_all(const core::Window& window) {
  return all_axes(window, [](const core::WindowAxis& a) { return a.in == a.out; });
}
bool is_one_place(const core::Window& window) {
  return all_axes(window, [](const core::WindowAxis& a) { return a.out == 1; });
}

/// Every place of a channel becomes that channel's bias.
void begin_with(const TensorImpl& bias, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t planes = out.shape[0] * out.shape[1], places = out.numel() / planes;
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(planes, kCheapGrain / places + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        std::fill_n(out.as<T>() + i * places, places, bias.as<T>()[i % out.shape[1]]);
    });
  });
}

/// Weights [groups, to, from] times the channels of x.
void mix(const TensorImpl& x, const Tensor& weight, const TensorImpl* bias, std::int64_t groups, TensorImpl& out) {
  if (out.numel() == 0) return;
  if (bias != nullptr) begin_with(*bias, out);
  const Tensor from = matrices(x, groups), to = matrices(out, groups);
  matmul(*weight.impl(), *from.impl(), nullptr, *to.impl(), bias != nullptr);
}

/// [rows, columns] of what lies so in one piece.
Tensor matrix(const TensorImpl& x, std::int64_t rows, std::int64_t columns, bool transposed = false) {
  const std::int64_t strides[] = {transposed ? 1 : columns, transposed ? columns : 1};
  return core::make_view(x, transposed ? Shape{columns, rows} : Shape{rows, columns}, strides, 0,
                         core::calling_place());
}

}  // namespace

bool is_pointwise(const core::Window& window, std::int64_t from, std::int64_t to, std::int64_t groups) {
  constexpr std::int64_t kFewestChannels = 16;  // of fewer, products are mostly copies
  constexpr std::int64_t kFewestPlaces = 16;    // of fewer, columns fill too little of a tile
  if (from < kFewestChannels || to < kFewestChannels) return false;
  std::int64_t places = 1;
  for (const core::WindowAxis& a : window.axis) places = bounded_product(places, std::max<std::int64_t>(a.out, 1));
  if (places < kFewestPlaces && !(is_one_place(window) && groups == 1)) return false;
  return all_axes(window, [](const core::WindowAxis& a) {
    return a.kernel == 1 && a.before == 0 && (a.out <= 1 || a.stride <= (a.in - 1) / (a.out - 1));
  });
}

void pointwise(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
               std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = weight.shape[1], to = weight.shape[0] / groups, strides[] = {to * from, from, 1};
  const Tensor met = packed(places(x, window));
  if (is_one_place(window))
    return matmul(*matrix(*met.impl(), x.shape[0], from).impl(), *matrix(weight, to, from, true).impl(), bias,
                  *matrix(out, x.shape[0], to).impl(), false);
  mix(*met.impl(), core::make_view(weight, {groups, to, from}, strides, 0, core::calling_place()), bias, groups, out);
}

void pointwise_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                          const core::Window& window, std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = weight.shape[0] / groups, to = weight.shape[1], strides[] = {from * to, 1, to};
  const auto mix_into = [&](TensorImpl& results) {
    if (is_one_place(window))
      return matmul(*matrix(grad, grad.shape[0], from).impl(), *matrix(weight, from, to).impl(), bias,
                    *matrix(results, grad.shape[0], to).impl(), false);
    mix(grad, packed(core::make_view(weight, {groups, to, from}, strides, 0, core::calling_place())), bias, groups,
        results);
  };
  if (takes_all(window)) return mix_into(out);
  const Tensor met = places(out, window);
  const Tensor results = core::make_workspace(met.shape(), out.dtype, out.device(), core::calling_place());
  mix_into(*results.impl());
  if (bias != nullptr) begin_with(*bias, out);
  else fill(out, Scalar(0));
  copy(*results.impl(), *met.impl());
}

void pointwise_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window, std::int64_t groups,
                      TensorImpl& out) {
  const std::int64_t from = out.shape[1], to = out.shape[0] / groups, strides[] = {to * from, from, 1};
  const Tensor result = core::make_view(out, {groups, to, from}, strides, 0, core::calling_place());
  const Tensor met = packed(places(x, window));
  if (is_one_place(window))
    return matmul(*matrix(grad, x.shape[0], to, true).impl(), *matrix(*met.impl(), x.shape[0], from).impl(), nullptr,
                  *matrix(out, to, from).impl(), false);
  const Tensor left = matrices(grad, groups), right = matrices(*met.impl(), groups, true);
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    matmul(*image(left, i).impl(), *image(right, i).impl(), nullptr, *result.impl(), i > 0);
}

}  // namespace capstan::on_cpu
