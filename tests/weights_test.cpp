// Weights in models: PyTorch's models with the results that their collection states, renaming, transposing, types, what
// is left out, and files written here, in all formats.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/safetensors_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using cs::NamedTensor;
using cs::io::Layout;
using cs::io::WeightsOptions;
using cs::io::WeightsReport;
using tests::TemporaryFolder;
using Names = std::vector<std::string>;

/// Whether this build writes no archives. What is about them is then not checked.
bool without_minizip() {
  try {
    cs::io::write_npz("/no/such/folder/x.npz", {});
  } catch (const cs::BackendError&) {
    WARN("this build has no minizip: nothing about archives was checked");
    return true;
  } catch (const cs::IoError&) {}
  return false;
}

Names names_of(const std::vector<NamedTensor>& tensors) {
  Names names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

cs::Tensor tensor_of(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor.value;
  FAIL("there is no " << name);
  return {};
}

template <class One, class Other>
bool same_state(One& one, Other& other) {
  const std::vector<NamedTensor> a = cs::nn::named_state(one), b = cs::nn::named_state(other);
  if (names_of(a) != names_of(b)) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!tests::same(a[i].value, b[i].value)) return false;
  return true;
}

cs::Tensor some(const cs::Shape& shape, std::uint64_t seed, cs::DType dtype = cs::DType::float32) {
  return tests::random_in(-1, 1, shape, dtype, seed);
}

struct Two {
  cs::nn::Linear first{2, 3}, second{3, 1};
};

/// A file for Two.
std::vector<NamedTensor> two_tensors(cs::DType dtype = cs::DType::float32) {
  return {{"first.weight", some({2, 3}, 1, dtype)},
          {"first.bias", some({3}, 2, dtype)},
          {"second.weight", some({3, 1}, 3, dtype)},
          {"second.bias", some({1}, 4, dtype)}};
}

std::string two_file(const TemporaryFolder& folder, cs::DType dtype = cs::DType::float32) {
  const std::string path = folder.path("two.safetensors");
  cs::io::save_safetensors(path, two_tensors(dtype));
  return path;
}

/// PyTorch's MNIST model; the file's names are conv1, conv2, conv3, norm1, fc1, fc2, norm2.
struct Digits {
  cs::nn::Conv2d first{{.in = 1, .out = 8, .kernel = 3}};
  cs::nn::Conv2d second{{.in = 8, .out = 16, .kernel = 3}};
  cs::nn::Conv2d third{{.in = 16, .out = 24, .kernel = 3}};
  cs::nn::BatchNorm2d scale{{.channels = 24}};
  cs::nn::Linear hidden{11616, 32}, answer{32, 10};
  cs::nn::BatchNorm1d last{{.channels = 10}};

  cs::Tensor operator()(const cs::Tensor& x) {  // [batch, 1, 28, 28] -> [batch, 10]
    const cs::Tensor h = scale(cs::relu(third(cs::relu(second(cs::relu(first(x)))))));
    return last(answer(cs::relu(hidden(cs::flatten(h, 1)))));
  }
};

WeightsOptions digits_options() {
  return {.rename = {{"first.", "conv1."},
                     {"second.", "conv2."},
                     {"third.", "conv3."},
                     {"scale.", "norm1."},
                     {"hidden.", "fc1."},
                     {"answer.", "fc2."},
                     {"last.", "norm2."}},
          .layout = Layout::pytorch};
}

/// The shapes of multi_layer.safetensors, and its names.
struct MultiLayer {
  cs::nn::Conv2d conv1{{.in = 3, .out = 4, .kernel = 3, .padding = 1}};
  cs::nn::BatchNorm2d norm1{{.channels = 4}};
  cs::nn::Linear fc1{256, 16};

  cs::Tensor operator()(const cs::Tensor& x) { return fc1(cs::flatten(cs::relu(norm1(conv1(x))), 1)); }
};

}  // namespace

// --- models of PyTorch -------------------------------------------------------------------------------------------

