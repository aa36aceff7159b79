// Every way we know in which a file of PyTorch's can be broken, or be made to do something else than hold weights.
#include <capstan/io/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/pickles.hpp"
#include "tests/state_dict_files.hpp"

namespace {

using namespace tests;

void read_file(const std::string& path) { capstan::io::read_state_dict(path); }

void check(const std::vector<Malformed>& rows) {
  CHECK(peak_bytes([&] { check_malformed(rows, "read_state_dict", "x.pt", read_file); }) < std::int64_t{1} << 20);
}

/// A file of that pickle; without the opcodes that every one begins and ends with.
Malformed body(const std::string& what, const std::string& program, const std::string& reason) {
  return {what, torch_file(pickle(program)), reason};
}
/// A call without arguments, or with those.
std::string called(const std::string& module, const std::string& name, const std::string& arguments = ")") {
  return pickled_name(module, name) + arguments + "R";
}
Malformed tensor(const std::string& what, const PickledParts& parts, const std::string& reason) {
  return body(what, pickled_dictionary(pickled_tensor(parts)), reason);
}
Malformed storage(const std::string& what, const std::string& id, const std::string& reason) {
  return tensor(what, {.storage = id}, reason);
}
/// Made like _rebuild_tensor_v3.
Malformed typed(const std::string& what, const std::string& type, const std::string& reason) {
  const PickledParts parts{};
  return body(
      what,
      called("torch._utils", "_rebuild_tensor_v3",
             "(" + parts.storage + parts.start + pickled_tuple({1}) + pickled_tuple({1}) + parts.rest + type + "t"),
      reason);
}

std::string key_and(const std::string& key, const std::string& value) { return pickled_text(key) + value + "s"; }

const SavedFile& saved(const std::string& name) {
  for (const SavedFile& file : saved_files)
    if (file.name == name) return file;
  FAIL("there is no file " << name);
  return saved_files.front();
}

}  // namespace

TEST_CASE("pickles that name functions call none of them, and are errors", "[io][state_dict][host][errors]") {
  const std::string text = pickled_text("echo capstan");
  const auto names = [](const std::string& name) {
    return "entry 'archive/data.pkl' (data at offset 46): the pickle names the function '" + name +
           "' at offset 2 of the entry; it may name only those that rebuild dictionaries and dense tensors.";
  };
  check({
      body("os.system", called("os", "system", text + opcode(0x85)), names("os.system")),
      body("posix.system", called("posix", "system", text + opcode(0x85)), names("posix.system")),
      body("builtins.eval", called("builtins", "eval", text + opcode(0x85)), names("builtins.eval")),
      body("builtins.exec", called("builtins", "exec", text + opcode(0x85)), names("builtins.exec")),
      body("builtins.getattr", called("builtins", "getattr", text + opcode(0x85)), names("builtins.getattr")),
      body("torch.load", called("torch", "load", text + opcode(0x85)), names("torch.load")),
      body("torch.hub.load", called("torch.hub", "load", text + opcode(0x85)), names("torch.hub.load")),
      body("subprocess.Popen", called("subprocess", "Popen", text + opcode(0x85)), names("subprocess.Popen")),
      body("a function that is not called", pickled_name("os", "system"), names("os.system")),
      body("a dotted name", called("torch", "os.system"), names("torch.os.system")),
      body("no name", called("", ""), names(".")),
      body("no name in torch", called("torch", ""), names("torch.")),
      body("a longer name", called("torch._utils", "_rebuild_tensor_v22"), names("torch._utils._rebuild_tensor_v22")),
      body("a name from the stack", pickled_text("os") + pickled_text("system") + opcode(0x93),
           "names the function 'os.system' at offset 20 of the entry"),
      body("a name of other values", pickled_text("os") + "N" + opcode(0x93), "a function's name is None at offset "),
      body("a module of other values", "N" + pickled_text("os") + opcode(0x93), "a function's module is None at "),
      body("a type that is called", called("torch", "FloatStorage"), "what is called is a type of storages at offset "),
      body("a class that is called", called("torch", "Tensor"), "'Tensor' is called at offset "),
      body("a text that is called", text + ")R", "what is called is a text at offset "),
      body("a dictionary that is called", "})R", "what is called is a dictionary at offset 4 of the entry"),
      body("what a call made that is called", called("collections", "OrderedDict") + ")R", "what is called is a dict"),
      body("a class made anew", pickled_name("torch", "Tensor") + ")" + opcode(0x81),
           "opcode '\\x81' at offset 17 of the entry is none that weights need"),
      body("INST", "(ios\nsystem\n", "opcode 'i' at offset 3 of the entry is none that weights need"),
      body("OBJ", "(" + pickled_name("collections", "OrderedDict") + "o", "opcode 'o' at offset "),
      body("EXT1", opcode(0x82) + opcode(1), "opcode '\\x82' at offset 2 of the entry"),
      body("NEWOBJ_EX", "))}" + opcode(0x92), "opcode '\\x92' at offset 5 of the entry"),
      body("PERSID", "Pstorage\n", "opcode 'P' at offset 2 of the entry"),
      body("NEXT_BUFFER", opcode(0x97), "opcode '\\x97' at offset 2 of the entry"),
      body("attributes of a tensor", pickled_tensor() + "}b", "the object that gets attributes is a tensor at offset "),
      body("attributes of a list", "]}b", "the object that gets attributes is a list at offset "),
      body("attributes that are none", "}Nb", "what an object is made of is None at offset 4 of the entry"),
  });
}

