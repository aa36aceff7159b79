// Uses of dropout, embeddings, bilinear forms, maxout, regularizers and the modules with parameters whose gradients are
// checked. What torch calls a gradient and is none, that of padding rows and of rows scaled by their frequency, is
// checked by value in embedding_test.cpp.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// Makes a parameter of a module one of the inputs.
void put(Parameter& parameter, const Tensor& value) { static_cast<Tensor&>(parameter) = value; }

// --- dropout ---------------------------------------------------------------------------------------------------

using Drop = Tensor (*)(const Tensor& x, double keep, Rng& rng, Where where);
struct DropRow {
  const char* op;
  Drop function;
  std::vector<Shape> shapes;
};

void add_dropout(std::vector<GradientCase>& cases) {
  const DropRow rows[] = {{"dropout", &dropout, {{4, 5}, {}, {0, 3}}},
                          {"dropout1d", &dropout1d, {{3, 4, 2}, {5, 2}, {3, 2, 0}}},
                          {"dropout2d", &dropout2d, {{3, 4, 2, 2}, {5, 2, 1}}},
                          {"dropout3d", &dropout3d, {{2, 4, 1, 2, 2}, {5, 2, 1, 2}}},
                          {"alpha_dropout", &alpha_dropout, {{4, 5}, {0, 3}}},
                          {"feature_alpha_dropout", &feature_alpha_dropout, {{3, 4, 2}, {6, 2}}},
                          {"gaussian_dropout", &gaussian_dropout, {{4, 5}, {}, {0, 3}}},
                          {"gaussian_noise", &gaussian_noise, {{4, 5}, {0, 3}}},
                          {"drop_path", &drop_path, {{6, 2, 2}, {6}, {0, 3}}}};
  for (const DropRow& row : rows)
    for (const Shape& shape : row.shapes) {
      cases.push_back({row.op,
                       to_string(shape) + ", the same decisions every time",
                       [f = row.function](const Tensors& in) {
                         Rng rng(5);
                         return square(f(square(in[0]), 0.6, rng, Where::current()));
                       },
                       {random(shape, 201)}});
    }
  cases.push_back({"dropout",
                   "a transposed tensor, summed",
                   [](const Tensors& in) {
                     Rng rng(5);
                     return sum(dropout(transpose(in[0] * in[0]), 0.6, rng), 0);
                   },
                   {random({4, 5}, 202)}});
}

// --- embeddings ------------------------------------------------------------------------------------------------

void add_embedding(std::vector<GradientCase>& cases) {
  const std::pair<const char*, Tensor> lookups[] = {{"rows that repeat", Tensor{{3, 0}, {3, 3}}},
                                                    {"one row", Tensor(2)},
                                                    {"no rows", zeros({0}, {.dtype = DType::int64})}};
  for (const auto& [usage, words] : lookups)
    cases.push_back({"embedding",
                     usage,
                     [i = words](const Tensors& in) { return square(embedding(i, in[0])); },
                     {random({5, 3}, 211)}});
  cases.push_back({"embedding",
                   "of a transposed table, and one that was computed",
                   [](const Tensors& in) {
                     return embedding(Tensor{0, 2, 2}, transpose(in[0])) * embedding(Tensor{1, 1, 0}, tanh(in[0]));
                   },
                   {random({3, 3}, 212)}});
  cases.push_back({"embedding",
                   "nn::Embedding",
                   [](const Tensors& in) {
                     Rng rng(1);
                     nn::Embedding layer(4, 2, rng);
                     put(layer.weight, in[0]);
                     return square(layer(Tensor{{1, 3}, {1, 1}}));
                   },
                   {random({4, 2}, 213)}});
}

