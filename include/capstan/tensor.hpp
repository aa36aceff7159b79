#pragma once
// Tensor: an n-dimensional array that computes at once.
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <capstan/device.hpp>
#include <capstan/dtype.hpp>
#include <capstan/scalar.hpp>
#include <capstan/shape.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct TensorImpl;  // hidden: lib/core/tensor_impl.hpp
class Index;
struct Operand;
struct RightOperand;

namespace detail {
/// What no int64 holds is out of range for every tensor, not one of the last.
template <std::integral T>
constexpr std::int64_t index_of(T value) noexcept {
  return value > 0 && static_cast<std::uint64_t>(value) > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(value);
}
}  // namespace detail

/// A number that indexes, and the place it is used at: what lets `x[2]` and `x.at<float>(0, 1)` name the caller's line.
struct Position {
  std::int64_t value;
  Where where;
  template <std::integral T>
  requires(!std::is_same_v<T, bool>) Position(T v, Where w = Where::current())
  noexcept : value(detail::index_of(v)), where(w) {}
};

struct IndexPutOptions {
  bool accumulate = false;  ///< add to what is there instead of replacing it
};

/// Braces inside braces: `{{1.0f, 2.0f}, {3.0f, 4.0f}}`. Exists only to build tensors from.
class NestedList {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr NestedList(T value) noexcept : value_(value), dtype_(literal_dtype<T>()), leaf_(true) {}
  constexpr NestedList(std::initializer_list<NestedList> items) noexcept : value_(0), items_(items), leaf_(false) {}

  bool is_leaf() const noexcept { return leaf_; }
  Scalar value() const noexcept { return value_; }
  DType dtype() const noexcept { return dtype_; }
  std::initializer_list<NestedList> items() const noexcept { return items_; }

 private:
  template <class T>
  static constexpr DType literal_dtype() {
    if constexpr (std::is_same_v<T, float>) return DType::float32;
    else if constexpr (std::is_floating_point_v<T>) return DType::float64;
    else if constexpr (std::is_same_v<T, bool>) return DType::bool8;
    else if constexpr (std::is_same_v<T, unsigned char>) return DType::uint8;
    else if constexpr (sizeof(T) < 4 || (sizeof(T) == 4 && std::is_signed_v<T>)) return DType::int32;
    else return DType::int64;
  }
  Scalar value_;
  std::initializer_list<NestedList> items_;
  DType dtype_ = DType::int32;
  bool leaf_;
};

/// A handle to an n-dimensional array of 0 to 8 axes.
///
/// Copying a Tensor copies the handle: both then name the same elements, as in NumPy and PyTorch. `copy()` copies the
/// elements. A default-constructed Tensor is undefined: it holds nothing and every use of it but `defined()`,
/// assignment and printing throws Error. Views (rows, ranges, transposes) share the elements of their base.
///
/// Threads: different tensors may be used from different threads at will; one tensor may be read from many threads,
/// and written from one while no other reads it, like a standard container.
class Tensor {
 public:
  Tensor() noexcept = default;
  /// From nested braces, row-major; on the default device. The literals give the type: float -> float32, double ->
  /// float64, int -> int32, 64-bit integers -> int64, bool -> bool; mixes promote, and integers beside floating numbers
  /// adapt.
  /// Throws ShapeError if rows differ in length or nest deeper than 8, DTypeError for bool beside numbers.
  Tensor(std::initializer_list<NestedList> rows, Where where = Where::current());
  /// A single value, shape []. Explicit, so that a number beside a tensor stays a Scalar.
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit Tensor(T value, Where where = Where::current()) : Tensor(from_number(value, where)) {}

