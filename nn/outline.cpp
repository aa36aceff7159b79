// What a model consists of, and what is done with all of it.
#include <capstan/nn/outline.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>

#include <capstan/nn/module.hpp>
#include <capstan/nn/regularizer.hpp>
#include <capstan/ops/lists.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn::detail {
namespace {

/// An object's address, and what it is there: a struct and its first field have the same one.
struct Place {
  const void *object, *type;
  friend bool operator==(const Place&, const Place&) = default;
};
struct PlaceHash {
  std::size_t operator()(const Place& place) const noexcept {
    const std::hash<const void*> hash;
    return hash(place.object) * 31 + hash(place.type);
  }
};

constexpr char kLeafMark = 0, kTensorMark = 1;  // their addresses are types that no module has

}  // namespace

// --- walking ---

struct Seen {
  std::unordered_map<Place, std::size_t, PlaceHash> places;  // 1 + a leaf's number, or 1

  /// 0 at first.
  std::size_t& at(const void* object, const void* type) { return places[{object, type}]; }
};

// Not inline: they are what most of a model's file would be made of.
Outline::Outline() noexcept = default;
Outline::Outline(Outline&& other) noexcept = default;
Outline::~Outline() = default;

Explorer::Explorer() : seen_(new Seen) {}
Explorer::~Explorer() { delete seen_; }

bool Explorer::enter(const void* object, const PartType& type) {
  std::size_t& seen = seen_->at(object, &type);
  if (seen != 0) return false;
  outline_.parts.push_back({name_, &type, const_cast<void*>(object), part_});
  seen = 1;
  part_ = outline_.parts.size() - 1;
  return true;
}

void Explorer::leave() noexcept { part_ = outline_.parts[part_].parent; }

void Explorer::leaf(const Tensor& tensor, bool parameter, bool constant) {
  std::size_t& seen = seen_->at(&tensor, &kLeafMark);
  if (seen != 0) return;
  seen = 1;
  std::size_t first = outline_.leaves.size();
  if (tensor.defined()) {
    std::size_t& number = seen_->at(tensor.impl(), &kTensorMark);
    if (number == 0) number = first + 1;
    first = number - 1;
  }
  outline_.leaves.push_back({name_, tensor, const_cast<Tensor*>(&tensor), part_, first, parameter, constant});
}

Outline Explorer::take() { return std::move(outline_); }

std::size_t Explorer::push(std::string_view field) {
  const std::size_t length = name_.size();
  if (length > 0 && !field.empty()) name_ += '.';
  name_ += field;
  return length;
}
void Explorer::pop(std::size_t length) { name_.resize(length); }

struct CopyTable {
  std::unordered_map<Place, void*, PlaceHash> places;
};

Copies::Copies() : table_(new CopyTable) {}
Copies::~Copies() { delete table_; }
void*& Copies::of(const void* object, const PartType& holder) { return table_->places[{object, &holder}]; }

// --- parameters and buffers ---

bool Leaf::trainable() const {
  return parameter && value.defined() && static_cast<const Parameter*>(slot)->trainable();
}

void Leaf::set_trainable(bool trainable) const {
  if (value.defined()) static_cast<Parameter*>(slot)->set_trainable(trainable);
}

namespace {

/// Calls `use` for the leaves that hold something, each tensor once.
template <class Use>
void each(const Outline& outline, Use use) {
  for (std::size_t i = 0; i < outline.leaves.size(); ++i)
    if (const Leaf& leaf = outline.leaves[i]; leaf.value.defined() && leaf.first == i) use(leaf);
}

}  // namespace

std::vector<NamedTensor> Outline::named(bool with_parameters, bool with_buffers) const {
  std::vector<NamedTensor> found;
  each(*this, [&](const Leaf& leaf) {
    if (leaf.parameter ? with_parameters : with_buffers) found.push_back({leaf.name, leaf.value});
  });
  return found;
}

std::vector<Tensor> Outline::trainable() const {
  std::vector<Tensor> found;
  each(*this, [&](const Leaf& leaf) {
    if (leaf.trainable()) found.push_back(leaf.value);
  });
  return found;
}

