#include <capstan/optim/ema.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <capstan/capture.hpp>
#include <capstan/ops/lists.hpp>
#include <capstan/tape.hpp>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {
namespace {

constexpr const char* kName = "Ema";

std::string average_name(std::size_t i) { return "average." + std::to_string(i); }

void check(const EmaOptions& options, Where where) {
  if (!(options.decay >= 0 && options.decay < 1))
    base::fail<Error>(where, kName, ": the decay is ", options.decay, "; it must be in [0, 1).");
  if (options.equal && (options.warm_up || options.debias))
    base::fail<Error>(where, kName, ": equal weights go with neither warm_up nor debias; they have no decay.");
}

void check(const std::vector<Tensor>& parameters, Where where) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].defined())
      base::fail<Error>(where, kName, ": parameter ", i, " is undefined; give it a value first.");
    if (!parameters[i].is_contiguous(where))
      base::fail<ShapeError>(where, kName, ": parameter ", i, " of shape ", parameters[i].shape(where),
                             " is not contiguous; it must be.");
    for (std::size_t k = 0; k < i; ++k)
      if (parameters[i].is_same(parameters[k]))
        base::fail<Error>(where, kName, ": parameters ", k, " and ", i, " are the same; give each once.");
  }
}

/// Targets that averages can be written to.
void check_fit(const char* what, const std::vector<Tensor>& averages, std::span<const Tensor> targets, Where where) {
  if (targets.size() != averages.size())
    base::fail<ShapeError>(where, kName, ": there are ", targets.size(), " ", what, "s and ", averages.size(),
                           " averages; give one for each, in their order.");
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!targets[i].defined()) base::fail<Error>(where, kName, ": ", what, " ", i, " is undefined.");
    if (targets[i].shape(where) != averages[i].shape(where))
      base::fail<ShapeError>(where, kName, ": ", what, " ", i, " is ", targets[i].shape(where), " and its average ",
                             averages[i].shape(where), "; the shapes must be equal.");
    if (targets[i].dtype(where) != averages[i].dtype(where))
      base::fail<DTypeError>(where, kName, ": ", what, " ", i, " is ", targets[i].dtype(where), " and its average ",
                             averages[i].dtype(where), "; the types must be equal.");
    if (!(targets[i].device(where) == averages[i].device(where)))
      base::fail<DeviceError>(where, kName, ": ", what, " ", i, " is on ", targets[i].device(where),
                              " and its average on ", averages[i].device(where), ". Move one with x.to(device).");
  }
}

}  // namespace

Ema::Ema(std::vector<Tensor> parameters, EmaOptions options, Where where)
    : parameters_(std::move(parameters)), options_(options) {
  check(options, where);
  check(parameters_, where);
  const NoGrad off;
  averages_.reserve(parameters_.size());
  for (const Tensor& p : parameters_) averages_.push_back(p.copy(where));
}

void Ema::require_no_swap(const char* what, Where where) const {
  if (swapped_)
    base::fail<Error>(where, "Ema::", what, ": the averages stand in the parameters just now; end the swap first.");
}

void Ema::update(Where where) {
  require_no_swap("update", where);
  const auto n = static_cast<double>(updates_ + 1);
  const double decay = options_.warm_up ? std::min(options_.decay, (1 + n) / (10 + n)) : options_.decay;
  const double remaining = remaining_ * decay;
  // the debiased average itself: with weights w = 1 - decay and total weight 1 - remaining, no division is left to do
  if (capstan::detail::capturing() && (options_.warm_up || options_.equal || options_.debias))
    base::fail<Error>(where,
                      "Ema::update: a captured step repeats the weight of one update; with warm_up, equal or debias, "
                      "update outside of it.");
  const double weight = options_.equal ? 1 / n : options_.debias ? (1 - decay) / (1 - remaining) : 1 - decay;
  blend_each(averages_, parameters_, weight, where);
  const auto count = [this, decay] {
    remaining_ *= decay;
    ++updates_;
  };
  if (capstan::detail::capturing()) {
    const auto again = [this, count, where] {
      require_no_swap("update", where);
      count();
    };
    capstan::detail::at_replay(
        again, [this, before = std::pair(remaining_, updates_)] { std::tie(remaining_, updates_) = before; });
  }
  count();
}

Ema::Swap Ema::swap(Where where) {
  require_no_swap("swap", where);
  exchange_each(parameters_, averages_, where);
  swapped_ = true;
  return Swap(this);
}

Ema::Swap::~Swap() {
  if (ema_ == nullptr) return;
  ema_->swapped_ = false;
  try {
    const NoGrad off;  // no tape may stand in the way, whatever was recorded meanwhile
    // in the reverse order: a parameter may be a part of another one
    for (std::size_t i = ema_->parameters_.size(); i-- > 0;)
      exchange_each(std::span<const Tensor>(&ema_->parameters_[i], 1), std::span<const Tensor>(&ema_->averages_[i], 1));
  } catch (...) {
    // what could fail has been checked when the swap began
  }
}

void Ema::copy_to(std::span<const Tensor> targets, Where where) const {
  require_no_swap("copy_to", where);
  check_fit("target", averages_, targets, where);
  blend_each(targets, averages_, 1, where);
}

std::vector<NamedTensor> Ema::state(Where where) const {
  require_no_swap("state", where);
  const NoGrad off;
  std::vector<NamedTensor> entries;
  entries.reserve(averages_.size() + 2);
  entries.push_back({"updates", detail::whole_number(updates_, where)});
  entries.push_back({"remaining", detail::real_number(remaining_, where)});
  for (std::size_t i = 0; i < averages_.size(); ++i) entries.push_back({average_name(i), averages_[i].copy(where)});
  return entries;
}

void Ema::load_state(std::span<const NamedTensor> state, Where where) {
  require_no_swap("load_state", where);
  const NoGrad off;
  detail::StateReader reader(kName, state, where);
  const std::int64_t updates = reader.whole("updates");
  const double remaining = reader.number("remaining");
  if (!(remaining >= 0 && remaining <= 1))
    base::fail<Error>(where, kName, "::load_state: \"remaining\" is ", remaining, "; it must be in [0, 1].");
  std::vector<Tensor> averages;
  averages.reserve(averages_.size());
  for (std::size_t i = 0; i < averages_.size(); ++i)
    averages.push_back(reader.tensor(average_name(i), averages_[i].shape(where), averages_[i].dtype(where),
                                     averages_[i].device(where)));
  reader.finish();
  averages_ = std::move(averages);
  updates_ = updates;
  remaining_ = remaining;
}

}  // namespace capstan::optim