  Tensor(const Tensor& other) noexcept;
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) & noexcept;
  Tensor& operator=(Tensor&& other) & noexcept;
  /// `x[0] = y` would change nothing but a handle that goes at once. Write `x[0].assign(y)`, or `x.index_put({0}, y)`.
  Tensor& operator=(const Tensor& other) && = delete;
  ~Tensor();

  bool defined() const noexcept { return impl_ != nullptr; }

  // What it is. All throw Error on an undefined tensor.
  const Shape& shape(Where where = Where::current()) const;
  int rank(Where where = Where::current()) const;
  std::int64_t numel(Where where = Where::current()) const;
  std::int64_t size(int axis, Where where = Where::current()) const;    ///< negative counts from the end; IndexError
  std::int64_t stride(int axis, Where where = Where::current()) const;  ///< in elements; IndexError
  DType dtype(Where where = Where::current()) const;
  Device device(Where where = Where::current()) const;
  bool is_contiguous(Where where = Where::current()) const;                          ///< row-major without gaps
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }  ///< the very same tensor
  bool shares_storage(const Tensor& other) const noexcept;
  std::uint32_t version(Where where = Where::current()) const;  ///< counts writes to the storage; views share it

  // Single values. T must be the tensor's element type (DTypeError otherwise); indices may be negative (IndexError).
  // Values on another device are copied to the host first.
  template <class T>
  T item(Where where = Where::current()) const;  ///< the value of a tensor with one element; ShapeError otherwise
  template <class T, std::integral... I>
  T at(Position first, I... more) const {
    const std::int64_t index[] = {first.value, detail::index_of(more)...};
    T value;
    read_at(index, &value, dtype_of<T>(), first.where);
    return value;
  }
  template <class T>
  T at(Where where = Where::current()) const {  ///< of a tensor without axes
    T value;
    read_at({}, &value, dtype_of<T>(), where);
    return value;
  }
  /// Writes one value in place and counts as a write to the storage.
  template <class T, std::integral... I>
  void set(T value, Position first, I... more) {
    const std::int64_t index[] = {first.value, detail::index_of(more)...};
    write_at(index, &value, dtype_of<T>(), first.where);
  }

  // All values.
  template <class T>
  std::vector<T> to_vector(Where where = Where::current()) const;  ///< a copy in row-major order; DTypeError
  /// The elements themselves. The tensor must be contiguous (ShapeError), on the CPU (DeviceError), of type T (DTypeError).
  template <class T>
  std::span<const T> span(Where where = Where::current()) const;
  /// The same for writing; counts as a write to the storage.
  template <class T>
  std::span<T> mutable_span(Where where = Where::current());
  /// Address of the first element; strides apply. No copy; only the type is checked, and for writing that no tape
  /// follows the tensor and no axis is stretched over one element.
  template <class T>
  const T* data(Where where = Where::current()) const;
  template <class T>
  T* mutable_data(Where where = Where::current());

  // Views and copies. All are differentiable.
  Tensor operator[](Position row) const;          ///< a view of one row of the first axis; IndexError
  Tensor operator[](const Operand& index) const;  ///< `index({index})` with an index tensor or a mask
  /// The elements that NumPy's x[...] gives; axes left out are taken whole.
  ///
  /// Integers, `range`, `all`, `newaxis` and `ellipsis` give a view. With a tensor among the entries it is a copy:
  /// a tensor of integers chooses along one axis, negative ones counting from the end; a bool tensor, a mask, stands
  /// for as many axes as it has, which it must have the sizes of, and chooses where it is true, in row-major order.
  /// Several index tensors broadcast with each other and choose together, one element (or slice of the axes left whole)
  /// for each of their places; integers beside them do the same. The axes of the places stand where the tensors and
  /// integers stood if these are side by side, and first if a range, a new axis or an ellipsis comes between.
  ///
  /// Gradient  elements that were chosen several times add up, in order: the same for any number of threads
  /// Throws    IndexError  an index out of range, too many indices    DTypeError  a tensor of another type
  ///           ShapeError  a mask that does not fit, index tensors that do not broadcast, more than 8 axes
  Tensor index(std::initializer_list<Index> indices, Where where = Where::current()) const;
  Tensor index(std::span<const Index> indices, Where where = Where::current()) const;
  /// Writes `value`, broadcast and converted as `to(dtype)` does, to the elements that `index` would give. In place.
  /// Where index tensors name an element several times, the last value in row-major order stays; with
  /// `{.accumulate = true}` all are added, in that order, to what is there.
  void index_put(std::initializer_list<Index> indices, const Tensor& value, IndexPutOptions options = {},
                 Where where = Where::current());
  void index_put(std::initializer_list<Index> indices, Scalar value, IndexPutOptions options = {},
                 Where where = Where::current());
  void index_put(std::span<const Index> indices, const Tensor& value, IndexPutOptions options = {},
                 Where where = Where::current());

  Tensor copy(Where where = Where::current()) const;               ///< own contiguous elements
  Tensor contiguous(Where where = Where::current()) const;         ///< itself if contiguous, a copy otherwise
  Tensor to(DType dtype, Where where = Where::current()) const;    ///< itself if it has that type; see `cast`
  Tensor to(Device device, Where where = Where::current()) const;  ///< itself if it is there; DeviceError

  // In place. Each counts as a write to the storage; a tape that saved the old value reports it at replay. TapeError
  // at once if a tape follows the result or the value.
  void fill(Scalar value, Where where = Where::current());
  void assign(const Tensor& value, Where where = Where::current());  ///< copies values in, broadcast and converted
  Tensor& operator+=(const RightOperand& other);
  Tensor& operator-=(const RightOperand& other);
  Tensor& operator*=(const RightOperand& other);
  Tensor& operator/=(const RightOperand& other);

  /// `[2, 2] float32 cpu  min 6  max 26  mean 14  std 7.35  nan 0  inf 0`; std is of the population.
  std::string describe(Where where = Where::current()) const;

  TensorImpl* impl() const noexcept { return impl_; }
  /// Takes over one reference. For the library itself.
  static Tensor adopt(TensorImpl* impl) noexcept {
    Tensor t;
    t.impl_ = impl;
    return t;
  }

 private:
  static Tensor from_number(const NestedList& value, Where where);
  void read_at(std::span<const std::int64_t> index, void* value, DType dtype, Where where) const;
  void write_at(std::span<const std::int64_t> index, const void* value, DType dtype, Where where);

  TensorImpl* impl_ = nullptr;
};