std::vector<Tensor> Outline::buffers() const {
  std::vector<Tensor> found;
  each(*this, [&](const Leaf& leaf) {
    if (!leaf.parameter) found.push_back(leaf.value);
  });
  return found;
}

std::int64_t Outline::parameter_count() const {
  std::int64_t count = 0;
  each(*this, [&](const Leaf& leaf) {
    if (leaf.parameter) count += leaf.value.numel();
  });
  return count;
}

void Outline::set_training(bool training, Where where) const {
  const auto can_be_told = [this](const Part& part) {  // perhaps another way leads there
    return std::any_of(parts.begin(), parts.end(), [&](const Part& other) {
      return other.object == part.object && other.type->set_training != nullptr &&
             std::strcmp(other.type->text, part.type->text) == 0;
    });
  };
  for (const Part& part : parts)
    if (part.type->cannot_be_told && !can_be_told(part))
      base::fail<Error>(where, "set_training: ", part.name.empty() ? "the model" : part.name.c_str(),
                        " is held as const; it cannot be changed.");
  for (const Part& part : parts)
    if (part.type->set_training != nullptr) part.type->set_training(part.object, training);
}

void Outline::set_trainable(bool trainable) const {
  for (const Leaf& leaf : leaves)
    if (leaf.parameter) leaf.set_trainable(trainable);
}

void Outline::set_trainable(const char* op, bool trainable, std::string_view pattern, Where where) const {
  const std::string inside = std::string(pattern) + ".*";
  bool any = false;
  for (const Leaf& leaf : leaves) {
    if (!leaf.parameter || (!matches(leaf.name, pattern) && !matches(leaf.name, inside))) continue;
    leaf.set_trainable(trainable);
    any = true;
  }
  if (any) return;
  std::string names;
  std::size_t count = 0;
  for (const Leaf& leaf : leaves)
    if (leaf.parameter && ++count <= 3) names += (names.empty() ? "" : ", ") + leaf.name;
  base::fail<Error>(where, op, ": no parameter is named \"", pattern, "\" or lies in it; ",
                    count == 0  ? std::string("the model has no parameters")
                    : count > 3 ? base::join("the model has ", names, " and ", count - 3, " more")
                                : "the model has " + names,
                    ".");
}

// --- devices and types ---

namespace {

/// Gives leaves other tensors: what `convert(leaf)` makes of theirs. All are made before the first changes.
template <class Convert>
void replace(const char* op, const Outline& outline, Where where, Convert convert) {
  const NoGrad off;
  std::vector<Tensor> made(outline.leaves.size());
  for (std::size_t i = 0; i < outline.leaves.size(); ++i) {
    const Leaf& leaf = outline.leaves[i];
    if (!leaf.value.defined() || leaf.first != i) continue;
    Tensor converted = convert(leaf);
    if (converted.is_same(leaf.value)) continue;
    if (leaf.parameter) {
      Parameter parameter(std::move(converted), where);
      parameter.set_trainable(leaf.trainable());
      made[i] = parameter;
    } else {
      made[i] = Buffer(std::move(converted), where);
    }
  }
  for (const Leaf& leaf : outline.leaves)
    if (leaf.constant && made[leaf.first].defined())
      base::fail<Error>(where, op, ": ", leaf.name, " is held as const; it cannot be replaced.");
  for (const Leaf& leaf : outline.leaves)
    if (made[leaf.first].defined()) *leaf.slot = made[leaf.first];
}

}  // namespace

void Outline::move_to(Device device, Where where) const {
  replace("move_to", *this, where, [&](const Leaf& leaf) { return leaf.value.to(device, where); });
}

void Outline::cast(DType dtype, Where where) const {
  if (!is_floating(dtype))
    base::fail<DTypeError>(where, "cast: the type ", dtype, " was asked for; it must be a floating type.");
  const DType for_buffers = is_half(dtype) ? DType::float32 : dtype;
  replace("cast", *this, where, [&](const Leaf& leaf) {
    if (leaf.parameter) return leaf.value.to(dtype, where);
    return is_floating(leaf.value.dtype(where)) ? leaf.value.to(for_buffers, where) : leaf.value;
  });
}

