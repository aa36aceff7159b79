#include <algorithm>
#include <cmath>

#include <capstan/create.hpp>
#include <capstan/metrics/text.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"
#include "metrics/reading.hpp"

namespace capstan::metrics {
namespace {

constexpr const char* kUpdate = "Perplexity::update";

/// The number of tokens that logits choose from.
std::int64_t check_logits(const Tensor& logits, const Shape& labels, Where where) {
  detail::require_defined(kUpdate, "logits", logits, where);
  if (!is_floating(logits.dtype(where)))
    base::fail<DTypeError>(where, kUpdate, ": the logits are ", logits.dtype(where), "; they must be a floating type.");
  const Shape& shape = logits.shape(where);
  if (shape.rank() != labels.rank() + 1 || !std::equal(labels.begin(), labels.end(), shape.begin()) ||
      shape[shape.rank() - 1] == 0)
    base::fail<ShapeError>(where, kUpdate, ": the logits are ", shape, " and the labels ", labels,
                           "; logits must have one more axis, for one token or more.");
  return shape[shape.rank() - 1];
}

}  // namespace

void Perplexity::update(const Tensor& logits, const Tensor& labels, const Tensor& weights, Where where) {
  const NoGrad off;
  const detail::Labels ids = detail::read_labels(kUpdate, labels, weights, options_.ignored_label, where);
  const Shape shape = labels.shape(where);
  detail::require_classes(kUpdate, ids, check_logits(logits, shape, where), where);
  if (ids.size() == 0) return;
  Tensor counted = empty(shape, {DType::int64, cpu()}, where);  // labels, or what stands for none
  const std::span<std::int64_t> targets = counted.mutable_span<std::int64_t>(where);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = ids.counts(i) ? ids.ids.values[i] : kIgnoredLabel;
  const Tensor wide = is_half(logits.dtype(where)) ? logits.to(DType::float32, where) : logits;
  const Tensor losses =
      cross_entropy(wide, counted.to(logits.device(where), where), {.reduction = Reduction::none}, where);
  const auto nats = detail::OnHost<double>::of(losses, where);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (ids.counts(i)) add(nats.values[i], ids.weights[i]);
}

void Perplexity::update_losses(const Tensor& losses, const Tensor& weights, Where where) {
  const char* op = "Perplexity::update_losses";
  detail::require_defined(op, "losses", losses, where);
  const NoGrad off;
  const detail::Weights each = detail::read_weights(op, weights, "losses", losses.shape(where), where);
  const auto nats = detail::OnHost<double>::of(losses, where);
  for (std::size_t i = 0; i < nats.values.size(); ++i) add(nats.values[i], each[i]);
}

void Perplexity::update_mean(double loss, double tokens, Where where) {
  if (!(tokens >= 0 && std::isfinite(tokens)))
    base::fail<Error>(where, "Perplexity::update_mean: there are ", tokens,
                      " tokens; their number must be finite and >= 0.");
  add(loss, tokens);
}

double Perplexity::result() const noexcept { return std::exp(ratio()); }

}  // namespace capstan::metrics
