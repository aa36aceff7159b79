// What the opcodes do. What is named and called is in pickle_functions.cpp.
#include "io/pickle_machine.hpp"

#include "io/quoted.hpp"
#include "io/utf8.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kMemoryPerByte = 16, kMemoryBesides = std::size_t{1} << 21;
constexpr std::size_t kMostAtOnce = 512;    // bytes that an opcode can need that neither puts many values nor keeps one
constexpr std::size_t kStorageBytes = 160;  // with its entry in the map

std::uint64_t little_endian(std::string_view digits) {
  std::uint64_t number = 0;
  for (std::size_t i = digits.size(); i > 0; --i) number = number << 8 | static_cast<unsigned char>(digits[i - 1]);
  return number;
}

/// Bytes of an opcode for a text or an integer, and of the length that may follow it.
std::size_t head_bytes(unsigned char opcode) {
  switch (opcode) {
    case 0x8a:
    case 0x8c: return 2;
    case 'X':
    case 0x8b: return 5;
    case 0x8d: return 9;
    default: return 1;
  }
}

}  // namespace

std::string_view name_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::none: return "None";
    case NodeKind::boolean: return "a truth value";
    case NodeKind::integer: return "an integer";
    case NodeKind::text: return "a text";
    case NodeKind::tuple: return "a tuple";
    case NodeKind::list: return "a list";
    case NodeKind::dictionary: return "a dictionary";
    case NodeKind::storage: return "a storage";
    case NodeKind::tensor: return "a tensor";
    case NodeKind::storage_type: return "a type of storages";
    case NodeKind::dtype: return "an element type";
    case NodeKind::function: return "a function";
    case NodeKind::other: return "a value of another kind";
  }
  return "";
}

// --- values --------------------------------------------------------------------------------------------------------

