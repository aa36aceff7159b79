// What pickles of weights may name, and what calling it makes. Nothing is called: these are the values that PyTorch
// would get, as far as they hold tensors.
#include <algorithm>
#include <iterator>

#include "io/pickle_machine.hpp"
#include "io/quoted.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kMostAxes = 8;
constexpr std::size_t kLongestKey = 100;  // they are numbers
constexpr std::size_t kBlockBytes = 16;   // what a block of memory needs besides what is in it

enum class Function : std::uint8_t {
  dictionary,
  tensor,                // of a storage: in its type
  typed_tensor,          // in a type of its own
  tensor_of_class,       // what a function above gives
  parameter,             // what is given first
  parameter_with_state,  //
  size,                  // the tuple that is given
  tensor_class,          // only named
  other
};

struct Named {
  std::string_view module, name;
  Function function;
};
constexpr Named kNamed[] = {
    {"collections", "OrderedDict", Function::dictionary},
    {"collections", "Counter", Function::dictionary},
    {"torch._utils", "_rebuild_tensor_v2", Function::tensor},
    {"torch._utils", "_rebuild_tensor_v3", Function::typed_tensor},
    {"torch._utils", "_rebuild_parameter", Function::parameter},
    {"torch._utils", "_rebuild_parameter_with_state", Function::parameter_with_state},
    {"torch._tensor", "_rebuild_from_type_v2", Function::tensor_of_class},
    {"torch", "Tensor", Function::tensor_class},
    {"torch.nn.parameter", "Parameter", Function::tensor_class},
    {"torch", "Size", Function::size},
    {"torch", "device", Function::other},
    {"_codecs", "encode", Function::other},
    {"__builtin__", "bytearray", Function::other},
    {"builtins", "bytearray", Function::other},
    {"__builtin__", "complex", Function::other},
    {"builtins", "complex", Function::other},
    {"__builtin__", "set", Function::other},
    {"builtins", "set", Function::other},
};

/// The number of torch.uint8 in kTorchTypes.
constexpr std::size_t byte_type() {
  std::size_t number = 0;
  while (kTorchTypes[number].dtype != "uint8") ++number;
  return number;
}

const Named& named(const Node& function) { return kNamed[function.value()]; }
const TorchType* type_of(const Node& node) { return &kTorchTypes[node.value()]; }

}  // namespace

bool PickleMachine::push_function(std::string_view module, std::string_view name) {
  if (module == "torch.storage" && name == "UntypedStorage") return push_new(NodeKind::storage_type, byte_type());
  if (module == "torch") {
    for (std::size_t i = 0; i < std::size(kTorchTypes); ++i) {
      if (name == kTorchTypes[i].dtype) return push_new(NodeKind::dtype, i);
      if (!name.empty() && name == kTorchTypes[i].storage) return push_new(NodeKind::storage_type, i);
    }
  }
  const auto found = std::find_if(std::begin(kNamed), std::end(kNamed), [&](const Named& candidate) {
    return candidate.module == module && candidate.name == name;
  });
  if (found == std::end(kNamed))
    source_.fail("the pickle names the function ", quoted(std::string(module) + "." + std::string(name)), " at ",
                 place(), "; it may name only those that rebuild dictionaries and dense tensors.");
  return push_new(NodeKind::function, static_cast<std::size_t>(found - std::begin(kNamed)));
}

bool PickleMachine::run_function(unsigned char opcode) {
  switch (opcode) {
    case 'c': {
      const std::string_view module = take_line();
      return push_function(module, take_line());
    }
    case 0x93: {
      const NodeId name = require(pop(), NodeKind::text, "a function's name");
      const NodeId module = require(pop(), NodeKind::text, "a function's module");
      return push_function(text(module), text(name));
    }
    case 'R': {
      const NodeId arguments = pop(), function = pop();
      return push(call(function, arguments));
    }
    case 'b': return set_attributes();
    case 'Q': return push_storage();
    default: return false;
  }
}

NodeId PickleMachine::require(NodeId node, NodeKind kind, std::string_view what) const {
  if (nodes_[node].kind() != kind)
    source_.fail(what, " is ", name_of(nodes_[node].kind()), " at ", place(), "; it must be ", name_of(kind), '.');
  return node;
}

std::vector<NodeId> PickleMachine::items_of(NodeId tuple, std::size_t least, std::size_t most,
                                            std::string_view what) const {
  require(tuple, NodeKind::tuple, what);
  const std::size_t count = nodes_.count(tuple);
  if (count < least || count > most)
    source_.fail(what, " has ", count, " values at ", place(), "; it must have ", least, " to ", most, '.');
  std::vector<NodeId> items;
  for (std::uint32_t link = nodes_.first_link(tuple); link != kNoNode; link = nodes_.next_link(tuple, link))
    items.push_back(nodes_.item(link));
  return items;
}

std::vector<std::int64_t> PickleMachine::require_integers(NodeId node, std::string_view what) const {
  const std::vector<NodeId> items = items_of(node, 0, kMostAxes, what);
  std::vector<std::int64_t> numbers;
  numbers.reserve(items.size());
  for (const NodeId item : items)
    numbers.push_back(integer(require(item, NodeKind::integer, "one of a tensor's sizes or strides")));
  return numbers;
}

