// Connectionist temporal classification: the loss, whose gradient is the share of each class at each step in the paths.
#include "autograd/ctc.hpp"

#include <algorithm>

#include <capstan/create.hpp>
#include <capstan/ops/ctc.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/rearranging.hpp>

#include "autograd/losses.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::CtcSizes;
using autograd::Replay;

namespace autograd {

CtcSizes ctc_sizes(const char* op, const char* what, const TensorImpl& x, std::int64_t blank, bool time_major,
                   Where where) {
  require_floating(op, x, where);
  if (x.rank() != 3)
    base::fail<ShapeError>(where, op, ": the ", what, " are ", x.shape, "; they must be ",
                           time_major ? "[time, batch, classes]." : "[batch, time, classes].");
  const std::int64_t classes = x.shape[2];
  if (blank < 0 || blank >= classes)
    base::fail<IndexError>(where, op, ": the blank is ", blank, " and there are ", classes,
                           " classes; it must be in [0, ", classes, ").");
  return {x.shape[time_major ? 1 : 0], x.shape[time_major ? 0 : 1], classes};
}

std::vector<std::int64_t> ctc_lengths(const char* op, const char* what, const char* unit, const Tensor& lengths,
                                      std::int64_t batch, std::int64_t most, Where where) {
  if (!lengths.defined()) return std::vector<std::int64_t>(static_cast<std::size_t>(batch), most);
  const TensorImpl& impl = core::defined(op, lengths, where);
  if (impl.dtype != DType::int32 && impl.dtype != DType::int64)
    base::fail<DTypeError>(where, op, ": the ", what, "s are ", impl.dtype, "; they must be int32 or int64.");
  if (impl.rank() != 1 || impl.shape[0] != batch)
    base::fail<ShapeError>(where, op, ": the ", what, "s are ", impl.shape, " and the batch has ", batch,
                           " sequences; they must be [", batch, "].");
  std::vector<std::int64_t> list = converted(lengths, DType::int64, where).to_vector<std::int64_t>(where);
  for (std::size_t b = 0; b < list.size(); ++b)
    if (list[b] < 0 || list[b] > most)
      base::fail<IndexError>(where, op, ": ", what, " ", list[b], " of sequence ", b, " is out of range for ", most,
                             " ", unit, "; it must be in [0, ", most, "].");
  return list;
}

Tensor ctc_batch_first(const Tensor& x, bool time_major, Where where) {
  const TensorImpl& impl = *x.impl();
  const int batch = time_major ? 1 : 0, time = 1 - batch;
  const std::int64_t strides[] = {impl.strides[batch], impl.strides[time], impl.strides[2]};
  return core::make_view(impl, Shape({impl.shape[batch], impl.shape[time], impl.shape[2]}, where), strides, 0, where);
}

Tensor ctc_numbers(const std::vector<std::int64_t>& numbers, const TensorImpl& x, Where where) {
  return from_vector(numbers, where).to(x.device(), where);
}

}  // namespace autograd

