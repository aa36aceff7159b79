#include <capstan/optim/accumulate.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <capstan/create.hpp>
#include <capstan/ops/lists.hpp>
#include <capstan/sparse.hpp>
#include <capstan/tape.hpp>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {
namespace {

/// The same numbers in another floating type; slices stay slices.
Tensor converted(const Tensor& x, DType dtype, Where where) {
  if (!x.defined() || x.dtype(where) == dtype) return x;
  if (const std::optional<RowSlices> slices = find_row_slices(x, where))
    return from_row_slices({slices->indices, slices->values.to(dtype, where)}, x.shape(where), where);
  return x.to(dtype, where);
}

DType wide(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

/// The same on another device; slices stay slices.
Tensor moved(const Tensor& x, Device device, Where where) {
  if (x.device(where) == device) return x;
  if (const std::optional<RowSlices> slices = find_row_slices(x, where))
    return from_row_slices({slices->indices.to(device, where), slices->values.to(device, where)}, x.shape(where),
                           where);
  return x.to(device, where);
}

std::string type_name(std::size_t i) { return "type." + std::to_string(i); }
std::string total_name(std::size_t i) { return "total." + std::to_string(i); }

[[noreturn]] void fail_state(const std::string& entry, const Tensor& value, const char* rule, Where where) {
  base::fail<Error>(where, "GradientAccumulator::load_state: \"", entry, "\" is ", value.dtype(where), " ",
                    value.shape(where), "; it must be ", rule, ".");
}

Shape shape_of(const std::string& entry, const Tensor& sizes, Where where) {
  if (sizes.dtype(where) != DType::int64 || sizes.rank(where) != 1) fail_state(entry, sizes, "int64 [axes]", where);
  const std::vector<std::int64_t> list = sizes.to_vector<std::int64_t>(where);
  return Shape(std::span<const std::int64_t>(list), where);
}

/// What was added up for gradient i; undefined if nothing was.
Tensor total_of(detail::StateReader& reader, std::size_t i, Where where) {
  const std::string name = total_name(i);
  if (const Tensor whole = reader.find(name); whole.defined()) return whole.copy(where);
  const Tensor indices = reader.find(name + ".indices");
  if (!indices.defined()) return {};
  const Tensor values = reader.find(name + ".values"), sizes = reader.find(name + ".shape");
  if (!values.defined() || !sizes.defined())
    base::fail<Error>(where, "GradientAccumulator::load_state: \"", name,
                      ".indices\" stands without \".values\" or \".shape\"; row slices have all three.");
  return from_row_slices({indices, values}, shape_of(name + ".shape", sizes, where), where);
}

}  // namespace

GradientAccumulator::GradientAccumulator(AccumulateOptions options, Where where) : options_(options) {
  if (options.batches < 1)
    base::fail<Error>(where, "GradientAccumulator: batches is ", options.batches, "; it must be >= 1.");
}

void GradientAccumulator::add(std::vector<Tensor> gradients, Where where) {
  constexpr const char* op = "GradientAccumulator::add";
  if (added_ > 0 && gradients.size() != totals_.size())
    base::fail<ShapeError>(where, op, ": there are ", gradients.size(), " gradients and there were ", totals_.size(),
                           " before; give one for each parameter, in their order.");
  std::vector<DType> types = added_ > 0 ? types_ : std::vector<DType>(gradients.size(), DType::float32);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const DType dtype = gradients[i].dtype(where);
    if (!is_floating(dtype))
      base::fail<DTypeError>(where, op, ": gradient ", i, " is ", dtype, "; it must be a floating type.");
    const bool again = added_ > 0 && totals_[i].defined();
    if (again && dtype != types[i])
      base::fail<DTypeError>(where, op, ": gradient ", i, " is ", dtype, " and was ", types[i],
                             " before; the types must be equal.");
    if (again && gradients[i].shape(where) != totals_[i].shape(where))
      base::fail<ShapeError>(where, op, ": gradient ", i, " is ", gradients[i].shape(where), " and was ",
                             totals_[i].shape(where), " before; the shapes must be equal.");
    types[i] = dtype;
    gradients[i] = converted(std::exchange(gradients[i], Tensor()), wide(dtype), where);
  }
  std::vector<Tensor> totals = added_ > 0 ? std::vector<Tensor>() : std::vector<Tensor>(gradients.size());
  std::vector<bool> loaded = loaded_;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    if (!loaded[i] || !gradients[i].defined()) continue;
    totals_[i] = moved(totals_[i], gradients[i].device(where), where);
    loaded[i] = false;
  }
  add_each(added_ > 0 ? totals_ : totals, std::move(gradients), where);
  if (added_ == 0) totals_ = std::move(totals);
  types_ = std::move(types);
  loaded_ = std::move(loaded);
  ++added_;
}

