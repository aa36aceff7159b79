// The table of a thread that records: each entry runs the CPU's, and keeps the call.
#include <tuple>
#include <type_traits>
#include <utility>

#include "lib/base/text.hpp"
#include "lib/core/recording.hpp"

namespace capstan::core {
namespace {

/// Copies the tensors among a call's arguments; all else is kept as it is.
class Keep {
 public:
  explicit Keep(RecordedCall& call) : call_(call) {}

  const TensorImpl& operator()(const TensorImpl& x) const { return call_.operands.emplace_back(x, false).impl; }
  TensorImpl& operator()(TensorImpl& x) const { return call_.operands.emplace_back(x, true).impl; }
  const TensorImpl* operator()(const TensorImpl* x) const { return x == nullptr ? nullptr : &(*this)(*x); }
  TensorImpl* operator()(TensorImpl* x) const { return x == nullptr ? nullptr : &(*this)(*x); }

  RnnForward operator()(const RnnForward& t) const {
    const Keep& k = *this;
    return {k(t.x), k(t.h0), k(t.wx), k(t.wh), k(t.b), t.relu};
  }
  RecurrentTask operator()(const RecurrentTask& t) const {
    const Keep& k = *this;
    return {t.kind, t.reverse, k(t.x),          k(t.h0),   k(t.c0),    k(t.wx),     k(t.wh),
            k(t.b), k(t.bn),   k(t.projection), t.lengths, k(t.index), t.table_rows};
  }
  RecurrentResults operator()(const RecurrentResults& t) const {
    const Keep& k = *this;
    return {k(t.outputs), k(t.h), k(t.c), k(t.gates), k(t.entering_h), k(t.entering_c)};
  }
  AttentionTask operator()(const AttentionTask& t) const {
    const Keep& k = *this;
    return {k(t.query), k(t.key), k(t.value), k(t.mask), k(t.bias), t.causal, t.scale};
  }
  template <class T>
  requires(!std::is_convertible_v<const T&, const TensorImpl&> && !std::is_pointer_v<T>) const T& operator()(
      const T& plain) const {
    return plain;
  }

 private:
  RecordedCall& call_;
};

/// A tensor is kept by reference, into the call; the rest by value.
template <class Arg>
using Kept = std::conditional_t<std::is_same_v<std::remove_cvref_t<Arg>, TensorImpl>, Arg, std::remove_cvref_t<Arg>>;

/// What an entry returns says whether it found indices in range.
bool in_range(bool result) { return result; }
bool in_range(const BadIndex& result) { return result.position < 0; }
std::string index_of(bool) { return "an index"; }
std::string index_of(const BadIndex& result) {
  return base::join("index ", result.value, " at place ", result.position);
}

template <class Result, class... Args>
class CallOf final : public RecordedCall {
 public:
  using Kernel = Result (*)(Args...);
  explicit CallOf(Kernel kernel, Args... args) : kernel_(kernel), args_{Keep(*this)(args)...} {
    keep_lengths();
    reach_positions();
  }

  void run() override {
    std::apply(
        [this](auto&... args) {
          if constexpr (std::is_void_v<Result>) kernel_(args...);
          else if (const Result result = kernel_(args...); !in_range(result))
            base::fail<IndexError>(where, "Plan::run: ", index_of(result),
                                   " is out of range, of what the network does here.");
        },
        args_);
  }

 private:
  /// Lengths stand in memory of the host, which may go.
  void keep_lengths() {
    std::apply([&](auto&... args) { (keep_lengths_of(args), ...); }, args_);
  }
  void keep_lengths_of(RecurrentTask& task) {
    if (task.lengths == nullptr) return;
    std::vector<std::int64_t>& own = lengths_.emplace_back(task.lengths, task.lengths + task.h0.shape[0]);
    task.lengths = own.data();
  }
  template <class Arg>
  void keep_lengths_of(const Arg&) {}

  /// What `take` chooses from has the geometry of its result: it reaches as far as positions lead.
  void reach_positions() {
    using First = std::tuple_element_t<0, std::tuple<std::remove_cvref_t<Args>...>>;  // not of those that write
    if constexpr (std::is_same_v<First, TensorImpl> &&
                  (std::is_same_v<std::remove_cvref_t<Args>, PositionRule> || ...)) {
      const auto& rule = std::get<PositionRule>(args_);
      RecordedOperand& from = operands.front();
      const std::int64_t last = (rule.size - 1) * rule.scale * size_of(from.impl.dtype);
      if (from.storage->block_bytes == 0 && rule.size > 0) (last > 0 ? from.end : from.first) += last;
    }
  }

