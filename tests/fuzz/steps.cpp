// Steps that compute.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "tests/fuzz/programs.hpp"

namespace fuzz {

namespace cs = capstan;
using cs::Tensor;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

cs::Shape shape_of(const Sizes& sizes) { return cs::Shape(std::span<const std::int64_t>(sizes)); }

struct Unary {
  const char* name;
  Tensor (*run)(const Tensor&);
  double (*plain)(double);
  bool floating_only;
  double ulps;
};

const Unary unaries[] = {
    {"abs", [](const Tensor& x) { return cs::abs(x); }, [](double x) { return std::fabs(x); }, false, 0},
    {"neg", [](const Tensor& x) { return -x; }, [](double x) { return -x; }, false, 0},
    {"square", [](const Tensor& x) { return cs::square(x); }, [](double x) { return x * x; }, false, 1},
    {"relu", [](const Tensor& x) { return cs::relu(x); }, [](double x) { return x < 0 ? 0 : x; }, false, 0},
    {"sign", [](const Tensor& x) { return cs::sign(x); }, [](double x) { return x > 0   ? 1.0
                                                                                : x < 0 ? -1.0
                                                                                        : x; },
     false, 0},
    {"exp", [](const Tensor& x) { return cs::exp(x); }, [](double x) { return std::exp(x); }, true, 4},
    {"expm1", [](const Tensor& x) { return cs::expm1(x); }, [](double x) { return std::expm1(x); }, true, 4},
    {"log", [](const Tensor& x) { return cs::log(x); }, [](double x) { return std::log(x); }, true, 4},
    {"log1p", [](const Tensor& x) { return cs::log1p(x); }, [](double x) { return std::log1p(x); }, true, 4},
    {"sqrt", [](const Tensor& x) { return cs::sqrt(x); }, [](double x) { return std::sqrt(x); }, true, 1},
    {"sin", [](const Tensor& x) { return cs::sin(x); }, [](double x) { return std::sin(x); }, true, 4},
    {"cos", [](const Tensor& x) { return cs::cos(x); }, [](double x) { return std::cos(x); }, true, 4},
    {"tanh", [](const Tensor& x) { return cs::tanh(x); }, [](double x) { return std::tanh(x); }, true, 4},
    {"atan", [](const Tensor& x) { return cs::atan(x); }, [](double x) { return std::atan(x); }, true, 4},
    {"erf", [](const Tensor& x) { return cs::erf(x); }, [](double x) { return std::erf(x); }, true, 4},
    {"floor", [](const Tensor& x) { return cs::floor(x); }, [](double x) { return std::floor(x); }, true, 0},
    {"ceil", [](const Tensor& x) { return cs::ceil(x); }, [](double x) { return std::ceil(x); }, true, 0},
    {"round", [](const Tensor& x) { return cs::round(x); }, [](double x) { return std::nearbyint(x); }, true, 0},
    {"trunc", [](const Tensor& x) { return cs::trunc(x); }, [](double x) { return std::trunc(x); }, true, 0},
    {"sigmoid", [](const Tensor& x) { return cs::sigmoid(x); },
     [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, true, 6},
    {"reciprocal", [](const Tensor& x) { return cs::reciprocal(x); }, [](double x) { return 1 / x; }, true, 1},
};

struct Binary {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
  double (*plain)(double, double);
  bool floating_only;
  double ulps;
};

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b); }

