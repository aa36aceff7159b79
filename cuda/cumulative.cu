// Running sums and their relatives along an axis. Totals are double for floating elements, 64 bits for integers.
#include <limits>

#include "cuda/elements.cuh"
#include "cuda/factors.cuh"
#include "cuda/keys.hpp"
#include "cuda/scans.cuh"

namespace capstan::on_cuda {
namespace {

using core::Cumulation;

/// Elements in the type of their totals.
template <class W>
struct Elements;
template <>
struct Elements<double> {
  const void* x;
  void* y;
  DType dtype;
  __device__ double read(std::int64_t at) const { return read_real(x, dtype, at); }
  __device__ void write(std::int64_t at, double value) const { write_real(y, dtype, at, value); }
};
template <>
struct Elements<std::uint64_t> {  // without a sign: they wrap around, as NumPy's do
  const std::uint64_t* x;
  std::uint64_t* y;
  __device__ std::uint64_t read(std::int64_t at) const { return x[at]; }
  __device__ void write(std::int64_t at, std::uint64_t value) const { y[at] = value; }
};

template <class W>
struct RunningSum {
  using Item = W;
  using Total = W;
  Elements<W> elements;
  __device__ Total none() const { return 0; }
  __device__ Item read(std::int64_t at, std::int64_t) const { return elements.read(at); }
  __device__ Total extend(Total before, Item x) const { return before + x; }
  __device__ Total join(Total before, Total after) const { return before + after; }
  __device__ void write(std::int64_t at, std::int64_t, Total total) const { elements.write(at, total); }
};

struct IntegerProduct {
  using Item = std::uint64_t;
  using Total = std::uint64_t;
  Elements<std::uint64_t> elements;
  __device__ Total none() const { return 1; }
  __device__ Item read(std::int64_t at, std::int64_t) const { return elements.read(at); }
  __device__ Total extend(Total before, Item x) const { return before * x; }
  __device__ Total join(Total before, Total after) const { return before * after; }
  __device__ void write(std::int64_t at, std::int64_t, Total total) const { elements.write(at, total); }
};

struct RealProduct {
  using Item = double;
  using Total = Factor;
  Elements<double> elements;
  __device__ Total none() const { return {1, 0}; }
  __device__ Item read(std::int64_t at, std::int64_t) const { return elements.read(at); }
  __device__ Total extend(Total before, Item x) const { return before * scaled_factor(x, 0); }
  __device__ Total join(Total before, Total after) const { return before * after; }
  __device__ void write(std::int64_t at, std::int64_t, Total total) const { elements.write(at, value_of(total)); }
};

/// sum * exp(largest): no exponent is above 0.
struct Exponentials {
  double largest, sum;
};
struct RunningLogSumExp {
  using Item = double;
  using Total = Exponentials;
  Elements<double> elements;
  __device__ Total none() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  __device__ Item read(std::int64_t at, std::int64_t) const { return elements.read(at); }
  __device__ Total extend(Total before, Item x) const { return join(before, {x, 1}); }
  __device__ Total join(Total before, Total after) const {
    if (after.largest > before.largest)
      return {after.largest, before.sum * kernels::exp(before.largest - after.largest) + after.sum};
    // equal ones apart: the difference of two infinities is NaN
    const double factor = after.largest == before.largest ? 1 : kernels::exp(after.largest - before.largest);
    return {before.largest, before.sum + after.sum * factor};
  }
  __device__ void write(std::int64_t at, std::int64_t, Total total) const {
    elements.write(at, total.largest + kernels::log(total.sum));
  }
};

/// The best element so far, and its place in the row; -1 for none.
struct Best {
  std::uint64_t rank;
  std::int64_t place;
};
struct RunningExtreme {
  using Item = Best;
  using Total = Best;
  const void* x;
  void* values;
  std::int64_t* places;
  ElementOrder order;
  bool largest;
  std::int64_t inner;
  __device__ Total none() const { return {0, -1}; }
  __device__ Item read(std::int64_t at, std::int64_t step) const {
    const std::uint64_t bits = read_bits(x, order.bytes, at), key = order.key(bits);
    return {largest || order.is_nan(bits) ? key : key ^ order.last, step};  // NaN wins either way
  }
  __device__ Total extend(Total before, Item item) const { return join(before, item); }
  __device__ Total join(Total before, Total after) const {
    if (after.place < 0) return before;
    return before.place < 0 || after.rank >= before.rank ? after : before;  // the last of equal ones
  }
  __device__ void write(std::int64_t at, std::int64_t step, Total total) const {
    write_bits(values, order.bytes, at, read_bits(x, order.bytes, at + (total.place - step) * inner));
    places[at] = total.place;
  }
};

/// y -> offset + slope * y, which a part of a row makes of the result before it; nothing of it where the row has begun.
struct Affine {
  Factor slope;
  double offset;
  std::int64_t begun;
};
struct Recurrence {
  struct Item {
    double offset, slope;
    std::int64_t first;
  };
  using Total = Affine;
  Elements<double> out;
  const void *b, *a;
  __device__ Total none() const { return {{1, 0}, 0, 0}; }
  __device__ Item read(std::int64_t at, std::int64_t step) const {
    return {read_real(b, out.dtype, at), step == 0 ? 0 : read_real(a, out.dtype, at), step == 0 ? 1 : 0};
  }
  __device__ Total extend(Total before, Item item) const {
    if (item.first != 0) return {{0, 0}, item.offset, 1};
    return {before.slope * scaled_factor(item.slope, 0), item.offset + carried({item.slope, 0}, before), before.begun};
  }
  __device__ Total join(Total before, Total after) const {
    if (after.begun != 0) return after;
    return {before.slope * after.slope, after.offset + carried(after.slope, before), before.begun};
  }
  __device__ void write(std::int64_t at, std::int64_t, Total total) const { out.write(at, total.offset); }

