#include <capstan/nn/regularizer.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/reduce.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/pattern.hpp"
#include "lib/base/text.hpp"

namespace capstan::nn {
namespace {

/// The parameter, 16-bit types as float32: their sums would soon be too large.
Tensor ready(const Tensor& x, Where where) {
  if (!x.defined()) base::fail<Error>(where, "Regularizer: a parameter is undefined; give it a value first.");
  if (!is_floating(x.dtype(where)))
    base::fail<DTypeError>(where, "Regularizer: a parameter is ", x.dtype(where), "; it must be a floating type.");
  return is_half(x.dtype(where)) ? x.to(DType::float32, where) : x;
}

Tensor sum_of_sizes(const Tensor& x, Where where) { return sum(abs(x, where), {}, {}, where); }
Tensor sum_of_squares(const Tensor& x, Where where) { return sum(square(x, where), {}, {}, where); }

/// The mean |cosine| between two different rows.
Tensor mean_of_cosines(const Tensor& x, Where where) {
  if (x.rank() != 2)
    base::fail<ShapeError>(where, "Regularizer: a parameter is ", x.shape(),
                           "; orthogonal rows or columns are those of a matrix.");
  const std::int64_t rows = x.size(0);
  if (rows < 2) return sum(narrow(x, 0, 0, 0, where), {}, {}, where);  // 0, with a gradient
  const TensorOptions type{x.dtype(), x.device()};
  const Tensor lengths = sqrt(maximum(sum(square(x, where), 1, {.keepdims = true}, where), 1e-12, where), where);
  const Tensor unit = div(x, lengths, where);
  const Tensor cosines = matmul(unit, transpose(unit, where), where);
  const Tensor others = sub(ones(Shape({rows, rows}, where), type, where), eye(rows, rows, type, where), where);
  const double pairs = static_cast<double>(rows) * static_cast<double>(rows - 1);  // each is met twice
  return div(sum(mul(abs(cosines, where), others, where), {}, {}, where), pairs, where);
}

Tensor of_columns(const Tensor& x, Where where) {
  return mean_of_cosines(x.rank() == 2 ? transpose(x, where) : x, where);
}

/// `strength` times the sum over all parameters.
Tensor sum_over(std::span<const Tensor> parameters, double strength, Tensor (*penalty)(const Tensor&, Where),
                Where where) {
  Tensor total;
  for (const Tensor& parameter : parameters) {
    const Tensor one = penalty(ready(parameter, where), where);
    total = total.defined() ? add(total, one, where) : one;
  }
  return mul(total, strength, where);
}

}  // namespace

Tensor Regularizer::operator()(const Tensor& parameter, Where where) const {
  return (*this)(std::span<const Tensor>(&parameter, 1), where);
}

Tensor Regularizer::operator()(std::span<const Tensor> parameters, Where where) const {
  if (parameters.empty()) base::fail<Error>(where, "Regularizer: there are no parameters; give at least one.");
  if (kind_ == Kind::orthogonal_rows) return sum_over(parameters, first_, &mean_of_cosines, where);
  if (kind_ == Kind::orthogonal_columns) return sum_over(parameters, first_, &of_columns, where);
  if (second_ == 0) return sum_over(parameters, first_, &sum_of_sizes, where);
  const Tensor squares = sum_over(parameters, second_, &sum_of_squares, where);
  return first_ == 0 ? squares : add(sum_over(parameters, first_, &sum_of_sizes, where), squares, where);
}

Tensor l1_penalty(std::span<const Tensor> parameters, double strength, Where where) {
  return regularizer::l1(strength)(parameters, where);
}
Tensor l2_penalty(std::span<const Tensor> parameters, double strength, Where where) {
  return regularizer::l2(strength)(parameters, where);
}

bool matches(std::string_view name, std::string_view pattern) noexcept { return base::matches(name, pattern); }

namespace detail {
namespace {

bool matches_one(std::string_view name, std::initializer_list<std::string_view> patterns) noexcept {
  for (const std::string_view pattern : patterns)
    if (matches(name, pattern)) return true;
  return false;
}

/// Calls `use` for those of the parameters that are trainable. Both lists are in the order of the fields.
template <class Use>
void each_trainable(const std::vector<NamedTensor>& named, const std::vector<Tensor>& trainable, Use use) {
  std::size_t next = 0;
  for (const NamedTensor& p : named) {
    if (next == trainable.size() || !trainable[next].is_same(p.value)) continue;
    ++next;
    use(p);
  }
}

}  // namespace

std::vector<Tensor> select(const std::vector<NamedTensor>& named, const std::vector<Tensor>& trainable,
                           std::initializer_list<std::string_view> patterns) {
  std::vector<Tensor> chosen;
  each_trainable(named, trainable, [&](const NamedTensor& p) {
    if (matches_one(p.name, patterns)) chosen.push_back(p.value);
  });
  return chosen;
}

DecayGroups decay_groups(const std::vector<NamedTensor>& named, const std::vector<Tensor>& trainable,
                         std::initializer_list<std::string_view> without) {
  DecayGroups groups;
  each_trainable(named, trainable, [&](const NamedTensor& p) {
    const bool decays = p.value.rank() >= 2 && !matches_one(p.name, without);
    (decays ? groups.decay : groups.plain).push_back(p.value);
  });
  return groups;
}

}  // namespace detail

}  // namespace capstan::nn