std::vector<Tensor> GradientAccumulator::take(Where where) {
  if (added_ == 0)
    base::fail<Error>(where, "GradientAccumulator::take: nothing was added since the last time; call add first.");
  const double share = options_.mean ? 1 / static_cast<double>(added_) : 1;
  // First those that need memory: if there is not enough, all sums are still there.
  std::vector<Tensor> taken(totals_.size());
  for (std::size_t i = 0; i < totals_.size(); ++i) {
    const Tensor& total = totals_[i];
    if (!total.defined() || (total.dtype(where) == types_[i] && !has_row_slices(total))) continue;
    std::vector<Tensor> one = {total};  // one after the other, so that few are there twice at a time
    if (share != 1) one = scale_each(std::move(one), share, where).tensors;
    taken[i] = converted(std::move(one[0]), types_[i], where);
  }
  // Then the others, where they stand.
  std::vector<Tensor> rest = std::exchange(totals_, {});
  reset();
  for (std::size_t i = 0; i < rest.size(); ++i)
    if (taken[i].defined()) rest[i] = Tensor();
  if (share != 1) rest = scale_each(std::move(rest), share, where).tensors;
  for (std::size_t i = 0; i < rest.size(); ++i)
    if (rest[i].defined()) taken[i] = std::move(rest[i]);
  return taken;
}

void GradientAccumulator::reset() noexcept {
  totals_.clear();
  types_.clear();
  added_ = 0;
  loaded_.clear();
}

std::vector<NamedTensor> GradientAccumulator::state(Where where) const {
  const NoGrad off;
  std::vector<NamedTensor> entries = {{"added", detail::whole_number(added_, where)}};
  for (std::size_t i = 0; i < totals_.size(); ++i) {
    entries.push_back({type_name(i), zeros({0}, {types_[i], cpu()}, where)});
    const Tensor& total = totals_[i];
    if (!total.defined()) continue;
    const std::optional<RowSlices> slices = find_row_slices(total, where);
    if (!slices.has_value()) {
      entries.push_back({total_name(i), total.copy(where)});
      continue;
    }
    const Shape& shape = total.shape(where);
    Tensor sizes = zeros({shape.rank()}, {DType::int64, cpu()}, where);
    std::copy(shape.begin(), shape.end(), sizes.mutable_data<std::int64_t>(where));
    entries.push_back({total_name(i) + ".indices", slices->indices});
    entries.push_back({total_name(i) + ".values", slices->values.copy(where)});
    entries.push_back({total_name(i) + ".shape", sizes});
  }
  return entries;
}

void GradientAccumulator::load_state(std::span<const NamedTensor> state, Where where) {
  const NoGrad off;
  detail::StateReader reader("GradientAccumulator", state, where);
  const std::int64_t added = reader.whole("added");
  std::vector<Tensor> totals;
  std::vector<DType> types;
  while (added > 0) {
    const std::size_t i = types.size();
    const Tensor type = reader.find(type_name(i));
    if (!type.defined()) break;
    if (!is_floating(type.dtype(where)) || type.shape(where) != Shape{0})
      fail_state(type_name(i), type, "of a floating type and shape [0]", where);
    types.push_back(type.dtype(where));
    totals.push_back(total_of(reader, i, where));
    if (totals[i].defined() && totals[i].dtype(where) != wide(types[i]))
      fail_state(total_name(i), totals[i], "of the gradient's type, or float32 for 16 bits", where);
  }
  reader.finish();
  std::vector<bool> loaded;
  for (const Tensor& total : totals) loaded.push_back(total.defined());
  totals_ = std::move(totals);
  types_ = std::move(types);
  added_ = added;
  loaded_ = std::move(loaded);
}

}  // namespace capstan::optim