const Binary binaries[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return a + b; }, [](double a, double b) { return a + b; }, false, 1},
    {"sub", [](const Tensor& a, const Tensor& b) { return a - b; }, [](double a, double b) { return a - b; }, false, 1},
    {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }, [](double a, double b) { return a * b; }, false, 1},
    {"div", [](const Tensor& a, const Tensor& b) { return a / b; }, [](double a, double b) { return a / b; }, true, 1},
    {"maximum", [](const Tensor& a, const Tensor& b) { return cs::maximum(a, b); }, larger, false, 0},
    {"minimum", [](const Tensor& a, const Tensor& b) { return cs::minimum(a, b); }, smaller, false, 0},
    {"atan2", [](const Tensor& a, const Tensor& b) { return cs::atan2(a, b); },
     [](double a, double b) { return std::atan2(a, b); }, true, 4},
    {"hypot", [](const Tensor& a, const Tensor& b) { return cs::hypot(a, b); },
     [](double a, double b) { return std::hypot(a, b); }, true, 4},
    {"fmod", [](const Tensor& a, const Tensor& b) { return cs::fmod(a, b); },
     [](double a, double b) { return std::fmod(a, b); }, true, 1},
};

struct Comparison {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
  bool (*plain)(double, double);
  bool on_bool;
};

const Comparison comparisons[] = {
    {"equal", [](const Tensor& a, const Tensor& b) { return a == b; }, [](double a, double b) { return a == b; }, true},
    {"not_equal", [](const Tensor& a, const Tensor& b) { return a != b; }, [](double a, double b) { return a != b; },
     true},
    {"less", [](const Tensor& a, const Tensor& b) { return a < b; }, [](double a, double b) { return a < b; }, false},
    {"less_equal", [](const Tensor& a, const Tensor& b) { return a <= b; }, [](double a, double b) { return a <= b; },
     false},
    {"greater", [](const Tensor& a, const Tensor& b) { return a > b; }, [](double a, double b) { return a > b; },
     false},
    {"greater_equal", [](const Tensor& a, const Tensor& b) { return a >= b; },
     [](double a, double b) { return a >= b; }, false},
};

/// Integers grow without bound in chains; beyond this the reference's doubles would not be exact.
bool small(const Plain& x, double most) {
  if (x.dtype != DType::int64 && x.dtype != DType::int32) return true;
  for (std::int64_t i = 0; i < x.count(); ++i)
    if (std::fabs(x[i]) > most) return false;
  return true;
}

}  // namespace

std::string text_of(const Sizes& sizes) { return cs::to_string(shape_of(sizes)); }

Sizes Program::sizes(int most_rank) {
  static constexpr std::int64_t choices[] = {0, 1, 1, 2, 3, 3, 4, 5, 7, 17, 33};
  Sizes result;
  const int rank = below(most_rank + 1);
  for (int i = 0; i < rank; ++i) result.push_back(choices[chance(5) ? 0 : 1 + below(10)]);
  while (count_of(result) > kMostElements) result.pop_back();
  return result;
}

DType Program::dtype() {
  static constexpr DType types[] = {DType::float32, DType::float64,  DType::float32, DType::float64,
                                    DType::float16, DType::bfloat16, DType::int8,    DType::int16,
                                    DType::int32,   DType::int64,    DType::uint8,   DType::bool8};
  return types[below(12)];
}

double Program::value(DType type) {
  if (type == DType::bool8) return below(2);
  if (!floating(type)) return as_type(chance(10) ? below(300) - 150 : below(20) - 10, type);
  static constexpr double special[] = {0, -0.0, 1, -1, kNaN, HUGE_VAL, -HUGE_VAL, 1e-40, 1e-300, 60000, 3e38};
  if (chance(3)) return as_type(special[below(11)], type);
  return as_type((static_cast<double>(random_() >> 11) * 0x1p-53 - 0.5) * (chance(10) ? 200 : 6), type);
}

void Program::keep(Pair pair, double ulps, double absolute) {
  const std::string name = "t" + std::to_string(history_.size());
  history_.push_back(name + " = " + pair.how);
  agree(pair, ulps, absolute);
  pair.how = name;
  if (pairs_.size() < 12) pairs_.push_back(std::move(pair));
  else pairs_[static_cast<std::size_t>(below(12))] = std::move(pair);
}

