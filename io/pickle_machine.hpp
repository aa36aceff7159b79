#pragma once
// The stack machine that pickles are programs of, as far as weights need it.
#include <cstddef>
#include <cstdint>
#include <deque>
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
  boolean,
  integer,       // of `value` digits to the base 256, which follow its opcode
  text,          // of `value` bytes, which follow its opcode
  tuple,         // `value`: the link of the last item, or kNoNode
  list,          //
  dictionary,    // the same; keys and values in turn
  storage,       // number `value` of the storages
  tensor,        // number `value` of the tensors
  storage_type,  // number `value` of kTorchTypes
  dtype,         //
  function,      // number `value` of what else may be named
  other          // what is passed over: floating and very large numbers, bytes, sets, devices
};
/// "a list", ...
std::string_view name_of(NodeKind kind);

/// Small, as a pickle can have one for each of its bytes.
class Node {
 public:
  Node(NodeKind what, std::size_t where, std::size_t number)
      : kind_and_offset_(static_cast<std::uint32_t>(where << kKindBits | static_cast<std::size_t>(what))),
        value_(static_cast<std::uint32_t>(number)) {}

  NodeKind kind() const { return static_cast<NodeKind>(kind_and_offset_ & ((1u << kKindBits) - 1)); }
  /// Of the opcode that made it.
  std::size_t offset() const { return kind_and_offset_ >> kKindBits; }
  std::uint32_t value() const { return value_; }
  void set_value(std::uint32_t number) { value_ = number; }

 private:
  static constexpr unsigned kKindBits = 4;
  static_assert(static_cast<unsigned>(NodeKind::other) < (1u << kKindBits));
  static_assert(kLongestPickle <= (std::int64_t{1} << (32 - kKindBits)));

  std::uint32_t kind_and_offset_, value_;
};

/// All values of a pickle. Items of containers are chained in rings, so that an empty one costs no more than a number.
/// Deques, as vectors need three times the memory of their elements while they grow.
class Nodes {
 public:
  NodeId add(NodeKind kind, std::size_t offset, std::size_t value = 0);
  NodeId add_container(NodeKind kind, std::size_t offset) { return add(kind, offset, kNoNode); }
  void append(NodeId container, NodeId item);

  const Node& operator[](NodeId node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }
  /// Of a container; kNoNode if it is empty.
  std::uint32_t first_link(NodeId container) const;
  /// kNoNode behind the last one.
  std::uint32_t next_link(NodeId container, std::uint32_t link) const;
  NodeId item(std::uint32_t link) const { return links_[link].node; }
  /// Goes through all items.
  std::size_t count(NodeId container) const;
  std::size_t memory() const { return nodes_.size() * sizeof(Node) + links_.size() * kLinkBytes; }

  static constexpr std::size_t kLinkBytes = 8;

 private:
  struct Link {
    NodeId node;
    std::uint32_t next;  // another link; behind the last the first
  };
  static_assert(sizeof(Link) == kLinkBytes);

  std::deque<Node> nodes_;
  std::deque<Link> links_;
};

class PickleMachine {
 public:
  PickleMachine(std::string_view pickle, const ByteSource& source);
  /// Runs the program. The value that it leaves.
  NodeId run();

  const Nodes& nodes() const { return nodes_; }
  std::deque<PickledStorage>& storages() { return storages_; }
  std::deque<PickledTensor>& tensors() { return tensors_; }
  std::string_view text(NodeId node) const { return payload(node); }
  std::int64_t integer(NodeId node) const;
  /// Bytes that all values take, and the most that they may.
  std::size_t memory() const;
  std::size_t most_memory() const;

 private:
  // What is read.
  std::size_t left() const { return pickle_.size() - at_; }
  unsigned char take_byte();
  std::string_view take(std::uint64_t count, const char* what);
  std::string_view take_line();
  std::uint64_t take_number(std::size_t bytes);
  std::string place() const { return source_.place(static_cast<std::int64_t>(opcode_at_)); }
  std::string_view payload(NodeId node) const;
  void begin();
  NodeId finish();
  void check_memory(std::size_t more) const;

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
  bool push_new(NodeKind kind, std::size_t value);
  bool push_text(std::uint64_t bytes);
  bool push_integer(std::uint64_t bytes);
  bool push_long(std::uint64_t bytes);
  bool pass_over(std::uint64_t bytes);
  bool push_tuple(std::size_t begin);
  void append_all(NodeId container, std::size_t begin);
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
  std::vector<std::int64_t> require_integers(NodeId node, std::string_view what) const;

  std::string_view pickle_;
  const ByteSource& source_;
  std::size_t at_ = 0, opcode_at_ = 0;
  Nodes nodes_;
  NodeId none_, true_, false_, nothing_, other_;  // one of each is enough; nothing_ is ()
  std::deque<NodeId> stack_, memo_;
  std::deque<std::uint32_t> marks_;  // how many values were on the stack
  std::size_t memo_used_ = 0;
  std::deque<PickledTensor> tensors_;
  std::size_t tensor_bytes_ = 0;  // of memory, with their sizes and strides
  std::deque<PickledStorage> storages_;
  std::map<std::tuple<std::string_view, const TorchType*, std::int64_t>, std::uint32_t> storage_numbers_;
};

}  // namespace capstan::io