NodeId Nodes::add(NodeKind kind, std::size_t offset, std::size_t value) {
  nodes_.emplace_back(kind, offset, value);
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Nodes::append(NodeId container, NodeId item) {
  const auto link = static_cast<std::uint32_t>(links_.size());
  const std::uint32_t last = nodes_[container].value();
  links_.push_back({item, link});
  if (last != kNoNode) {
    links_[link].next = links_[last].next;
    links_[last].next = link;
  }
  nodes_[container].set_value(link);
}

std::uint32_t Nodes::first_link(NodeId container) const {
  const std::uint32_t last = nodes_[container].value();
  return last == kNoNode ? kNoNode : links_[last].next;
}

std::uint32_t Nodes::next_link(NodeId container, std::uint32_t link) const {
  return link == nodes_[container].value() ? kNoNode : links_[link].next;
}

std::size_t Nodes::count(NodeId container) const {
  std::size_t items = 0;
  for (std::uint32_t link = first_link(container); link != kNoNode; link = next_link(container, link)) ++items;
  return items;
}

/// The bytes that make a text or an integer.
std::string_view PickleMachine::payload(NodeId node) const {
  const std::size_t opcode = nodes_[node].offset();
  return pickle_.substr(opcode + head_bytes(static_cast<unsigned char>(pickle_[opcode])), nodes_[node].value());
}

/// The lowest byte stands first; the highest bit is the sign, but for those of one and two bytes.
std::int64_t PickleMachine::integer(NodeId node) const {
  const std::string_view digits = payload(node);
  const char opcode = pickle_[nodes_[node].offset()];
  const std::size_t bits = 8 * digits.size();
  std::uint64_t number = little_endian(digits);
  if (opcode != 'K' && opcode != 'M' && bits > 0 && bits < 64 && (number >> (bits - 1)) != 0)
    number |= ~std::uint64_t{0} << bits;
  return static_cast<std::int64_t>(number);
}

std::size_t PickleMachine::memory() const {
  return nodes_.memory() + (stack_.size() + memo_.size() + marks_.size()) * sizeof(NodeId) + tensor_bytes_ +
         storages_.size() * kStorageBytes;
}

std::size_t PickleMachine::most_memory() const { return kMemoryPerByte * pickle_.size() + kMemoryBesides; }

/// Before the values that need so many bytes are made.
void PickleMachine::check_memory(std::size_t more) const {
  if (memory() + more > most_memory())
    source_.fail("the values up to ", place(), " need more memory than a pickle of ", pickle_.size(),
                 " bytes may have, which is ", most_memory(), " bytes.");
}

// --- the program -----------------------------------------------------------------------------------------------------

PickleMachine::PickleMachine(std::string_view pickle, const ByteSource& source)
    : pickle_(pickle),
      source_(source),
      none_(nodes_.add(NodeKind::none, 0)),
      true_(nodes_.add(NodeKind::boolean, 0)),
      false_(nodes_.add(NodeKind::boolean, 0)),
      nothing_(nodes_.add_container(NodeKind::tuple, 0)),
      other_(nodes_.add(NodeKind::other, 0)) {}

NodeId PickleMachine::run() {
  begin();
  while (true) {
    opcode_at_ = at_;
    check_memory(kMostAtOnce);
    const unsigned char opcode = take_byte();
    if (opcode == '.') return finish();
    const bool known = run_memo(opcode) || run_number(opcode) || run_text(opcode) || run_tuple(opcode) ||
                       run_function(opcode) || run_stack(opcode) || run_container(opcode) || run_constant(opcode);
    if (!known)
      source_.fail("opcode ", quoted(pickle_.substr(opcode_at_, 1)), " at ", place(),
                   " is none that weights need; they are dictionaries, lists, texts, numbers and tensors.");
  }
}

void PickleMachine::begin() {
  if (pickle_.size() < 2 || pickle_[0] != '\x80')
    source_.fail("there is no pickle at ", place(), "; it must begin with the byte 80 and its protocol.");
  const auto protocol = static_cast<unsigned char>(pickle_[1]);
  if (protocol < 2 || protocol > 5)
    source_.fail("the pickle at ", place(), " is of protocol ", protocol, "; it must be 2, 3, 4 or 5.");
  at_ = 2;
}

NodeId PickleMachine::finish() {
  if (left() > 0) source_.fail(left(), " bytes follow the end of the pickle at ", place(), "; it must end there.");
  if (stack_.size() != 1 || !marks_.empty())
    source_.fail("the pickle ends at ", place(), " with ", stack_.size(), " values and ", marks_.size(),
                 " open marks; it must leave one value.");
  return stack_.front();
}

unsigned char PickleMachine::take_byte() {
  if (left() == 0)
    source_.fail("the pickle is cut short at ", source_.place(static_cast<std::int64_t>(at_)),
                 "; it must end with the opcode '.'.");
  return static_cast<unsigned char>(pickle_[at_++]);
}

std::string_view PickleMachine::take(std::uint64_t count, const char* what) {
  if (count > left())
    source_.fail(what, " of ", count, " bytes at ", place(), " is cut short; the pickle has ", left(), " bytes more.");
  const std::string_view bytes = pickle_.substr(at_, static_cast<std::size_t>(count));
  at_ += bytes.size();
  return bytes;
}

std::string_view PickleMachine::take_line() {
  const std::size_t end = pickle_.find('\n', at_);
  if (end == std::string_view::npos) source_.fail("the name at ", place(), " is cut short; it must end with its line.");
  const std::string_view line = pickle_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

/// Little-endian, of up to 8 bytes.
std::uint64_t PickleMachine::take_number(std::size_t bytes) { return little_endian(take(bytes, "a number")); }

// --- the stack -------------------------------------------------------------------------------------------------------

bool PickleMachine::push(NodeId node) {
  stack_.push_back(node);
  return true;
}

bool PickleMachine::push_new(NodeKind kind, std::size_t value) { return push(nodes_.add(kind, opcode_at_, value)); }

/// Where the last `count` values begin, which must stand above the last mark.
std::size_t PickleMachine::last(std::size_t count) const {
  const std::size_t there = stack_.size() - bottom();
  if (there < count)
    source_.fail("opcode ", quoted(pickle_.substr(opcode_at_, 1)), " at ", place(), " needs ", count,
                 " values from the stack; there are ", there, " above the last mark.");
  return stack_.size() - count;
}

NodeId PickleMachine::pop() {
  const NodeId node = stack_[last(1)];
  stack_.pop_back();
  return node;
}

/// Where the values above it begin.
std::size_t PickleMachine::pop_mark() {
  if (marks_.empty())
    source_.fail("opcode ", quoted(pickle_.substr(opcode_at_, 1)), " at ", place(),
                 " needs a mark on the stack; there is none.");
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

/// The value below those from `begin` on.
NodeId PickleMachine::container_below(std::size_t begin, NodeKind kind) const {
  if (begin <= bottom())
    source_.fail("there is nothing to put values into at ", place(), "; there must be ", name_of(kind), '.');
  const NodeId node = stack_[begin - 1];
  if (nodes_[node].kind() != kind)
    source_.fail("values are put into ", name_of(nodes_[node].kind()), " at ", place(), "; it must be ", name_of(kind),
                 '.');
  return node;
}

bool PickleMachine::run_stack(unsigned char opcode) {
  switch (opcode) {
    case '(': marks_.push_back(static_cast<std::uint32_t>(stack_.size())); return true;
    case '0':
      if (stack_.size() > bottom()) stack_.pop_back();
      else pop_mark();
      return true;
    case '1': stack_.resize(pop_mark()); return true;
    case '2': return push(stack_[last(1)]);
    case 0x95:  // a frame, in which nothing is different
      if (const std::uint64_t bytes = take_number(8); bytes > left())
        source_.fail("the frame of ", bytes, " bytes at ", place(), " is cut short; the pickle has ", left(),
                     " bytes more.");
      return true;
    default: return false;
  }
}

bool PickleMachine::put(std::uint64_t index) {
  const NodeId node = stack_[last(1)];
  if (index >= pickle_.size())
    source_.fail("a value is kept under number ", index, " at ", place(), "; a pickle of ", pickle_.size(),
                 " bytes cannot have as many.");
  if (index >= memo_.size()) {
    check_memory((static_cast<std::size_t>(index) + 1 - memo_.size()) * sizeof(NodeId));
    memo_.resize(static_cast<std::size_t>(index) + 1, kNoNode);
  }
  NodeId& kept = memo_[static_cast<std::size_t>(index)];
  if (kept == kNoNode) ++memo_used_;
  kept = node;
  return true;
}

bool PickleMachine::get(std::uint64_t index) {
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == kNoNode)
    source_.fail("value number ", index, " is asked for at ", place(), "; it must have been kept before.");
  return push(memo_[static_cast<std::size_t>(index)]);
}

bool PickleMachine::run_memo(unsigned char opcode) {
  switch (opcode) {
    case 'q': return put(take_number(1));
    case 'r': return put(take_number(4));
    case 0x94: return put(memo_used_);
    case 'h': return get(take_number(1));
    case 'j': return get(take_number(4));
    default: return false;
  }
}

// --- single values ---------------------------------------------------------------------------------------------------

bool PickleMachine::run_constant(unsigned char opcode) {
  switch (opcode) {
    case 'N': return push(none_);
    case 0x88: return push(true_);
    case 0x89: return push(false_);
    default: return false;
  }
}

bool PickleMachine::run_number(unsigned char opcode) {
  switch (opcode) {
    case 'K': return push_integer(1);
    case 'M': return push_integer(2);
    case 'J': return push_integer(4);
    case 0x8a: return push_long(take_number(1));
    case 0x8b: return push_long(take_number(4));
    case 'G': return pass_over(8);
    default: return false;
  }
}

bool PickleMachine::push_integer(std::uint64_t bytes) {
  return push_new(NodeKind::integer, take(bytes, "a number").size());
}

bool PickleMachine::push_long(std::uint64_t bytes) { return bytes > 8 ? pass_over(bytes) : push_integer(bytes); }

bool PickleMachine::pass_over(std::uint64_t bytes) {
  take(bytes, "a value");
  return push(other_);
}

bool PickleMachine::run_text(unsigned char opcode) {
  switch (opcode) {
    case 'X': return push_text(take_number(4));
    case 0x8c: return push_text(take_number(1));
    case 0x8d: return push_text(take_number(8));
    case 'B': return pass_over(take_number(4));
    case 'C': return pass_over(take_number(1));
    case 0x8e:
    case 0x96: return pass_over(take_number(8));
    default: return false;
  }
}

bool PickleMachine::push_text(std::uint64_t bytes) {
  const std::string_view letters = take(bytes, "a text");
  const std::size_t begin = at_ - letters.size();
  if (const std::size_t good = utf8_bytes(letters); good < letters.size())
    source_.fail("the text ", quoted(letters), " is no UTF-8 at ",
                 source_.place(static_cast<std::int64_t>(begin + good)), "; it must be.");
  return push_new(NodeKind::text, letters.size());
}

// --- containers ------------------------------------------------------------------------------------------------------

bool PickleMachine::run_tuple(unsigned char opcode) {
  switch (opcode) {
    case ')': return push(nothing_);
    case 't': return push_tuple(pop_mark());
    case 0x85: return push_tuple(last(1));
    case 0x86: return push_tuple(last(2));
    case 0x87: return push_tuple(last(3));
    default: return false;
  }
}

bool PickleMachine::push_tuple(std::size_t begin) {
  const NodeId tuple = nodes_.add_container(NodeKind::tuple, opcode_at_);
  append_all(tuple, begin);
  return push(tuple);
}

/// Takes the values from the stack.
void PickleMachine::append_all(NodeId container, std::size_t begin) {
  check_memory((stack_.size() - begin) * Nodes::kLinkBytes);
  for (std::size_t i = begin; i < stack_.size(); ++i) nodes_.append(container, stack_[i]);
  stack_.resize(begin);
}

bool PickleMachine::run_container(unsigned char opcode) {
  switch (opcode) {
    case ']': return push(nodes_.add_container(NodeKind::list, opcode_at_));
    case '}': return push(nodes_.add_container(NodeKind::dictionary, opcode_at_));
    case 'a': return append_from(last(1));
    case 'e': return append_from(pop_mark());
    case 's': return set_items_from(last(2));
    case 'u': return set_items_from(pop_mark());
    case 0x8f: return push(other_);  // sets
    case 0x90:
      stack_.resize(pop_mark());
      container_below(stack_.size(), NodeKind::other);
      return true;
    case 0x91: stack_.resize(pop_mark()); return push(other_);
    default: return false;
  }
}

bool PickleMachine::append_from(std::size_t begin) {
  append_all(container_below(begin, NodeKind::list), begin);
  return true;
}

bool PickleMachine::set_items_from(std::size_t begin) {
  const NodeId dictionary = container_below(begin, NodeKind::dictionary);
  if ((stack_.size() - begin) % 2 != 0)
    source_.fail(stack_.size() - begin, " values are put into a dictionary at ", place(),
                 "; it must be as many values as keys.");
  for (std::size_t i = begin; i < stack_.size(); i += 2) {
    const NodeKind kind = nodes_[stack_[i]].kind();
    if (kind == NodeKind::list || kind == NodeKind::dictionary)
      source_.fail(name_of(kind), " is a key at ", place(), "; lists and dictionaries cannot be.");
  }
  append_all(dictionary, begin);
  return true;
}

}  // namespace capstan::io
