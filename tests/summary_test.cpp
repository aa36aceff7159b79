// nn::summary: which layer runs, what it makes and what it costs; and that nothing of it stays.
#include "tests/support.hpp"

#include <sstream>

using namespace capstan;
using namespace tests;

namespace {

/// The network of the third program in the design: 28 x 28 images to ten classes.
struct Net {
  nn::Conv2d conv1{{.in = 1, .out = 32, .kernel = 5, .padding = nn::same}};
  nn::Conv2d conv2{{.in = 32, .out = 64, .kernel = 5, .padding = nn::same}};
  nn::Linear fc1{7 * 7 * 64, 1024}, fc2{1024, 10};
  nn::Dropout drop{{.keep = 0.5}};

  Tensor operator()(const Tensor& images) {
    auto h = max_pool2d(relu(conv1(images)), 2);
    h = max_pool2d(relu(conv2(h)), 2);
    return fc2(drop(relu(fc1(flatten(h, 1)))));
  }
};

/// What a row should be: one call, nothing frozen, float32.
struct Expected {
  std::string name, type;
  Shape output;
  std::int64_t parameters, operations;
  bool view = false;
};

void check_rows(const nn::Summary& summary, const std::vector<Expected>& expected) {
  CHECK(summary.rows.size() == expected.size());
  std::int64_t operations = 0, parameters = 0;
  for (std::size_t i = 0; i < summary.rows.size() && i < expected.size(); ++i) {
    const nn::SummaryRow& row = summary.rows[i];
    INFO("row " << i << " of\n" << summary.text());
    CHECK(row.name == expected[i].name);
    CHECK(row.type == expected[i].type);
    CHECK(row.output == expected[i].output);
    CHECK(row.calls == 1);
    CHECK(row.trainable == expected[i].parameters);
    CHECK(row.frozen == 0);
    CHECK(row.operations == expected[i].operations);
    CHECK(row.bytes == (expected[i].view ? 0 : 4 * expected[i].output.numel()));
    operations += expected[i].operations;
    parameters += expected[i].parameters;
  }
  CHECK(summary.operations == operations);
  CHECK(summary.trainable == parameters);
}

std::vector<std::string> names_of(const nn::Summary& summary) {
  std::vector<std::string> names;
  for (const nn::SummaryRow& row : summary.rows) names.push_back(row.name);
  return names;
}

Tensor random(const Shape& shape) { return random_in(-1, 1, shape, DType::float32, 701); }

}  // namespace

TEST_CASE("a summary of a convolutional network has every layer in its order, with exact figures", "[nn][summary]") {
  Net net;
  const nn::Summary summary = nn::summary(net, zeros({2, 1, 28, 28}));
  const std::int64_t first = 2 * 32 * 28 * 28, second = 2 * 64 * 14 * 14, pooled1 = first / 4, pooled2 = second / 4;
  check_rows(summary, {{"conv1", "Conv2d", {2, 32, 28, 28}, 832, first * (2 * 25 + 1)},  // 5*5*1 products, and the bias
                       {"relu", "", {2, 32, 28, 28}, 0, first},
                       {"max_pool2d", "", {2, 32, 14, 14}, 0, pooled1 * 4},
                       {"conv2", "Conv2d", {2, 64, 14, 14}, 51264, second * (2 * 25 * 32 + 1)},
                       {"relu", "", {2, 64, 14, 14}, 0, second},
                       {"max_pool2d", "", {2, 64, 7, 7}, 0, pooled2 * 4},
                       {"reshape", "", {2, 3136}, 0, 0, true},
                       {"fc1", "Linear", {2, 1024}, 3212288, 2 * 1024 * (2 * 3136 + 1)},
                       {"relu", "", {2, 1024}, 0, 2048},
                       {"dropout", "", {2, 1024}, 0, 2048},
                       {"fc2", "Linear", {2, 10}, 10250, 20 * (2 * 1024 + 1)}});
  CHECK(summary.trainable == 3274634);
  CHECK(summary.parameter_bytes == 4 * 3274634);
  CHECK(summary.buffer_bytes == 0);
  CHECK(summary.result_bytes == 4 * (2 * first + pooled1 + 2 * second + pooled2 + 3 * 2048 + 20));
  nn::set_training(net, false);
  CHECK(nn::summary(net, zeros({2, 1, 28, 28})).rows.size() == 10u);  // dropout does nothing then
}

