#include "cuda/backend.hpp"

#include "cuda/on_device.hpp"
#include "cuda/on_host.hpp"

// What cuSOLVER computes; where it is missing, the CPU.
#if CAPSTAN_HAS_CUSOLVER
#define CAPSTAN_SOLVER_SLOT(name) on_device<&on_cuda::name, #name>
#else
#define CAPSTAN_SOLVER_SLOT(name) on_device<on_host<&Backend::name>, #name, on_cuda::NoTiming>
#endif

namespace capstan::core {
namespace {

/// As on_device does for the entries whose operands are its arguments.
void steps_on_device(const OptimizerStep* steps, std::size_t count) {
  if (count == 0) return;
  on_cuda::begin_call("optimizer step", steps->p.device().index);
  const on_cuda::DeviceTiming timing;
  for (const OptimizerStep* step = steps; step != steps + count; ++step) {
    on_cuda::reads(step->g);
    for (TensorImpl* x : {&step->p, step->first, step->second, step->third})
      if (x != nullptr) on_cuda::writes(*x);
  }
  on_cuda::optimizer_steps(steps, count);
}

}  // namespace

const Backend* cuda_backend() {
  using on_cuda::NoTiming, on_cuda::on_device, on_cuda::on_host;
  static constexpr Backend table{
      .unary = on_device<&on_cuda::unary, "unary">,
      .unary_backward = on_device<&on_cuda::unary_backward, "unary_backward">,
      .binary = on_device<&on_cuda::binary, "binary">,
      .parametric = on_device<&on_cuda::parametric, "parametric">,
      .parametric_backward = on_device<&on_cuda::parametric_backward, "parametric_backward">,
      .any_bad = on_device<&on_cuda::any_bad, "any_bad">,
      .predicate = on_device<&on_cuda::predicate, "predicate">,
      .bitwise = on_device<&on_cuda::bitwise, "bitwise">,
      .compare = on_device<&on_cuda::compare, "compare">,
      .logical = on_device<&on_cuda::logical, "logical">,
      .select = on_device<&on_cuda::select, "select">,
      .accumulate = on_device<&on_cuda::accumulate, "accumulate">,
      .scale = on_device<&on_cuda::scale, "scale">,
      .blend = on_device<&on_cuda::blend, "blend">,
      .exchange = on_device<&on_cuda::exchange, "exchange">,
      .add_powers = on_device<&on_cuda::add_powers, "add_powers">,
      .copy = on_device<&on_cuda::copy, "copy">,
      .fill = on_device<&on_cuda::fill, "fill">,
      .random = on_device<&on_cuda::random, "random">,
      .reduce = on_device<&on_cuda::reduce, "reduce">,
      .argmax = on_device<&on_cuda::argmax, "argmax">,
      .argmin = on_device<&on_cuda::argmin, "argmin">,
      .softmax = on_device<&on_cuda::softmax, "softmax">,
      .softmax_backward = on_device<&on_cuda::softmax_backward, "softmax_backward">,
      .logsumexp = on_device<&on_cuda::logsumexp, "logsumexp">,
      .matmul = on_device<&on_cuda::matmul, "matmul">,
      .triangle = on_device<&on_cuda::triangle, "triangle">,
      .solve = CAPSTAN_SOLVER_SLOT(solve),
      .solve_triangular = CAPSTAN_SOLVER_SLOT(solve_triangular),
      .lstsq = on_device<on_host<&Backend::lstsq>, "lstsq", NoTiming>,
      .determinant = CAPSTAN_SOLVER_SLOT(determinant),
      .cholesky = CAPSTAN_SOLVER_SLOT(cholesky),
      .qr = CAPSTAN_SOLVER_SLOT(qr),
      .svd = CAPSTAN_SOLVER_SLOT(svd),
      .eigh = CAPSTAN_SOLVER_SLOT(eigh),
      .moments = on_device<&on_cuda::moments, "moments">,
      .prod_backward = on_device<&on_cuda::prod_backward, "prod_backward">,
      .bernoulli = on_device<&on_cuda::bernoulli, "bernoulli">,
      .categorical = on_device<&on_cuda::categorical, "categorical">,
      .check_indices = on_device<&on_cuda::check_indices, "check_indices">,
      .take = on_device<&on_cuda::take, "take">,
      .combine = on_device<&on_cuda::combine, "combine">,
      .scatter = on_device<&on_cuda::scatter, "scatter">,
      .find_last = on_device<&on_cuda::find_last, "find_last">,
      .locate = on_device<&on_cuda::locate, "locate">,
      .gather_backward = on_device<&on_cuda::gather_backward, "gather_backward">,
      .one_hot = on_device<&on_cuda::one_hot, "one_hot">,
      .count_true = on_device<&on_cuda::count_true, "count_true">,
      .true_positions = on_device<&on_cuda::true_positions, "true_positions">,
      .compress = on_device<&on_cuda::compress, "compress">,
      .expand = on_device<&on_cuda::expand, "expand">,
      .unravel = on_device<&on_cuda::unravel, "unravel">,
      .sort = on_device<&on_cuda::sort, "sort">,
      .topk = on_device<&on_cuda::topk, "topk">,
      .searchsorted = on_device<&on_cuda::searchsorted, "searchsorted">,
      .count_distinct = on_device<&on_cuda::count_distinct, "count_distinct">,
      .distinct = on_device<&on_cuda::distinct, "distinct">,
      .histogram = on_device<&on_cuda::histogram, "histogram">,
      .bincount = on_device<&on_cuda::bincount, "bincount">,
      .cumulate = on_device<&on_cuda::cumulate, "cumulate">,
      .cumulative_extreme = on_device<&on_cuda::cumulative_extreme, "cumulative_extreme">,
      .recur = on_device<&on_cuda::recur, "recur">,
      .convolve = on_device<&on_cuda::convolve, "convolve">,
      .convolve_transposed = on_device<&on_cuda::convolve_transposed, "convolve_transposed">,
      .convolve_weight = on_device<&on_cuda::convolve_weight, "convolve_weight">,
      .max_pool = on_device<&on_cuda::max_pool, "max_pool">,
      .max_pool_positions = on_device<&on_cuda::max_pool_positions, "max_pool_positions">,
      .max_pool_gather = on_device<&on_cuda::max_pool_gather, "max_pool_gather">,
      .max_pool_scatter = on_device<&on_cuda::max_pool_scatter, "max_pool_scatter">,
      .avg_pool = on_device<&on_cuda::avg_pool, "avg_pool">,
      .avg_pool_scatter = on_device<&on_cuda::avg_pool_scatter, "avg_pool_scatter">,
      .resample = on_device<&on_cuda::resample, "resample">,
      .grid_sample = on_device<&on_cuda::grid_sample, "grid_sample">,
      .grid_spread = on_device<&on_cuda::grid_spread, "grid_spread">,
      .grid_slopes = on_device<&on_cuda::grid_slopes, "grid_slopes">,
      .unfold = on_device<&on_cuda::unfold, "unfold">,
      .fold = on_device<&on_cuda::fold, "fold">,
      .layer_norm = on_device<&on_cuda::layer_norm, "layer_norm">,
      .layer_norm_backward = on_device<&on_cuda::layer_norm_backward, "layer_norm_backward">,
      .group_norm = on_device<&on_cuda::group_norm, "group_norm">,
      .group_norm_backward = on_device<&on_cuda::group_norm_backward, "group_norm_backward">,
      .batch_norm_training = on_device<&on_cuda::batch_norm_training, "batch_norm_training">,
      .batch_norm = on_device<&on_cuda::batch_norm, "batch_norm">,
      .batch_norm_backward = on_device<&on_cuda::batch_norm_backward, "batch_norm_backward">,
      .response_norm = on_device<&on_cuda::response_norm, "response_norm">,
      .response_norm_backward = on_device<&on_cuda::response_norm_backward, "response_norm_backward">,
      .cross_entropy = on_device<&on_cuda::cross_entropy, "cross_entropy">,
      .cross_entropy_backward = on_device<&on_cuda::cross_entropy_backward, "cross_entropy_backward">,
      .loss = on_device<&on_cuda::loss, "loss">,
      .loss_backward = on_device<&on_cuda::loss_backward, "loss_backward">,
      .multilabel_margin = on_device<&on_cuda::multilabel_margin, "multilabel_margin">,
      .ctc_loss = on_device<&on_cuda::ctc_loss, "ctc_loss">,
      .ctc_loss_backward = on_device<&on_cuda::ctc_loss_backward, "ctc_loss_backward">,
      .ctc_greedy = on_device<&on_cuda::ctc_greedy, "ctc_greedy">,
      .ctc_beam_search = on_device<on_host<&Backend::ctc_beam_search>, "ctc_beam_search", NoTiming>,
      .embedding_bag = on_device<&on_cuda::embedding_bag, "embedding_bag">,
      .dropout = on_device<&on_cuda::dropout, "dropout">,
      .keep = on_device<&on_cuda::keep, "keep">,
      .rnn_forward = on_device<&on_cuda::rnn_forward, "rnn_forward">,
      .rnn_backward = on_device<&on_cuda::rnn_backward, "rnn_backward">,
      .recurrent_forward = on_device<&on_cuda::recurrent_forward, "recurrent_forward">,
      .recurrent_backward = on_device<&on_cuda::recurrent_backward, "recurrent_backward">,
      .recurrent_both_forward = on_device<&on_cuda::recurrent_both_forward, "recurrent_both_forward">,
      .recurrent_both_backward = on_device<&on_cuda::recurrent_both_backward, "recurrent_both_backward">,
      .attention = on_device<&on_cuda::attention, "attention">,
      .attention_backward = on_device<&on_cuda::attention_backward, "attention_backward">,
      .optimizer_steps = &steps_on_device,
      .optimizer_rows = on_device<&on_cuda::optimizer_rows, "optimizer_rows">,
  };
  return &table;
}

#undef CAPSTAN_SOLVER_SLOT

}  // namespace capstan::core