bool Program::create() {
  const DType type = dtype();
  Plain plain = Plain::fresh(type, sizes());
  for (std::int64_t i = 0; i < plain.count(); ++i) plain[i] = value(type);
  const std::string how = std::string("create ") + cs::name(type) + " " + text_of(plain.sizes);
  Tensor tensor = cs::from_vector(*plain.storage, shape_of(plain.sizes)).to(type).copy();
  keep({std::move(tensor), std::move(plain), how}, 0);
  return true;
}

bool Program::unary() {
  const Pair& x = any();
  const Unary& op = unaries[below(static_cast<int>(std::size(unaries)))];
  if (x.plain.dtype == DType::bool8 || (op.floating_only && !floating(x.plain.dtype)) || !small(x.plain, 1e7))
    return false;
  Plain result = Plain::fresh(x.plain.dtype, x.plain.sizes);
  for (std::int64_t i = 0; i < result.count(); ++i) result[i] = as_type(op.plain(x.plain[i]), x.plain.dtype);
  Tensor tensor = op.run(x.tensor);
  keep({std::move(tensor), std::move(result), std::string(op.name) + "(" + x.how + ")"}, op.ulps);
  return true;
}

bool Program::binary() {
  const Pair a = any(), b = any();
  const Binary& op = binaries[below(static_cast<int>(std::size(binaries)))];
  Sizes out;
  if (!mixes(a.plain.dtype, b.plain.dtype) || !broadcast(a.plain.sizes, b.plain.sizes, out) ||
      count_of(out) > kMostElements)
    return false;
  const DType type = promoted(a.plain.dtype, b.plain.dtype);
  if (type == DType::bool8 || (op.floating_only && !floating(type)) || !small(a.plain, 1e7) || !small(b.plain, 1e7))
    return false;
  const Plain x = stretched(a.plain, out), y = stretched(b.plain, out);
  Plain result = Plain::fresh(type, out);
  for (std::int64_t i = 0; i < result.count(); ++i) result[i] = as_type(op.plain(x[i], y[i]), type);
  Tensor tensor = op.run(a.tensor, b.tensor);
  keep({std::move(tensor), std::move(result), std::string(op.name) + "(" + a.how + ", " + b.how + ")"}, op.ulps);
  return true;
}

bool Program::compare() {
  const Pair a = any(), b = any();
  const Comparison& op = comparisons[below(6)];
  Sizes out;
  if (!mixes(a.plain.dtype, b.plain.dtype) || !broadcast(a.plain.sizes, b.plain.sizes, out) ||
      count_of(out) > kMostElements || (!op.on_bool && a.plain.dtype == DType::bool8))
    return false;
  const Plain x = stretched(a.plain, out), y = stretched(b.plain, out);
  Plain result = Plain::fresh(DType::bool8, out);
  for (std::int64_t i = 0; i < result.count(); ++i) result[i] = op.plain(x[i], y[i]);
  keep({op.run(a.tensor, b.tensor), std::move(result), std::string(op.name) + "(" + a.how + ", " + b.how + ")"}, 0);
  return true;
}

bool Program::choose() {
  const Pair c = any(), a = any(), b = any();
  Sizes two, out;
  if (c.plain.dtype != DType::bool8 || !mixes(a.plain.dtype, b.plain.dtype) ||
      !broadcast(a.plain.sizes, b.plain.sizes, two) || !broadcast(two, c.plain.sizes, out) ||
      count_of(out) > kMostElements)
    return false;
  const DType type = promoted(a.plain.dtype, b.plain.dtype);
  const Plain x = stretched(a.plain, out), y = stretched(b.plain, out), z = stretched(c.plain, out);
  Plain result = Plain::fresh(type, out);
  for (std::int64_t i = 0; i < result.count(); ++i) result[i] = z[i] != 0 ? x[i] : y[i];
  keep({cs::where(c.tensor, a.tensor, b.tensor), std::move(result),
        "where(" + c.how + ", " + a.how + ", " + b.how + ")"},
       0);
  return true;
}

