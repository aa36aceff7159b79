// Resampling and unfolding against PyTorch. Shuffled pixels are in golden_math.cpp.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

bool is_given(const GoldenCall& c, const std::string& key) { return c.has(key) && !c.option(key).is_null(); }
bool is_set(const GoldenCall& c, const std::string& key) { return is_given(c, key) && c.option(key).get<bool>(); }

Sizes sizes_of(const Json& value) {
  return value.is_array() ? Sizes(value.get<std::vector<std::int64_t>>()) : Sizes(value.get<std::int64_t>());
}
Sizes sizes_of(const GoldenCall& c, const std::string& key, std::int64_t otherwise) {
  return is_given(c, key) ? sizes_of(c.option(key)) : Sizes(otherwise);
}

/// torch's images have two axes, and a number stands for both.
Sizes two_sizes_of(const Json& value) {
  if (value.is_array()) return sizes_of(value);
  return {value.get<std::int64_t>(), value.get<std::int64_t>()};
}

Tensors interpolated(const GoldenCall& c) {
  static const std::map<std::string, InterpolateMode> modes = {
      {"nearest", InterpolateMode::nearest}, {"nearest-exact", InterpolateMode::nearest_exact},
      {"linear", InterpolateMode::linear},   {"bilinear", InterpolateMode::linear},
      {"bicubic", InterpolateMode::cubic},   {"trilinear", InterpolateMode::linear},
      {"area", InterpolateMode::area}};
  InterpolateOptions options;
  if (is_given(c, "size")) options.size = sizes_of(c.option("size"));
  if (is_given(c, "scale_factor")) {
    const Json& factor = c.option("scale_factor");
    options.scale_factor = factor.is_array() ? Scales(factor.get<std::vector<double>>()) : Scales(factor.get<double>());
  }
  options.mode = modes.at(c.option<std::string>("mode", "nearest"));
  options.align_corners = is_set(c, "align_corners");
  options.recompute_scale_factor = is_set(c, "recompute_scale_factor");
  options.antialias = is_set(c, "antialias");
  return {interpolate(c.tensor(0), options)};
}

Tensors sampled(const GoldenCall& c) {
  static const std::map<std::string, SampleMode> modes = {
      {"bilinear", SampleMode::linear}, {"nearest", SampleMode::nearest}, {"bicubic", SampleMode::cubic}};
  static const std::map<std::string, SamplePadding> paddings = {
      {"zeros", SamplePadding::zeros}, {"border", SamplePadding::border}, {"reflection", SamplePadding::reflection}};
  return {grid_sample(c.tensor(0), c.tensor(1),
                      {.mode = modes.at(c.option<std::string>("mode", "bilinear")),
                       .padding = paddings.at(c.option<std::string>("padding_mode", "zeros")),
                       .align_corners = is_set(c, "align_corners")})};
}

UnfoldOptions unfold_options(const GoldenCall& c) {
  UnfoldOptions options;
  options.stride = sizes_of(c, "stride", 1);
  options.dilation = sizes_of(c, "dilation", 1);
  if (!is_given(c, "padding")) return options;
  const Sizes padding = two_sizes_of(c.option("padding"));
  options.padding = {padding[0], padding[1]};
  return options;
}
Tensors unfolded(const GoldenCall& c) {
  return {unfold(c.tensor(0), sizes_of(c.option("kernel_size")), unfold_options(c))};
}
Tensors folded(const GoldenCall& c) {
  return {
      fold(c.tensor(0), two_sizes_of(c.option("output_size")), sizes_of(c.option("kernel_size")), unfold_options(c))};
}

const GoldenOps interpolation_ops = {{"interpolate", interpolated}};
const GoldenOps sample_ops = {{"grid_sample", sampled}};
const GoldenOps unfold_ops = {{"fold", folded}, {"unfold", unfolded}};

}  // namespace

TEST_CASE("interpolation gives PyTorch's values and gradients", "[golden][resampling]") {
  run_goldens("interpolation", {"interpolate"}, interpolation_ops);
}

TEST_CASE("samples at the places of a grid give PyTorch's values and gradients", "[golden][resampling]") {
  run_goldens("grid samples", {"grid_sample"}, sample_ops);
}

TEST_CASE("unfold and fold give PyTorch's values and gradients", "[golden][resampling]") {
  run_goldens("unfolding", {"unfold"}, unfold_ops);
}
