// Uses of operations and layers that normalize whose gradients are checked. Rows of few values get a larger epsilon:
// the root of a variance near 0 is too sharp a bend for differences.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

constexpr double kLargeEpsilon = 0.5;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }
Tensor positive(const Shape& shape, std::uint64_t seed) { return random_in(0.5, 2, shape, DType::float64, seed); }
Tensor none(const Shape& shape) { return zeros(shape, {.dtype = DType::float64}); }

/// Makes a parameter or a state of a layer the very tensor that is differentiated for.
void put(Tensor& place, const Tensor& value) { place = value; }

void add_rows(std::vector<GradientCase>& cases) {
  cases.push_back({"layer_norm",
                   "rows of 4",
                   [](const Tensors& in) { return layer_norm(in[0], 1, in[1], in[2]); },
                   {random({3, 4}, 301), random({4}, 302), random({4}, 303)}});
  cases.push_back(
      {"layer_norm", "nothing but x", [](const Tensors& in) { return layer_norm(in[0]); }, {random({2, 5}, 304)}});
  cases.push_back({"layer_norm",
                   "a weight alone",
                   [](const Tensors& in) { return layer_norm(in[0], {4}, in[1]); },
                   {random({3, 4}, 305), random({4}, 306)}});
  cases.push_back({"layer_norm",
                   "a bias alone",
                   [](const Tensors& in) { return square(layer_norm(in[0], {4}, {}, in[1])); },
                   {random({3, 4}, 307), random({4}, 308)}});
  cases.push_back({"layer_norm",
                   "two axes, by their sizes",
                   [](const Tensors& in) {
                     return layer_norm(in[0], {3, 4}, in[1], in[2]);
                   },
                   {random({2, 3, 4}, 309), random({3, 4}, 310), random({3, 4}, 311)}});
  cases.push_back({"layer_norm",
                   "all axes",
                   [](const Tensors& in) { return layer_norm(in[0], 2, in[1]); },
                   {random({2, 3}, 312), random({2, 3}, 313)}});
  cases.push_back({"layer_norm",
                   "more than a register",
                   [](const Tensors& in) { return layer_norm(in[0], 1, in[1], in[2]); },
                   {random({2, 19}, 314), random({19}, 315), random({19}, 316)}});
  cases.push_back({"layer_norm",
                   "more rows than a block",
                   [](const Tensors& in) { return layer_norm(in[0], 1, in[1], in[2], kLargeEpsilon); },
                   {random({35, 2}, 317), random({2}, 318), random({2}, 319)}});
  cases.push_back({"layer_norm",
                   "a transposed tensor and a weight of a column",
                   [](const Tensors& in) {
                     return layer_norm(transpose(in[0]), 1, in[1].index({all, 0}));
                   },
                   {random({4, 3}, 320), random({4, 2}, 321)}});
  cases.push_back({"layer_norm",
                   "a stretched row",
                   [](const Tensors& in) {
                     return square(layer_norm(broadcast_to(in[0], {3, 4}), 1, in[1]));
                   },
                   {random({4}, 322), random({4}, 323)}});
  cases.push_back({"layer_norm",
                   "no rows",
                   [](const Tensors& in) { return layer_norm(in[0], 1, in[1], in[2]); },
                   {none({0, 3}), random({3}, 324), random({3}, 325)}});
  cases.push_back({"layer_norm",
                   "as a layer",
                   [](const Tensors& in) {
                     nn::LayerNorm layer{{.sizes = {4}, .dtype = DType::float64}};
                     put(layer.weight, in[1]);
                     put(layer.bias, in[2]);
                     return layer(in[0]);
                   },
                   {random({3, 4}, 326), random({4}, 327), random({4}, 328)}});
  cases.push_back({"rms_norm",
                   "rows of 4",
                   [](const Tensors& in) { return rms_norm(in[0], 1, in[1]); },
                   {random({3, 4}, 329), random({4}, 330)}});
  cases.push_back({"rms_norm",
                   "two axes without a weight",
                   [](const Tensors& in) { return rms_norm(in[0], 2, {}, kLargeEpsilon); },
                   {random({2, 2, 3}, 331)}});
  cases.push_back({"rms_norm",
                   "as a layer",
                   [](const Tensors& in) {
                     nn::RmsNorm layer{{.sizes = {2, 3}, .dtype = DType::float64}};
                     put(layer.weight, in[1]);
                     return layer(in[0]);
                   },
                   {random({2, 2, 3}, 332), random({2, 3}, 333)}});
}