TEST_CASE("a summary prints as a table with the totals below it", "[nn][summary]") {
  struct Model {
    nn::Linear fc{2, 3}, spare{1, 1};
    Tensor operator()(const Tensor& x) { return relu(fc(x)); }
  } model;
  nn::freeze(model, "spare");
  const nn::Summary summary = nn::summary(model, zeros({4, 2}));
  CHECK(summary.rows.back().calls == 0);
  const std::string expected =
      "layer  type    output   parameters  operations  results\n"
      "fc     Linear  [4, 3]            9          60     48 B\n"
      "relu           [4, 3]            -          12     48 B\n"
      "spare  Linear  not run    2 frozen           -        -\n"
      "parameters: 9 and 2 frozen, 44 B; buffers: 0 B; results: 96 B; operations: 72\n";
  CHECK(summary.text() == expected);
  std::ostringstream out;
  out << summary;
  CHECK(out.str() == expected);
}

TEST_CASE("large numbers in the table have three digits and a unit", "[nn][summary]") {
  struct Model {
    nn::Linear fc{1000, 1000, {.bias = false}};
    Tensor operator()(const Tensor& x) { return fc(x); }
  } model;
  const std::string text = nn::summary(model, zeros({128, 1000})).text();
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("1000000       256 M  500 KiB\n"));  // 2*128*1000*1000; 512000 B
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("parameters: 1000000, 3.81 MiB; buffers: 0 B;"));
}

TEST_CASE("a layer that runs at two places counts its parameters once and its operations twice", "[nn][summary]") {
  struct Model {
    nn::Linear fc{3, 3};
    Tensor operator()(const Tensor& x) { return relu(fc(relu(fc(x)))); }
  } model;
  const std::int64_t products = 6 * (2 * 3 + 1);
  check_rows(nn::summary(model, random({2, 3})), {{"fc", "Linear", {2, 3}, 12, products},
                                                  {"relu", "", {2, 3}, 0, 6},
                                                  {"fc", "Linear", {2, 3}, 0, products},
                                                  {"relu", "", {2, 3}, 0, 6}});
}

TEST_CASE("what a loop repeats is added up in one row", "[nn][summary]") {
  struct Model {
    nn::Linear fc{3, 3};
    std::vector<nn::Linear> layers;
    Tensor operator()(Tensor x) {
      for (int i = 0; i < 4; ++i) x = relu(fc(x));
      for (nn::Linear& layer : layers) x = tanh(layer(x));
      return x;
    }
  } model;
  model.layers.emplace_back(3, 3);
  model.layers.emplace_back(3, 3);
  const nn::Summary summary = nn::summary(model, random({2, 3}));
  CHECK(names_of(summary) == std::vector<std::string>{"fc", "relu", "layers.0", "tanh", "layers.1", "tanh"});
  CHECK(summary.rows[0].calls == 4);
  CHECK(summary.rows[1].calls == 4);
  CHECK(summary.rows[0].operations == 4 * 6 * 7);
  CHECK(summary.rows[1].bytes == 4 * 6 * 4);
  CHECK(summary.rows[3].calls == 1);
}

TEST_CASE("the parts of a Sequential that have no parameters have rows of their own", "[nn][summary]") {
  nn::Sequential net{nn::Flatten{2},
                     nn::Unflatten{2, {8, 8}},
                     nn::Conv2d{{.in = 1, .out = 2, .kernel = 3}},
                     nn::Relu{},
                     nn::MaxPool2d{2},
                     nn::Flatten{},
                     nn::Linear{18, 4},
                     nn::Tanh{}};
  check_rows(nn::summary(net, random({2, 1, 8, 8})), {{"reshape", "", {2, 1, 64}, 0, 0, true},
                                                      {"reshape", "", {2, 1, 8, 8}, 0, 0, true},
                                                      {"2", "Conv2d", {2, 2, 6, 6}, 20, 144 * (2 * 9 + 1)},
                                                      {"relu", "", {2, 2, 6, 6}, 0, 144},
                                                      {"max_pool2d", "", {2, 2, 3, 3}, 0, 144},
                                                      {"reshape", "", {2, 18}, 0, 0, true},
                                                      {"6", "Linear", {2, 4}, 76, 8 * (2 * 18 + 1)},
                                                      {"tanh", "", {2, 4}, 0, 8}});
}

TEST_CASE("operations between layers of a nested model bear its name", "[nn][summary]") {
  struct Block {
    nn::Linear a{3, 3}, b{3, 3};
    Tensor operator()(const Tensor& x) { return b(relu(a(x))); }
  };
  struct Model {
    Block left, right;
    Parameter scale{Tensor{2.0f}};
    Tensor operator()(const Tensor& x) { return right(left(x) * scale); }
  } model;
  const std::int64_t products = 6 * 7;
  check_rows(nn::summary(model, random({2, 3})), {{"left.a", "Linear", {2, 3}, 12, products},
                                                  {"left.relu", "", {2, 3}, 0, 6},
                                                  {"left.b", "Linear", {2, 3}, 12, products},
                                                  {"mul", "", {2, 3}, 1, 6},
                                                  {"right.a", "Linear", {2, 3}, 12, products},
                                                  {"right.relu", "", {2, 3}, 0, 6},
                                                  {"right.b", "Linear", {2, 3}, 12, products}});
}