TEST_CASE("the MNIST model of PyTorch gets 9,917 of 10,000 test images right in a struct with other names",
          "[io][weights][host]") {
  const std::string path = tests::shared_data("safetensors/mnist_cnn_burn.safetensors");
  const std::string pixels = tests::shared_data("mnist/t10k-images-idx3-ubyte.gz");
  if (path.empty() || pixels.empty()) return;
  Digits net;
  CHECK(cs::io::load_safetensors(path, net, digits_options()).complete());
  cs::nn::set_training(net, false);
  const cs::Tensor images =
      (cs::reshape(cs::io::read_idx(pixels), {-1, 1, 28, 28}).to(cs::DType::float32) / 255 - 0.1307) / 0.3081;
  const cs::Tensor labels =
      cs::io::read_idx(tests::shared_data("mnist/t10k-labels-idx1-ubyte.gz")).to(cs::DType::int64);
  REQUIRE(images.size(0) == 10000);
  std::int64_t right = 0;
  double loss = 0;
  for (std::int64_t begin = 0; begin < 10000; begin += 1000) {
    const cs::Tensor logits = net(images.index({cs::range(begin, begin + 1000)}));
    const cs::Tensor expected = labels.index({cs::range(begin, begin + 1000)});
    for (const double is_right : tests::values(cs::equal(cs::argmax(logits, 1), expected)))
      right += static_cast<std::int64_t>(is_right);
    for (const double one : tests::values(cs::sparse_softmax_cross_entropy(logits, expected))) loss += one;
  }
  CHECK(right == 9917);  // README of the collection, computed with NumPy
  CHECK(std::fabs(loss / 10000 - 0.028088) <= tests::tolerance::six_decimals);
}

TEST_CASE("PyTorch's MNIST model goes through all formats and back to what it was", "[io][weights][host]") {
  const std::string path = tests::shared_data("safetensors/mnist_cnn_burn.safetensors");
  if (path.empty()) return;
  const TemporaryFolder folder;
  Digits net;
  cs::io::load_weights(path, net, digits_options());
  const std::vector<NamedTensor> written = cs::io::weights_of(net, digits_options());
  const std::vector<NamedTensor> original = cs::io::read_weights(path).tensors;
  REQUIRE(written.size() == original.size());
  for (const NamedTensor& tensor : original) {
    INFO(tensor.name);
    CHECK(tests::same(tensor_of(written, tensor.name), tensor.value));
  }
  cs::io::save_safetensors(folder.path("net.safetensors"), written);
  Digits safetensors;
  cs::io::load_weights(folder.path("net.safetensors"), safetensors, digits_options());
  CHECK(same_state(safetensors, net));
  if (without_minizip()) return;
  cs::io::write_npz(folder.path("net.npz"), written);
  cs::io::save_state_dict(folder.path("net.pt"), written);
  Digits npz, state_dict, any;
  cs::io::load_npz(folder.path("net.npz"), npz, digits_options());
  cs::io::load_state_dict(folder.path("net.pt"), state_dict, digits_options());
  CHECK(same_state(npz, net));
  CHECK(same_state(state_dict, net));
  for (const char* file : {"net.npz", "net.pt"}) {
    cs::io::load_weights(folder.path(file), any, digits_options());
    CHECK(same_state(any, net));
    any = Digits();
  }
}

TEST_CASE("PyTorch's small model gives the values that its collection states", "[io][weights]") {
  const std::string path = tests::shared_data("safetensors/multi_layer.safetensors");
  if (path.empty()) return;
  MultiLayer net;
  CHECK(cs::io::load_weights(path, net, {.layout = Layout::pytorch}).complete());
  CHECK(tests::same(net.norm1.num_batches_tracked,
                    tensor_of(cs::io::read_weights(path).tensors, "norm1.num_batches_tracked")));
  cs::nn::set_training(net, false);
  const std::vector<double> expected = {0.04971555,  -0.16849735, 0.05182848,  -0.18032673, 0.23138367,  0.05041867,
                                        0.13005908,  -0.32202929, -0.07915690, -0.03232457, -0.19790289, -0.17476529,
                                        -0.19627589, -0.21757686, -0.31376451, 0.08377837};  // README
  const std::vector<double> actual = tests::values(net(cs::ones({1, 3, 8, 8})));
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO(i);
    CHECK(std::fabs(actual[i] - expected[i]) <= tests::tolerance::six_decimals);
  }
}