bool Program::convert() {
  const Pair x = any();
  const DType type = dtype();
  if (!small(x.plain, 0x1p52)) return false;
  Plain result = Plain::fresh(type, x.plain.sizes);
  const double low = type == DType::int8 ? -128 : type == DType::int16 ? -32768 : type == DType::int32 ? -0x1p31 : 0;
  const double high = type == DType::int8    ? 127
                      : type == DType::int16 ? 32767
                      : type == DType::int32 ? 0x1p31 - 1
                                             : 255;
  for (std::int64_t i = 0; i < result.count(); ++i) {
    double v = x.plain[i];
    if (floating(x.plain.dtype) && !floating(type) && type != DType::bool8) {
      v = std::isnan(v) ? 0 : std::trunc(v);  // toward zero and into the range
      if (type != DType::int64) v = std::min(std::max(v, low), high);
      else if (std::fabs(v) > 0x1p52) return false;
    }
    result[i] = as_type(v, type);
  }
  keep({cs::cast(x.tensor, type), std::move(result), std::string("cast(") + x.how + ", " + cs::name(type) + ")"}, 0);
  return true;
}

bool Program::reduce() {
  const Pair x = any();
  const int kind = below(4);  // sum, max, mean, argmax
  if (x.plain.rank() == 0 || !small(x.plain, 1e9) || (kind > 0 && x.plain.dtype == DType::bool8) ||
      (kind == 2 && !floating(x.plain.dtype)))
    return false;
  const int axis = below(x.plain.rank());
  const std::int64_t size = x.plain.sizes[static_cast<std::size_t>(axis)];
  if (size == 0 && kind > 0) return false;
  const bool keepdims = chance(40);
  const DType type = kind == 3 ? DType::int64 : kind == 0 && !floating(x.plain.dtype) ? DType::int64 : x.plain.dtype;
  Sizes out = x.plain.sizes, short_out = out;
  out[static_cast<std::size_t>(axis)] = 1;
  short_out.erase(short_out.begin() + axis);
  Plain result = Plain::fresh(type, out);
  double absolute = 0;
  bool overflows = false;  // sums of float32 may, on their way
  for_each_index(out, [&](const Sizes& at) {
    double sum = 0, most = -HUGE_VAL, magnitude = 0;
    std::int64_t best = 0;
    bool nan = false;
    for (std::int64_t k = 0; k < size; ++k) {
      Sizes from = at;
      from[static_cast<std::size_t>(axis)] = k;
      const double v = x.plain[number_of(from, x.plain.sizes)];
      sum += v;
      if (std::isfinite(v)) magnitude += std::fabs(v);
      if (!nan && (std::isnan(v) || v > most)) best = k, most = v;
      nan = nan || std::isnan(v);
    }
    const double value = kind == 0   ? sum
                         : kind == 1 ? (nan ? kNaN : most)
                         : kind == 2 ? sum / static_cast<double>(size)
                                     : static_cast<double>(best);
    if (kind == 3 && !nan && size > 0 && most == -HUGE_VAL) best = 0;
    result[number_of(at, out)] = as_type(kind == 3 ? static_cast<double>(best) : value, type);
    if (floating(type)) absolute = std::max(absolute, magnitude * (type == DType::float64 ? 1e-14 : 1e-6));
    overflows = overflows || magnitude > 1e38;
  });
  if (overflows && (kind == 0 || kind == 2)) return false;
  Tensor tensor = kind == 0   ? cs::sum(x.tensor, axis, {.keepdims = keepdims})
                  : kind == 1 ? cs::max(x.tensor, axis, {.keepdims = keepdims})
                  : kind == 2 ? cs::mean(x.tensor, axis, {.keepdims = keepdims})
                              : cs::argmax(x.tensor, axis, {.keepdims = keepdims});
  if (!keepdims) result.sizes = short_out;
  static constexpr const char* names[] = {"sum", "max", "mean", "argmax"};
  keep({std::move(tensor), std::move(result),
        std::string(names[kind]) + "(" + x.how + ", " + std::to_string(axis) + ")"},
       kind == 1 ? 0 : 2, absolute * 4);
  return true;
}