void add_given_statistics(std::vector<GradientCase>& cases) {
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 5}, Shape{2, 3, 2, 2}, Shape{0, 3, 2}}) {
    cases.push_back({"batch_norm",
                     to_string(shape),
                     [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], in[3], in[4]); },
                     {random(shape, 341), random({3}, 342), positive({3}, 343), random({3}, 344), random({3}, 345)}});
    cases.push_back({"batch_norm",
                     to_string(shape) + ", statistics alone",
                     [](const Tensors& in) { return square(batch_norm(in[0], in[1], in[2])); },
                     {random(shape, 346), random({3}, 347), positive({3}, 348)}});
  }
  cases.push_back(
      {"batch_norm",
       "as a layer at rest",
       [](const Tensors& in) {
         nn::BatchNorm2d layer{{.channels = 3, .dtype = DType::float64}};
         put(layer.running_mean, in[1]);
         put(layer.running_var, in[2]);
         put(layer.weight, in[3]);
         put(layer.bias, in[4]);
         layer.set_training(false);
         return layer(in[0]);
       },
       {random({2, 3, 2, 2}, 349), random({3}, 350), positive({3}, 351), random({3}, 352), random({3}, 353)}});
}

void add_batch_statistics(std::vector<GradientCase>& cases) {
  for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 4}, Shape{2, 3, 2, 2}, Shape{3, 3, 1, 2, 2}, Shape{0, 3, 2}}) {
    cases.push_back({"batch_norm_training",
                     to_string(shape),
                     [](const Tensors& in) { return batch_norm_training(in[0], in[1], in[2]).output; },
                     {random(shape, 361), random({3}, 362), random({3}, 363)}});
    cases.push_back({"batch_norm_training",
                     to_string(shape) + ", nothing but x",
                     [](const Tensors& in) { return batch_norm_training(in[0]).output; },
                     {random(shape, 364)}});
  }
  cases.push_back({"batch_norm_training",
                   "all three results",
                   [](const Tensors& in) {
                     const BatchNormResult r = batch_norm_training(in[0], in[1], in[2]);
                     return r.output * reshape(r.mean + r.variance, {3, 1});
                   },
                   {random({2, 3, 4}, 365), random({3}, 366), random({3}, 367)}});
  cases.push_back({"batch_norm_training",
                   "the statistics alone",
                   [](const Tensors& in) {
                     const BatchNormResult r = batch_norm_training(in[0], in[1]);
                     return r.mean * r.variance;
                   },
                   {random({4, 3}, 368), random({3}, 369)}});
  cases.push_back({"batch_norm_training",
                   "a transposed tensor",
                   [](const Tensors& in) { return batch_norm_training(transpose(in[0]), in[1]).output; },
                   {random({3, 5}, 370), random({3}, 371)}});
  cases.push_back({"batch_norm_training",
                   "as a layer in training",
                   [](const Tensors& in) {
                     nn::BatchNorm1d layer{{.channels = 3, .dtype = DType::float64}};
                     put(layer.weight, in[1]);
                     put(layer.bias, in[2]);
                     return layer(in[0]);
                   },
                   {random({2, 3, 4}, 372), random({3}, 373), random({3}, 374)}});
}

