// Uses of resampling, unfolding and other layouts whose gradients are checked. Each is followed by a square, so that a
// second gradient has something to find.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;
using Map = std::function<Tensor(const Tensor&)>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-2, 2, shape, DType::float64, seed); }

void add(std::vector<GradientCase>& cases, const std::string& op, const std::string& usage, const Map& map,
         const Tensor& x) {
  cases.push_back({op, usage, [map](const Tensors& in) { return square(map(in[0])); }, {x}});
}

Map interpolating(const InterpolateOptions& options) {
  return [options](const Tensor& x) { return interpolate(x, options); };
}

void add_interpolation(std::vector<GradientCase>& cases) {
  const auto row = [&](const std::string& usage, const InterpolateOptions& options, const Tensor& x) {
    add(cases, "interpolate", usage, interpolating(options), x);
  };
  using Mode = InterpolateMode;
  const Tensor line = random({2, 1, 5}, 301), image = random({1, 2, 3, 4}, 302), volume = random({1, 1, 2, 3, 2}, 303);
  for (const bool corners : {false, true}) {
    const std::string usage = corners ? " with aligned corners" : "";
    row("linear, longer" + usage, {.size = 8, .mode = Mode::linear, .align_corners = corners}, line);
    row("linear, shorter" + usage, {.size = 3, .mode = Mode::linear, .align_corners = corners}, line);
    row("linear, by factors" + usage, {.scale_factor = {2, 1.3}, .mode = Mode::linear, .align_corners = corners},
        image);
    row("linear, 3 axes" + usage, {.size = {3, 2, 4}, .mode = Mode::linear, .align_corners = corners}, volume);
    row("cubic" + usage, {.size = {5, 3}, .mode = Mode::cubic, .align_corners = corners}, image);
    row("cubic, transposed" + usage, {.scale_factor = 1.5, .mode = Mode::cubic, .align_corners = corners},
        transpose(image, 2, 3));
  }
  row("nearest, longer", {.size = 7, .mode = Mode::nearest}, line);
  row("nearest, 3 axes, by a factor", {.scale_factor = 2, .mode = Mode::nearest}, volume);
  row("nearest, shorter: some places are not read", {.size = {2, 3}, .mode = Mode::nearest}, image);
  row("nearest_exact", {.size = {2, 7}, .mode = Mode::nearest_exact}, image);
  row("area, smaller", {.size = {2, 3}, .mode = Mode::area}, image);
  row("area, larger", {.scale_factor = 1.5, .mode = Mode::area}, volume);
  row("linear without aliases", {.size = {2, 2}, .mode = Mode::linear, .antialias = true}, image);
  row("cubic without aliases", {.size = {1, 3}, .mode = Mode::cubic, .antialias = true}, image);
  row("one place", {.size = 1, .mode = Mode::linear, .align_corners = true}, line);
  row("recomputed", {.scale_factor = 1.7, .mode = Mode::linear, .recompute_scale_factor = true}, line);
  row("of nothing", {.scale_factor = 2, .mode = Mode::linear}, zeros({0, 2, 3}, {.dtype = DType::float64}));
  const nn::Upsample upsample{{.scale_factor = 2, .mode = Mode::linear}};
  add(
      cases, "interpolate", "the module Upsample", [upsample](const Tensor& x) { return upsample(x); }, image);
}

/// Coordinates of grid_sample for places of axes of these sizes, columns first.
Tensor grid_of(std::vector<double> places, const Shape& shape, const std::vector<double>& sizes, bool corners) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double n = sizes[i % sizes.size()];
    places[i] = corners ? 2 * places[i] / (n - 1) - 1 : (2 * places[i] + 1) / n - 1;
  }
  return from_vector(places, shape);
}

void add_samples(std::vector<GradientCase>& cases) {
  const auto row = [&](const std::string& usage, const GridSampleOptions& options, const Tensor& x,
                       const Tensor& grid) {
    cases.push_back({"grid_sample",
                     usage,
                     [options](const Tensors& in) { return square(grid_sample(in[0], in[1], options)); },
                     {x, grid}});
  };
  // inside, near the border, outside; never on a whole or a half place, where there are kinks
  const std::vector<double> places = {-1.7, 0.3, 0.6, -0.3, 1.2, 1.7, 2.3, 0.6, 4.8, 2.4, 3.4, -1.6};
  const std::vector<double> deep = {0.3, 1.2, 0.6, -0.4, 0.7, 1.3, 0.8, 2.3, -1.2, 1.7, -2.6, 0.2};
  const std::pair<SampleMode, const char*> modes[] = {
      {SampleMode::linear, "linear"}, {SampleMode::nearest, "nearest"}, {SampleMode::cubic, "cubic"}};
  const std::pair<SamplePadding, const char*> paddings[] = {{SamplePadding::zeros, ", zeros"},
                                                            {SamplePadding::border, ", border"},
                                                            {SamplePadding::reflection, ", reflection"}};
  const Tensor image = random({1, 2, 3, 4}, 311), volume = random({1, 1, 2, 3, 2}, 312);
  for (const auto& [mode, mode_name] : modes)
    for (const auto& [padding, padding_name] : paddings)
      for (const bool corners : {false, true}) {
        const std::string usage = std::string(mode_name) + padding_name + (corners ? ", corners" : "");
        const GridSampleOptions options{.mode = mode, .padding = padding, .align_corners = corners};
        row(usage, options, image, grid_of(places, {1, 2, 3, 2}, {4, 3}, corners));
        if (mode != SampleMode::cubic)
          row(usage + ", with depth", options, volume, grid_of(deep, {1, 2, 1, 2, 3}, {2, 3, 2}, corners));
      }
  const Tensor batch = random({2, 2, 3, 2}, 313);
  const Tensor grid = grid_of({0.3, 0.6, -0.2, 1.3, 0.7, 1.8, 1.4, 2.2}, {2, 2, 1, 2}, {2, 3}, false);
  row("a batch, transposed", {}, transpose(batch, 1, 3), transpose(grid, 1, 2));
  row("no places", {}, batch, zeros({2, 0, 3, 2}, {.dtype = DType::float64}));
}