namespace {

constexpr const char* kOp = "ctc_loss";

using Numbers = std::vector<std::int64_t>;

// --- targets ---------------------------------------------------------------------------------------------------------

/// Labels of all sequences, one behind the other, and where those of each begin and the last ones end.
struct Targets {
  Numbers labels = {}, bounds = {0};
};

/// Where the labels of each sequence stand among the targets: `stride` apart, or one sequence behind the other if that
/// is 0.
struct Layout {
  std::int64_t most, stride;
};

Layout layout_of(const TensorImpl& targets, std::int64_t batch, Where where) {
  if (targets.dtype != DType::int32 && targets.dtype != DType::int64)
    base::fail<DTypeError>(where, kOp, ": the targets are ", targets.dtype, "; they must be int32 or int64.");
  if (targets.rank() == 1) return {targets.shape[0], 0};
  if (targets.rank() != 2 || targets.shape[0] != batch)
    base::fail<ShapeError>(where, kOp, ": the targets are ", targets.shape, " and the batch has ", batch,
                           " sequences; they must be [", batch,
                           ", labels], or the labels of all sequences in one axis.");
  return {targets.shape[1], targets.shape[1]};
}

Numbers target_lengths_of(const Layout& layout, const Tensor& lengths, std::int64_t batch, Where where) {
  const bool one_axis = layout.stride == 0 && layout.most > 0;
  if (one_axis && !lengths.defined())
    base::fail<ShapeError>(where, kOp, ": the targets are [", layout.most,
                           "] and there are no target lengths; with all labels in one axis there must be.");
  Numbers list = autograd::ctc_lengths(kOp, "target length", "labels", lengths, batch, layout.most, where);
  std::int64_t total = 0;
  for (const std::int64_t length : list) total += length;
  if (one_axis && total != layout.most)
    base::fail<ShapeError>(where, kOp, ": the target lengths add up to ", total, " and the targets are [", layout.most,
                           "]; there must be as many labels.");
  return list;
}

Targets targets_of(const Tensor& targets, const Tensor& lengths, const CtcSizes& sizes, std::int64_t blank,
                   Where where) {
  const Layout layout = layout_of(core::defined(kOp, targets, where), sizes.batch, where);
  const Numbers counts = target_lengths_of(layout, lengths, sizes.batch, where);
  const Numbers list = autograd::converted(targets, DType::int64, where).to_vector<std::int64_t>(where);
  Targets found;
  for (std::size_t b = 0; b < counts.size(); ++b) {
    const std::int64_t begin = layout.stride == 0 ? found.bounds.back() : static_cast<std::int64_t>(b) * layout.stride;
    for (std::int64_t i = 0; i < counts[b]; ++i) {
      const std::int64_t label = list[static_cast<std::size_t>(begin + i)];
      if (label < 0 || label >= sizes.classes)
        base::fail<IndexError>(where, kOp, ": label ", label, " in place ", i, " of sequence ", b,
                               " is out of range for ", sizes.classes, " classes; it must be in [0, ", sizes.classes,
                               ").");
      if (label == blank)
        base::fail<IndexError>(where, kOp, ": label ", label, " in place ", i, " of sequence ", b,
                               " is the blank; labels must be other classes.");
      found.labels.push_back(label);
    }
    found.bounds.push_back(found.bounds.back() + counts[b]);
  }
  return found;
}

void require_paths(const Targets& targets, const Numbers& steps, Where where) {
  for (std::size_t b = 0; b < steps.size(); ++b) {
    const auto begin = targets.labels.begin() + targets.bounds[b], end = targets.labels.begin() + targets.bounds[b + 1];
    const std::int64_t count = end - begin;
    std::int64_t needed = count;
    for (auto label = begin; label != end; ++label) needed += label != begin && *label == *(label - 1) ? 1 : 0;
    if (needed > steps[b])
      base::fail<ShapeError>(where, kOp, ": the ", count, " labels of sequence ", b, " take ", needed,
                             " steps, one each and one for a blank between equal ones, and its input has ", steps[b],
                             "; it must have as many, unless options.infeasible says what the loss is.");
  }
}

// --- the gradient in public operations -------------------------------------------------------------------------------

constexpr double kNever = -1e30;  // the logarithm of a probability of 0; sums of it stay finite, and so do their slopes

/// x [..., classes] where its step counts, and zeros.
Tensor counted(const Tensor& x, const Tensor& running, Where where) {
  return capstan::where(expand_dims(running, -1, where), x, 0, where);
}

/// States of all sequences: labels with blanks before, between and behind them, as many as the longest one has.
struct States {
  std::int64_t count = 1;
  Tensor classes;  // int64 [batch, count]
  // [batch, count], 0 or kNever: where paths may begin and end, and pass over a state on their way here and from here
  Tensor start, end, into, onward;
};

States states_of(const Numbers& labels, const Numbers& bounds, std::int64_t blank, const TensorImpl& x, Where where) {
  States states;
  const std::size_t batch = bounds.size() - 1;
  for (std::size_t b = 0; b < batch; ++b) states.count = std::max(states.count, 2 * (bounds[b + 1] - bounds[b]) + 1);
  const auto width = static_cast<std::size_t>(states.count);
  Numbers classes(batch * width, blank);
  std::vector<double> start(batch * width, kNever), end = start, into = start, onward = start;
  for (std::size_t b = 0; b < batch; ++b) {
    const auto first = labels.begin() + bounds[b];
    const auto own = static_cast<std::size_t>(2 * (bounds[b + 1] - bounds[b]) + 1), row = b * width;
    for (std::size_t s = 0; s < own; ++s) {
      const auto label = static_cast<std::int64_t>(s / 2);
      if (s % 2 != 0) classes[row + s] = first[label];
      if (s < 2) start[row + s] = 0;
      if (s + 2 >= own) end[row + s] = 0;
      if (s % 2 != 0 && s >= 3 && first[label] != first[label - 1]) into[row + s] = onward[row + s - 2] = 0;
    }
  }
  const Shape shape({static_cast<std::int64_t>(batch), states.count}, where);
  const auto made = [&](const auto& list) { return from_vector(list, shape, where).to(x.device(), where); };
  states.classes = made(classes);
  states.start = made(start), states.end = made(end), states.into = made(into), states.onward = made(onward);
  return states;
}

/// log(exp(a) + exp(b) + exp(c))
Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c, Where where) {
  return logsumexp(stack({a, b, c}, 0, where), 0, {}, where);
}