 private:
  /// What has not begun carries nothing, however large the slope.
  __device__ static double carried(Factor slope, const Total& before) {
    if (before.begun == 0 && before.offset == 0) return 0;
    return value_of(slope * scaled_factor(before.offset, 0));
  }
};

}  // namespace

void cumulate(Cumulation kind, const TensorImpl& x, int axis, bool exclusive, bool reverse, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor dense = packed(x);
  const Lines lines(x.shape, axis);
  if (x.dtype == DType::int64) {
    const Elements<std::uint64_t> elements{dense.impl()->as<std::uint64_t>(), out.as<std::uint64_t>()};
    if (kind == Cumulation::sum) run_scan(RunningSum<std::uint64_t>{elements}, lines, exclusive, reverse);
    else run_scan(IntegerProduct{elements}, lines, exclusive, reverse);
    return;
  }
  const Elements<double> elements{dense.impl()->data, out.data, x.dtype};
  switch (kind) {
    case Cumulation::sum: return run_scan(RunningSum<double>{elements}, lines, exclusive, reverse);
    case Cumulation::product: return run_scan(RealProduct{elements}, lines, exclusive, reverse);
    case Cumulation::logsumexp: return run_scan(RunningLogSumExp{elements}, lines, exclusive, reverse);
  }
}

void cumulative_extreme(bool largest, const TensorImpl& x, int axis, TensorImpl& values, TensorImpl& indices) {
  if (values.numel() == 0) return;
  const Tensor dense = packed(x);
  const Lines lines(x.shape, axis);
  const RunningExtreme scan{dense.impl()->data,    values.data, indices.as<std::int64_t>(),
                            ElementOrder(x.dtype), largest,     lines.inner};
  run_scan(scan, lines, false, false);
}

void recur(const TensorImpl& b, const TensorImpl& a, int axis, bool reverse, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor added = packed(b), factors = packed(a);
  const Recurrence scan{{nullptr, out.data, out.dtype}, added.impl()->data, factors.impl()->data};
  run_scan(scan, Lines(out.shape, axis), false, reverse);
}

}  // namespace capstan::on_cuda
