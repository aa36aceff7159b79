#include <capstan/create.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "lib/base/parallel.hpp"
#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/core/observe.hpp"
#include "lib/core/recording.hpp"
#include "lib/core/scalars.hpp"

namespace capstan {
namespace core {

Element to_element(const char* op, Scalar value, DType dtype, Where where) {
  const bool fits = is_floating(dtype)      ? value.kind() != Scalar::Kind::boolean
                    : dtype == DType::bool8 ? value.kind() == Scalar::Kind::boolean
                                            : value.kind() == Scalar::Kind::integer;
  if (!fits)
    base::fail<DTypeError>(
        where, op, ": the number ", value, " does not go with ", dtype,
        "; integers go with numeric tensors, floating numbers with floating ones, true and false with bool.");
  if (value.too_large() && !is_floating(dtype))
    base::fail<DTypeError>(where, op, ": the number ", value.as_double(), " is out of range for ", dtype, ".");
  Element element{};
  visit(dtype, [&]<class T>(Type<T>) {
    if constexpr (!kIsReal<T> && sizeof(T) < 8 && !__is_same(T, bool)) {
      if (static_cast<std::int64_t>(static_cast<T>(value.as_int64())) != value.as_int64())
        base::fail<DTypeError>(where, op, ": the number ", value, " is out of range for ", dtype, ".");
    }
    T converted;
    if constexpr (__is_same(T, bool)) converted = value.as_int64() != 0;
    else if constexpr (kIsReal<T>) converted = static_cast<T>(value.as_double());
    else converted = static_cast<T>(value.as_int64());
    std::memcpy(element.bytes, &converted, sizeof converted);
  });
  return element;
}

Tensor scalar_tensor(const char* op, Scalar value, DType dtype, Device device, Where where) {
  const Element element = to_element(op, value, dtype, where);
  require_device(op, device, where);
  Tensor result = make_tensor(Shape(), dtype, device, where);
  if (device.kind != DeviceKind::cpu) {
    backend_of(device, where).fill(*result.impl(), value);
    return result;
  }
  std::memcpy(result.impl()->data, element.bytes, static_cast<std::size_t>(size_of(dtype)));
  host_wrote(*result.impl());
  return result;
}

namespace {

using NumberKey = std::tuple<std::uint64_t, DType, std::int8_t>;  // bits, type, number of the GPU
constexpr std::size_t kMostNumbers = 256;

std::map<NumberKey, Tensor>& kept_numbers() {
  thread_local std::map<NumberKey, Tensor> kept;
  return kept;
}

}  // namespace

Tensor number_tensor(const char* op, Scalar value, DType dtype, Device device, Where where) {
  if (device.kind == DeviceKind::cpu) return scalar_tensor(op, value, dtype, device, where);
  const Element element = to_element(op, value, dtype, where);
  std::uint64_t bits = 0;
  std::memcpy(&bits, element.bytes, sizeof bits);
  std::map<NumberKey, Tensor>& kept = kept_numbers();
  const NumberKey key(bits, dtype, device.index);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  Tensor made = scalar_tensor(op, value, dtype, device, where);
  // what a captured step makes is its own: a replay makes it again
  if (capturing() == nullptr && kept.size() < kMostNumbers) kept.emplace(key, made);
  return made;
}

void forget_numbers() noexcept { kept_numbers().clear(); }

}  // namespace core

using core::Type;

namespace {
/// What was made on the host, where it is wanted; nobody is told of the move.
Tensor moved(const Tensor& host, Device device, Where where) {
  if (device == cpu()) return host;
  Tensor result = core::make_tensor(host.impl()->shape, host.impl()->dtype, device, where);
  core::cuda_runtime()->transfer(*host.impl(), *result.impl(), where);
  return result;
}
}  // namespace

Tensor empty(const Shape& shape, TensorOptions options, Where where) {
  return core::make_tensor(shape, options.dtype, options.device, where);
}

namespace {
Tensor filled(const char* op, const Shape& shape, Scalar value, TensorOptions options, Where where) {
  core::require_device(op, options.device, where);
  core::to_element(op, value, options.dtype, where);
  core::note_start();
  Tensor result = core::make_tensor(shape, options.dtype, options.device, where);
  core::backend_of(options.device, where).fill(*result.impl(), value);
  core::note_made(op, result, where);
  return result;
}
Scalar number(int value, DType dtype) { return dtype == DType::bool8 ? Scalar(value != 0) : Scalar(value); }
TensorOptions options_of(const char* op, const Tensor& x, Where where) {
  const TensorImpl& impl = core::described(op, x, where);
  return {impl.dtype, impl.device()};
}
}  // namespace

Tensor full(const Shape& shape, Scalar value, TensorOptions options, Where where) {
  return filled("full", shape, value, options, where);
}
Tensor zeros(const Shape& shape, TensorOptions options, Where where) {
  return filled("zeros", shape, number(0, options.dtype), options, where);
}
Tensor ones(const Shape& shape, TensorOptions options, Where where) {
  return filled("ones", shape, number(1, options.dtype), options, where);
}
Tensor empty_like(const Tensor& x, Where where) {
  const TensorOptions options = options_of("empty_like", x, where);
  return empty(x.shape(), options, where);
}
Tensor zeros_like(const Tensor& x, Where where) {
  const TensorOptions options = options_of("zeros_like", x, where);
  return zeros(x.shape(), options, where);
}
Tensor ones_like(const Tensor& x, Where where) {
  const TensorOptions options = options_of("ones_like", x, where);
  return ones(x.shape(), options, where);
}
Tensor full_like(const Tensor& x, Scalar value, Where where) {
  const TensorOptions options = options_of("full_like", x, where);
  return full(x.shape(), value, options, where);
}

Tensor scalar(Scalar value, TensorOptions options, Where where) {
  return core::scalar_tensor("scalar", value, options.dtype, options.device, where);
}

namespace {

/// ceil((end - begin) / step), exactly; the difference may exceed 2^63.
std::int64_t whole_steps(std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (begin == end || (step > 0) != (begin < end)) return 0;
  const auto distance = step > 0 ? static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin)
                                 : static_cast<std::uint64_t>(begin) - static_cast<std::uint64_t>(end);
  const auto width = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t steps = (distance - 1) / width + 1;
  return steps > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(steps);  // more than memory holds in any case
}

std::int64_t real_steps(double begin, double end, double step, Where where) {
  const double steps = std::ceil((end - begin) / step);
  if (steps >= 0x1p62)
    base::fail<ShapeError>(where, "arange: from ", begin, " to ", end, " in steps of ", step,
                           " has 2^62 values or more.");
  return steps > 0 ? static_cast<std::int64_t>(steps) : 0;
}

bool all_integers(Scalar begin, Scalar end, Scalar step) {
  return begin.kind() == Scalar::Kind::integer && end.kind() == Scalar::Kind::integer &&
         step.kind() == Scalar::Kind::integer;
}

/// Calls write(i) for all i below count.
template <class Write>
void in_pieces(std::int64_t count, Write write) {
  constexpr std::int64_t kGrain = 1 << 15;
  base::parallel_for(count, kGrain, [=](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) write(i);
  });
}