struct Paths {
  Tensor forward, backward;  // [batch, time, states]: up to a step, with it, and behind it
  Tensor total;              // [batch]
};

/// Log-probabilities of the beginnings and ends of paths. `steps` are those of each state at each step, `running`
/// [batch, time] says which ones there are.
Paths paths_of(const States& states, const std::vector<Tensor>& steps, const Tensor& running, Where where) {
  const std::int64_t batch = running.size(0), count = states.count;
  const std::size_t time = steps.size();
  const Tensor border = full(Shape({batch, 2}, where), kNever, {DType::float64, running.device()}, where);
  std::vector<Tensor> forward = {add(states.start, steps[0], where)}, backward = {states.end};
  for (std::size_t t = 1; t < time; ++t) {
    const Tensor wide = concat({border, forward.back()}, 1, where);
    const Tensor two = add(narrow(wide, 1, 0, count, where), states.into, where);
    const Tensor next = add(log_sum(forward.back(), narrow(wide, 1, 1, count, where), two, where), steps[t], where);
    const Tensor runs = narrow(running, 1, static_cast<std::int64_t>(t), 1, where);
    forward.push_back(capstan::where(runs, next, forward.back(), where));
  }
  for (std::size_t t = time - 1; t > 0; --t) {
    const Tensor here = add(backward.back(), steps[t], where), wide = concat({here, border}, 1, where);
    const Tensor two = add(narrow(wide, 1, 2, count, where), states.onward, where);
    const Tensor before = log_sum(here, narrow(wide, 1, 1, count, where), two, where);
    const Tensor runs = narrow(running, 1, static_cast<std::int64_t>(t), 1, where);
    backward.push_back(capstan::where(runs, before, states.end, where));
  }
  std::reverse(backward.begin(), backward.end());
  const Tensor total = logsumexp(add(forward.back(), states.end, where), 1, {}, where);
  return {stack(forward, 1, where), stack(backward, 1, where), total};
}

/// The same as the backend computes, recorded by outer tapes. `x` [batch, time, classes] is not empty.
Tensor gradient_by_operations(const Tensor& x, const Tensor& grad, const States& states, const Tensor& lengths,
                              Where where) {
  const std::int64_t classes = x.size(2);
  const Tensor running = sequence_mask(lengths, x.size(1), DType::bool8, where);
  const Tensor logs = maximum(counted(x, running, where).to(DType::float64, where), kNever, where);
  const Tensor emitted = take_along_axis(logs, expand_dims(states.classes, 1, where), 2, where);
  const Paths paths = paths_of(states, unstack(emitted, 1, where), running, where);

  const Tensor some = logical_not(less_equal(paths.total, kNever / 2, where), where);  // a path, or NaN
  const Tensor total = capstan::where(some, paths.total, 0, where);
  const Tensor through = add(paths.forward, paths.backward, where);
  const Tensor shares = exp(sub(through, reshape(total, {-1, 1, 1}, where), where), where);
  const Tensor on = one_hot(states.classes, classes, 1, 0, DType::float64, where);
  const Tensor counts = logical_and(running, expand_dims(some, 1, where), where);
  const Tensor of_classes = matmul(counted(shares, counts, where), on, where);
  const Tensor scale = reshape(neg(grad.to(DType::float64, where), where), {-1, 1, 1}, where);
  return mul(of_classes, scale, where).to(x.dtype(), where);
}

// --- the loss --------------------------------------------------------------------------------------------------------

struct Settings {
  std::int64_t blank;
  bool zero_infinity, time_major;
};

/// Without a tape, by the backend.
Tensor fused_gradient(const Tensor& x, const Tensor& grad, const core::CtcTask& task, bool time_major, Where where) {
  const Tensor rows = autograd::dense(grad, where);
  Tensor out = autograd::result_like(*x.impl(), where);
  const Tensor to = autograd::ctc_batch_first(out, time_major, where);
  backend_of(*x.impl(), where).ctc_loss_backward(task, *rows.impl(), *to.impl());
  return out;
}