// --- names -------------------------------------------------------------------------------------------------------

TEST_CASE("the longest beginning of a name is renamed", "[io][weights]") {
  Two net;
  const auto names = [&](const std::vector<std::pair<std::string, std::string>>& rename) {
    return names_of(cs::io::weights_of(net, {.rename = rename}));
  };
  CHECK(names({}) == Names{"first.weight", "first.bias", "second.weight", "second.bias"});
  CHECK(names({{"first.", "a."}}) == Names{"a.weight", "a.bias", "second.weight", "second.bias"});
  CHECK(names({{"", "net."}}) == Names{"net.first.weight", "net.first.bias", "net.second.weight", "net.second.bias"});
  CHECK(names({{"first.", ""}}) == Names{"weight", "bias", "second.weight", "second.bias"});
  const Names longest = {"features.0.weight", "b", "net.second.weight", "net.second.bias"};
  CHECK(names({{"first.", "features.0."}, {"first.bias", "b"}, {"", "net."}}) == longest);
  CHECK(names({{"", "net."}, {"first.bias", "b"}, {"first.", "features.0."}}) == longest);
  CHECK(names({{"first", "second"}, {"second", "first"}}) ==
        Names{"second.weight", "second.bias", "first.weight", "first.bias"});
}

TEST_CASE("a renamed model takes what its names stand for", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  cs::io::load_weights(two_file(folder), net);
  struct Renamed {
    cs::nn::Linear one{2, 3}, other{3, 1};
  } same_net;
  cs::io::load_weights(folder.path("two.safetensors"), same_net, {.rename = {{"one", "first"}, {"other.", "second."}}});
  CHECK(tests::same(same_net.one.weight, net.first.weight));
  CHECK(tests::same(same_net.other.bias, net.second.bias));
}

TEST_CASE("a module that is held twice is read once, under its first name", "[io][weights]") {
  const TemporaryFolder folder;
  struct Tied {
    std::shared_ptr<cs::nn::Linear> one = std::make_shared<cs::nn::Linear>(2, 3);
    std::shared_ptr<cs::nn::Linear> other = one;
  } net;
  CHECK(names_of(cs::io::weights_of(net)) == Names{"one.weight", "one.bias"});
  CHECK(cs::io::load_weights(two_file(folder), net, {.rename = {{"one", "first"}}, .strict = false}).missing.empty());
  CHECK(tests::same(net.other->weight, two_tensors()[0].value));
}

TEST_CASE("a parameter by itself is read from a .npy file", "[io][weights]") {
  const TemporaryFolder folder;
  const cs::Tensor values = some({2, 3}, 7, cs::DType::float64);
  cs::io::write_npy(folder.path("w.npy"), values);
  cs::Parameter parameter(cs::zeros({2, 3}));
  cs::io::load_weights(folder.path("w.npy"), parameter);
  CHECK(tests::same(parameter, values.to(cs::DType::float32)));
}

// --- what fits, and what does not --------------------------------------------------------------------------------

TEST_CASE("loading returns a complete report, and nothing is copied but values", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  const cs::Tensor handle = net.first.weight;
  const std::uint32_t version = handle.version();
  const WeightsReport report = cs::io::load_safetensors(two_file(folder), net);
  CHECK(report.complete());
  CHECK(cs::io::to_string(report) == "");
  CHECK(net.first.weight.is_same(handle));
  CHECK(handle.version() > version);
  for (const NamedTensor& tensor : two_tensors())
    CHECK(tests::same(tensor_of(cs::nn::named_state(net), tensor.name), tensor.value));
}