void add_maps(std::vector<GradientCase>& cases) {
  const Tensor flat = random({2, 2, 3}, 321), deep = random({1, 3, 4}, 322);
  add(
      cases, "affine_grid", "in the plane",
      [](const Tensor& x) {
        return affine_grid(x, {2, 1, 2, 3});
      },
      flat);
  add(
      cases, "affine_grid", "in space, with aligned corners",
      [](const Tensor& x) {
        return affine_grid(x, {1, 1, 2, 1, 3}, {.align_corners = true});
      },
      deep);

  add(
      cases, "pixel_shuffle", "a batch", [](const Tensor& x) { return pixel_shuffle(x, 2); },
      random({2, 4, 1, 2}, 323));
  add(
      cases, "pixel_shuffle", "no batch", [](const Tensor& x) { return pixel_shuffle(x, 3); }, random({9, 1, 2}, 324));
  add(
      cases, "pixel_unshuffle", "transposed", [](const Tensor& x) { return pixel_unshuffle(transpose(x, -1, -2), 2); },
      random({1, 2, 4, 2}, 325));
  add(
      cases, "channel_shuffle", "3 groups", [](const Tensor& x) { return channel_shuffle(x, 3); },
      random({2, 6, 2}, 326));
  add(
      cases, "pixel_shuffle", "the modules of pixels",
      [](const Tensor& x) { return nn::PixelUnshuffle(3)(nn::PixelShuffle(3)(x) * 2); }, random({1, 9, 1, 1}, 327));
}

void add_windows(std::vector<GradientCase>& cases) {
  const auto row = [&](const std::string& usage, const Sizes& kernel, const UnfoldOptions& options, const Tensor& x) {
    add(
        cases, "unfold", usage, [=](const Tensor& in) { return unfold(in, kernel, options); }, x);
  };
  row("1 axis, strides", 3, {.stride = 2, .padding = 1}, random({2, 2, 6}, 331));
  row("2 axes, another padding on each side", {2, 3}, {.stride = {1, 2}, .padding = {{0, 1}, {2, 0}}},
      random({1, 2, 3, 4}, 332));
  row("2 axes, dilated, transposed", 2, {.dilation = {2, 1}}, transpose(random({1, 1, 3, 4}, 333), 2, 3));
  row("3 axes, the same size", {1, 2, 2}, {.padding = PaddingRule::same}, random({1, 1, 2, 2, 3}, 334));
  row("of nothing", 2, {}, zeros({0, 2, 3}, {.dtype = DType::float64}));
  add(
      cases, "fold", "1 axis, overlapping", [](const Tensor& x) { return fold(x, 5, 3); }, random({2, 6, 3}, 335));
  add(
      cases, "fold", "2 axes, strides and padding",
      [](const Tensor& x) {
        return fold(x, {4, 3}, {3, 2}, {.stride = {2, 1}, .padding = 1});
      },
      random({1, 6, 8}, 336));
  add(
      cases, "fold", "3 axes, dilated",
      [](const Tensor& x) {
        return fold(x, {2, 1, 4}, {1, 1, 2}, {.dilation = 2});
      },
      random({1, 2, 4}, 337));
}

void add_layouts(std::vector<GradientCase>& cases) {
  const Tensor x = random({2, 3, 1, 2}, 341);
  add(
      cases, "nchw_from_nhwc", "an image", [](const Tensor& t) { return nchw_from_nhwc(t); }, x);
  add(
      cases, "nhwc_from_nchw", "an image", [](const Tensor& t) { return nhwc_from_nchw(t); }, x);
  add(
      cases, "conv_kernel_from_hwio", "2 axes", [](const Tensor& t) { return conv_kernel_from_hwio(t); }, x);
  add(
      cases, "hwio_from_conv_kernel", "2 axes", [](const Tensor& t) { return hwio_from_conv_kernel(t); }, x);
  add(
      cases, "conv_transpose_kernel_from_hwoi", "2 axes",
      [](const Tensor& t) { return conv_transpose_kernel_from_hwoi(t); }, x);
  add(
      cases, "hwoi_from_conv_transpose_kernel", "2 axes",
      [](const Tensor& t) { return hwoi_from_conv_transpose_kernel(t); }, x);
  add(
      cases, "depthwise_kernel_from_hwim", "2 axes", [](const Tensor& t) { return depthwise_kernel_from_hwim(t); }, x);
  add(
      cases, "hwim_from_depthwise_kernel", "2 axes", [](const Tensor& t) { return hwim_from_depthwise_kernel(t, 3); },
      random({6, 1, 2, 1}, 342));
}

}  // namespace

std::vector<GradientCase> resampling_gradient_cases() {
  std::vector<GradientCase> cases;
  add_interpolation(cases);
  add_samples(cases);
  add_maps(cases);
  add_windows(cases);
  add_layouts(cases);
  return cases;
}

}  // namespace tests