TEST_CASE("programs that are cut short, or go on, are errors", "[io][state_dict][host][errors]") {
  const std::string start = opcode(0x80) + opcode(2);
  check({
      {"nothing", torch_file(""), "there is no pickle at offset 0 of the entry"},
      {"one byte", torch_file(opcode(0x80)), "there is no pickle at offset 0 of the entry"},
      {"text", torch_file("weights"), "there is no pickle at offset 0 of the entry; it must begin with the byte 80"},
      {"protocol 1", torch_file(opcode(0x80) + opcode(1) + "}."), "is of protocol 1; it must be 2, 3, 4 or 5."},
      {"protocol 6", torch_file(opcode(0x80) + opcode(6) + "}."), "is of protocol 6; it must be 2, 3, 4 or 5."},
      {"no program", torch_file(start), "the pickle is cut short at offset 2 of the entry; it must end with"},
      {"no end", torch_file(start + "}"), "the pickle is cut short at offset 3 of the entry"},
      {"a byte behind the end", torch_file(pickle("}") + "N"), "1 bytes follow the end of the pickle at offset 3 of"},
      {"a pickle behind it", torch_file(pickle("}") + pickle("}")), "4 bytes follow the end of the pickle at offset 3"},
      body("no value", "", "the pickle ends at offset 2 of the entry with 0 values and 0 open marks; it must leave"),
      body("two values", "}}", "ends at offset 4 of the entry with 2 values and 0 open marks"),
      body("an open mark", "}(", "ends at offset 4 of the entry with 1 values and 1 open marks"),
      body("a number cut short", "J", "a number of 4 bytes at offset 2 of the entry is cut short; the pickle has 1"),
      body("a floating number cut short", "G123456", "a value of 8 bytes at offset 2 of the entry is cut short"),
      body("a text of 4 GB", "X" + little_text(0xFFFFFFFF, 4), "a text of 4294967295 bytes at offset 2 of the entry"),
      body("a text of 2^63 bytes", opcode(0x8d) + little_text(std::uint64_t{1} << 63, 8),
           "a text of 9223372036854775808 bytes at offset 2"),
      body("2^64 - 1 bytes", opcode(0x8e) + little_text(~std::uint64_t{0}, 8), "a value of 18446744073709551615 bytes"),
      body("an integer of 2 GB", opcode(0x8b) + little_text(0x7FFFFFFF, 4), "a value of 2147483647 bytes at offset 2"),
      body("an integer of -1 bytes", opcode(0x8b) + little_text(0xFFFFFFFF, 4), "a value of 4294967295 bytes"),
      body("a frame of 2^64 - 1 bytes", opcode(0x95) + little_text(~std::uint64_t{0}, 8),
           "the frame of 18446744073709551615 bytes at offset 2 of the entry is cut short"),
      body("a module without end", "cos", "the name at offset 2 of the entry is cut short; it must end with its line."),
      body("a name without end", "cos\nsystem", "the name at offset 2 of the entry is cut short"),
      body("another protocol on the way", opcode(0x80) + opcode(4) + "}", "opcode '\\x80' at offset 2 of the entry"),
      body("an opcode of protocol 0", "I1\n", "opcode 'I' at offset 2 of the entry is none that weights need"),
      body("a byte that is no opcode", opcode(0xFF), "opcode '\\xFF' at offset 2 of the entry"),
      body("a text that is no UTF-8", pickled_text("a\xC3("),
           "the text 'a\\xC3(' is no UTF-8 at offset 8 of the entry"),
      body("half a letter", pickled_text("\xE2\x82"), "is no UTF-8 at offset 7 of the entry; it must be."),
      body("a surrogate", pickled_text("\xED\xA0\x80"), "is no UTF-8 at offset 7 of the entry"),
  });
}