bool Program::scan() {
  const Pair x = any();
  const int kind = below(3);  // cumsum, sort, argsort
  if (x.plain.rank() == 0 || !small(x.plain, 1e9) || x.plain.dtype == DType::bool8) return false;
  const int axis = below(x.plain.rank());
  const std::int64_t size = x.plain.sizes[static_cast<std::size_t>(axis)];
  const DType type = kind == 2 || (kind == 0 && !floating(x.plain.dtype)) ? DType::int64 : x.plain.dtype;
  Plain result = Plain::fresh(type, x.plain.sizes);
  Sizes rows = x.plain.sizes;
  rows[static_cast<std::size_t>(axis)] = 1;
  double absolute = 0;
  bool overflows = false;
  if (size > 0)
    for_each_index(rows, [&](const Sizes& row) {
      const auto at = [&](std::int64_t k) {
        Sizes index = row;
        index[static_cast<std::size_t>(axis)] = k;
        return number_of(index, x.plain.sizes);
      };
      std::vector<std::int64_t> order(static_cast<std::size_t>(size));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const double u = x.plain[at(a)], v = x.plain[at(b)];
        return u < v || (!std::isnan(u) && std::isnan(v));  // NaN last
      });
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < size; ++k) {
        sum += x.plain[at(k)];
        if (std::isfinite(x.plain[at(k)])) magnitude += std::fabs(x.plain[at(k)]);
        const std::int64_t from = order[static_cast<std::size_t>(k)];
        result[at(k)] = kind == 0 ? as_type(sum, type) : kind == 1 ? x.plain[at(from)] : static_cast<double>(from);
      }
      overflows = overflows || magnitude > 1e38;
      if (kind == 0 && floating(type))
        absolute = std::max(absolute, magnitude * (type == DType::float64 ? 1e-14 : 1e-6));
    });
  if (overflows && kind == 0) return false;
  Tensor tensor = kind == 0   ? cs::cumsum(x.tensor, axis)
                  : kind == 1 ? cs::sort(x.tensor, axis)
                              : cs::argsort(x.tensor, axis);
  static constexpr const char* names[] = {"cumsum", "sort", "argsort"};
  keep({std::move(tensor), std::move(result),
        std::string(names[kind]) + "(" + x.how + ", " + std::to_string(axis) + ")"},
       kind == 0 ? 2 : 0, absolute * 4);
  return true;
}

bool Program::multiply() {
  const Pair a = any(), b = any();
  const Plain &x = a.plain, &y = b.plain;
  if (x.rank() != 2 || y.rank() < 2 || y.rank() > 3 || !floating(x.dtype) || !floating(y.dtype)) return false;
  const std::int64_t m = x.sizes[0], k = x.sizes[1], n = y.sizes.back();
  if (y.sizes[static_cast<std::size_t>(y.rank()) - 2] != k) return false;
  const std::int64_t batch = y.rank() == 3 ? y.sizes[0] : 1;
  if (batch * m * n > kMostElements) return false;
  const DType type = promoted(x.dtype, y.dtype);
  Plain result = Plain::fresh(type, y.rank() == 3 ? Sizes{batch, m, n} : Sizes{m, n});
  double absolute = 0;
  for (std::int64_t t = 0; t < batch; ++t)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const double term = x[i * k + l] * y[(t * k + l) * n + j];
          if (!std::isfinite(term)) return false;  // the order of additions decides what infinities give
          sum += term;
          magnitude += std::fabs(term);
        }
        if (magnitude > 1e37) return false;
        result[(t * m + i) * n + j] = as_type(sum, type);
        absolute = std::max(absolute, magnitude * (type == DType::float64 ? 1e-14 : 2e-6));
      }
  keep({cs::matmul(a.tensor, b.tensor), std::move(result), "matmul(" + a.how + ", " + b.how + ")"}, 2, absolute);
  return true;
}

}  // namespace fuzz
