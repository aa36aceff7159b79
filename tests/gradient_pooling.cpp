// Uses of pooling whose gradients are checked. What is linear is squared, so that a second gradient has something to
// find. Elements lie further apart than the steps of the differences.
#include <utility>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Use {
  const char* op;
  const char* usage;
  Tensor (*function)(const Tensor&);
};

// x [2, 3, 9]
const Use rows_1d[] = {
    {"max_pool1d", "windows of 2", [](const Tensor& x) { return square(max_pool1d(x, 2)); }},
    {"max_pool1d", "overlapping, padded, dilated",
     [](const Tensor& x) { return square(max_pool1d(x, 3, {.stride = 2, .padding = 2, .dilation = 2})); }},
    {"max_pool1d", "a transposed tensor",
     [](const Tensor& x) { return square(max_pool1d(transpose(x, 0, 1), 2, {.stride = 1})) + 1; }},
    {"max_pool1d", "as a module", [](const Tensor& x) { return square(nn::MaxPool1d(3, {.ceil = true})(x)); }},
    {"max_pool1d_with_indices", "SAME",
     [](const Tensor& x) { return square(max_pool1d_with_indices(x, 4, {.stride = 3, .padding = nn::same}).values); }},
    {"max_unpool1d", "windows of 3",
     [](const Tensor& x) {
       const MaxPoolResult pooled = max_pool1d_with_indices(x, 3);
       return square(max_unpool1d(pooled.values, pooled.indices, 3));
     }},
    {"max_unpool1d", "places that meet",
     [](const Tensor& x) {
       const MaxPoolResult pooled = max_pool1d_with_indices(x, 3, {.stride = 1});
       return square(nn::MaxUnpool1d(3, {.stride = 1})(pooled.values, pooled.indices));
     }},
    {"avg_pool1d", "windows of 2", [](const Tensor& x) { return square(avg_pool1d(x, 2)); }},
    {"avg_pool1d", "overlapping, padded, not counted",
     [](const Tensor& x) {
       return square(avg_pool1d(x, 3, {.stride = 2, .padding = 1, .ceil = true, .count_include_pad = false}));
     }},
    {"avg_pool1d", "as a module, SAME",
     [](const Tensor& x) { return square(nn::AvgPool1d(4, {.stride = 2, .padding = nn::same})(x)); }},
    {"lp_pool1d", "squares", [](const Tensor& x) { return lp_pool1d(x, 2, 3, {.stride = 2}); }},
    {"lp_pool1d", "as a module, a window cut off",
     [](const Tensor& x) { return nn::LpPool1d(1.5, 2, {.ceil = true})(exp(x * 0.2)); }},
    {"adaptive_avg_pool1d", "4 of 9", [](const Tensor& x) { return square(adaptive_avg_pool1d(x, 4)); }},
    {"adaptive_avg_pool1d", "12 of 9, as a module",
     [](const Tensor& x) { return square(nn::AdaptiveAvgPool1d(12)(x)); }},
    {"adaptive_max_pool1d", "4 of 9", [](const Tensor& x) { return square(adaptive_max_pool1d(x, 4)); }},
    {"adaptive_max_pool1d", "as a module", [](const Tensor& x) { return square(nn::AdaptiveMaxPool1d(2)(x)); }},
    {"adaptive_max_pool1d_with_indices", "5 of 9",
     [](const Tensor& x) { return square(adaptive_max_pool1d_with_indices(x, 5).values); }},
    {"global_avg_pool", "one axis", [](const Tensor& x) { return square(global_avg_pool(x)); }},
    {"global_max_pool", "one axis", [](const Tensor& x) { return square(global_max_pool(x)); }},
};