TEST_CASE("what fits is taken if not all must, and a report names the rest", "[io][weights]") {
  const TemporaryFolder folder;
  Two net, before = net;
  std::vector<NamedTensor> tensors = two_tensors();
  tensors.pop_back();                      // no second.bias
  tensors[2].value = cs::ones({3, 2});     // of another shape
  tensors[1].value = cs::Tensor{1, 2, 3};  // int32
  tensors.push_back({"extra", cs::ones({5})});
  cs::io::save_safetensors(folder.path("x.safetensors"), tensors);
  const WeightsReport report = cs::io::load_weights(folder.path("x.safetensors"), net, {.strict = false});
  CHECK_FALSE(report.complete());
  CHECK(report.missing == Names{"second.bias"});
  CHECK(report.unexpected == Names{"extra"});
  CHECK(report.mismatched ==
        Names{"first.bias is int32 and must be float32", "second.weight is [3, 2] and must be [3, 1]"});
  CHECK(cs::io::to_string(report) ==
        "missing: second.bias\nunexpected: 'extra'\nmismatched: first.bias is int32 and must be float32\n"
        "mismatched: second.weight is [3, 2] and must be [3, 1]\n");
  CHECK(tests::same(net.first.weight, tensors[0].value));
  CHECK(tests::same(net.first.bias, before.first.bias));
  CHECK(tests::same(net.second.weight, before.second.weight));
  CHECK(tests::same(net.second.bias, before.second.bias));
}

TEST_CASE("renamings and patterns that fit nothing are passed over if not all must fit", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  const WeightsOptions options = {.rename = {{"frist.", "a."}}, .strict = false, .transpose = {"frist"}};
  CHECK(cs::io::load_weights(two_file(folder), net, options).complete());
}

TEST_CASE("after an error a model is as it was", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  std::vector<NamedTensor> tensors = two_tensors();
  tensors[3].value = cs::ones({2});
  cs::io::save_safetensors(folder.path("x.safetensors"), tensors);
  const std::uint32_t version = net.first.weight.version();
  const Two before = net;
  CHECK_THROWS_AS(cs::io::load_weights(folder.path("x.safetensors"), net), cs::ShapeError);
  CHECK(same_state(net, before));
  CHECK(net.first.weight.version() == version);
}

// --- types, devices, tapes ---------------------------------------------------------------------------------------

TEST_CASE("floating types are converted to the model's, in both directions", "[io][weights]") {
  const TemporaryFolder folder;
  const std::vector<cs::DType> types = {cs::DType::float16, cs::DType::bfloat16, cs::DType::float32,
                                        cs::DType::float64};
  for (const cs::DType stored : types) {
    for (const cs::DType wanted : types) {
      INFO(cs::name(stored) << " in the file, " << cs::name(wanted) << " in the model");
      Two net;
      cs::nn::cast(net, wanted);
      cs::io::load_weights(two_file(folder, stored), net);
      for (const NamedTensor& tensor : two_tensors(stored))
        CHECK(tests::same(tensor_of(cs::nn::named_state(net), tensor.name), tensor.value.to(wanted)));
    }
  }
}

TEST_CASE("buffers of integers and parameters without elements are read", "[io][weights]") {
  const TemporaryFolder folder;
  struct Counting {
    cs::Buffer steps{cs::zeros({}, {.dtype = cs::DType::int64})};
    cs::Parameter none{cs::zeros({0, 3})};
  } net;
  const std::vector<NamedTensor> tensors = {{"steps", cs::scalar(12, {.dtype = cs::DType::int64})},
                                            {"none", cs::zeros({0, 3})}};
  cs::io::save_safetensors(folder.path("x.safetensors"), tensors);
  CHECK(cs::io::load_weights(folder.path("x.safetensors"), net).complete());
  CHECK(net.steps.item<std::int64_t>() == 12);
}