TEST_CASE("programs that take what is not on the stack, or misuse it, are errors", "[io][state_dict][host][errors]") {
  const auto needs = [](const std::string& code, const std::string& count, const std::string& there) {
    return "opcode '" + code + "' at offset " + std::to_string(there == "0" ? 2 : 3) + " of the entry needs " + count +
           " values from the stack; there are " + there + " above the last mark.";
  };
  check({
      body("a call of nothing", "R", needs("R", "1", "0")),
      body("arguments without a function", ")R", "opcode 'R' at offset 3 of the entry needs 1 values from the stack"),
      body("a call above a mark", ")(R", "needs 1 values from the stack; there are 0 above the last mark."),
      body("a storage of nothing", "Q", needs("Q", "1", "0")),
      body("attributes of nothing", "}b", "opcode 'b' at offset 3 of the entry needs 1 values from the stack"),
      body("a tuple of nothing", opcode(0x85), needs("\\x85", "1", "0")),
      body("a tuple of two, of one", "N" + opcode(0x86), needs("\\x86", "2", "1")),
      body("a tuple of three, of one", "N" + opcode(0x87), needs("\\x87", "3", "1")),
      body("nothing twice", "2", needs("2", "1", "0")),
      body("nothing kept", "q" + opcode(0), needs("q", "1", "0")),
      body("nothing memoized", opcode(0x94), needs("\\x94", "1", "0")),
      body("nothing dropped", "0", "opcode '0' at offset 2 of the entry needs a mark on the stack; there is none."),
      body("a tuple without a mark", "Nt", "opcode 't' at offset 3 of the entry needs a mark on the stack"),
      body("values without a mark", "]e", "opcode 'e' at offset 3 of the entry needs a mark on the stack"),
      body("items without a mark", "}u", "opcode 'u' at offset 3 of the entry needs a mark on the stack"),
      body("dropped without a mark", "1", "opcode '1' at offset 2 of the entry needs a mark on the stack"),
      body("a set's items without a mark", opcode(0x8f) + opcode(0x90), "opcode '\\x90' at offset 3 of the entry"),
      body("a value for no list", "Na",
           "there is nothing to put values into at offset 3 of the entry; there must be a"),
      body("values for no list", "(NNe", "there is nothing to put values into at offset 5 of the entry"),
      body("an item for no dictionary", "NNs", "there is nothing to put values into at offset 4 of the entry"),
      body("items for no dictionary", "(NNu", "there is nothing to put values into at offset 5 of the entry"),
      body("a value for a dictionary", "}Na",
           "values are put into a dictionary at offset 4 of the entry; it must be a "),
      body("a value for a tuple", ")Na", "values are put into a tuple at offset 4 of the entry; it must be a list."),
      body("an item for a list", "]NNs",
           "values are put into a list at offset 5 of the entry; it must be a dictionary."),
      body("an item for a number", "K1NNs", "values are put into an integer at offset 6 of the entry"),
      body("a key without a value", "}(Nu", "1 values are put into a dictionary at offset 5 of the entry"),
      body("a list as a key", "}]Ns", "a list is a key at offset 5 of the entry; lists and dictionaries cannot be."),
      body("a dictionary as a key", "}}Ns", "a dictionary is a key at offset 5 of the entry"),
      body("a value that was not kept", kept(0), "value number 0 is asked for at offset 2 of the entry; it must have"),
      body("another number", "}" + keep_as(1) + kept(0), "value number 0 is asked for at offset 8 of the entry"),
      body("number 2^32 - 1", kept(0xFFFFFFFF), "value number 4294967295 is asked for at offset 2 of the entry"),
      body(
          "kept under 2^32 - 1", "}" + keep_as(0xFFFFFFFF),
          "a value is kept under number 4294967295 at offset 3 of the entry; a pickle of 9 bytes cannot have as many."),
  });
}