void add_bags(std::vector<GradientCase>& cases) {
  const Tensor words = {4, 1, 4, 0, 2, 4, 3}, offsets = {0, 3, 3, 5}, grid = {{1, 1, 0}, {4, 2, 3}};
  const std::pair<const char*, BagMode> modes[] = {
      {"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
  for (const auto& [name, mode] : modes) {
    const std::string usage = name;
    cases.push_back({"embedding_bag",
                     usage + ", bags of one length",
                     [grid, m = mode](const Tensors& in) { return square(embedding_bag(grid, in[0], {.mode = m})); },
                     {random({5, 3}, 221)}});
    const EmbeddingBagOptions options[] = {
        {.offsets = offsets, .mode = mode},
        {.offsets = offsets, .mode = mode, .padding_index = 4},
        {.offsets = Tensor{0, 2, 6}, .mode = mode, .padding_index = -3, .include_last_offset = true},
        {.offsets = Tensor{0}, .mode = mode, .include_last_offset = true}};
    const char* const kinds[] = {"with an empty bag", "with padding", "padding, the last offset, and one word more",
                                 "no bags"};
    for (std::size_t i = 0; i < 4; ++i)
      cases.push_back({"embedding_bag",
                       usage + ", " + kinds[i],
                       [words, o = options[i]](const Tensors& in) { return square(embedding_bag(words, in[0], o)); },
                       {random({5, 3}, 222)}});
  }
  for (const bool padded : {false, true})
    cases.push_back({"embedding_bag",
                     padded ? "weights and padding" : "weights",
                     [words, offsets, padded](const Tensors& in) {
                       EmbeddingBagOptions options{.offsets = offsets, .weights = in[1], .mode = BagMode::sum};
                       if (padded) options.padding_index = 4;
                       return square(embedding_bag(words, in[0], options));
                     },
                     {random({5, 3}, 223), random({7}, 224)}});
  cases.push_back({"embedding_bag",
                   "nn::EmbeddingBag with factors of bags of one length",
                   [grid](const Tensors& in) {
                     Rng rng(1);
                     nn::EmbeddingBag layer({.count = 5, .size = 2, .mode = BagMode::sum}, rng);
                     put(layer.weight, in[0]);
                     return square(layer(grid, Tensor(), in[1]));
                   },
                   {random({5, 2}, 225), random({2, 3}, 226)}});
}

// --- layers ----------------------------------------------------------------------------------------------------

void add_bilinear(std::vector<GradientCase>& cases) {
  for (const Shape& leading : {Shape{4}, Shape{}, Shape{2, 3}, Shape{0}}) {
    const Tensor x1 = expand_dims(random(leading, 231), -1) * random({3}, 232);
    const Tensor x2 = expand_dims(random(leading, 233), -1) * random({2}, 234);
    for (const bool biased : {true, false})
      cases.push_back(
          {"bilinear",
           "leading axes " + to_string(leading) + (biased ? "" : ", no bias"),
           [biased](const Tensors& in) { return square(bilinear(in[0], in[1], in[2], biased ? in[3] : Tensor())); },
           {x1, x2, random({5, 3, 2}, 235), random({5}, 236)}});
  }
  cases.push_back({"bilinear",
                   "one tensor twice",
                   [](const Tensors& in) { return bilinear(in[0], in[0], in[1], Tensor()); },
                   {random({4, 3}, 237), random({2, 3, 3}, 238)}});
  cases.push_back({"bilinear",
                   "nn::Bilinear",
                   [](const Tensors& in) {
                     Rng rng(1);
                     nn::Bilinear layer({.in1 = 3, .in2 = 2, .out = 4, .dtype = DType::float64}, rng);
                     put(layer.weight, in[2]);
                     put(layer.bias, in[3]);
                     return square(layer(in[0], in[1]));
                   },
                   {random({2, 3}, 239), random({2, 2}, 240), random({4, 3, 2}, 241), random({4}, 242)}});
}

void add_activations(std::vector<GradientCase>& cases) {
  for (const int axis : {0, 1, -1})
    cases.push_back({"maxout",
                     "axis " + std::to_string(axis),
                     [axis](const Tensors& in) { return square(maxout(in[0], 2, axis)); },
                     {random({2, 4, 6}, 251)}});
  cases.push_back({"maxout",
                   "a transposed tensor",
                   [](const Tensors& in) { return square(maxout(transpose(in[0]), 3)); },
                   {random({6, 4}, 252)}});
  cases.push_back(
      {"maxout", "of no rows", [](const Tensors& in) { return square(maxout(in[0], 2)); }, {random({0, 4}, 253)}});
  cases.push_back({"prelu",
                   "nn::PRelu",
                   [](const Tensors& in) {
                     Rng rng(1);
                     nn::PRelu layer({.channels = 3, .dtype = DType::float64}, rng);
                     put(layer.weight, in[1]);
                     return square(layer(in[0]));
                   },
                   {random({2, 3, 4}, 254), random({3}, 255)}});
}

void add_regularizers(std::vector<GradientCase>& cases) {
  cases.push_back({"abs",
                   "nn::l1_penalty",
                   [](const Tensors& in) { return nn::l1_penalty(in, 0.3); },
                   {random({3, 2}, 261), random({4}, 262)}});
  cases.push_back({"square",
                   "nn::l2_penalty",
                   [](const Tensors& in) { return nn::l2_penalty(in, 0.3); },
                   {random({3, 2}, 263), random({4}, 264)}});
  for (const auto direction : {nn::regularizer::Direction::rows, nn::regularizer::Direction::columns})
    for (const Shape& shape : {Shape{3, 4}, Shape{1, 4}})
      cases.push_back({"matmul",
                       "nn::regularizer::orthogonal of " + to_string(shape),
                       [direction](const Tensors& in) {
                         return square(nn::regularizer::orthogonal(0.7, direction)(matmul(in[0], in[1])));
                       },
                       {random(shape, 265), random({4, 4}, 266)}});
}

// --- layers ----------------------------------------------------------------------------------------------------

/// A layer's result as a function of its input and all of its parameters. What it draws is the same every time.
template <class Layer>
void add_layer(std::vector<GradientCase>& cases, const char* op, const char* layer_name, Layer layer,
               const Shape& shape) {
  const auto own = std::make_shared<Layer>(std::move(layer));
  Tensors inputs = {random(shape, 271)};
  for (const Tensor& parameter : nn::parameters(*own)) inputs.push_back(parameter.copy());
  cases.push_back({op, layer_name,
                   [own](const Tensors& in) {
                     std::size_t next = 1;
                     const nn::detail::Outline outline = nn::detail::outline_of(*own);
                     for (const nn::detail::Leaf& leaf : outline.leaves)
                       if (leaf.parameter && leaf.value.defined()) *leaf.slot = in[next++];
                     default_rng().set_position(0);
                     return square((*own)(in[0]));
                   },
                   std::move(inputs)});
}

void add_layers(std::vector<GradientCase>& cases) {
  constexpr DType f64 = DType::float64;
  add_layer(cases, "linear", "nn::Linear", nn::Linear(3, 2, {.dtype = f64}), {4, 3});
  add_layer(cases, "linear", "nn::Sequential",
            nn::Sequential(nn::Linear(3, 4, {.dtype = f64}), nn::Tanh{}, nn::Linear(4, 2, {.dtype = f64})), {4, 3});
  add_layer(cases, "reshape", "nn::Flatten", nn::Flatten{}, {2, 3, 2});
  add_layer(cases, "maxout", "nn::Maxout", nn::Maxout{.pieces = 2}, {3, 4});

  add_layer(cases, "dropout", "nn::Dropout", nn::Dropout({.keep = 0.6}), {4, 5});
  add_layer(cases, "dropout1d", "nn::Dropout1d", nn::Dropout1d({.keep = 0.6}), {3, 4, 2});
  add_layer(cases, "dropout2d", "nn::Dropout2d", nn::Dropout2d({.keep = 0.6}), {3, 4, 2, 2});
  add_layer(cases, "dropout3d", "nn::Dropout3d", nn::Dropout3d({.keep = 0.6}), {2, 4, 1, 2, 2});
  add_layer(cases, "alpha_dropout", "nn::AlphaDropout", nn::AlphaDropout({.keep = 0.6}), {4, 5});
  add_layer(cases, "feature_alpha_dropout", "nn::FeatureAlphaDropout", nn::FeatureAlphaDropout({.keep = 0.6}),
            {3, 4, 2});
  add_layer(cases, "gaussian_dropout", "nn::GaussianDropout", nn::GaussianDropout({.keep = 0.6}), {4, 5});
  add_layer(cases, "gaussian_noise", "nn::GaussianNoise", nn::GaussianNoise({.stddev = 0.3}), {4, 5});
  add_layer(cases, "drop_path", "nn::DropPath", nn::DropPath({.keep = 0.6}), {6, 2});

  add_layer(cases, "batch_norm_training", "nn::BatchNorm3d", nn::BatchNorm3d({.channels = 2, .dtype = f64}),
            {2, 2, 1, 2, 2});
  add_layer(cases, "instance_norm", "nn::InstanceNorm2d", nn::InstanceNorm2d({.channels = 2, .dtype = f64}),
            {2, 2, 2, 2});
  add_layer(cases, "instance_norm", "nn::InstanceNorm3d", nn::InstanceNorm3d({.channels = 2, .dtype = f64}),
            {1, 2, 2, 2, 2});

  const Shape shape = {3, 4};
  add_layer(cases, "relu", "nn::Relu", nn::Relu{}, shape);
  add_layer(cases, "relu6", "nn::Relu6", nn::Relu6{}, shape);
  add_layer(cases, "selu", "nn::Selu", nn::Selu{}, shape);
  add_layer(cases, "celu", "nn::Celu", nn::Celu{}, shape);
  add_layer(cases, "elu", "nn::Elu", nn::Elu{}, shape);
  add_layer(cases, "gelu", "nn::Gelu", nn::Gelu{}, shape);
  add_layer(cases, "glu", "nn::Glu", nn::Glu{}, shape);
  add_layer(cases, "mish", "nn::Mish", nn::Mish{}, shape);
  add_layer(cases, "tanh", "nn::Tanh", nn::Tanh{}, shape);
  add_layer(cases, "sigmoid", "nn::Sigmoid", nn::Sigmoid{}, shape);
  add_layer(cases, "softmax", "nn::Softmax", nn::Softmax{}, shape);
  add_layer(cases, "log_softmax", "nn::LogSoftmax", nn::LogSoftmax{}, shape);
  add_layer(cases, "softplus", "nn::Softplus", nn::Softplus{}, shape);
  add_layer(cases, "softsign", "nn::Softsign", nn::Softsign{}, shape);
  add_layer(cases, "leaky_relu", "nn::LeakyRelu", nn::LeakyRelu{}, shape);
  add_layer(cases, "hard_tanh", "nn::HardTanh", nn::HardTanh{}, shape);
  add_layer(cases, "hard_swish", "nn::HardSwish", nn::HardSwish{}, shape);
  add_layer(cases, "hard_shrink", "nn::HardShrink", nn::HardShrink{}, shape);
  add_layer(cases, "soft_shrink", "nn::SoftShrink", nn::SoftShrink{}, shape);
  add_layer(cases, "tanh_shrink", "nn::TanhShrink", nn::TanhShrink{}, shape);
  add_layer(cases, "log_sigmoid", "nn::LogSigmoid", nn::LogSigmoid{}, shape);
  add_layer(cases, "hard_sigmoid", "nn::HardSigmoid", nn::HardSigmoid{}, shape);
  add_layer(cases, "threshold", "nn::Threshold", nn::Threshold{.limit = 0.1, .value = 0.3}, shape);
}

}  // namespace

std::vector<GradientCase> layer_gradient_cases() {
  std::vector<GradientCase> cases;
  add_dropout(cases);
  add_embedding(cases);
  add_bags(cases);
  add_bilinear(cases);
  add_activations(cases);
  add_regularizers(cases);
  add_layers(cases);
  return cases;
}

}  // namespace tests