TEST_CASE("frozen parameters and what is held as const are read, too", "[io][weights]") {
  const TemporaryFolder folder;
  struct Holding {
    cs::nn::Linear first{2, 3};
    std::shared_ptr<const cs::nn::Linear> second = std::make_shared<cs::nn::Linear>(3, 1);
  } net;
  cs::nn::freeze(net.first);
  cs::io::load_weights(two_file(folder), net);
  CHECK(tests::same(net.first.weight, two_tensors()[0].value));
  CHECK(tests::same(net.second->weight, two_tensors()[2].value));
  CHECK_FALSE(net.first.weight.trainable());
}

TEST_CASE("an optimizer goes on with the parameters that were read", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  cs::optim::Sgd sgd(cs::nn::parameters(net), {.learning_rate = 1});
  cs::io::load_weights(two_file(folder), net);
  cs::GradientTape tape;
  const cs::Tensor loss = cs::sum(net.first(cs::ones({1, 2})));  // its gradient for first.weight is 1 everywhere
  sgd.apply(tape.gradient(loss, sgd.parameters()));
  CHECK(tests::same(net.first.weight, two_tensors()[0].value - 1));
}

TEST_CASE("reading is not recorded", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  cs::GradientTape tape;
  cs::io::load_weights(two_file(folder), net);
  const cs::Tensor loss = cs::sum(net.first.weight * 2);
  CHECK(tests::same(tape.gradient(loss, net.first.weight), cs::full({2, 3}, 2)));
}

TEST_CASE("a tape that kept the values before they were read says so", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  cs::GradientTape tape;
  const cs::Tensor loss = cs::sum(net.first.weight * net.first.weight);
  cs::io::load_weights(two_file(folder), net);
  CHECK_THROWS_AS(tape.gradient(loss, net.first.weight), cs::TapeError);
}

TEST_CASE("a model that was read keeps its values when the file is written over", "[io][weights]") {
  const TemporaryFolder folder;
  Two net;
  const std::string path = two_file(folder);
  cs::io::load_weights(path, net);
  folder.write("two.safetensors", tests::Bytes(tests::file_bytes(path).size(), 0));
  CHECK(tests::same(net.first.weight, two_tensors()[0].value));
}

// --- layouts -----------------------------------------------------------------------------------------------------

TEST_CASE("square weights are transposed for PyTorch's layout, and stay as they are for ours", "[io][weights]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"weight", cs::Tensor{{1.0f, 2.0f}, {3.0f, 4.0f}}}});
  cs::nn::Linear ours(2, 2, {.bias = false}), theirs(2, 2, {.bias = false});
  cs::io::load_weights(path, ours);
  cs::io::load_weights(path, theirs, {.layout = Layout::pytorch});
  CHECK(tests::same(ours.weight, cs::Tensor{{1.0f, 2.0f}, {3.0f, 4.0f}}));
  CHECK(tests::same(theirs.weight, cs::Tensor{{1.0f, 3.0f}, {2.0f, 4.0f}}));
}

TEST_CASE("linear layers inside of others and behind const are transposed, other weights are not", "[io][weights]") {
  struct Various {
    cs::nn::MultiheadAttention attention{{.embed = 4, .heads = 2, .key_features = 3}};
    std::shared_ptr<const cs::nn::Linear> held = std::make_shared<cs::nn::Linear>(5, 6);
    cs::nn::Embedding words{7, 8};
    cs::Parameter weight{cs::zeros({9, 10})};
  } net;
  const std::vector<NamedTensor> tensors = cs::io::weights_of(net, {.layout = Layout::pytorch});
  CHECK(tensor_of(tensors, "attention.key.weight").shape() == cs::Shape{4, 3});  // [outputs, inputs]
  CHECK(tensor_of(tensors, "held.weight").shape() == cs::Shape{6, 5});
  CHECK(tensor_of(tensors, "words.weight").shape() == cs::Shape{7, 8});
  CHECK(tensor_of(tensors, "weight").shape() == cs::Shape{9, 10});
  CHECK(tests::same(tensor_of(tensors, "attention.key.weight"), cs::transpose(net.attention.key.weight)));
}