/// Saved: the log-probabilities, and int64 the steps, the labels and their bounds.
void ctc_loss_replay(Replay& r) {
  const Where where = r.where();
  const auto settings = r.attributes<Settings>();
  const Tensor &x = r.saved(0), &steps = r.saved(1), &labels = r.saved(2), &bounds = r.saved(3);
  if (!autograd::listening()) {
    const Tensor view = autograd::ctc_batch_first(x, settings.time_major, where);
    const core::CtcTask task{*view.impl(),   *steps.impl(),  *labels.impl(),
                             *bounds.impl(), settings.blank, settings.zero_infinity};
    r.give(0, fused_gradient(x, r.grad(), task, settings.time_major, where));
    return;
  }
  if (x.numel() == 0) {
    r.give(0, zeros_like(x, where));
    return;
  }
  const States states = states_of(labels.to_vector<std::int64_t>(where), bounds.to_vector<std::int64_t>(where),
                                  settings.blank, *x.impl(), where);
  const auto turned = [&](const Tensor& tensor) {
    return settings.time_major ? transpose(tensor, 0, 1, where) : tensor;
  };
  r.give(0, turned(gradient_by_operations(turned(x), r.grad(), states, steps, where)));
}

/// One loss for each sequence; x is float32 or float64.
Tensor losses_of(const Tensor& x, const Tensor& steps, const Targets& targets, const Settings& settings, Where where) {
  const TensorImpl& impl = *x.impl();
  const Tensor labels = autograd::ctc_numbers(targets.labels, impl, where);
  const Tensor bounds = autograd::ctc_numbers(targets.bounds, impl, where);
  const Tensor view = autograd::ctc_batch_first(x, settings.time_major, where);
  const core::CtcTask task{*view.impl(),   *steps.impl(),  *labels.impl(),
                           *bounds.impl(), settings.blank, settings.zero_infinity};
  Tensor losses = autograd::result_like(impl, steps.impl()->shape, impl.dtype, where);
  backend_of(impl, where).ctc_loss(task, *losses.impl());
  autograd::record(kOp, where, &ctc_loss_replay, {&x}, {&losses}, {&x, &steps, &labels, &bounds}, settings);
  return losses;
}

/// The mean is one of losses for each label.
Tensor reduced_losses(const Tensor& losses, const Numbers& bounds, Reduction reduction, Where where) {
  if (reduction != Reduction::mean) return autograd::reduced(losses, reduction, where);
  std::vector<double> counts;
  for (std::size_t b = 0; b + 1 < bounds.size(); ++b)
    counts.push_back(static_cast<double>(std::max(bounds[b + 1] - bounds[b], std::int64_t{1})));
  const Tensor divisor = from_vector(counts, where).to(losses.device(), where);
  return autograd::reduced(div(losses, autograd::converted(divisor, losses.dtype(), where), where), reduction, where);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options, Where where) {
  if (autograd::raises(log_probabilities)) [[unlikely]]
    return autograd::raised(&ctc_loss, where, log_probabilities, targets, input_lengths, target_lengths, options);
  const TensorImpl& impl = core::defined(kOp, log_probabilities, where);
  const char* const what = options.from_logits ? "logits" : "log-probabilities";
  const CtcSizes sizes = autograd::ctc_sizes(kOp, what, impl, options.blank, options.time_major, where);
  const Numbers steps =
      autograd::ctc_lengths(kOp, "input length", "steps", input_lengths, sizes.batch, sizes.time, where);
  const Targets found = targets_of(targets, target_lengths, sizes, options.blank, where);
  if (options.infeasible == CtcInfeasible::error) require_paths(found, steps, where);

  const autograd::Rollback rollback;
  const Tensor lengths = autograd::ctc_numbers(steps, impl, where);
  Tensor x = log_probabilities.to(autograd::computing_type(impl.dtype), where);
  if (options.from_logits) {
    if (std::any_of(steps.begin(), steps.end(), [&](std::int64_t n) { return n < sizes.time; })) {
      const Tensor running = sequence_mask(lengths, sizes.time, DType::bool8, where);
      x = counted(x, options.time_major ? transpose(running, where) : running, where);
    }
    x = log_softmax(x, -1, where);
  }
  const Settings settings{options.blank, options.infeasible == CtcInfeasible::zero, options.time_major};
  const Tensor losses = losses_of(x, lengths, found, settings, where);
  return reduced_losses(losses, found.bounds, options.reduction, where).to(impl.dtype, where);
}

}  // namespace capstan