/// begin + i * step, below end; the product by itself may exceed 2^63.
std::int64_t whole_value(std::int64_t begin, std::int64_t step, std::int64_t i) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(begin) +
                                   static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
}

}  // namespace

Tensor arange(Scalar begin, Scalar end, Scalar step, TensorOptions options, Where where) {
  const bool integers = all_integers(begin, end, step), whole = is_integer(options.dtype);
  core::require_device("arange", options.device, where);
  if (options.dtype == DType::bool8 || (whole && !integers))
    base::fail<DTypeError>(where, "arange: from ", begin, " to ", end, " in steps of ", step, " does not go with ",
                           options.dtype, "; integers go with numeric types, floating numbers with floating ones.");
  for (const Scalar given : {begin, end, step})
    if (integers && given.too_large())
      base::fail<DTypeError>(where, "arange: the number ", given.as_double(), " is out of range for int64.");
  if (step.as_double() == 0 || !std::isfinite(step.as_double()) || !std::isfinite(end.as_double() - begin.as_double()))
    base::fail<ShapeError>(where, "arange: from ", begin, " to ", end, " in steps of ", step,
                           " does not end; the step must not be 0 and all three must be finite.");
  const std::int64_t count = integers ? whole_steps(begin.as_int64(), end.as_int64(), step.as_int64())
                                      : real_steps(begin.as_double(), end.as_double(), step.as_double(), where);
  if (whole && count > 0) {
    core::to_element("arange", begin, options.dtype, where);
    core::to_element("arange", whole_value(begin.as_int64(), step.as_int64(), count - 1), options.dtype, where);
  }
  core::note_start();
  Tensor result = empty(Shape({count}, where), {options.dtype, cpu()}, where);
  core::visit_numbers(options.dtype, [&]<class T>(Type<T>) {
    T* to = result.impl()->as<T>();
    if constexpr (core::kIsReal<T>) {
      const double first = begin.as_double(), width = step.as_double();
      in_pieces(count, [=](std::int64_t i) { to[i] = static_cast<T>(first + static_cast<double>(i) * width); });
    } else {
      const std::int64_t first = begin.as_int64(), width = step.as_int64();
      in_pieces(count, [=](std::int64_t i) { to[i] = static_cast<T>(whole_value(first, width, i)); });
    }
  });
  core::host_wrote(*result.impl());
  result = moved(result, options.device, where);
  core::note_made("arange", result, where);
  return result;
}