  Kernel kernel_;
  std::vector<std::vector<std::int64_t>> lengths_;
  std::tuple<Kept<Args>...> args_;
};

template <auto slot>
struct Recorded;
template <class Result, class... Args, Result (*Backend::*slot)(Args...)>
struct Recorded<slot> {
  static Result run(Args... args) {
    Recording& now = *Recording::current();
    const auto kernel = cpu_backend().*slot;
    auto call = std::make_unique<CallOf<Result, Args...>>(kernel, args...);
    now.about_to(*call);
    if constexpr (std::is_void_v<Result>) {
      kernel(args...);
      now.add(std::move(call));
    } else {
      const Result result = kernel(args...);
      if (in_range(result)) now.add(std::move(call));  // otherwise the operation knows what to do, or fails
      return result;
    }
  }
};

/// Entries that cannot be repeated, and why not.
enum class Why { random, shape, lapack, training };
const char* reason(Why why) {
  switch (why) {
    case Why::random:
      return " draws random numbers, which a plan would repeat; call nn::set_training(net, false) first.";
    case Why::shape: return " makes a result whose shape depends on values; a plan has fixed shapes.";
    case Why::lapack: return " is computed by LAPACK, which takes memory and locks; a plan may not.";
    case Why::training: break;
  }
  return " belongs to training; a plan is for inference.";
}

template <auto slot, Why why>
struct Refused;
template <class Result, class... Args, Result (*Backend::*slot)(Args...), Why why>
struct Refused<slot, why> {
  static Result run(Args...) {
    const Recording& now = *Recording::current();
    base::fail<Error>(now.where(), "freeze: an operation here", reason(why));
  }
};

#define CAPSTAN_RECORDED(name) .name = &Recorded<&Backend::name>::run
#define CAPSTAN_REFUSED(name, why) .name = &Refused<&Backend::name, Why::why>::run

}  // namespace

const Backend& recording_backend() {
  static const Backend table{
      CAPSTAN_RECORDED(unary),
      CAPSTAN_RECORDED(unary_backward),
      CAPSTAN_RECORDED(binary),
      CAPSTAN_RECORDED(parametric),
      CAPSTAN_RECORDED(parametric_backward),
      .any_bad = cpu_backend().any_bad,  // check_numerics looks at values, and computes nothing
      CAPSTAN_RECORDED(predicate),
      CAPSTAN_RECORDED(bitwise),
      CAPSTAN_RECORDED(compare),
      CAPSTAN_RECORDED(logical),
      CAPSTAN_RECORDED(select),
      CAPSTAN_RECORDED(accumulate),
      CAPSTAN_RECORDED(scale),
      CAPSTAN_RECORDED(blend),
      CAPSTAN_RECORDED(exchange),
      CAPSTAN_RECORDED(add_powers),
      CAPSTAN_RECORDED(copy),
      CAPSTAN_RECORDED(fill),
      CAPSTAN_REFUSED(random, random),
      CAPSTAN_RECORDED(reduce),
      CAPSTAN_RECORDED(argmax),
      CAPSTAN_RECORDED(argmin),
      CAPSTAN_RECORDED(softmax),
      CAPSTAN_RECORDED(softmax_backward),
      CAPSTAN_RECORDED(logsumexp),
      CAPSTAN_RECORDED(matmul),
      CAPSTAN_RECORDED(triangle),
      CAPSTAN_REFUSED(solve, lapack),
      CAPSTAN_REFUSED(solve_triangular, lapack),
      CAPSTAN_REFUSED(lstsq, lapack),
      CAPSTAN_REFUSED(determinant, lapack),
      CAPSTAN_REFUSED(cholesky, lapack),
      CAPSTAN_REFUSED(qr, lapack),
      CAPSTAN_REFUSED(svd, lapack),
      CAPSTAN_REFUSED(eigh, lapack),
      CAPSTAN_RECORDED(moments),
      CAPSTAN_RECORDED(prod_backward),
      CAPSTAN_REFUSED(bernoulli, random),
      CAPSTAN_REFUSED(categorical, random),
      CAPSTAN_RECORDED(check_indices),
      CAPSTAN_RECORDED(take),
      CAPSTAN_RECORDED(combine),
      CAPSTAN_RECORDED(scatter),
      CAPSTAN_REFUSED(find_last, training),
      CAPSTAN_RECORDED(locate),
      CAPSTAN_RECORDED(gather_backward),
      CAPSTAN_RECORDED(one_hot),
      CAPSTAN_REFUSED(count_true, shape),
      CAPSTAN_REFUSED(true_positions, shape),
      CAPSTAN_REFUSED(compress, shape),
      CAPSTAN_REFUSED(expand, shape),
      CAPSTAN_RECORDED(unravel),
      CAPSTAN_RECORDED(sort),
      CAPSTAN_RECORDED(topk),
      CAPSTAN_RECORDED(searchsorted),
      CAPSTAN_REFUSED(count_distinct, shape),
      CAPSTAN_REFUSED(distinct, shape),
      CAPSTAN_RECORDED(histogram),
      CAPSTAN_RECORDED(bincount),
      CAPSTAN_RECORDED(cumulate),
      CAPSTAN_RECORDED(cumulative_extreme),
      CAPSTAN_RECORDED(recur),
      CAPSTAN_RECORDED(convolve),
      CAPSTAN_RECORDED(convolve_transposed),
      CAPSTAN_RECORDED(convolve_weight),
      CAPSTAN_RECORDED(max_pool),
      CAPSTAN_RECORDED(max_pool_positions),
      CAPSTAN_RECORDED(max_pool_gather),
      CAPSTAN_RECORDED(max_pool_scatter),
      CAPSTAN_RECORDED(avg_pool),
      CAPSTAN_RECORDED(avg_pool_scatter),
      CAPSTAN_RECORDED(resample),
      CAPSTAN_RECORDED(grid_sample),
      CAPSTAN_RECORDED(grid_spread),
      CAPSTAN_RECORDED(grid_slopes),
      CAPSTAN_RECORDED(unfold),
      CAPSTAN_RECORDED(fold),
      CAPSTAN_RECORDED(layer_norm),
      CAPSTAN_RECORDED(layer_norm_backward),
      CAPSTAN_RECORDED(group_norm),
      CAPSTAN_RECORDED(group_norm_backward),
      CAPSTAN_RECORDED(batch_norm_training),
      CAPSTAN_RECORDED(batch_norm),
      CAPSTAN_RECORDED(batch_norm_backward),
      CAPSTAN_RECORDED(response_norm),
      CAPSTAN_RECORDED(response_norm_backward),
      CAPSTAN_RECORDED(cross_entropy),
      CAPSTAN_RECORDED(cross_entropy_backward),
      CAPSTAN_RECORDED(loss),
      CAPSTAN_RECORDED(loss_backward),
      CAPSTAN_RECORDED(multilabel_margin),
      CAPSTAN_REFUSED(ctc_loss, training),
      CAPSTAN_REFUSED(ctc_loss_backward, training),
      CAPSTAN_REFUSED(ctc_greedy, shape),
      CAPSTAN_REFUSED(ctc_beam_search, shape),
      CAPSTAN_RECORDED(embedding_bag),
      CAPSTAN_REFUSED(dropout, random),
      CAPSTAN_RECORDED(keep),
      CAPSTAN_RECORDED(rnn_forward),
      CAPSTAN_REFUSED(rnn_backward, training),
      CAPSTAN_RECORDED(recurrent_forward),
      CAPSTAN_REFUSED(recurrent_backward, training),
      CAPSTAN_RECORDED(recurrent_both_forward),
      CAPSTAN_REFUSED(recurrent_both_backward, training),
      CAPSTAN_RECORDED(attention),
      CAPSTAN_REFUSED(attention_backward, training),
      CAPSTAN_REFUSED(optimizer_steps, training),
      CAPSTAN_REFUSED(optimizer_rows, training),
  };
  return table;
}
#undef CAPSTAN_RECORDED
#undef CAPSTAN_REFUSED

}  // namespace capstan::core