TEST_CASE("attention belongs to the layer around its projections", "[nn][summary]") {
  struct Model {
    nn::TransformerEncoderLayer layer{{.embed = 4, .heads = 2, .feed_forward = 8, .keep = 1}};
    Tensor operator()(const Tensor& x) { return layer(x); }
  } model;
  const nn::Summary summary = nn::summary(model, random({2, 3, 4}));
  const std::string inner = "layer.self_attention";
  CHECK(names_of(summary) == std::vector<std::string>{inner + ".query", inner + ".key", inner + ".value", inner,
                                                      inner + ".out", "layer", "layer.norm1", "layer.linear1",
                                                      "layer.linear2", "layer.norm2"});
  const nn::SummaryRow& attention = summary.rows[3];
  CHECK(attention.type == "MultiheadAttention");
  CHECK(attention.operations == 2 * 2 * 3 * 3 * (2 * 2 + 2 * 2 + 5));  // batch, heads, queries, keys; 2 features
  CHECK(attention.bytes == 4 * 24);
  CHECK(attention.output == Shape{6, 4});  // as the last projection takes it
  const nn::SummaryRow& rest = summary.rows[5];
  CHECK(rest.type == "TransformerEncoderLayer");
  CHECK(rest.operations == 24 + 48 + 24);  // two sums, and the activation between
  CHECK(summary.rows[0].operations == 24 * (2 * 4 + 1));
  CHECK(summary.rows[6].operations == 24 * 8);  // 6, weight and bias
  CHECK(summary.rows[7].operations == 48 * (2 * 4 + 1));
  for (const nn::SummaryRow& row : summary.rows) CHECK(row.calls == 1);
  CHECK(summary.trainable == 4 * (16 + 4) + 2 * 8 + 4 * 8 + 8 + 8 * 4 + 4);
}

TEST_CASE("all that a cell does belongs to it, in one kernel or step by step", "[nn][summary]") {
  struct Model {
    nn::RnnCell cell{3, 4};
    nn::Linear out{4, 2};
    Tensor lengths;
    bool in_steps = false;
    Tensor operator()(const Tensor& x) {
      nn::UnrollOptions<nn::RnnCell::State> options{.lengths = lengths};
      if (in_steps) options.on_step = [](std::int64_t, const Tensor&, const nn::RnnCell::State&) {};
      const auto [outputs, last] = nn::unroll(cell, x, options);
      return out(last.h);
    }
  } model;
  const nn::Summary fused = nn::summary(model, random({2, 5, 3}));
  CHECK(names_of(fused) == std::vector<std::string>{"cell", "out"});
  CHECK(fused.rows[0].type == "RnnCell");
  CHECK(fused.rows[0].trainable == 3 * 4 + 4 * 4 + 4);
  CHECK(fused.rows[0].output == Shape{2, 5, 4});
  CHECK(fused.rows[0].operations == 2 * 5 * (2 * 4 * (3 + 4) + 3 * 4));
  CHECK(fused.rows[0].calls == 1);
  model.lengths = Tensor{5, 3};
  model.in_steps = true;
  const nn::Summary stepped = nn::summary(model, random({2, 5, 3}));
  CHECK(names_of(stepped) == std::vector<std::string>{"cell", "out"});
  CHECK(stepped.rows[0].calls == 5);
  CHECK(stepped.rows[0].trainable == 32);
  CHECK(stepped.rows[0].operations > fused.rows[0].operations);  // choosing the rows that are still running
}

TEST_CASE("a model that cannot be called is run by a function", "[nn][summary]") {
  struct Words {
    nn::Embedding embed{5, 3};
    nn::RnnCell cell{3, 3};
  } model;
  const Tensor words = reshape(arange(4), {2, 2});
  const nn::Summary summary = nn::summary(model, [&] { return nn::unroll(model.cell, model.embed(words)); });
  CHECK(names_of(summary) == std::vector<std::string>{"embed", "cell"});
  CHECK(summary.rows[0].type == "Embedding");
  CHECK(summary.rows[0].output == Shape{2, 2, 3});
}