TEST_CASE("tensors of two axes are transposed by name or pattern, once, and others never", "[io][weights]") {
  Two net;
  const auto shape = [&](const WeightsOptions& options, const std::string& name) {
    return tensor_of(cs::io::weights_of(net, options), name).shape();
  };
  CHECK(shape({.transpose = {"first.weight"}}, "first.weight") == cs::Shape{3, 2});
  CHECK(shape({.transpose = {"first.weight"}}, "second.weight") == cs::Shape{3, 1});
  CHECK(shape({.transpose = {"first"}}, "first.weight") == cs::Shape{3, 2});
  CHECK(shape({.transpose = {"*"}}, "second.weight") == cs::Shape{1, 3});
  CHECK(shape({.transpose = {"*"}}, "second.bias") == cs::Shape{1});
  CHECK(shape({.layout = Layout::pytorch, .transpose = {"*", "first"}}, "first.weight") == cs::Shape{3, 2});
}

TEST_CASE("what is written for either layout is read again in it", "[io][weights]") {
  const TemporaryFolder folder;
  struct Both {
    Two two;
    MultiLayer layers;
  };
  const std::vector<WeightsOptions> all = {
      {}, {.layout = Layout::pytorch}, {.rename = {{"second", "head"}}, .transpose = {"second.*"}}};
  for (const WeightsOptions& options : all) {
    Both net, other;
    WeightsOptions inside = options;
    for (auto& entry : inside.rename) entry.first = "two." + entry.first;
    for (std::string& pattern : inside.transpose) pattern = "two." + pattern;
    cs::io::save_safetensors(folder.path("x.safetensors"), cs::io::weights_of(net, inside));
    CHECK(cs::io::load_weights(folder.path("x.safetensors"), other, inside).complete());
    CHECK(same_state(net, other));
  }
}

TEST_CASE("weights for a file are handles and views of the model's", "[io][weights]") {
  Two net;
  const std::vector<NamedTensor> tensors = cs::io::weights_of(net, {.layout = Layout::pytorch});
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].value.shares_storage(net.first.weight));
  CHECK(tensors[1].value.is_same(net.first.bias));
}

// --- formats -----------------------------------------------------------------------------------------------------

TEST_CASE("the format of a file is known by its bytes, whatever its name", "[io][weights]") {
  const TemporaryFolder folder;
  const auto check_file = [&](const std::string& path) {
    INFO(path);
    const std::vector<NamedTensor> tensors = cs::io::read_weights(path).tensors;
    REQUIRE(tensors.size() == 4);
    for (const NamedTensor& tensor : two_tensors()) {
      CHECK(tests::same(tensor_of(tensors, tensor.name), tensor.value));
      CHECK(tensor_of(tensors, tensor.name).device() == cs::default_device());
    }
  };
  cs::io::save_safetensors(folder.path("one"), two_tensors());
  check_file(folder.path("one"));
  // a header of 0x8B1F bytes: as a length these are the first two of gzip
  std::string header = tests::safetensors_header();
  header.resize(0x8B1F, ' ');
  folder.write("long", tests::safetensors_file(header, {7, 9}));
  CHECK(tests::values(cs::io::read_weights(folder.path("long")).tensors.at(0).value) == std::vector<double>{7, 9});
  cs::io::write_npy(folder.path("array"), cs::arange(3));
  folder.write("packed", tests::gzip(tests::file_bytes(folder.path("array"))));
  for (const char* name : {"array", "packed"}) {
    const std::vector<NamedTensor> tensors = cs::io::read_weights(folder.path(name)).tensors;
    REQUIRE(names_of(tensors) == Names{""});
    CHECK(tests::same(tensors[0].value, cs::arange(3)));
  }
  if (without_minizip()) return;
  cs::io::write_npz(folder.path("two"), two_tensors());
  cs::io::save_state_dict(folder.path("three"), two_tensors());
  cs::io::write_npz(folder.path("none"), {});
  check_file(folder.path("two"));
  check_file(folder.path("three"));
  CHECK(cs::io::read_weights(folder.path("none")).tensors.empty());
}

