// From the values of a pickle to tensors with names.
#include "io/pickle.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "io/pickle_machine.hpp"
#include "io/quoted.hpp"

namespace capstan::io {
namespace {

// Containers that are shared are gone through once for each path to them, which can be many more than a file has bytes.
constexpr std::size_t kMostPerByte = 4, kMostBesides = 4096;                        // steps and bytes of names
constexpr std::size_t kNameBytes = sizeof(PickledName) + sizeof(PickledName*) + 8;  // with what check_names needs

/// Walks through a value from container to container.
class Walk {
 public:
  Walk(PickleMachine& machine, const ByteSource& source, std::size_t pickle_bytes)
      : machine_(machine),
        nodes_(machine.nodes()),
        source_(source),
        entered_(nodes_.size()),
        has_tensors_(nodes_.size()),
        has_none_(nodes_.size()),
        budget_(kMostPerByte * pickle_bytes + kMostBesides),
        memory_(machine.memory()),
        end_(static_cast<std::int64_t>(pickle_bytes) - 1) {}

  std::deque<PickledName> run(NodeId value) {
    if (!visit(value))
      source_.fail("the value that the pickle leaves at ", source_.place(end_), " is ", name_of(nodes_[value].kind()),
                   "; it must be a dictionary, list or tuple of tensors, or a tensor.");
    while (!open_.empty()) step();
    return std::move(names_);
  }

 private:
  /// A container that is being gone through.
  struct Open {
    NodeId node;
    std::uint32_t next;   // link
    std::uint32_t entry;  // of a dictionary: the key; else how many were taken
    std::uint32_t path;   // how long the path was before the entry was added to it
  };

  std::string place(NodeId node) const { return source_.place(static_cast<std::int64_t>(nodes_[node].offset())); }

  void spend(std::size_t amount) {
    if (amount > budget_)
      source_.fail("the containers of the pickle, the innermost one at ", place(open_.back().node),
                   ", make more names of tensors than a pickle of its size may have.");
    budget_ -= amount;
  }

  void take_memory(std::size_t bytes, NodeId node) {
    if (bytes > machine_.most_memory() - memory_)
      source_.fail("the containers and names up to ", place(node), " need more memory than the pickle may have, which ",
                   "is ", machine_.most_memory(), " bytes.");
    memory_ += bytes;
  }

  /// False if it is neither a tensor nor a container.
  bool visit(NodeId node) {
    const NodeKind kind = nodes_[node].kind();
    if (kind == NodeKind::tensor) add(node);
    else if (kind == NodeKind::dictionary || kind == NodeKind::list || kind == NodeKind::tuple) enter(node);
    else return false;
    return true;
  }

  void enter(NodeId node) {
    if (has_none_[node]) return;
    if (entered_[node])
      source_.fail("the container at ", place(node), " holds itself; containers of tensors must not.");
    take_memory(sizeof(Open), node);
    entered_[node] = true;
    open_.push_back({node, nodes_.first_link(node), 0, 0});
  }

  void leave() {
    const NodeId node = open_.back().node;
    entered_[node] = false;
    has_none_[node] = !has_tensors_[node];
    open_.pop_back();
    memory_ -= sizeof(Open);
  }

  void add(NodeId node) {
    while (named_ < open_.size()) append_to_path(open_[named_++]);
    if (!open_.empty()) spend(path_.size());
    take_memory(kNameBytes, node);
    names_.push_back({path_, nodes_[node].value()});
  }

  NodeId take_link(Open& open) {
    const NodeId item = nodes_.item(open.next);
    open.next = nodes_.next_link(open.node, open.next);
    return item;
  }

  bool has_keys(const Open& open) const { return nodes_[open.node].kind() == NodeKind::dictionary; }

  /// Takes one value from the innermost container, or leaves it.
  void step() {
    Open& open = open_.back();
    if (named_ == open_.size()) {
      path_.resize(open.path);
      --named_;
    }
    if (open.next == kNoNode) return leave();
    spend(1);
    if (has_keys(open)) open.entry = take_link(open);
    else ++open.entry;
    visit(take_link(open));
  }

  /// The entry that leads on to a tensor. Those that lead to none have no names.
  void append_to_path(Open& open) {
    has_tensors_[open.node] = true;
    open.path = static_cast<std::uint32_t>(path_.size());
    const std::string name = has_keys(open) ? name_of_key(open) : std::to_string(open.entry - 1);
    spend(name.size() + 1);
    if (&open != &open_.front()) path_ += '.';
    path_ += name;
  }

  std::string name_of_key(const Open& open) const {
    const NodeKind kind = nodes_[open.entry].kind();
    if (kind == NodeKind::integer) return std::to_string(machine_.integer(open.entry));
    if (kind != NodeKind::text)
      source_.fail(name_of(kind), " is the key of tensors in the dictionary made at ", place(open.node),
                   "; it must be a text or an integer.");
    return std::string(machine_.text(open.entry));
  }

  PickleMachine& machine_;
  const Nodes& nodes_;
  const ByteSource& source_;
  std::vector<bool> entered_, has_tensors_, has_none_;  // the latter of containers that were left
  std::size_t budget_, memory_;
  std::int64_t end_;
  std::deque<Open> open_;
  std::size_t named_ = 0;  // how many of them have their entry in the path
  std::string path_;
  std::deque<PickledName> names_;
};

void check_names(const PickledWeights& weights, const ByteSource& source) {
  std::vector<const PickledName*> sorted;
  sorted.reserve(weights.names.size());
  for (const PickledName& name : weights.names) sorted.push_back(&name);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PickledName* a, const PickledName* b) { return a->name < b->name; });
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](const PickledName* a, const PickledName* b) { return a->name == b->name; });
  if (twice != sorted.end())
    source.fail("two tensors are called ", quoted((*twice)->name), ", the first made at ",
                source.place(static_cast<std::int64_t>(weights.tensors[(*twice)->tensor].offset)),
                "; names must be different.");
}

}  // namespace

PickledWeights read_pickle(std::string_view pickle, const ByteSource& source) {
  PickleMachine machine(pickle, source);
  const NodeId value = machine.run();
  std::deque<PickledName> names = Walk(machine, source, pickle.size()).run(value);
  PickledWeights weights{std::move(machine.storages()), std::move(machine.tensors()), std::move(names)};
  check_names(weights, source);
  return weights;
}

}  // namespace capstan::io
