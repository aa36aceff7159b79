// Tensors of elements: rows, and tensors side by side as one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/create.hpp>
#include <capstan/data/sources.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "data/fail.hpp"

namespace capstan::data::detail {
namespace {

template <class F>
decltype(auto) visit(DType dtype, const F& f) {
  switch (dtype) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    case DType::float16: return f(float16{});
    case DType::bfloat16: return f(bfloat16{});
    case DType::int8: return f(std::int8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::uint8: return f(std::uint8_t{});
    default: return f(bool{});
  }
}

const char* bytes_of(const Tensor& x, Where where) {
  return visit(x.dtype(), [&](auto zero) { return reinterpret_cast<const char*>(x.data<decltype(zero)>(where)); });
}
char* mutable_bytes_of(Tensor& x, Where where) {
  return visit(x.dtype(), [&](auto zero) { return reinterpret_cast<char*>(x.mutable_data<decltype(zero)>(where)); });
}

/// The sizes that all parts get, after checking that they have one; whether all have them already.
bool common_sizes(std::span<const Tensor*> parts, const Joining& joining, std::vector<std::int64_t>& sizes) {
  bool equal = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]->defined()) fail<Error>(joining.where, "the tensor of element ", i, " of the batch is undefined.");
    const Tensor& x = *parts[i];
    const Tensor& first = *parts[0];
    if (x.dtype() != first.dtype())
      fail<DTypeError>(joining.where, "element ", i, " of the batch is ", name(x.dtype()), " and element 0 ",
                       name(first.dtype()), "; all must have one type.");
    if (x.device() != first.device())
      fail<DeviceError>(joining.where, "element ", i, " of the batch is on ", to_string(x.device()),
                        " and element 0 on ", to_string(first.device()), "; all must be on one device.");
    if (x.rank() != first.rank() || (!joining.pad && !(x.shape() == first.shape())))
      fail<ShapeError>(joining.where, "element ", i, " of the batch has shape ", to_string(x.shape()),
                       " and element 0 ", to_string(first.shape()),
                       joining.pad ? "; all must have as many axes." : "; all must be equal. padded_batch pads them.");
    if (i == 0)
      for (int axis = 0; axis < x.rank(); ++axis) sizes.push_back(x.size(axis));
    for (int axis = 0; axis < x.rank(); ++axis)
      sizes[static_cast<std::size_t>(axis)] = std::max(sizes[static_cast<std::size_t>(axis)], x.size(axis));
    equal = equal && x.shape() == first.shape();
  }
  if (!joining.pad) return true;
  for (std::int64_t& size : sizes) {
    const std::int64_t rest = size % joining.multiple_of;
    if (rest != 0) size += joining.multiple_of - rest, equal = false;
  }
  return equal;
}

/// [count, sizes...] with each part's elements one after another.
Tensor stacked(std::span<const Tensor*> parts, const std::vector<std::int64_t>& sizes, Where where) {
  std::vector<std::int64_t> all = {static_cast<std::int64_t>(parts.size())};
  all.insert(all.end(), sizes.begin(), sizes.end());
  const Tensor& first = *parts[0];
  Tensor out =
      empty(Shape(std::span<const std::int64_t>(all), where), {.dtype = first.dtype(), .device = cpu()}, where);
  const auto bytes = static_cast<std::size_t>(first.numel() * size_of(first.dtype()));
  if (bytes == 0) return out;
  char* to = mutable_bytes_of(out, where);
  for (const Tensor* part : parts) {
    if (part->is_contiguous()) {
      std::memcpy(to, bytes_of(*part, where), bytes);
    } else {
      const Tensor dense = part->contiguous(where);
      std::memcpy(to, bytes_of(dense, where), bytes);
    }
    to += bytes;
  }
  return out;
}