Tensor arange(Scalar begin, Scalar end, Scalar step, Where where) {
  const bool integers = all_integers(begin, end, step);
  return arange(begin, end, step, {integers ? DType::int64 : DType::float32}, where);
}

Tensor arange(Scalar end, Where where) {
  return arange(end.kind() == Scalar::Kind::floating ? Scalar(0.0) : Scalar(0), end, 1, where);
}

Tensor linspace(double begin, double end, std::int64_t count, TensorOptions options, Where where) {
  if (!is_floating(options.dtype))
    base::fail<DTypeError>(where, "linspace: the type is ", options.dtype, "; it must be a floating type.");
  core::require_device("linspace", options.device, where);
  core::note_start();
  Tensor result = empty(Shape({count}, where), {options.dtype, cpu()}, where);
  const double step = count > 1 ? (end - begin) / static_cast<double>(count - 1) : 0;
  core::visit_real(options.dtype, [&]<class T>(Type<T>) {
    T* to = result.impl()->as<T>();
    in_pieces(count, [=](std::int64_t i) { to[i] = static_cast<T>(begin + static_cast<double>(i) * step); });
    if (count > 1) to[count - 1] = static_cast<T>(end);
  });
  core::host_wrote(*result.impl());
  result = moved(result, options.device, where);
  core::note_made("linspace", result, where);
  return result;
}

Tensor eye(std::int64_t rows, std::int64_t columns, TensorOptions options, Where where) {
  if (columns < 0) columns = rows;
  core::require_device("eye", options.device, where);
  core::note_start();
  Tensor result = core::make_tensor(Shape({rows, columns}, where), options.dtype, cpu(), where);
  core::backend_of(cpu(), where).fill(*result.impl(), number(0, options.dtype));
  core::visit(options.dtype, [&]<class T>(Type<T>) {
    for (std::int64_t i = 0; i < rows && i < columns; ++i) result.impl()->as<T>()[i * columns + i] = T(1);
  });
  core::host_wrote(*result.impl());
  result = moved(result, options.device, where);
  core::note_made("eye", result, where);
  return result;
}

template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape, Where where) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    base::fail<ShapeError>(where, "from_span: ", values.size(), " values do not fill shape ", shape, "; it needs ",
                           shape.numel(), ".");
  core::note_start();
  Tensor result = core::make_tensor(shape, dtype_of<T>(), cpu(), where);
  if (!values.empty()) std::memcpy(result.impl()->data, values.data(), values.size_bytes());
  core::host_wrote(*result.impl());
  result = moved(result, default_device(), where);
  core::note_made("from_span", result, where);
  return result;
}

template <class T>
Tensor from_memory(T* values, const Shape& shape, void (*release)(void*), void* context, Where where) {
  if (core::recording() != nullptr)
    base::fail<Error>(where,
                      "from_memory: a plan cannot keep memory that belongs to somebody else. Make the tensor "
                      "before freezing, or copy the values with from_span.");
  if (values == nullptr && shape.numel() > 0)
    base::fail<Error>(where, "from_memory: the pointer is null and shape ", shape, " has ", shape.numel(),
                      shape.numel() == 1 ? " element" : " elements", "; it must point to them.");
  return core::make_borrowed(values, shape, dtype_of<T>(), release, context, where);
}

