// The graph of a tape, with names that TensorBoard groups by.
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/summary_parts.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

/// Letters, digits and a few signs are what TensorFlow allows in a name; slashes are for groups.
std::string plain(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '.' && c != '-') c = '_';
  }
  return result;
}

/// "conv1.weight" to "conv1/weight".
std::string path_of(std::string_view name) {
  std::string path = plain(name);
  for (char& c : path)
    if (c == '.') c = '/';
  return path.empty() ? "parameter" : path;
}

std::string group_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

class Nodes {
 public:
  void name_value(std::int64_t id, std::string_view name) { names_.try_emplace(id, path_of(name)); }
  void add(const RecordedOperation& operation);
  std::vector<GraphNode> take() { return std::move(nodes_); }

 private:
  std::string unique(std::string name);
  void add_leaf(const RecordedValue& value);
  std::string group_of_inputs(const RecordedOperation& operation) const;

  std::vector<GraphNode> nodes_;
  std::unordered_map<std::int64_t, std::string> names_;    // of named values
  std::unordered_map<std::int64_t, std::string> sources_;  // where a value comes from, as nodes name it
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::int64_t> counts_;  // how often a name was asked for
};

std::string Nodes::unique(std::string name) {
  std::string result = name;
  while (!taken_.insert(result).second) result = base::join(name, "_", ++counts_[name]);
  return result;
}

/// A value that no operation of the tape has made.
void Nodes::add_leaf(const RecordedValue& value) {
  const auto named = names_.find(value.id);
  const bool parameter = named != names_.end();
  std::string name = unique(parameter ? named->second : "watched");
  sources_.emplace(value.id, name);
  nodes_.push_back({std::move(name), parameter ? "Parameter" : "Watched", "", {}, {value.shape}});
}

/// That of the first parameter an operation uses.
std::string Nodes::group_of_inputs(const RecordedOperation& operation) const {
  for (const RecordedValue& input : operation.inputs)
    if (const auto named = names_.find(input.id); named != names_.end()) return group_of(named->second);
  return "";
}

void Nodes::add(const RecordedOperation& operation) {
  for (const RecordedValue& input : operation.inputs)
    if (input.id >= 0 && !sources_.contains(input.id)) add_leaf(input);
  GraphNode node;
  node.name = unique(group_of_inputs(operation) + plain(operation.where) + "/" + plain(operation.name));
  node.op = operation.name;
  node.where = operation.where;
  for (const RecordedValue& input : operation.inputs)
    if (input.id >= 0) node.inputs.push_back(sources_.at(input.id));
  for (const RecordedValue& output : operation.outputs) {
    const std::size_t number = node.shapes.size();
    if (output.id >= 0)
      sources_.insert_or_assign(output.id, number == 0 ? node.name : base::join(node.name, ":", number));
    node.shapes.push_back(output.shape);
  }
  nodes_.push_back(std::move(node));
}

}  // namespace

std::vector<GraphNode> graph_nodes(const char* op, const GradientTape& tape, std::span<const NamedTensor> names,
                                   Where where) {
  const std::vector<RecordedOperation> operations = tape.operations(where);
  if (operations.empty())
    base::fail<TapeError>(where, op, ": the tape has recorded nothing, or `gradient` has spent it; ",
                          "it must hold the operations of a forward pass.");
  Nodes nodes;
  for (const NamedTensor& named : names) {
    if (!named.value.defined()) continue;
    if (const std::int64_t id = tape.id_of(named.value, where); id >= 0) nodes.name_value(id, named.name);
  }
  for (const RecordedOperation& operation : operations) nodes.add(operation);
  return nodes.take();
}

}  // namespace capstan::io
