#include "tests/support.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "lib/core/allocator.hpp"

namespace tests {

using namespace capstan;

namespace {

template <class T>
Tensor converted(const std::vector<double>& numbers, const Shape& shape) {
  std::vector<T> list;
  list.reserve(numbers.size());
  for (const double x : numbers) list.push_back(static_cast<T>(x));
  return from_vector(list, shape);
}

template <class T>
std::vector<double> widened(const std::vector<T>& list) {
  std::vector<double> result;
  result.reserve(list.size());
  for (const T& x : list) result.push_back(static_cast<double>(x));
  return result;
}

void show(const Tensor& actual, const Tensor& expected) {
  UNSCOPED_INFO("actual:\n" << to_string(actual) << "\nexpected:\n" << to_string(expected));
}

}  // namespace

Tensor from_doubles(const std::vector<double>& numbers, const Shape& shape, DType dtype) {
  switch (dtype) {
    case DType::float32: return converted<float>(numbers, shape);
    case DType::float64: return from_vector(numbers, shape);
    case DType::float16: return converted<float16>(numbers, shape);
    case DType::bfloat16: return converted<bfloat16>(numbers, shape);
    case DType::int8: return converted<std::int8_t>(numbers, shape);
    case DType::int16: return converted<std::int16_t>(numbers, shape);
    case DType::int32: return converted<std::int32_t>(numbers, shape);
    case DType::int64: return converted<std::int64_t>(numbers, shape);
    case DType::uint8: return converted<std::uint8_t>(numbers, shape);
    case DType::bool8: return cast(converted<std::uint8_t>(numbers, shape), DType::bool8);
  }
  return {};
}

Tensor random_in(double low, double high, const Shape& shape, DType dtype, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<double> numbers(static_cast<std::size_t>(shape.numel()));
  for (double& x : numbers) x = low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  return from_doubles(numbers, shape, dtype);
}

Tensor strided(const Tensor& x) {
  const NoGrad off;
  if (x.rank() >= 2) return transpose(transpose(x).copy());
  if (x.rank() == 0) return x;
  return stack({x, x}, 1).index({all, 0});
}

std::vector<double> values(const Tensor& t) {
  const NoGrad off;
  switch (t.dtype()) {
    case DType::float32: return widened(t.to_vector<float>());
    case DType::float64: return t.to_vector<double>();
    case DType::float16: return widened(t.to_vector<float16>());
    case DType::bfloat16: return widened(t.to_vector<bfloat16>());
    case DType::int64: return widened(t.to_vector<std::int64_t>());
    default: return widened(cast(t, DType::int64).to_vector<std::int64_t>());
  }
}

double number(const Tensor& t) {
  const std::vector<double> list = values(t);
  if (list.size() != 1) FAIL("one value was expected, there are " << list.size());
  return list[0];
}

double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size()) return kInfinity;
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (a == e && std::isinf(e)) continue;
    if (std::isnan(a) && std::isnan(e)) continue;
    if (!std::isfinite(a) || !std::isfinite(e)) return kInfinity;
    error = std::max(error, std::fabs(a - e));
    scale = std::max(scale, std::fabs(e));
  }
  return scale > 0 ? error / scale : error;
}

double relative_error(const Tensor& actual, const Tensor& expected) {
  if (!actual.defined() || !(actual.shape() == expected.shape())) return kInfinity;
  return relative_error(values(actual), values(expected));
}

bool same(const Tensor& actual, const Tensor& expected) {
  bool equal_so_far = actual.defined() && actual.shape() == expected.shape() && actual.dtype() == expected.dtype();
  if (equal_so_far) {
    const std::vector<double> a = values(actual), e = values(expected);
    for (std::size_t i = 0; i < a.size(); ++i)
      equal_so_far = equal_so_far && (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])));
  }
  if (!equal_so_far) show(actual, expected);
  return equal_so_far;
}

bool close(const Tensor& actual, const Tensor& expected, double tolerance) {
  const double error = relative_error(actual, expected);
  if (error <= tolerance) return true;
  show(actual, expected);
  UNSCOPED_INFO("relative error " << error << ", allowed " << tolerance);
  return false;
}

Message split_message(const std::string& what) {
  const std::size_t open = what.rfind(" (");
  const std::size_t colon = what.rfind(':');
  if (open == std::string::npos || colon == std::string::npos || colon < open || what.back() != ')')
    return {what, "", 0};
  const std::string digits = what.substr(colon + 1, what.size() - colon - 2);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return {what, "", 0};
  return {what.substr(0, open), what.substr(open + 2, colon - open - 2),
          static_cast<unsigned>(std::strtoul(digits.c_str(), nullptr, 10))};
}

void check_errors(const std::vector<ErrorRow>& rows, const std::string& file) {
  for (const ErrorRow& row : rows) {
    INFO("expected: " << row.message);
    const Message message = split_message(row.catch_it(row.call));
    CHECK(message.text == row.message);
    if (row.line != kNoPlace) {
      CHECK(message.line == row.line);
      CHECK(message.file == file);
    }

    const std::int64_t before = memory::stats().in_use;
    row.catch_it(row.call);
    CHECK(memory::stats().in_use == before);
  }
}

PoisonedBuffers::PoisonedBuffers(double value) { capstan::testing::poison_buffers(true, value); }
PoisonedBuffers::~PoisonedBuffers() { capstan::testing::poison_buffers(false); }

}  // namespace tests