TEST_CASE("tied tensors of a file are handles to one, also where they are moved", "[io][weights]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const cs::Tensor tied = some({2, 3}, 5);
  cs::io::save_state_dict(folder.path("x.pt"), std::vector<NamedTensor>{{"a", tied}, {"b", tied}, {"c", tied.copy()}});
  const std::vector<NamedTensor> tensors = cs::io::read_weights(folder.path("x.pt")).tensors;
  REQUIRE(names_of(tensors) == Names{"a", "b", "c"});
  CHECK(tensors[1].value.is_same(tensors[0].value));
  CHECK(!tensors[2].value.shares_storage(tensors[0].value));
  CHECK(tests::same(tensors[1].value, tied));
}

TEST_CASE("the metadata of safetensors files come with the weights", "[io][weights]") {
  const TemporaryFolder folder;
  const cs::io::Metadata metadata = {{"format", "pt"}, {"epoch", "3"}};
  cs::io::save_safetensors(folder.path("x.safetensors"), two_tensors(), metadata);
  const cs::io::Metadata read = cs::io::read_weights(folder.path("x.safetensors")).metadata;
  REQUIRE(read.size() == 2);
  for (const auto& entry : metadata) CHECK(std::count(read.begin(), read.end(), entry) == 1);
}

// --- where memory is short ---------------------------------------------------------------------------------------

#if !defined(__SANITIZE_THREAD__)  // as in other tests that fork
namespace {

constexpr std::int64_t kMany = 1 << 22;  // numbers, of 16 MiB
constexpr int kNotLimited = 77;

struct Large {
  cs::Parameter x{cs::zeros({kMany})};
};

/// From now on the process gets 8 MiB that it may write to, and no more. False where the system does not see to it.
bool limit_memory() {
  constexpr rlim_t more = rlim_t{8} << 20;
  rlim_t kilobytes = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmData:", 0) == 0) kilobytes = static_cast<rlim_t>(std::stoull(line.substr(7)));
  struct rlimit limit {};
  if (kilobytes == 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return false;
  limit.rlim_cur = std::min(limit.rlim_cur, kilobytes * 1024 + more);
  if (setrlimit(RLIMIT_DATA, &limit) != 0) return false;
  return mmap(nullptr, 2 * more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

int load_large(const std::string& path) {
  Large net;
  cs::memory::release_cache();  // there is no block for a copy
  if (!limit_memory()) return kNotLimited;
  cs::io::load_weights(path, net);
  return net.x.at<float>(0) == 3 && net.x.at<float>(kMany - 1) == 3 ? 0 : 1;
}

int write_to_large(const std::string& path) {
  cs::zeros({kMany});  // the allocator keeps its memory, which has room for a copy
  if (!limit_memory()) return kNotLimited;
  cs::Tensor x = cs::io::read_weights(path).tensors.at(0).value;
  if (x.at<float>(kMany - 1) != 3) return 1;
  x.fill(2);
  return x.at<float>(0) == 2 && x.at<float>(kMany - 1) == 2 ? 0 : 1;
}

/// Runs one of these on a file of 16 MiB, in a child.
void check_with_little_memory(int (*run)(const std::string& path)) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"x", cs::full({kMany}, 3)}});
  std::fflush(nullptr);  // or the child would write it once more
  const pid_t child = fork();
  if (child == 0) {
    try {
      cs::set_threads(1);
      _exit(run(path));
    } catch (const std::exception& error) { std::fprintf(stderr, "%s\n", error.what()); }
    _exit(1);
  }
  int status = -1;
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotLimited) WARN("memory cannot be limited here: this case checked nothing");
  else CHECK(WEXITSTATUS(status) == 0);
  CHECK(cs::io::read_weights(path).tensors.at(0).value.at<float>(0) == 3);
}

}  // namespace

TEST_CASE("a model is loaded where the system promises no room for changed pages of its file", "[io][weights][host]") {
  check_with_little_memory(&load_large);
}

TEST_CASE("what is read can be written to where the system promises no room for changed pages of the file",
          "[io][weights][host]") {
  check_with_little_memory(&write_to_large);
}
#endif