NodeId PickleMachine::call(NodeId function, NodeId arguments) {
  constexpr std::string_view what = "what a function is given";
  require(function, NodeKind::function, "what is called");
  switch (named(nodes_[function]).function) {
    case Function::dictionary: return make_dictionary(items_of(arguments, 0, 1, what));
    case Function::tensor: return make_tensor(items_of(arguments, 6, 7, what), false);
    case Function::typed_tensor: return make_tensor(items_of(arguments, 7, 8, what), true);
    case Function::tensor_of_class: return make_tensor_with_attributes(items_of(arguments, 4, 4, what));
    case Function::parameter: return require(items_of(arguments, 3, 3, what)[0], NodeKind::tensor, "a parameter");
    case Function::parameter_with_state:
      return require(items_of(arguments, 4, 4, what)[0], NodeKind::tensor, "a parameter");
    case Function::size: return require(items_of(arguments, 1, 1, what)[0], NodeKind::tuple, "a size");
    case Function::tensor_class: break;
    case Function::other: require(arguments, NodeKind::tuple, what); return other_;
  }
  source_.fail(quoted(named(nodes_[function]).name), " is called at ", place(), "; it may only be named.");
}

NodeId PickleMachine::make_dictionary(const std::vector<NodeId>& arguments) {
  if (!arguments.empty()) return require(arguments[0], NodeKind::dictionary, "what a dictionary is made of");
  return nodes_.add_container(NodeKind::dictionary, opcode_at_);
}

/// (storage, start, sizes, strides, requires_grad, hooks), a type of its own, and metadata.
NodeId PickleMachine::make_tensor(const std::vector<NodeId>& arguments, bool with_type) {
  const Node& storage = nodes_[require(arguments[0], NodeKind::storage, "the storage of a tensor")];
  const std::uint32_t number = storage.value();
  const std::int64_t start = integer(require(arguments[1], NodeKind::integer, "the start of a tensor"));
  const std::vector<std::int64_t> sizes = require_integers(arguments[2], "the tuple of a tensor's sizes");
  const std::vector<std::int64_t> strides = require_integers(arguments[3], "the tuple of a tensor's strides");
  if (sizes.size() != strides.size())
    source_.fail("a tensor of ", sizes.size(), " sizes has ", strides.size(), " strides at ", place(),
                 "; there must be as many.");
  const TorchType* type = storages_[number].type;
  if (with_type) type = type_of(nodes_[require(arguments[6], NodeKind::dtype, "the type of a tensor")]);
  const std::size_t metadata = with_type ? 7 : 6;
  if (arguments.size() > metadata) check_metadata(arguments[metadata]);
  tensors_.push_back({number, type, start, sizes, strides, opcode_at_});
  tensor_bytes_ += sizeof(PickledTensor) + 2 * (kBlockBytes + sizes.size() * sizeof(std::int64_t));
  return nodes_.add(NodeKind::tensor, opcode_at_, tensors_.size() - 1);
}

/// (function, class, its arguments, attributes): of tensors to which a program has given attributes.
NodeId PickleMachine::make_tensor_with_attributes(const std::vector<NodeId>& arguments) {
  const Node& function = nodes_[require(arguments[0], NodeKind::function, "what makes a tensor")];
  const Function which = named(function).function;
  if (which != Function::tensor && which != Function::typed_tensor)
    source_.fail("a tensor is made by ", quoted(named(function).name), " at ", place(),
                 "; it must be a function that rebuilds dense ones.");
  const Node& type = nodes_[require(arguments[1], NodeKind::function, "the class of a tensor")];
  if (named(type).function != Function::tensor_class)
    source_.fail("the class of a tensor is ", quoted(named(type).name), " at ", place(),
                 "; it must be Tensor or Parameter.");
  return call(arguments[0], arguments[2]);
}

/// Says of views that numbers are to be conjugated or negated.
void PickleMachine::check_metadata(NodeId metadata) const {
  if (nodes_[metadata].kind() == NodeKind::none) return;
  require(metadata, NodeKind::dictionary, "the metadata of a tensor");
  const auto fail = [&] {
    source_.fail("a tensor has metadata that change its values at ", place(),
                 "; it must be saved after resolve_conj() and resolve_neg().");
  };
  int number = 0;  // there are two, 'conj' and 'neg', with their values
  for (std::uint32_t link = nodes_.first_link(metadata); link != kNoNode; link = nodes_.next_link(metadata, link)) {
    if (number == 4 || (number % 2 == 1 && nodes_.item(link) != false_)) fail();
    ++number;
  }
}

/// ('storage', type, key, device, count of elements).
bool PickleMachine::push_storage() {
  const std::vector<NodeId> id = items_of(pop(), 5, 5, "a persistent id");
  if (const std::string_view kind = text(require(id[0], NodeKind::text, "the kind of a persistent id"));
      kind != "storage")
    source_.fail("a persistent id is of kind ", quoted(kind), " at ", place(), "; it must be 'storage'.");
  const TorchType* type = type_of(nodes_[require(id[1], NodeKind::storage_type, "the type of a storage")]);
  const std::string_view key = text(require(id[2], NodeKind::text, "the key of a storage"));
  if (key.size() > kLongestKey)
    source_.fail("the key of a storage has ", key.size(), " bytes at ", place(), "; it may have ", kLongestKey, '.');
  require(id[3], NodeKind::text, "the device of a storage");
  const std::int64_t numel = integer(require(id[4], NodeKind::integer, "the size of a storage"));
  const auto [found, added] =
      storage_numbers_.try_emplace({key, type, numel}, static_cast<std::uint32_t>(storages_.size()));
  if (added) storages_.push_back({key, type, numel, opcode_at_});
  return push_new(NodeKind::storage, found->second);
}

/// Attributes of dictionaries, such as the versions of a model's parts, are passed over.
bool PickleMachine::set_attributes() {
  require(pop(), NodeKind::dictionary, "what an object is made of");
  require(stack_[last(1)], NodeKind::dictionary, "the object that gets attributes");
  return true;
}

}  // namespace capstan::io