// --- loading ---

namespace {

/// Everything that keeps a state from fitting a model, for one message.
class Misfits {
 public:
  void shape(const Leaf& leaf, const Tensor& given) {
    shapes.push_back(base::join(leaf.name, " is ", given.shape(), " and must be ", leaf.value.shape()));
  }
  void type(const Leaf& leaf, const Tensor& given) {
    types.push_back(base::join(leaf.name, " is ", given.dtype(), " and must be ", leaf.value.dtype()));
  }

  void raise(const char* op, Where where) const {
    std::string text;
    append(text, "missing: ", missing);
    append(text, "unexpected: ", unexpected);
    append(text, "given twice: ", twice);
    append(text, "undefined: ", undefined);
    append(text, "of another shape: ", shapes);
    append(text, "of another type: ", types);
    if (text.empty()) return;
    const char* start = ": the state does not fit the model: ";
    if (!shapes.empty()) base::fail<ShapeError>(where, op, start, text, ".");
    if (!types.empty()) base::fail<DTypeError>(where, op, start, text, ".");
    base::fail<Error>(where, op, start, text, ".");
  }

  std::vector<std::string> missing, unexpected, twice, undefined, shapes, types;

 private:
  static void append(std::string& text, const char* heading, const std::vector<std::string>& list) {
    constexpr std::size_t kMost = 5;
    if (list.empty()) return;
    if (!text.empty()) text += "; ";
    text += heading;
    for (std::size_t i = 0; i < list.size() && i < kMost; ++i) text += (i > 0 ? ", " : "") + list[i];
    if (list.size() > kMost) text += base::join(" and ", list.size() - kMost, " more");
  }
};

/// Which entry of a state has a leaf's name.
using Entries = std::unordered_map<std::string_view, std::size_t>;

Entries entries_of(std::span<const NamedTensor> state, Misfits& misfits) {
  Entries entries;
  for (std::size_t i = 0; i < state.size(); ++i)
    if (!entries.emplace(state[i].name, i).second) misfits.twice.push_back(state[i].name);
  return entries;
}

/// In place; some of the values may be targets themselves or views of them, which `blend_each` copies before it writes.
void copy_all(const std::vector<Tensor>& targets, std::vector<Tensor>& values, Where where) {
  const NoGrad off;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i].to(targets[i].device(where), where);
  blend_each(targets, values, 1, where);
}

}  // namespace

LoadReport load(const char* op, const Outline& to, std::span<const NamedTensor> state, LoadOptions options,
                Where where) {
  Misfits misfits;
  const Entries entries = entries_of(state, misfits);
  std::vector<bool> used(state.size(), false);
  std::vector<Tensor> targets, values;
  each(to, [&](const Leaf& leaf) {
    const auto found = entries.find(leaf.name);
    if (found == entries.end()) return misfits.missing.push_back(leaf.name);
    used[found->second] = true;
    const Tensor& given = state[found->second].value;
    if (!given.defined()) return misfits.undefined.push_back(leaf.name);
    if (given.shape() != leaf.value.shape()) return misfits.shape(leaf, given);
    if (given.dtype() != leaf.value.dtype()) return misfits.type(leaf, given);
    targets.push_back(leaf.value);
    values.push_back(given);
  });
  for (std::size_t i = 0; i < state.size(); ++i)
    if (!used[i] && entries.at(state[i].name) == i) misfits.unexpected.push_back(state[i].name);
  LoadReport report;
  if (!options.strict) {
    report.missing = std::move(misfits.missing);
    report.unexpected = std::move(misfits.unexpected);
    misfits.missing.clear();
    misfits.unexpected.clear();
  }
  misfits.raise(op, where);
  copy_all(targets, values, where);
  return report;
}

}  // namespace capstan::nn::detail