/// The number to pad with, of the kind that goes with the type.
Scalar padding_of(DType dtype, const Joining& joining) {
  const double value = joining.value;
  return visit(dtype, [&](auto zero) -> Scalar {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const double least = static_cast<double>(std::numeric_limits<T>::min());
      if (!(value >= least && value < std::ldexp(1.0, std::numeric_limits<T>::digits) && value == std::trunc(value)))
        fail<DTypeError>(joining.where, "the value is ", value, " and the tensors are ", name(dtype),
                         "; it must be a number that they can hold.");
      return static_cast<T>(value);
    } else {
      return value;
    }
  });
}

Tensor padded(const Tensor& x, const std::vector<std::int64_t>& sizes, const Joining& joining) {
  Tensor out = full(Shape(std::span<const std::int64_t>(sizes), joining.where), padding_of(x.dtype(), joining),
                    {.dtype = x.dtype(), .device = x.device()}, joining.where);
  std::vector<Index> ranges;
  for (int axis = 0; axis < x.rank(); ++axis) ranges.emplace_back(capstan::range(0, x.size(axis)));
  if (x.numel() > 0) out.index(std::span<const Index>(ranges), joining.where).assign(x, joining.where);
  return out;
}

}  // namespace

// It cannot be assigned to, but made anew (C++20, basic.life).
void remake(const Tensor& field, Tensor by) noexcept {
  Tensor* const place = const_cast<Tensor*>(&field);
  place->~Tensor();
  ::new (static_cast<void*>(place)) Tensor(std::move(by));
}

Tensor join(std::span<const Tensor*> parts, const Joining& joining) {
  std::vector<std::int64_t> sizes;
  const bool equal = common_sizes(parts, joining, sizes);
  if (static_cast<int>(sizes.size()) == kMaxRank)
    fail<ShapeError>(joining.where, "elements of shape ", to_string(parts[0]->shape()),
                     " have no room for one more axis; tensors have at most ", kMaxRank, '.');
  // Copies into place, which no tape can follow. The batch of a GPU is a `stack`, which one can.
  std::optional<NoGrad> off;
  if (joining.pad || parts[0]->device() == cpu()) off.emplace();
  std::vector<Tensor> made;
  std::vector<const Tensor*> padded_parts(parts.begin(), parts.end());
  if (!equal) {
    made.reserve(parts.size());
    for (const Tensor*& part : padded_parts) {
      made.push_back(padded(*part, sizes, joining));
      part = &made.back();
    }
  }
  if (parts[0]->device() == cpu()) return stacked(padded_parts, sizes, joining.where);
  std::vector<Tensor> handles;
  for (const Tensor* part : padded_parts) handles.push_back(*part);
  return stack(handles, 0, joining.where);
}

namespace {
template <class T>
Tensor tensor_of(std::span<const T> values) {
  return from_span<T>(values, {static_cast<std::int64_t>(values.size())});
}
}  // namespace

void fail_large(std::size_t element, std::uint64_t value, const Joining& joining) {
  fail<DTypeError>(joining.where, "element ", element, " of the batch is ", std::to_string(value),
                   "; an int64 holds less than 2^63.");
}

Tensor numbers(std::span<const bool> values) { return tensor_of(values); }
Tensor numbers(std::span<const std::uint8_t> values) { return tensor_of(values); }
Tensor numbers(std::span<const std::int32_t> values) { return tensor_of(values); }
Tensor numbers(std::span<const std::int64_t> values) { return tensor_of(values); }
Tensor numbers(std::span<const float> values) { return tensor_of(values); }
Tensor numbers(std::span<const double> values) { return tensor_of(values); }

std::int64_t rows_of(const Tensor& tensor, std::int64_t rows, Where where) {
  if (tensor.rank(where) == 0)
    fail<ShapeError>(where, "from: a tensor has shape []; it must have a first axis, whose rows are the elements.");
  if (rows != kUnknownRows && rows != tensor.size(0))
    fail<ShapeError>(where, "from: tensors have ", rows, " and ", tensor.size(0), " rows; all must have as many.");
  return tensor.size(0);
}

Tensor row(const Tensor& tensor, std::int64_t i) { return tensor[i]; }

}  // namespace capstan::data::detail