// x [2, 2, 5, 6]
const Use rows_2d[] = {
    {"max_pool2d", "windows of 2 x 2", [](const Tensor& x) { return square(max_pool2d(x, 2)) * max_pool2d(x, 2); }},
    {"max_pool2d", "windows of 3 x 2 that overlap",
     [](const Tensor& x) {
       return square(max_pool2d(x, {3, 2}, {.stride = {2, 1}, .padding = 1}));
     }},
    {"max_pool2d", "more padding at the end",
     [](const Tensor& x) {
       return square(max_pool2d(x, 3, {.stride = 2, .padding = {{0, 1}, {1, 2}}}));
     }},
    {"max_pool2d", "no batch", [](const Tensor& x) { return square(max_pool2d(x[1], 2)); }},
    {"max_pool2d", "a stretched tensor",
     [](const Tensor& x) {
       return square(max_pool2d(broadcast_to(narrow(x, 1, 0, 1), {2, 2, 5, 6}), 2));
     }},
    {"max_pool2d", "an empty batch", [](const Tensor& x) { return square(max_pool2d(narrow(x, 0, 0, 0), 2)); }},
    {"max_pool2d", "as a module",
     [](const Tensor& x) {
       return square(nn::MaxPool2d({2, 3})(x));
     }},
    {"max_pool2d_with_indices", "windows of 2 x 2",
     [](const Tensor& x) { return square(max_pool2d_with_indices(x, 2).values); }},
    {"max_unpool2d", "a larger size",
     [](const Tensor& x) {
       const MaxPoolResult pooled = nn::MaxPool2d(2).with_indices(x);
       return square(max_unpool2d(pooled.values, pooled.indices, 2, {.output_size = {5, 6}}));
     }},
    {"avg_pool2d", "windows of 2 x 2, a row left over", [](const Tensor& x) { return square(avg_pool2d(x, 2)); }},
    {"avg_pool2d", "overlapping and padded",
     [](const Tensor& x) { return square(avg_pool2d(x, 3, {.stride = 2, .padding = 1})); }},
    {"avg_pool2d", "another divisor",
     [](const Tensor& x) {
       return square(nn::AvgPool2d({2, 3}, {.stride = 1, .divisor_override = 5})(x));
     }},
    {"avg_pool2d", "an empty batch", [](const Tensor& x) { return square(avg_pool2d(narrow(x, 0, 0, 0), 2)); }},
    {"lp_pool2d", "cubes", [](const Tensor& x) { return lp_pool2d(exp(x * 0.1), 3, 2); }},
    {"lp_pool2d", "as a module",
     [](const Tensor& x) {
       return nn::LpPool2d(2, {3, 2}, {.stride = 2})(x);
     }},
    {"adaptive_avg_pool2d", "3 x 4 of 5 x 6",
     [](const Tensor& x) {
       return square(adaptive_avg_pool2d(x, {3, 4}));
     }},
    {"adaptive_avg_pool2d", "one axis as it is",
     [](const Tensor& x) {
       return square(nn::AdaptiveAvgPool2d({-1, 2})(transpose(x)));
     }},
    {"adaptive_max_pool2d", "2 x 4 of 5 x 6",
     [](const Tensor& x) {
       return square(nn::AdaptiveMaxPool2d({2, 4})(x));
     }},
    {"adaptive_max_pool2d_with_indices", "3 x 3",
     [](const Tensor& x) { return square(nn::AdaptiveMaxPool2d(3).with_indices(x).values); }},
    {"global_avg_pool", "two axes, kept",
     [](const Tensor& x) { return square(nn::GlobalAvgPool{{.keepdims = true}}(x)); }},
    {"global_max_pool", "two axes, kept",
     [](const Tensor& x) { return square(nn::GlobalMaxPool{{.keepdims = true}}(x)) * x; }},
};

// x [1, 2, 4, 3, 5]
const Use rows_3d[] = {
    {"max_pool3d", "windows of 2", [](const Tensor& x) { return square(max_pool3d(x, 2)); }},
    {"max_pool3d", "SAME, as a module",
     [](const Tensor& x) { return square(nn::MaxPool3d(3, {.stride = 2, .padding = nn::same})(x)); }},
    {"max_pool3d_with_indices", "windows of 3 x 1 x 2",
     [](const Tensor& x) {
       return square(max_pool3d_with_indices(x, {3, 1, 2}, {.stride = 1}).values);
     }},
    {"max_unpool3d", "windows of 2 x 1 x 2",
     [](const Tensor& x) {
       const MaxPoolResult pooled = max_pool3d_with_indices(x, {2, 1, 2});
       return square(nn::MaxUnpool3d({2, 1, 2})(pooled.values, pooled.indices, {4, 3, 5}));
     }},
    {"avg_pool3d", "windows of 2", [](const Tensor& x) { return square(avg_pool3d(x, 2)); }},
    {"avg_pool3d", "overlapping and padded, as a module",
     [](const Tensor& x) { return square(nn::AvgPool3d(3, {.stride = 1, .padding = 1})(x)); }},
    {"lp_pool3d", "squares", [](const Tensor& x) { return lp_pool3d(x, 2, 2, {.stride = 1}); }},
    {"lp_pool3d", "as a module", [](const Tensor& x) { return nn::LpPool3d(3, 2)(exp(x * 0.1)); }},
    {"adaptive_avg_pool3d", "3 x 2 x 2",
     [](const Tensor& x) {
       return square(adaptive_avg_pool3d(x, {3, 2, 2}));
     }},
    {"adaptive_avg_pool3d", "as a module", [](const Tensor& x) { return square(nn::AdaptiveAvgPool3d(2)(x)); }},
    {"adaptive_max_pool3d", "3 x 2 x 2",
     [](const Tensor& x) {
       return square(adaptive_max_pool3d(x, {3, 2, 2}));
     }},
    {"adaptive_max_pool3d", "as a module", [](const Tensor& x) { return square(nn::AdaptiveMaxPool3d(1)(x)); }},
    {"adaptive_max_pool3d_with_indices", "2 x 2 x 3",
     [](const Tensor& x) {
       return square(adaptive_max_pool3d_with_indices(x, {2, 2, 3}).values);
     }},
    {"global_avg_pool", "three axes", [](const Tensor& x) { return square(global_avg_pool(x)); }},
};

}  // namespace

std::vector<GradientCase> pooling_gradient_cases() {
  std::vector<GradientCase> cases;
  const auto add = [&](const auto& rows, const Tensor& x) {
    for (const Use& row : rows)
      cases.push_back({row.op, row.usage, [f = row.function](const Tensors& in) { return f(in[0]); }, {x}});
  };
  add(rows_1d, spaced({2, 3, 9}, 81));
  add(rows_2d, spaced({2, 2, 5, 6}, 82));
  add(rows_3d, spaced({1, 2, 4, 3, 5}, 83));
  return cases;
}

}  // namespace tests