TEST_CASE("storages that are not what the archive has are errors", "[io][state_dict][host][errors]") {
  const auto id = [](const std::string& items) { return "(" + items + "tQ"; };
  const std::string kind = pickled_text("storage"), type = pickled_name("torch", "FloatStorage"),
                    key = pickled_text("0"), device = pickled_text("cpu"), six = pickled_number(6);
  check({
      storage("no tuple", "NQ", "a persistent id is None at offset "),
      storage("four values", id(kind + type + key + device), "a persistent id has 4 values at offset "),
      storage("six values", id(kind + type + key + device + six + "N"), "a persistent id has 6 values at offset "),
      storage("a module", id(pickled_text("module") + type + key + device + six),
              "a persistent id is of kind 'module' at offset "),
      storage("a number for the kind", id(six + type + key + device + six),
              "the kind of a persistent id is an integer"),
      storage("a text for the type", id(kind + key + key + device + six), "the type of a storage is a text at offset "),
      storage("an element type", id(kind + pickled_name("torch", "float32") + key + device + six),
              "the type of a storage is an element type at offset "),
      storage("a number for the key", id(kind + type + six + device + six), "the key of a storage is an integer"),
      storage("a long key", pickled_storage(std::string(101, '0'), 6), "the key of a storage has 101 bytes at offset "),
      storage("a number for the device", id(kind + type + key + six + six), "the device of a storage is an integer"),
      storage("a text for the size", id(kind + type + key + device + key),
              "the size of a storage is a text at offset "),
      storage("a size of 2^80", id(kind + type + key + device + opcode(0x8a) + opcode(11) + std::string(11, '\x01')),
              "the size of a storage is a value of another kind"),
      storage("one that is missing", pickled_storage("1", 6),
              " is not in the archive; there must be an entry 'archive/data/1'."),
      storage("a path", pickled_storage("../data.pkl", 6), "must be an entry 'archive/data/../data.pkl'."),
      storage("fewer elements", pickled_storage("0", 5), " has 5 elements of 4 bytes; its entry at offset "),
      storage("more elements", pickled_storage("0", 7), " has 7 elements of 4 bytes; its entry at offset "),
      storage("-1 elements", pickled_storage("0", -1), " has -1 elements of 4 bytes"),
      storage("2^62 elements more", pickled_storage("0", (std::int64_t{1} << 62) + 6),
              " has 4611686018427387910 elements of 4 bytes"),
      storage("larger elements", pickled_storage("0", 6, "Double"), " has 6 elements of 8 bytes; its entry at offset "),
      storage("quantized elements", pickled_storage("0", 6, "QInt8"), "names the function 'torch.QInt8Storage'"),
  });
}

