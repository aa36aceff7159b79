#pragma once
// The stack machine that pickles are programs of, as far as weights need it.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "io/pickle.hpp"

namespace capstan::io {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xFFFFFFFF;

enum class NodeKind : std::uint8_t {
  none,
  boolean,       // value
  integer,       // value
  text,          // `count` bytes of the pickle from `value` on
  tuple,         // `count` items
  list,          //
  dictionary,    // keys and values in turn, `count` together
  storage,       // number `value` of the storages
  tensor,        // number `value` of the tensors
  storage_type,  // number `value` of kTorchTypes
  dtype,         //
  function,      // number `value` of what else may be named
  other          // what is passed over: floating and very large numbers, bytes, sets, devices
};
/// "a list", ...
std::string_view name_of(NodeKind kind);

struct Node {
  NodeKind kind = NodeKind::none;
  std::uint32_t offset = 0;  // of the opcode that made it
  std::uint32_t count = 0;
  std::int64_t value = 0;
};

/// All values of a pickle. Items of containers are chained, so that an empty one costs no more than a number.
class Nodes {
 public:
  struct Link {
    NodeId node;
    std::uint32_t next;  // another link, or kNoNode
  };

  NodeId add(NodeKind kind, std::size_t offset, std::int64_t value = 0, std::size_t count = 0);
  NodeId add_container(NodeKind kind, std::size_t offset);
  void append(NodeId container, NodeId item);

  const Node& operator[](NodeId node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }
  const Link& link(std::uint32_t number) const { return links_[number]; }
  /// Of a container; kNoNode if it is empty.
  std::uint32_t first_link(NodeId container) const { return ends_[index_of(container)].first; }

 private:
  struct Ends {
    std::uint32_t first, last;
  };
  std::size_t index_of(NodeId container) const { return static_cast<std::size_t>(nodes_[container].value); }

  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<Ends> ends_;  // of container number `value`
};

/// A view of a storage, not yet taken apart.
struct TensorNode {
  std::uint32_t storage;
  const TorchType* type;
  std::int64_t start;
  NodeId sizes, strides;  // tuples of at most 8 integers
};

class PickleMachine {
 public:
  PickleMachine(std::string_view pickle, const ByteSource& source);
  /// Runs the program. The value that it leaves.
  NodeId run();

  const Nodes& nodes() const { return nodes_; }
  const TensorNode& tensor(NodeId node) const { return tensors_[static_cast<std::size_t>(nodes_[node].value)]; }
  std::vector<PickledStorage>& storages() { return storages_; }
  std::string_view text(NodeId node) const;
  std::vector<std::int64_t> integers(NodeId tuple) const;

 private:
  // What is read.
  std::size_t left() const { return pickle_.size() - at_; }
  unsigned char take_byte();
  std::string_view take(std::uint64_t count, const char* what);
  std::string_view take_line();
  std::uint64_t take_number(std::size_t bytes);
  std::string place() const { return source_.place(static_cast<std::int64_t>(opcode_at_)); }
  void begin();
  NodeId finish();

  // Opcodes by what they are about. False if it is none of them.
  bool run_constant(unsigned char opcode);
  bool run_number(unsigned char opcode);
  bool run_text(unsigned char opcode);
  bool run_tuple(unsigned char opcode);
  bool run_container(unsigned char opcode);
  bool run_memo(unsigned char opcode);
  bool run_stack(unsigned char opcode);
  bool run_function(unsigned char opcode);

  bool push(NodeId node);
  bool push_new(NodeKind kind, std::int64_t value, std::size_t count = 0);
  bool push_text(std::uint64_t bytes);
  bool push_long(std::uint64_t bytes);
  bool pass_over(std::uint64_t bytes);
  bool push_tuple(std::size_t begin);
  bool append_from(std::size_t begin);
  bool set_items_from(std::size_t begin);
  bool put(std::uint64_t index);
  bool get(std::uint64_t index);
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  std::size_t last(std::size_t count) const;
  NodeId pop();
  std::size_t pop_mark();
  NodeId container_below(std::size_t begin, NodeKind kind) const;

  // Functions, in pickle_functions.cpp.
  bool push_function(std::string_view module, std::string_view name);
  bool push_storage();
  bool set_attributes();
  NodeId call(NodeId function, NodeId arguments);
  NodeId make_dictionary(const std::vector<NodeId>& arguments);
  NodeId make_tensor(const std::vector<NodeId>& arguments, bool with_type);
  NodeId make_tensor_with_attributes(const std::vector<NodeId>& arguments);
  void check_metadata(NodeId metadata) const;
  std::vector<NodeId> items_of(NodeId tuple, std::size_t least, std::size_t most, std::string_view what) const;
  NodeId require(NodeId node, NodeKind kind, std::string_view what) const;
  NodeId require_integers(NodeId node, std::string_view what) const;

  std::string_view pickle_;
  const ByteSource& source_;
  std::size_t at_ = 0, opcode_at_ = 0;
  Nodes nodes_;
  NodeId none_, true_, false_, nothing_, other_;  // one of each is enough; nothing_ is ()
  std::vector<NodeId> stack_, memo_;
  std::vector<std::uint32_t> marks_;  // how many values were on the stack
  std::size_t memo_used_ = 0;
  std::vector<TensorNode> tensors_;
  std::vector<PickledStorage> storages_;
  std::map<std::tuple<std::string_view, const TorchType*, std::int64_t>, std::uint32_t> storage_numbers_;
};

}  // namespace capstan::io