TEST_CASE("a product with a layer's turned table belongs to that layer", "[nn][summary]") {
  struct Tied {
    nn::Embedding embed{5, 3};
    Tensor operator()(const Tensor& words) {
      const Tensor h = embed(words);
      return matmul(h, transpose(embed.weight));
    }
  } model;
  const nn::Summary summary = nn::summary(model, reshape(arange(4), {2, 2}));
  CHECK(names_of(summary) == std::vector<std::string>{"embed", "embed"});
  CHECK(summary.rows[0].trainable == 15);
  CHECK(summary.rows[1].trainable == 0);
  CHECK(summary.rows[1].output == Shape{2, 2, 5});
  CHECK(summary.rows[1].operations == 20 * 2 * 3);
}

TEST_CASE("a norm's figures leave out the update of its running statistics", "[nn][summary]") {
  struct Model {
    nn::BatchNorm2d norm{{.channels = 2}};
    Tensor operator()(const Tensor& x) { return norm(x); }
  } model;
  const nn::Summary training = nn::summary(model, random({3, 2, 4, 4}));
  CHECK(names_of(training) == std::vector<std::string>{"norm"});
  CHECK(training.rows[0].type == "BatchNorm2d");
  CHECK(training.rows[0].output == Shape{3, 2, 4, 4});
  CHECK(training.rows[0].operations == 96 * 8);         // 6, weight and bias
  CHECK(training.rows[0].bytes == 4 * 96 + 2 * 4 * 2);  // and the batch's statistics
  CHECK(training.buffer_bytes == 2 * 4 * 2 + 8);
  nn::set_training(model, false);
  CHECK(nn::summary(model, random({3, 2, 4, 4})).rows[0].operations == 96 * 4);  // 2, weight and bias
}

TEST_CASE("other layers have the operations of their formulas", "[nn][summary]") {
  nn::ConvTranspose2d up({.in = 2, .out = 3, .kernel = 2, .stride = 2});
  CHECK(nn::summary(up, random({1, 2, 4, 4})).operations == 32 * 2 * 3 * 4 + 3 * 64);
  nn::Conv2d grouped({.in = 4, .out = 6, .kernel = 3, .groups = 2, .bias = false});
  CHECK(nn::summary(grouped, random({1, 4, 5, 5})).operations == 54 * 2 * 2 * 9);
  nn::Bilinear form(2, 3, 4);
  // it is made of the products of both inputs, and a linear layer over them
  CHECK(nn::summary(form, random({5, 2}), random({5, 3})).operations == 5 * 6 + 20 * (2 * 6 + 1));
  nn::RmsNorm rms({.sizes = {4}});
  CHECK(nn::summary(rms, random({5, 4})).operations == 20 * 4);
  nn::GroupNorm group({.groups = 2, .channels = 4});
  CHECK(nn::summary(group, random({2, 4, 3})).operations == 24 * 8);
  struct Reducing {
    Tensor operator()(const Tensor& x) { return sum(x, 1); }
  } reducing;
  CHECK(nn::summary(reducing, random({3, 7})).operations == 21);
  CHECK(nn::summary(rms, random({5, 4})).rows[0].type == "RmsNorm");
  CHECK(nn::summary(up, random({1, 2, 4, 4})).rows[0].type == "ConvTranspose2d");
}

TEST_CASE("a summary changes nothing: buffers, random numbers, tapes, mode", "[nn][summary][tape]") {
  struct Model {
    nn::BatchNorm1d norm{{.channels = 3}};
    nn::Dropout drop;
    nn::Linear fc{3, 1};
    Tensor operator()(const Tensor& x) { return fc(drop(norm(x))); }
  } model;
  const Tensor x = random({4, 3});
  seed(21);
  const RngState before = default_rng().state();
  const Tensor mean_handle = model.norm.running_mean;
  GradientTape tape;
  tape.watch(x);
  nn::summary(model, x);
  CHECK(tape.size() == 0);
  CHECK(default_rng().state() == before);
  CHECK(model.norm.running_mean.is_same(mean_handle));
  CHECK(same(model.norm.running_mean, zeros({3})));
  CHECK(same(model.norm.running_var, ones({3})));
  CHECK(model.norm.num_batches_tracked.item<std::int64_t>() == 0);
  CHECK(model.norm.training());
  model(x);
  CHECK(tape.size() > 0);  // recording goes on
}

TEST_CASE("frozen parameters show in their rows and in the totals", "[nn][summary]") {
  Net net;
  nn::freeze(net, "conv1");
  nn::freeze(net, "fc2.bias");
  const nn::Summary summary = nn::summary(net, zeros({1, 1, 28, 28}));
  CHECK(summary.rows.front().frozen == 832);
  CHECK(summary.rows.front().trainable == 0);
  CHECK(summary.rows.back().frozen == 10);
  CHECK(summary.rows.back().trainable == 10240);
  CHECK(summary.frozen == 842);
  CHECK(summary.trainable == 3274634 - 842);
}
