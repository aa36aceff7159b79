#include "nn/optimizer_state.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <capstan/create.hpp>

namespace capstan::optim::detail {

std::size_t StateReader::search(const std::string& name) {
  if (by_name_.empty()) {
    by_name_.resize(state_.size());
    std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
    std::stable_sort(by_name_.begin(), by_name_.end(),
                     [this](std::size_t a, std::size_t b) { return state_[a].name < state_[b].name; });
  }
  auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                             [this](std::size_t i, const std::string& wanted) { return state_[i].name < wanted; });
  while (at != by_name_.end() && used_[*at] && state_[*at].name == name) ++at;
  return at != by_name_.end() && state_[*at].name == name ? *at : state_.size();
}

std::size_t StateReader::place_of(const std::string& name) {
  return next_ < state_.size() && !used_[next_] && state_[next_].name == name ? next_ : search(name);
}

Tensor StateReader::find(const std::string& name) {
  const std::size_t at = place_of(name);
  if (at == state_.size()) return {};
  used_[at] = true;
  next_ = at + 1;
  return state_[at].value;
}

const Tensor& StateReader::take(const std::string& name, const Shape& shape, DType dtype) {
  const std::size_t at = place_of(name);
  if (at == state_.size())
    base::fail<Error>(where_, optimizer_, "::load_state: the state has no \"", name,
                      "\"; it must be one that state() gave.");
  used_[at] = true;
  next_ = at + 1;
  const Tensor& value = state_[at].value;
  if (!value.defined())
    base::fail<Error>(where_, optimizer_, "::load_state: \"", name, "\" is undefined; it must have a value.");
  if (value.shape(where_) != shape)
    base::fail<ShapeError>(where_, optimizer_, "::load_state: \"", name, "\" is ", value.shape(where_), "; it must be ",
                           shape, ".");
  if (value.dtype(where_) != dtype)
    base::fail<DTypeError>(where_, optimizer_, "::load_state: \"", name, "\" is ", value.dtype(where_), "; it must be ",
                           dtype, ".");
  return value;
}

std::int64_t StateReader::whole(const std::string& name) {
  const std::int64_t value = take(name, Shape(), DType::int64).item<std::int64_t>(where_);
  if (value < 0) base::fail<Error>(where_, optimizer_, "::load_state: \"", name, "\" is ", value, "; it must be >= 0.");
  constexpr std::int64_t kMost = INT64_MAX / 2;  // counts go on from there
  if (value > kMost)
    base::fail<Error>(where_, optimizer_, "::load_state: \"", name, "\" is ", value, "; it must be at most ", kMost,
                      ".");
  return value;
}

double StateReader::number(const std::string& name) { return take(name, Shape(), DType::float64).item<double>(where_); }

double StateReader::finite(const std::string& name) {
  const double value = number(name);
  if (!std::isfinite(value))
    base::fail<Error>(where_, optimizer_, "::load_state: \"", name, "\" is ", value, "; it must be finite.");
  return value;
}

double StateReader::within(const std::string& name, double least, double most) {
  const double value = number(name);
  if (!(value >= least && value <= most))
    base::fail<Error>(where_, optimizer_, "::load_state: \"", name, "\" is ", value, "; it must be in [", least, ", ",
                      most, "].");
  return value;
}

Tensor StateReader::tensor(const std::string& name, const Shape& shape, DType dtype, Device device) {
  return take(name, shape, dtype).to(device, where_).copy(where_);
}

void StateReader::finish() const {
  for (std::size_t i = 0; i < state_.size(); ++i)
    if (!used_[i])
      base::fail<Error>(where_, optimizer_, "::load_state: \"", state_[i].name,
                        "\" is in the state and not in this optimizer.");
}

Tensor whole_number(std::int64_t value, Where where) { return scalar(value, {DType::int64, cpu()}, where); }
Tensor real_number(double value, Where where) { return scalar(value, {DType::float64, cpu()}, where); }

void OptionCheck::amount(const char* option, double value) const {
  that(value >= 0 && std::isfinite(value), option, value, "finite and >= 0");
}
void OptionCheck::beta(const char* option, double value) const {
  that(value >= 0 && value < 1, option, value, "in [0, 1)");
}
void OptionCheck::betas(double beta1, double beta2, double epsilon) const {
  beta("beta1", beta1);
  beta("beta2", beta2);
  amount("epsilon", epsilon);
}

}  // namespace capstan::optim::detail
