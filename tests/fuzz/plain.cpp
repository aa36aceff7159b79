#include "tests/fuzz/plain.hpp"

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace fuzz {

std::int64_t count_of(const Sizes& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

Plain Plain::fresh(DType dtype, const Sizes& sizes) {
  Plain result{dtype, sizes, {}, {}};
  const auto count = static_cast<std::size_t>(count_of(sizes));
  result.storage = std::make_shared<std::vector<double>>(count);
  for (std::size_t i = 0; i < count; ++i) result.places.push_back(i);
  return result;
}

Plain Plain::view(const Sizes& other, const std::function<std::int64_t(const Sizes&)>& from) const {
  Plain result{dtype, other, storage, {}};
  for_each_index(other,
                 [&](const Sizes& index) { result.places.push_back(places[static_cast<std::size_t>(from(index))]); });
  return result;
}

Sizes index_of(std::int64_t i, const Sizes& sizes) {
  Sizes index(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    index[axis] = i % sizes[axis];
    i /= sizes[axis];
  }
  return index;
}
std::int64_t number_of(const Sizes& index, const Sizes& sizes) {
  std::int64_t i = 0;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) i = i * sizes[axis] + index[axis];
  return i;
}
void for_each_index(const Sizes& sizes, const std::function<void(const Sizes&)>& f) {
  const std::int64_t count = count_of(sizes);
  for (std::int64_t i = 0; i < count; ++i) f(index_of(i, sizes));
}

bool floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::float16 || dtype == DType::bfloat16;
}

namespace {

/// Rounds to so many significant bits, with the least exponent and the largest value of a type.
double rounded(double x, int bits, int least, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - bits, least));
  const double result = std::nearbyint(x / unit) * unit;
  return std::fabs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : result;
}

template <class T>
double wrapped(double x) {
  return static_cast<double>(static_cast<T>(static_cast<std::uint64_t>(static_cast<std::int64_t>(x))));
}

}  // namespace

double as_type(double x, DType dtype) {
  switch (dtype) {
    case DType::float32: return static_cast<double>(static_cast<float>(x));
    case DType::float64: return x;
    case DType::float16: return rounded(x, 11, -24, 65504);
    case DType::bfloat16: return rounded(x, 8, -133, 0x1.FEp127);
    case DType::int8: return wrapped<std::int8_t>(x);
    case DType::int16: return wrapped<std::int16_t>(x);
    case DType::int32: return wrapped<std::int32_t>(x);
    case DType::uint8: return wrapped<std::uint8_t>(x);
    case DType::int64: return x;  // the programs keep them below 2^53
    case DType::bool8: return x != 0;
  }
  return x;
}

double spacing(double x, DType dtype) {
  if (!floating(dtype) || !std::isfinite(x)) return 0;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int bits = dtype == DType::float64 ? 53 : dtype == DType::float32 ? 24 : dtype == DType::float16 ? 11 : 8;
  const int least = dtype == DType::float64   ? -1074
                    : dtype == DType::float32 ? -149
                    : dtype == DType::float16 ? -24
                                              : -133;
  return std::ldexp(1.0, std::max(x == 0 ? least : exponent - bits, least));
}

bool mixes(DType a, DType b) {
  return a == b || (floating(a) && floating(b)) ||
         (!floating(a) && !floating(b) && a != DType::bool8 && b != DType::bool8);
}

DType promoted(DType a, DType b) {
  if (a == b) return a;
  const auto either = [=](DType type) { return a == type || b == type; };
  if (floating(a)) return either(DType::float64) ? DType::float64 : DType::float32;
  if (either(DType::int64)) return DType::int64;
  return either(DType::int32) ? DType::int32 : DType::int16;  // of two of int8, uint8, int16
}

bool broadcast(const Sizes& a, const Sizes& b, Sizes& result) {
  const std::size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

Plain stretched(const Plain& x, const Sizes& sizes) {
  return x.view(sizes, [&](const Sizes& index) {
    Sizes own(x.sizes.size());
    for (std::size_t axis = 0; axis < own.size(); ++axis)
      own[axis] = x.sizes[axis] == 1 ? 0 : index[axis + index.size() - own.size()];
    return number_of(own, x.sizes);
  });
}

void agree(const Pair& pair, double ulps, double absolute) {
  const capstan::Tensor& t = pair.tensor;
  const Plain& p = pair.plain;
  std::ostringstream report;
  Sizes sizes(t.shape().begin(), t.shape().end());
  if (t.dtype() != p.dtype) report << "type " << capstan::name(t.dtype()) << ", expected " << capstan::name(p.dtype);
  else if (sizes != p.sizes) report << "shape " << capstan::to_string(t.shape()) << " differs from the expected one";
  if (report.tellp() > 0) throw std::runtime_error(pair.how + ": " + report.str());
  const std::vector<double> actual = floating(p.dtype) ? capstan::cast(t, DType::float64).to_vector<double>() : [&] {
    const auto list = capstan::cast(t, DType::int64).to_vector<std::int64_t>();
    return std::vector<double>(list.begin(), list.end());
  }();
  for (std::int64_t i = 0; i < p.count(); ++i) {
    const double x = actual[static_cast<std::size_t>(i)], y = p[i];
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    const double most = ulps * spacing(y, p.dtype) + absolute;
    if (!same && !(std::fabs(x - y) <= most)) {
      // a result beyond the largest number may round to it, and the reverse
      const bool edge = std::isinf(x) != std::isinf(y) && std::isinf(as_type((std::isinf(x) ? y : x) * 1.01, p.dtype));
      if (!edge) {
        report.precision(17);
        report << "element " << i << " is " << x << ", expected " << y << " (" << capstan::name(p.dtype) << ")";
        throw std::runtime_error(pair.how + ": " + report.str());
      }
    }
    p[i] = x;
  }
}

}  // namespace fuzz
