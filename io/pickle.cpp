// From the values of a pickle to tensors with names.
#include "io/pickle.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "io/pickle_machine.hpp"
#include "io/quoted.hpp"

namespace capstan::io {
namespace {

// Containers that are shared are gone through once for each path to them, which can be many more than a file has bytes.
constexpr std::size_t kMostPerByte = 4, kMostBesides = 4096;  // steps and bytes of names

/// Walks through a value from container to container.
class Walk {
 public:
  Walk(PickleMachine& machine, const ByteSource& source, std::size_t pickle_bytes)
      : machine_(machine),
        nodes_(machine.nodes()),
        source_(source),
        entered_(nodes_.size()),
        budget_(kMostPerByte * pickle_bytes + kMostBesides) {}

  std::vector<PickledTensor> run(NodeId value) {
    if (!visit(value))
      source_.fail("the value of the pickle, made at ", place(value), ", is ", name_of(nodes_[value].kind),
                   "; it must be a dictionary, list or tuple of tensors, or a tensor.");
    while (!open_.empty()) step();
    return std::move(tensors_);
  }

 private:
  /// A container that is being gone through.
  struct Open {
    NodeId node;
    std::uint32_t next;     // link
    std::int64_t position;  // of lists and tuples
    std::size_t path;       // how long the container's own path is
  };

  std::string place(NodeId node) const { return source_.place(static_cast<std::int64_t>(nodes_[node].offset)); }

  void spend(std::size_t amount) {
    if (amount > budget_)
      source_.fail("the containers of the pickle, the innermost one at ", place(open_.back().node),
                   ", make more names of tensors than a pickle of its size may have.");
    budget_ -= amount;
  }

  /// False if it is neither a tensor nor a container.
  bool visit(NodeId node) {
    const NodeKind kind = nodes_[node].kind;
    if (kind == NodeKind::tensor) add(node);
    else if (kind == NodeKind::dictionary || kind == NodeKind::list || kind == NodeKind::tuple) enter(node);
    else return false;
    return true;
  }

  void enter(NodeId node) {
    if (entered_[node])
      source_.fail("the container at ", place(node), " holds itself; containers of tensors must not.");
    entered_[node] = true;
    open_.push_back({node, nodes_.first_link(node), 0, path_.size()});
  }

  void add(NodeId node) {
    if (!open_.empty()) spend(path_.size());
    const TensorNode& tensor = machine_.tensor(node);
    tensors_.push_back({path_, tensor.storage, tensor.type, tensor.start, machine_.integers(tensor.sizes),
                        machine_.integers(tensor.strides), nodes_[node].offset});
  }

  NodeId take_link(Open& open) {
    const Nodes::Link& link = nodes_.link(open.next);
    open.next = link.next;
    return link.node;
  }

  /// Takes one value from the innermost container, or leaves it.
  void step() {
    Open& open = open_.back();
    path_.resize(open.path);
    if (open.next == kNoNode) {
      entered_[open.node] = false;
      open_.pop_back();
      return;
    }
    spend(1);
    const bool has_keys = nodes_[open.node].kind == NodeKind::dictionary;
    const NodeId key = has_keys ? take_link(open) : kNoNode;
    const std::int64_t position = open.position++;
    const NodeId value = take_link(open);
    const NodeKind kind = nodes_[value].kind;
    if (kind != NodeKind::tensor && kind != NodeKind::dictionary && kind != NodeKind::list && kind != NodeKind::tuple)
      return;
    append_to_path(has_keys ? name_of_key(key) : std::to_string(position));
    visit(value);
  }

  void append_to_path(const std::string& name) {
    spend(name.size() + 1);
    if (open_.size() > 1) path_ += '.';
    path_ += name;
  }

  std::string name_of_key(NodeId key) const {
    if (nodes_[key].kind == NodeKind::integer) return std::to_string(nodes_[key].value);
    if (nodes_[key].kind != NodeKind::text)
      source_.fail(name_of(nodes_[key].kind), " is the key of tensors in the dictionary made at ",
                   place(open_.back().node), "; it must be a text or an integer.");
    return std::string(machine_.text(key));
  }

  PickleMachine& machine_;
  const Nodes& nodes_;
  const ByteSource& source_;
  std::vector<bool> entered_;
  std::size_t budget_;
  std::vector<Open> open_;
  std::string path_;
  std::vector<PickledTensor> tensors_;
};

void check_names(const std::vector<PickledTensor>& tensors, const ByteSource& source) {
  std::vector<const PickledTensor*> sorted;
  for (const PickledTensor& tensor : tensors) sorted.push_back(&tensor);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PickledTensor* a, const PickledTensor* b) { return a->name < b->name; });
  const auto twice = std::adjacent_find(
      sorted.begin(), sorted.end(), [](const PickledTensor* a, const PickledTensor* b) { return a->name == b->name; });
  if (twice != sorted.end())
    source.fail("two tensors are called ", quoted((*twice)->name), ", the first made at ",
                source.place(static_cast<std::int64_t>((*twice)->offset)), "; names must be different.");
}

}  // namespace

PickledWeights read_pickle(std::string_view pickle, const ByteSource& source) {
  if (pickle.size() > static_cast<std::size_t>(kLongestPickle))
    source.fail("the pickle ends at ", source.place(static_cast<std::int64_t>(pickle.size())), "; it may have ",
                kLongestPickle, " bytes.");
  PickleMachine machine(pickle, source);
  const NodeId value = machine.run();
  std::vector<PickledTensor> tensors = Walk(machine, source, pickle.size()).run(value);
  check_names(tensors, source);
  return {std::move(machine.storages()), std::move(tensors)};
}

}  // namespace capstan::io