TEST_CASE("tensors that are not within their storage, or are none, are errors", "[io][state_dict][host][errors]") {
  const std::int64_t large = std::int64_t{1} << 32, most = INT64_MAX;
  const std::string outside = ", is not within its storage 'archive/data/0'; that has 6 elements.";
  const std::string metadata = opcode(0x89) + "}}";
  check({
      tensor("begins later", {.start = pickled_number(1)}, "which begins at element 1" + outside),
      tensor("begins before", {.start = pickled_number(-1)}, "which begins at element -1" + outside),
      tensor("begins at 2^63 - 1", {.start = pickled_number(most)}, outside),
      tensor("a row more", {.sizes = pickled_tuple({3, 3})}, outside),
      tensor("a larger stride", {.strides = pickled_tuple({3, 2})}, outside),
      tensor("a negative stride", {.start = pickled_number(5), .strides = pickled_tuple({-3, -1})}, outside),
      tensor("a stride of 2^63 - 1", {.strides = pickled_tuple({most, 1})}, outside),
      tensor("a place that wraps around", {.strides = pickled_tuple({most - 1, most - 1})}, outside),
      tensor("2^64 elements", {.sizes = pickled_tuple({large, large}), .strides = pickled_tuple({0, 0})},
             "sizes [4294967296, 4294967296] of 16 bytes at offset "),
      tensor("2^64 elements and none", {.sizes = pickled_tuple({0, large, large}), .strides = pickled_tuple({0, 0, 0})},
             "need 2^63 bytes or more"),
      tensor("a negative size", {.sizes = pickled_tuple({-2, -3})}, "sizes [-2, -3] at offset "),
      tensor("4 TB from an element", {.sizes = pickled_tuple({1 << 20, 1 << 20}), .strides = pickled_tuple({0, 0})},
             " needs 4398046511104 bytes; "),
      tensor("4 kB from an element", {.sizes = pickled_tuple({1024, 1}), .strides = pickled_tuple({0, 0})},
             " are left of the 4 for each of the "),
      tensor("strides for one axis", {.strides = pickled_tuple({1})}, "a tensor of 2 sizes has 1 strides at offset "),
      tensor("nine axes", {.sizes = pickled_tuple({1, 1, 1, 1, 1, 1, 1, 1, 1})}, "sizes has 9 values at offset "),
      tensor("sizes in a list", {.sizes = "]"}, "the tuple of a tensor's sizes is a list at offset "),
      tensor("texts as sizes", {.sizes = pickled_text("2") + pickled_text("3") + opcode(0x86)},
             "one of a tensor's sizes or strides is a text at offset "),
      tensor("floating sizes", {.sizes = "G" + std::string(8, '\x40') + opcode(0x85)}, "is a value of another kind"),
      tensor("truth values as strides", {.strides = opcode(0x88) + opcode(0x89) + opcode(0x86)}, "is a truth value at"),
      tensor("a text for the start", {.start = pickled_text("0")}, "the start of a tensor is a text at offset "),
      tensor("a start of 2^80", {.start = opcode(0x8a) + opcode(11) + std::string(11, '\x01')},
             "the start of a tensor is a value of another kind"),
      storage("no storage", "N", "the storage of a tensor is None at offset "),
      storage("a tensor as the storage", pickled_tensor(), "the storage of a tensor is a tensor at offset "),
      tensor("too few values", {.rest = ""}, "what a function is given has 4 values at offset "),
      tensor("too many values", {.rest = metadata + "NN"}, "what a function is given has 9 values at offset "),
      tensor("conjugated", {.rest = metadata + key_and("conj", opcode(0x88))}, "it must be saved after resolve_conj()"),
      tensor("metadata in a text", {.rest = opcode(0x89) + "}" + pickled_text("")},
             "the metadata of a tensor is a text"),
      typed("no type", "N", "the type of a tensor is None at offset "),
      typed("a storage's type", pickled_name("torch", "FloatStorage"), "the type of a tensor is a type of storages at"),
      typed("elements of 16 bytes", pickled_name("torch", "complex128"),
            "has elements of 16 bytes; its storage 'archive/data/0' has 24, which must be a multiple."),
      tensor("nine axes with that of complex numbers",
             {.storage = pickled_storage("0", 3, "ComplexFloat"),
              .sizes = pickled_tuple({1, 1, 1, 1, 1, 1, 1, 1}),
              .strides = pickled_tuple({1, 1, 1, 1, 1, 1, 1, 1})},
             "axes; it may have 7."),
      body("a list of arguments", pickled_name("torch._utils", "_rebuild_tensor_v2") + "]R",
           "what a function is given is a list at offset "),
      body("a parameter of nothing",
           called("torch._utils", "_rebuild_parameter", "N" + opcode(0x88) + "}" + opcode(0x87)),
           "a parameter is None at offset "),
      body("a tensor of another class",
           called("torch._tensor", "_rebuild_from_type_v2",
                  "(" + pickled_name("torch._utils", "_rebuild_tensor_v2") + pickled_name("torch", "Size") + ")}t"),
           "the class of a tensor is 'Size' at offset "),
      body("a tensor made by itself",
           called(
               "torch._tensor", "_rebuild_from_type_v2",
               "(" + pickled_name("torch._tensor", "_rebuild_from_type_v2") + pickled_name("torch", "Tensor") + ")}t"),
           "a tensor is made by '_rebuild_from_type_v2' at offset "),
      body("a dictionary of two", called("collections", "OrderedDict", "NN" + opcode(0x86)), "has 2 values at offset "),
      body("a dictionary of nothing", called("collections", "Counter", "N" + opcode(0x85)),
           "what a dictionary is made of is None at offset "),
  });
}