void add_groups(std::vector<GradientCase>& cases) {
  for (const std::int64_t groups : {1, 2, 4}) {
    cases.push_back({"group_norm",
                     std::to_string(groups) + " groups",
                     [groups](const Tensors& in) { return group_norm(in[0], groups, in[1], in[2]); },
                     {random({2, 4, 5}, 381), random({4}, 382), random({4}, 383)}});
    cases.push_back({"group_norm",
                     std::to_string(groups) + " groups, nothing but x",
                     [groups](const Tensors& in) { return group_norm(in[0], groups); },
                     {random({2, 4, 2, 2}, 384)}});
  }
  cases.push_back({"group_norm",
                   "channels without places",
                   [](const Tensors& in) { return group_norm(in[0], 2, in[1], in[2], kLargeEpsilon); },
                   {random({3, 6}, 385), random({6}, 386), random({6}, 387)}});
  cases.push_back({"group_norm",
                   "no samples",
                   [](const Tensors& in) { return group_norm(in[0], 2, in[1], in[2]); },
                   {none({0, 4, 3}), random({4}, 388), random({4}, 389)}});
  cases.push_back({"group_norm",
                   "as a layer",
                   [](const Tensors& in) {
                     nn::GroupNorm layer{{.groups = 2, .channels = 4, .dtype = DType::float64}};
                     put(layer.weight, in[1]);
                     put(layer.bias, in[2]);
                     return layer(in[0]);
                   },
                   {random({2, 4, 3}, 390), random({4}, 391), random({4}, 392)}});
  cases.push_back({"instance_norm",
                   "with weight and bias",
                   [](const Tensors& in) { return instance_norm(in[0], in[1], in[2]); },
                   {random({2, 3, 5}, 393), random({3}, 394), random({3}, 395)}});
  cases.push_back(
      {"instance_norm", "images", [](const Tensors& in) { return instance_norm(in[0]); }, {random({2, 2, 3, 3}, 396)}});
  cases.push_back(
      {"instance_norm",
       "as a layer",
       [](const Tensors& in) {
         nn::InstanceNorm1d layer{
             {.channels = 3, .weight = true, .bias = true, .track_running_stats = true, .dtype = DType::float64}};
         put(layer.weight, in[1]);
         put(layer.bias, in[2]);
         return layer(in[0]);
       },
       {random({2, 3, 5}, 397), random({3}, 398), random({3}, 399)}});
}

void add_others(std::vector<GradientCase>& cases) {
  for (const std::int64_t size : {1, 2, 3, 4, 20})
    cases.push_back(
        {"local_response_norm",
         std::to_string(size) + " channels",
         [size](const Tensors& in) { return local_response_norm(in[0], size, {.alpha = 0.7, .beta = 0.6, .k = 1.5}); },
         {random({2, 5, 3}, 401)}});
  cases.push_back({"local_response_norm",
                   "no places",
                   [](const Tensors& in) { return local_response_norm(in[0], 3); },
                   {none({2, 5, 0})}});
  cases.push_back({"local_response_norm",
                   "as a layer",
                   [](const Tensors& in) { return nn::LocalResponseNorm(3, {.alpha = 0.7})(in[0]); },
                   {random({1, 4, 2, 2}, 402)}});
  for (const double order : {1.0, 2.0, 3.0})
    cases.push_back({"normalize",
                     "order " + std::to_string(order),
                     [order](const Tensors& in) { return normalize(in[0], order); },
                     {positive({3, 4}, 403)}});
  cases.push_back({"normalize",
                   "two axes",
                   [](const Tensors& in) {
                     return normalize(in[0], 2, {0, 2});
                   },
                   {positive({2, 3, 2}, 404)}});
  cases.push_back({"normalize",
                   "shorter than epsilon",
                   [](const Tensors& in) { return normalize(in[0], 2, -1, 100); },
                   {positive({2, 3}, 405)}});
}

}  // namespace

std::vector<GradientCase> normalization_gradient_cases() {
  std::vector<GradientCase> cases;
  add_rows(cases);
  add_given_statistics(cases);
  add_batch_statistics(cases);
  add_groups(cases);
  add_others(cases);
  return cases;
}

}  // namespace tests
