#include "metrics/state.hpp"

#include <algorithm>

#include <capstan/create.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"

namespace capstan::metrics::detail {
namespace {

constexpr std::int64_t kMostCount = INT64_MAX / 2;  // counts go on from there

template <class To, class From>
Tensor on_cpu(std::span<const From> numbers, const Shape& shape, Where where) {
  Tensor tensor = empty(shape, {dtype_of<To>(), cpu()}, where);
  const std::span<To> elements = tensor.mutable_span<To>(where);
  std::transform(numbers.begin(), numbers.end(), elements.begin(), [](From x) { return static_cast<To>(x); });
  return tensor;
}

template <class T>
Shape list_of(std::span<const T> numbers, Where where) {
  return Shape({static_cast<std::int64_t>(numbers.size())}, where);
}

}  // namespace

Tensor state_of(const ExactSum& sum, Where where) {
  std::int64_t numbers[ExactSum::kNumbers];
  sum.write(numbers);
  return state_of(numbers, Shape({static_cast<std::int64_t>(ExactSum::kNumbers)}, where), where);
}
Tensor state_of(std::int64_t number, Where where) { return scalar(number, {DType::int64, cpu()}, where); }
Tensor state_of(double number, Where where) { return scalar(number, {DType::float64, cpu()}, where); }
Tensor state_of(std::span<const std::int64_t> numbers, const Shape& shape, Where where) {
  return on_cpu<std::int64_t>(numbers, shape, where);
}
Tensor state_of(std::span<const double> numbers, Where where) {
  return on_cpu<double>(numbers, list_of(numbers, where), where);
}
Tensor state_of(std::span<const unsigned char> truths, Where where) {
  return on_cpu<bool>(truths, list_of(truths, where), where);
}

Tensor StateReader::take(const char* name, const Shape* shape, DType dtype) {
  std::size_t at = 0;
  while (at < state_.size() && (used_[at] || state_[at].name != name)) ++at;
  if (at == state_.size())
    base::fail<Error>(where_, metric_, "::load_state: the state has no \"", name,
                      "\"; it must be one that state() gave.");
  used_[at] = true;
  const Tensor& value = state_[at].value;
  if (!value.defined())
    base::fail<Error>(where_, metric_, "::load_state: \"", name, "\" is undefined; it must have a value.");
  if (shape != nullptr ? value.shape(where_) != *shape : value.rank(where_) != 1)
    base::fail<ShapeError>(where_, metric_, "::load_state: \"", name, "\" is ", value.shape(where_), "; it must be ",
                           shape != nullptr ? capstan::to_string(*shape) : std::string("[n]"), ".");
  if (value.dtype(where_) != dtype)
    base::fail<DTypeError>(where_, metric_, "::load_state: \"", name, "\" is ", value.dtype(where_), "; it must be ",
                           dtype, ".");
  const NoGrad off;
  return value.to(cpu(), where_).contiguous(where_);
}

ExactSum StateReader::sum(const char* name) {
  const Shape shape({static_cast<std::int64_t>(ExactSum::kNumbers)}, where_);
  const Tensor numbers = take(name, &shape, DType::int64);
  ExactSum sum;
  if (!sum.read(numbers.span<std::int64_t>(where_).first<ExactSum::kNumbers>()))
    base::fail<Error>(where_, metric_, "::load_state: \"", name, "\" is no sum; it must be one that state() gave.");
  return sum;
}

std::int64_t StateReader::count(const char* name) { return counts(name, Shape())[0]; }

double StateReader::number(const char* name) {
  const Shape shape;
  return take(name, &shape, DType::float64).span<double>(where_)[0];
}

std::vector<std::int64_t> StateReader::counts(const char* name, const Shape& shape) {
  const Tensor tensor = take(name, &shape, DType::int64);
  const std::span<const std::int64_t> list = tensor.span<std::int64_t>(where_);
  std::int64_t total = 0;
  for (const std::int64_t count : list) {
    if (count < 0 || count > kMostCount - total)
      base::fail<Error>(where_, metric_, "::load_state: \"", name, "\" has the count ", count,
                        "; counts must be >= 0, and add up to at most ", kMostCount, ".");
    total += count;
  }
  return {list.begin(), list.end()};
}

std::vector<double> StateReader::numbers(const char* name) {
  const Tensor tensor = take(name, nullptr, DType::float64);
  const std::span<const double> list = tensor.span<double>(where_);
  return {list.begin(), list.end()};
}

std::vector<unsigned char> StateReader::truths(const char* name) {
  const Tensor tensor = take(name, nullptr, DType::bool8);
  const std::span<const bool> list = tensor.span<bool>(where_);
  std::vector<unsigned char> truths;
  truths.reserve(list.size());
  for (const bool truth : list) truths.push_back(truth ? 1 : 0);
  return truths;
}

void StateReader::finish() const {
  for (std::size_t i = 0; i < state_.size(); ++i)
    if (!used_[i])
      base::fail<Error>(where_, metric_, "::load_state: \"", state_[i].name,
                        "\" is in the state and not in this metric.");
}

}  // namespace capstan::metrics::detail