TEST_CASE("values that hold no tensors with names of their own are errors", "[io][state_dict][host][errors]") {
  const std::string x = pickled_tensor();
  std::string nested = x + keep_as(0) + "0", ends;  // names of 1, 3, 5, ... letters
  for (int level = 0; level < 2000; ++level) {
    nested += "}" + key_and("t", kept(0)) + pickled_text("d");
    ends += "s";
  }
  check({
      body("None", "N", "is None; it must be a dictionary, list or tuple of tensors, or a tensor."),
      body("a number", pickled_number(3),
           "the value that the pickle leaves at offset 12 of the entry is an integer; it must"),
      body("None that was kept", "N" + keep_as(0), "leaves at offset 8 of the entry is None; it must be a dictionary"),
      body("a text", pickled_text("weights"), "is a text; it must be a dictionary"),
      body("a set", opcode(0x8f), "is a value of another kind; it must be a dictionary"),
      body("a function", pickled_name("torch", "Size"), "is a function; it must be a dictionary"),
      body("a storage", pickled_storage("0", 6), "is a storage; it must be a dictionary"),
      body("a list that holds itself", "]" + keep_as(0) + kept(0) + "a",
           "the container at offset 2 of the entry holds itself"),
      body("a dictionary that holds itself", "}" + keep_as(0) + key_and("a", kept(0)), "holds itself"),
      body("two lists that hold each other", "]" + keep_as(0) + "]" + kept(0) + "aa", "holds itself"),
      body("lists of lists of lists, 10^12 tensors", pickled_laughs(x),
           "make more names of tensors than a pickle of its size may have."),
      body("names that grow", nested + "N" + ends, "make more names of tensors than"),
      body("a floating key", "}G" + std::string(8, '\x40') + x + "s",
           " is the key of tensors in the dictionary made at offset 2 of the entry; it must be a text or an"),
      body("None as the key", "](K" + opcode(1) + "}N" + x + "se",
           "None is the key of tensors in the dictionary made at offset 6 of the entry"),
      body("a tuple as the key", "})" + x + "s", "a tuple is the key of tensors in the dictionary made at offset 2 "),
      body("a name twice", "}" + key_and("a", x) + key_and("a", x), "two tensors are called 'a', the first made at"),
      body("a number and its text", "}K" + opcode(1) + x + "s" + key_and("1", x), "two tensors are called '1'"),
      body("a dot and a dictionary", "}" + key_and("a.b", x) + key_and("a", "}" + key_and("b", x)),
           "two tensors are called 'a.b', the first made at offset "),
  });
}

