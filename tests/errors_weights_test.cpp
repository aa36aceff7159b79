// Weights that do not fit a model, options that fit neither, and files that hold no weights: the right exception, word
// for word.
#include <string>
#include <vector>

#include "tests/files.hpp"
#include "tests/npy_files.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

using State = std::vector<NamedTensor>;

const std::string file = "errors_weights_test.cpp";

struct Two {
  nn::Linear first{2, 3}, second{3, 1};
};

State two() { return {{"first.weight", zeros({2, 3})}, {"first.bias", zeros({3})}, {"second.weight", zeros({3, 1})}, {"second.bias", zeros({1})}}; }

/// A state with an entry's name changed.
State renamed(State state, const std::string& from, const std::string& to) {
  for (NamedTensor& entry : state)
    if (entry.name == from) entry.name = to;
  return state;
}

/// A state with another value for a name.
State with(State state, const std::string& name, const Tensor& value) {
  for (NamedTensor& entry : state)
    if (entry.name == name) entry.value = value;
  return state;
}

}  // namespace

TEST_CASE("a file that does not fit a model is refused as a whole, with everything that is wrong", "[io][weights][errors]") {
  const TemporaryFolder folder;
  const auto save = [&](const std::string& name, const State& state) {
    io::save_safetensors(folder.path(name), state);
    return folder.path(name);
  };
  Two net;
  const std::string good = save("good", two());
  const std::string typo = save("typo", renamed(two(), "second.weight", "second.wieght"));
  State shorter = two();
  shorter.pop_back();
  const std::string less = save("less", shorter);
  State longer = two();
  longer.push_back({"third", zeros({1})});
  const std::string more = save("more", longer);
  const std::string turned = save("turned", with(two(), "first.weight", zeros({3, 2})));
  const std::string wide = save("wide", with(two(), "first.weight", zeros({2, 4})));
  const std::string whole = save("whole", with(two(), "first.bias", zeros({3}, {.dtype = DType::int32})));
  const std::string all = save("all", with(with(renamed(two(), "second.weight", "x"), "first.weight", zeros({4})), "first.bias", zeros({3}, {.dtype = DType::uint8})));
  const std::string misfit = ": the file does not fit the model: ";
  const io::WeightsOptions heads = {.rename = {{"second.", "head."}}};
  const io::WeightsOptions pytorch = {.layout = io::Layout::pytorch};
  check_errors({
      {__LINE__, message_of<Error>, [&] { io::load_safetensors(typo, net); }, "load_safetensors: " + typo + misfit + "missing: second.weight (the most similar is 'second.wieght'); unexpected: 'second.wieght'."},
      {__LINE__, message_of<Error>, [&] { io::load_weights(less, net); }, "load_weights: " + less + misfit + "missing: second.bias."},
      {__LINE__, message_of<Error>, [&] { io::load_weights(more, net); }, "load_weights: " + more + misfit + "unexpected: 'third'."},
      {__LINE__, message_of<Error>, [&] { io::load_weights(good, net, heads); }, "load_weights: " + good + misfit + "missing: second.weight as 'head.weight' (the most similar is 'second.weight'), second.bias as 'head.bias' (the most similar is 'second.bias'); unexpected: 'second.bias', 'second.weight'."},
      {__LINE__, message_of<ShapeError>, [&] { io::load_weights(turned, net); }, "load_weights: " + turned + misfit + "of another shape: first.weight is [3, 2] and must be [2, 3] (transposed it would fit)."},
      {__LINE__, message_of<ShapeError>, [&] { io::load_weights(wide, net); }, "load_weights: " + wide + misfit + "of another shape: first.weight is [2, 4] and must be [2, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { io::load_weights(good, net, pytorch); }, "load_weights: " + good + misfit + "of another shape: first.weight is [2, 3], transposed [3, 2], and must be [2, 3] (as it is it would fit), second.weight is [3, 1], transposed [1, 3], and must be [3, 1] (as it is it would fit)."},
      {__LINE__, message_of<DTypeError>, [&] { io::load_weights(whole, net); }, "load_weights: " + whole + misfit + "of another type: first.bias is int32 and must be float32."},
      {__LINE__, message_of<ShapeError>, [&] { io::load_weights(all, net); }, "load_weights: " + all + misfit + "missing: second.weight; unexpected: 'x'; of another shape: first.weight is [4] and must be [2, 3]; of another type: first.bias is uint8 and must be float32."},
  }, file);
}

TEST_CASE("lists of names that do not fit end after twenty", "[io][weights][errors]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  io::save_safetensors(path, State{});
  struct Many {
    std::vector<Parameter> list = std::vector<Parameter>(25, Parameter(1.0f));
  } net;
  std::string names = "list.0";
  for (int i = 1; i < 20; ++i) names += ", list." + std::to_string(i);
  check_errors({
      {__LINE__, message_of<Error>, [&] { io::load_weights(path, net); }, "load_weights: " + path + ": the file does not fit the model: missing: " + names + " and 5 more."},
  }, file);
}

TEST_CASE("options that fit no model are refused before the file is opened", "[io][weights][errors]") {
  Two net;
  const std::string path = "/no/such/file";
  const io::WeightsOptions one_name = {.rename = {{"first.", "x."}, {"second.", "x."}}, .strict = false};
  const io::WeightsOptions twice = {.rename = {{"first.", "x."}, {"second.", "y."}, {"first.", "z."}}, .strict = false};
  check_errors({
      {__LINE__, message_of<Error>, [&] { io::load_weights(path, net, one_name); }, "load_weights: first.bias and second.bias of the model would both be 'x.bias' in the file; renamed names must be different."},
      {__LINE__, message_of<Error>, [&] { io::weights_of(net, one_name); }, "weights_of: first.bias and second.bias of the model would both be 'x.bias' in the file; renamed names must be different."},
      {__LINE__, message_of<Error>, [&] { io::load_weights(path, net, {.rename = {{"first.weight", "first.bias"}}}); }, "load_weights: first.weight and first.bias of the model would both be 'first.bias' in the file; renamed names must be different."},
      {__LINE__, message_of<Error>, [&] { io::load_weights(path, net, twice); }, "load_weights: two renamings are of 'first.'; each must be of another one."},
      {__LINE__, message_of<Error>, [&] { io::load_weights(path, net, {.rename = {{"frist.", "x."}}}); }, "load_weights: no name of the model begins with 'frist.', which is to be renamed; the model's names stand first in `rename`."},
      {__LINE__, message_of<Error>, [&] { io::weights_of(net, {.transpose = {"first.bias"}}); }, "weights_of: no tensor of two axes in the model is named 'first.bias' or lies in it; what is to be transposed must be there."},
      {__LINE__, message_of<IoError>, [&] { io::load_weights(path, net); }, "load_weights: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
      {__LINE__, message_of<IoError>, [&] { io::read_weights(path); }, "read_weights: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
      {__LINE__, message_of<IoError>, [&] { io::load_safetensors(path, net); }, "load_safetensors: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
      {__LINE__, message_of<IoError>, [&] { io::load_state_dict(path, net); }, "load_state_dict: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
      {__LINE__, message_of<IoError>, [&] { io::load_npz(path, net); }, "load_npz: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
  }, file);
}

TEST_CASE("an entry that fits nothing changes nothing", "[io][weights][errors]") {
  const TemporaryFolder folder;
  io::save_safetensors(folder.path("x"), renamed(two(), "second.bias", "x"));
  Two net;
  std::vector<std::uint32_t> versions;
  for (const NamedTensor& entry : nn::named_state(net)) versions.push_back(entry.value.version());
  CHECK_THROWS_AS(io::load_weights(folder.path("x"), net), Error);
  const State after = nn::named_state(net);
  for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i].value.version() == versions[i]);
}

TEST_CASE("views whose elements share their places are refused before anything changes, others are written", "[io][weights][errors]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x");
  io::save_safetensors(path, State{{"first", ones({2})}, {"mean", ones({2, 3})}});
  struct Viewing {
    Parameter first{zeros({2})};
    Buffer mean{zeros({2, 3})};
  } net;
  const std::uint32_t version = net.first.version();
  for (const Tensor& view : {broadcast_to(zeros({3}), {2, 3}), sliding_window(zeros({4}), 0, 3)}) {
    static_cast<Tensor&>(net.mean) = view;
    check_errors({
        {__LINE__, message_of<ShapeError>, [&] { io::load_weights(path, net); }, "load_weights: elements of mean, a view of shape [2, 3], share their places (broadcast_to, sliding_window); each must have its own."},
        {__LINE__, message_of<ShapeError>, [&] { io::load_safetensors(path, net, {.strict = false}); }, "load_safetensors: elements of mean, a view of shape [2, 3], share their places (broadcast_to, sliding_window); each must have its own."},
    }, file);
    CHECK(net.first.version() == version);
    CHECK(same(net.first, zeros({2})));
  }
  static_cast<Tensor&>(net.mean) = transpose(zeros({3, 2}));
  io::load_weights(path, net);
  CHECK(same(net.mean, ones({2, 3})));
}

TEST_CASE("files that hold no weights, or weights that are not read, are told by name", "[io][weights][errors]") {
  const std::string supported = "; weights are read from safetensors, .npz, .npy and the zip archives of torch.save.";
  const Bytes hdf5 = joined(Bytes{0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'}, Bytes(100, 0));
  const Bytes gguf = joined(bytes_of("GGUF"), Bytes{3, 0, 0, 0, '{', 0, 0, 0, 0, 0, 0, 0});  // 123 tensors: no JSON
  const Bytes torch = {0x80, 0x02, 0x8A, 0x0A, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19, 0x2E};
  const Bytes pickle = joined(Bytes{0x80, 0x04, 0x95}, Bytes(20, 0));
  const Bytes onnx = joined(Bytes{0x08, 0x04, 0x12, 0x07}, bytes_of("pytorch"));
  Bytes deep = Bytes{'{', 0, 0, 0, 0, 0, 0, 0};
  append_little(deep, '{', 1);
  const std::string unarchived = "the bytes at offset 0 are those of a pickle without an archive, as pickle.dump and torch.save before version 1.6 write it";
  check_malformed({
      {"nothing", {}, "is empty, from offset 0 on" + supported},
      {"a letter", bytes_of("x"), "the bytes at offset 0 are those of no format that is known, 'x'" + supported},
      {"text", bytes_of("hello, world of weights"), "those of no format that is known, 'hello, world of '" + supported},
      {"HDF5", hdf5, "the bytes at offset 0 are those of HDF5, as Keras writes it" + supported},
      {"GGUF", gguf, "the bytes at offset 0 are those of GGUF" + supported},
      {"an old file of PyTorch", torch, unarchived + supported},
      {"a pickle", pickle, unarchived + supported},
      {"ONNX", onnx, "the bytes at offset 0 are those of ONNX" + supported},
      {"JSON", bytes_of("{\"format\": 1}"), "no format that is known"},
      {"gzip around text", gzip(bytes_of("hello, world")), "those of gzip, around something that is no .npy" + supported},
      {"gzip, cut", first_bytes(gzip(bytes_of("hello, world")), 12), ""},
      {"an archive of something else", zip_archive({{.name = "readme.txt"}}).bytes, "those of a zip archive without data.pkl and without .npy files" + supported},
      {"an archive of .npy and something else", zip_archive({{.name = "a.npy"}, {.name = "readme.txt"}}).bytes, "'readme.txt'"},
      {"an archive, cut", first_bytes(zip_archive({{.name = "a.npy"}}).bytes, 60), ""},
      {"a .npy, cut", Bytes{0x93, 'N', 'U', 'M', 'P', 'Y'}, ""},
      {"a header of safetensors that is none", deep, ""},
  }, "read_weights", "x", [](const std::string& path) { io::read_weights(path); });
}

TEST_CASE("files of the collection that hold no weights are told by name", "[io][weights][host][errors]") {
  const std::string path = shared_data("onnx/mnist_cntk/mnist-8.onnx");
  if (path.empty()) return;
  CHECK_THROWS_WITH(io::read_weights(path), Catch::Matchers::ContainsSubstring("the bytes at offset 0 are those of ONNX"));
}
// clang-format on