/// Values laid out as NumPy does, then shape, dtype and device. Long axes are cut to their first and last three.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
std::string to_string(const Tensor& tensor, Where where = Where::current());

// --- indices ----------------------------------------------------------------------------------------------------

struct All {};
struct NewAxis {};
struct Ellipsis {};
inline constexpr All all{};            ///< the whole axis: Python's `:`
inline constexpr NewAxis newaxis{};    ///< a new axis of size 1
inline constexpr Ellipsis ellipsis{};  ///< as many whole axes as are missing: Python's `...`

/// Python's slice `begin:end:step`. Negative positions count from the end, positions outside are clamped.
struct Range {
  static constexpr std::int64_t kOpen = INT64_MIN;  ///< "from the start" or "to the end"
  std::int64_t begin = kOpen, end = kOpen, step = 1;
};
/// Elements begin, begin+step, ... before end. A step of 0 is an IndexError when used; negative steps walk backwards.
constexpr Range range(std::int64_t begin, std::int64_t end, std::int64_t step = 1) noexcept {
  return {begin, end, step};
}
constexpr Range from(std::int64_t begin, std::int64_t step = 1) noexcept { return {begin, Range::kOpen, step}; }
constexpr Range until(std::int64_t end, std::int64_t step = 1) noexcept { return {Range::kOpen, end, step}; }

/// One entry of an index. One that is a tensor holds a handle to it.
class Index {
 public:
  enum class Kind : std::uint8_t { integer, range, new_axis, dots, tensor };
  template <std::integral T>
  requires(!std::is_same_v<T, bool>)  // a single bool would be a mask in NumPy: write Tensor(true)
      constexpr Index(T position) noexcept
      : range_{detail::index_of(position), 0, 1}, kind_(Kind::integer) {}
  constexpr Index(Range r) noexcept : range_(r), kind_(Kind::range) {}
  constexpr Index(All) noexcept : kind_(Kind::range) {}
  constexpr Index(NewAxis) noexcept : kind_(Kind::new_axis) {}
  constexpr Index(Ellipsis) noexcept : kind_(Kind::dots) {}
  Index(const Tensor& indices) noexcept : tensor_(indices), kind_(Kind::tensor) {}

  Kind kind() const noexcept { return kind_; }
  std::int64_t integer() const noexcept { return range_.begin; }
  const Range& as_range() const noexcept { return range_; }
  const Tensor& tensor() const noexcept { return tensor_; }

 private:
  Range range_;
  Tensor tensor_;
  Kind kind_;
};

// --- what operators take on their left, so that they learn the caller's line ------------------------------------

/// A tensor and the place it is used at. Converted from Tensor by itself.
struct Operand {
  const Tensor& tensor;
  Where where;
  Operand(const Tensor& t, Where w = Where::current()) noexcept : tensor(t), where(w) {}
};
/// A tensor or a number on the right of an assignment or of == and !=, and the place it is used at. C++20 also tries
/// == with its sides exchanged; that both sides are converted makes the written order win.
struct RightOperand {
  const Tensor* tensor = nullptr;
  Scalar value = 0;
  Where where;
  RightOperand(const Tensor& t, Where w = Where::current()) noexcept : tensor(&t), where(w) {}
  template <class T>
  requires std::is_arithmetic_v<T> RightOperand(T v, Where w = Where::current())
  noexcept : value(v), where(w) {}
};
struct RightTensor {
  const Tensor& tensor;
  RightTensor(const Tensor& t) noexcept : tensor(t) {}
};
/// A number on the left of an operator and the place it is used at.
struct ScalarOperand {
  Scalar value;
  Where where;
  template <class T>
  requires std::is_arithmetic_v<T> ScalarOperand(T v, Where w = Where::current())
  noexcept : value(v), where(w) {}
};

namespace detail {
/// For interop/xtensor.hpp. Throws DeviceError unless the tensor is on the CPU, ShapeError if a stride is negative.
void require_adaptable(const char* op, const Tensor& tensor, Where where);
}  // namespace detail

}  // namespace capstan