TEST_CASE("pickles that need much more memory than their size are errors", "[io][state_dict][host][errors]") {
  constexpr std::size_t million = 1000000;
  const std::string reason = " need more memory than a pickle of ", walked = " need more memory than the pickle may ";
  const auto million_times = [&](const std::string& text) {
    std::string program;
    for (std::size_t i = 0; i < million; ++i) program += text;
    return program;
  };
  const std::string again = kept(0) + kept(1) + "R0";  // 12 bytes
  check({
      body("empty lists", "(" + std::string(million, ']') + "t", reason),
      body("empty dictionaries", "(" + std::string(million, '}') + "t", reason),
      body("tensors made anew",
           pickled_name("torch._utils", "_rebuild_tensor_v2") + keep_as(0) + "0(" + pickled_storage("0", 6) +
               pickled_number(0) + pickled_tuple({1, 1, 1, 1, 1, 1, 1, 1}) + pickled_tuple({1, 1, 1, 1, 1, 1, 1, 1}) +
               opcode(0x89) + "}t" + keep_as(1) + "0" + million_times(again),
           reason),
      body("a tensor in tuples", pickled_tensor() + std::string(million, '\x85'), walked),
      body("handles to a tensor", "(" + pickled_tensor() + std::string(million, '2') + "t", walked),
  });
}

TEST_CASE("archives that are not those of torch.save are errors", "[io][state_dict][host][errors]") {
  const std::string good = pickle(pickled_dictionary(pickled_tensor()));
  const Bytes content(good.begin(), good.end());
  const ZipArchive archive = torch_archive(good, {{"0", six_floats()}});
  const auto named = [&](const std::string& name) { return zip_archive({{.name = name, .content = content}}).bytes; };
  Bytes tar(512);
  const Bytes magic = bytes_of("ustar");
  for (std::size_t i = 0; i < magic.size(); ++i) tar[257 + i] = magic[i];
  check({
      {"nothing", {}, "the file ends at offset 0; a zip archive must have at least 22 bytes."},
      {"a pickle alone", content, "there is no end record before offset "},
      {"a tar archive", tar,
       "PyTorch before version 1.6 (a tar archive at offset 0); load it with PyTorch, and save it"},
      {"no entries", zip_archive({}).bytes,
       "none of its 0 entries, which begin at offset 0, is called FOLDER/data.pkl"},
      {"no pickle", named("archive/version"), "none of its 1 entries"},
      {"a pickle in no folder", named("data.pkl"), "none of its 1 entries"},
      {"a pickle in two folders", named("a/b/data.pkl"), "none of its 1 entries"},
      {"two pickles", zip_archive({{.name = "a/data.pkl"}, {.name = "b/data.pkl"}}).bytes,
       "there are two pickles, entry 'a/data.pkl' and entry 'b/data.pkl' at offset "},
      {"TorchScript", zip_archive({{.name = "a/data.pkl", .content = content}, {.name = "a/constants.pkl"}}).bytes,
       "it is a TorchScript archive (entry 'a/constants.pkl' at offset "},
      {"its code", zip_archive({{.name = "a/data.pkl", .content = content}, {.name = "a/code/x.py"}}).bytes,
       "save its weights by torch.save(module.state_dict(), path)."},
      {"another order of bytes", torch_archive(good, {{"0", six_floats()}}, "middle").bytes,
       "the order of bytes is 'middle' at offset 0 of the entry; it must be 'little' or 'big'."},
      {"a long order of bytes", torch_archive(good, {{"0", six_floats()}}, std::string(17, 'l')).bytes,
       "the order of bytes has 17 letters at offset 0 of the entry"},
      {"another letter in the pickle", with_number(archive.bytes, archive.data[0] + 3, 0, 1),
       "the checksum of the data"},
      {"another element", with_number(archive.bytes, archive.data[2], 1, 1), "the checksum of the data that end at"},
      {"a storage in another folder",
       zip_archive({{.name = "a/data.pkl", .content = content}, {.name = "b/data/0", .content = six_floats()}}).bytes,
       "there must be an entry 'a/data/0'."},
      {"a megabyte of zeros as the pickle",
       zip_archive({{.name = "a/data.pkl", .content = Bytes((1 << 20) + 1), .deflated = true}}).bytes,
       "has 1048577 bytes; it may have 1048576."},
  });
}