#define CAPSTAN_FOR_TYPE(T)                                                             \
  template CAPSTAN_PUBLIC Tensor from_span<T>(std::span<const T>, const Shape&, Where); \
  template CAPSTAN_PUBLIC Tensor from_memory<T>(T*, const Shape&, void (*)(void*), void*, Where);
CAPSTAN_EVERY_ELEMENT(CAPSTAN_FOR_TYPE)
#undef CAPSTAN_FOR_TYPE

// --- nested braces ---

namespace {

struct NestedShape {
  std::int64_t sizes[kMaxRank] = {};
  int rank = -1;  // not known yet
};

void measure(const NestedList& list, int depth, NestedShape& shape, Where where) {
  if (list.is_leaf()) {
    if (shape.rank < 0) shape.rank = depth;
    if (shape.rank != depth)
      base::fail<ShapeError>(where, "Tensor: braces nest ", depth, " deep at one value and ", shape.rank,
                             " deep at another; all values must stand equally deep.");
    return;
  }
  const auto count = static_cast<std::int64_t>(list.items().size());
  if (depth == kMaxRank)
    base::fail<ShapeError>(where, "Tensor: braces nest deeper than ", kMaxRank, "; a tensor has at most ", kMaxRank,
                           " axes.");
  if (shape.rank >= 0 && depth >= shape.rank)
    base::fail<ShapeError>(
        where, "Tensor: braces nest deeper at one place than at another; all values must stand equally deep.");
  if (shape.sizes[depth] != 0 && shape.sizes[depth] - 1 != count)
    base::fail<ShapeError>(where, "Tensor: rows of axis ", depth, " have ", shape.sizes[depth] - 1, " and ", count,
                           " items; all must have the same number.");
  shape.sizes[depth] = count + 1;  // plus one, so that 0 means "not known yet"
  for (const NestedList& item : list.items()) measure(item, depth + 1, shape, where);
  if (count == 0 && shape.rank < 0) shape.rank = depth + 1;
}

void find_type(const NestedList& list, DType& type, bool& known, Where where) {
  if (!list.is_leaf()) {
    for (const NestedList& item : list.items()) find_type(item, type, known, where);
  } else if (!known) {
    type = list.dtype();
    known = true;
  } else if (is_floating(type) && is_integer(list.dtype())) {
    // the integer adapts
  } else if (is_integer(type) && is_floating(list.dtype())) {
    type = list.dtype();
  } else if ((type == DType::bool8) != (list.dtype() == DType::bool8)) {
    base::fail<DTypeError>(where, "Tensor: types do not mix: ", type, " and ", list.dtype(),
                           " stand in one list; the Array API table has no common type for them.");
  } else {
    type = promote(type, list.dtype(), where);
  }
}

std::byte* write_values(const NestedList& list, DType type, std::byte* to, Where where) {
  if (list.is_leaf()) {
    const core::Element element = core::to_element("Tensor", list.value(), type, where);
    std::memcpy(to, element.bytes, static_cast<std::size_t>(size_of(type)));
    return to + size_of(type);
  }
  for (const NestedList& item : list.items()) to = write_values(item, type, to, where);
  return to;
}

Tensor from_nested(const NestedList& list, Where where) {
  NestedShape shape;
  measure(list, 0, shape, where);
  for (int axis = 0; axis < shape.rank; ++axis) --shape.sizes[axis];
  DType type = DType::float32;
  bool known = false;
  find_type(list, type, known, where);
  Tensor result =
      core::make_tensor(Shape(std::span<const std::int64_t>(shape.sizes, static_cast<std::size_t>(shape.rank)), where),
                        type, cpu(), where);
  write_values(list, type, result.impl()->data, where);
  core::host_wrote(*result.impl());
  return moved(result, default_device(), where);
}

}  // namespace

Tensor::Tensor(std::initializer_list<NestedList> rows, Where where) : Tensor(from_nested(NestedList(rows), where)) {}
Tensor Tensor::from_number(const NestedList& value, Where where) { return from_nested(value, where); }

}  // namespace capstan