TEST_CASE("tensors that stretch a deflated storage count against the size that it has in the file",
          "[io][state_dict][host][errors]") {
  constexpr std::int64_t count = 1 << 16;
  const auto view = [&](std::int64_t stride) {
    return pickled_tensor(
        {.storage = pickled_storage("0", count), .sizes = pickled_tuple({count}), .strides = pickled_tuple({stride})});
  };
  const Bytes zeros(4 * count);
  const auto file = [&](const std::string& program, bool deflated) {
    return torch_archive(pickle(program), {{"0", zeros}}, "little", deflated).bytes;
  };
  const std::string stretched = "](" + view(1) + view(0) + "e";
  check({{"zeros once more", file(stretched, true), " are left of the 4 for each of the "}});
  const TemporaryFolder folder;
  for (const Bytes& good : {file(stretched, false), file("](" + view(1) + "e", true), file("](" + view(0) + "e", true)})
    CHECK_NOTHROW(read_file(folder.write("x.pt", good)));
}

TEST_CASE("files of PyTorch that hold no plain weights are errors that say why", "[io][state_dict][host][errors]") {
  std::vector<Malformed> rows;
  for (const RefusedFile& file : refused_files)
    rows.push_back({file.name, unpacked(file.bytes, file.packed), file.reason});
  check(rows);
}

TEST_CASE("a state_dict file cut at any byte is an error", "[io][state_dict][host][errors]") {
  const SavedFile& file = saved("tensor");
  check_prefixes(unpacked(file.bytes, file.packed), "read_state_dict", "x.pt", read_file);
}

TEST_CASE("a pickle cut at any byte is an error", "[io][state_dict][host][errors]") {
  const std::string good = pickle(pickled_dictionary(pickled_tensor()));
  const TemporaryFolder folder;
  for (std::size_t length = 0; length < good.size(); ++length) {
    INFO("the first " << length << " of " << good.size() << " bytes");
    CHECK_THROWS_AS(read_file(folder.write("x.pt", torch_file(good.substr(0, length)))), capstan::IoError);
  }
}

TEST_CASE("a pickle with any one byte changed is read or an IoError", "[io][state_dict][host][errors]") {
  const std::string good = pickle(pickled_dictionary(pickled_tensor()));
  const TemporaryFolder folder;
  std::size_t errors = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {0x01, 0x02, 0x80, 0xFF}) {
      std::string other = good;
      other[i] = static_cast<char>(static_cast<unsigned char>(other[i]) ^ change);
      try {
        read_file(folder.write("x.pt", torch_file(other)));
      } catch (const capstan::IoError&) { ++errors; }
    }
  }
  CHECK(errors > good.size());  // the name of the tensor and that of the device may be anything
}
