#pragma once
// The entries of the GPU's table, by file: what backend.hpp in lib/core says of each holds. They run on the stream of
// `call()` and return at once; on_device.hpp has set it, and has made sure that the operands can be used there.
#include "lib/core/backend.hpp"

namespace capstan::on_cuda {

using core::BadIndex;
using core::BadMatrix;
using core::LocateTask;
using core::PoolTask;
using core::PositionRule;
using core::RandomTask;
using core::ResponseNorm;
using core::RnnBackward;
using core::RnnForward;

// elementwise.cu
void unary(int op, const TensorImpl& x, TensorImpl& out);
void unary_backward(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out);
void binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void parametric(int op, double p, double q, const TensorImpl& x, TensorImpl& out);
void parametric_backward(int op, double p, double q, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
void accumulate(TensorImpl& a, const TensorImpl& b);
// compare.cu
bool any_bad(const TensorImpl& x, bool infinite);
void predicate(kernels::Predicate op, const TensorImpl& x, TensorImpl& out);
void bitwise(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void compare(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void logical(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void select(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
// convolve.cu
void convolve(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
              std::int64_t groups, TensorImpl& out);
void convolve_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                         const core::Window& window, std::int64_t groups, TensorImpl& out);
void convolve_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window, std::int64_t groups,
                     TensorImpl& out);
// avg_pool.cu
void avg_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out);
void avg_pool_scatter(const PoolTask& task, const TensorImpl& grad, TensorImpl& out);
// copy.cu
void copy(const TensorImpl& x, TensorImpl& out);
void fill(TensorImpl& out, Scalar value);
// random.cu
void random(const RandomTask& task, TensorImpl& out);
void bernoulli(const RandomTask& task, const TensorImpl& probability, TensorImpl& out);
void categorical(const RandomTask& task, const TensorImpl& logits, TensorImpl& out);
// reduce.cu
void reduce(kernels::Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out);
void argmax(const TensorImpl& x, int axis, TensorImpl& out);
void argmin(const TensorImpl& x, int axis, TensorImpl& out);
// lists.cu
void scale(const TensorImpl& x, const TensorImpl& factor, TensorImpl& out, TensorImpl* bad);
void blend(const TensorImpl& value, double weight, TensorImpl& average);
void exchange(TensorImpl& a, TensorImpl& b);
void add_powers(const TensorImpl& x, double order, TensorImpl& total);
// max_pool.cu
void max_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out, TensorImpl* places);
void max_pool_positions(const PoolTask& task, const TensorImpl& places, TensorImpl& out);
void max_pool_gather(const PoolTask& task, const TensorImpl& x, const TensorImpl& places, TensorImpl& out);
void max_pool_scatter(const PoolTask& task, const TensorImpl& grad, const TensorImpl& places, TensorImpl& out);
// moments.cu
void moments(const TensorImpl& x, unsigned reduced, double correction, bool root, TensorImpl& mean, TensorImpl& spread);
void prod_backward(const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
// rows.cu
void softmax(bool log, const TensorImpl& x, TensorImpl& out);
void softmax_backward(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out);
void logsumexp(const TensorImpl& x, TensorImpl& out);
void cross_entropy(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& sums);
void cross_entropy_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                            const TensorImpl& sums, TensorImpl& out);
// losses.cu
void loss(int op, double p, const TensorImpl& x, const TensorImpl& target, TensorImpl& out);
void loss_backward(int op, bool right, double p, const TensorImpl& grad, const TensorImpl& x, const TensorImpl& target,
                   TensorImpl& out);
void multilabel_margin(const TensorImpl& x, const TensorImpl& labels, TensorImpl& out, TensorImpl* slope);
// matmul.cu
void matmul(const TensorImpl& a, const TensorImpl& b, const TensorImpl* bias, TensorImpl& out, bool accumulate);
// triangle.cu
void triangle(bool upper, std::int64_t offset, const TensorImpl& x, TensorImpl& out);
// solve.cpp, determinant.cu
BadMatrix solve(const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
BadMatrix solve_triangular(bool upper, bool unit, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void determinant(const TensorImpl& x, TensorImpl* det, TensorImpl* sign, TensorImpl* logabs);
BadMatrix cholesky(const TensorImpl& x, TensorImpl& out);
// decompose.cpp
void qr(const TensorImpl& x, TensorImpl& q, TensorImpl& r);
BadMatrix svd(const TensorImpl& x, TensorImpl* u, TensorImpl& s, TensorImpl* vh);
BadMatrix eigh(const TensorImpl& x, TensorImpl& w, TensorImpl* v);
// embedding.cu
void embedding_bag(const TensorImpl& table, const TensorImpl& indices, const TensorImpl& bounds,
                   const TensorImpl* weights, std::int64_t padding, bool mean, TensorImpl& out);
// ctc.cu
void ctc_loss(const core::CtcTask& task, TensorImpl& losses);
void ctc_loss_backward(const core::CtcTask& task, const TensorImpl& grad, TensorImpl& out);
void ctc_greedy(const core::CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores);
// dropout.cu
void dropout(const core::DropoutTask& task, const TensorImpl& x, TensorImpl& kept, TensorImpl& out);
void keep(const TensorImpl& kept, std::int64_t group, double scale, const TensorImpl& x, TensorImpl& out);
// indexing.cu
BadIndex check_indices(const TensorImpl& indices, std::int64_t low, std::int64_t high);
bool take(const TensorImpl& x, const TensorImpl& positions, const PositionRule& rule, TensorImpl& out);
void locate(const TensorImpl& indices, const LocateTask& task, TensorImpl& out);
void one_hot(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out);
// scatter.cu
void combine(core::Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
             TensorImpl& target);
bool scatter(core::Combine kind, const TensorImpl& x, const TensorImpl& values, const TensorImpl& positions,
             const PositionRule& rule, TensorImpl& target, TensorImpl& out);
bool find_last(const TensorImpl& target, const TensorImpl& positions, const PositionRule& rule, std::int64_t extent,
               TensorImpl& last);
void gather_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);
// masks.cu
std::int64_t count_true(const TensorImpl& mask, TensorImpl& before);
void true_positions(const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
void compress(const TensorImpl& x, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
void expand(const TensorImpl& values, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
void unravel(const TensorImpl& flat, const Shape& shape, TensorImpl& out);
// sort.cu
void sort(const TensorImpl& x, int axis, bool descending, TensorImpl* values, TensorImpl* indices);
// select.cu
void topk(const TensorImpl& x, int axis, bool largest, bool ordered, TensorImpl& values, TensorImpl& indices);
// search.cu
void searchsorted(const TensorImpl& sorted, const TensorImpl& values, bool right, TensorImpl& out);
std::int64_t count_distinct(const TensorImpl& sorted);
void distinct(const TensorImpl& sorted, const TensorImpl* order, TensorImpl& values, TensorImpl* indices,
              TensorImpl* inverse, TensorImpl* counts);
void histogram(const TensorImpl& x, const TensorImpl* weights, const TensorImpl& edges, TensorImpl& out);
void bincount(const TensorImpl& x, const TensorImpl* weights, TensorImpl& out);
// cumulative.cu
void cumulate(core::Cumulation kind, const TensorImpl& x, int axis, bool exclusive, bool reverse, TensorImpl& out);
void cumulative_extreme(bool largest, const TensorImpl& x, int axis, TensorImpl& values, TensorImpl& indices);
void recur(const TensorImpl& b, const TensorImpl& a, int axis, bool reverse, TensorImpl& out);
// resample.cu
void resample(const TensorImpl& x, const core::Resample& task, TensorImpl& out);
// grid_sample.cu
void grid_sample(const TensorImpl& x, const TensorImpl& grid, const core::GridSample& task, TensorImpl& out);
void grid_spread(const TensorImpl& grad, const TensorImpl& grid, const core::GridSample& task, TensorImpl& out);
void grid_slopes(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid, const core::GridSample& task,
                 TensorImpl& out);
// unfold.cu
void unfold(const TensorImpl& x, const core::Window& window, TensorImpl& out);
void fold(const TensorImpl& x, const core::Window& window, TensorImpl& out);
// layer_norm.cu
void layer_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon, TensorImpl& out,
                TensorImpl* mean, TensorImpl& inverse);
void layer_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl* mean,
                         const TensorImpl& inverse, TensorImpl* dx, TensorImpl* dweight, TensorImpl* dbias);
// group_norm.cu
void group_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, std::int64_t groups,
                double epsilon, TensorImpl& out, TensorImpl& mean, TensorImpl& inverse);
void group_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, std::int64_t groups, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias);
// batch_norm.cu
void batch_norm_training(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon,
                         TensorImpl& out, TensorImpl& mean, TensorImpl& variance, TensorImpl& inverse);
void batch_norm(const TensorImpl& x, const TensorImpl& mean, const TensorImpl& variance, const TensorImpl* weight,
                const TensorImpl* bias, double epsilon, TensorImpl& out, TensorImpl& inverse);
void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, bool training, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias);
// response_norm.cu
void response_norm(const ResponseNorm& norm, const TensorImpl& x, TensorImpl& out);
void response_norm_backward(const ResponseNorm& norm, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
// rnn.cu
void rnn_forward(const RnnForward& task, TensorImpl& out);
void rnn_backward(const RnnBackward& task);
// recurrent_forward.cu, recurrent_backward.cu
void recurrent_forward(const core::RecurrentTask& task, const core::RecurrentResults& out);
void recurrent_backward(const core::RecurrentTask& task, const core::RecurrentGradients& to);
void recurrent_both_forward(const core::RecurrentTask& a, const core::RecurrentResults& out_a,
                            const core::RecurrentTask& b, const core::RecurrentResults& out_b);
void recurrent_both_backward(const core::RecurrentTask& a, const core::RecurrentGradients& to_a,
                             const core::RecurrentTask& b, const core::RecurrentGradients& to_b);
// attention.cu
void attention(const core::AttentionTask& task, TensorImpl& out, TensorImpl& statistics);
void attention_backward(const core::AttentionTask& task, const core::AttentionGradients& gradients);
// optimizers.cu
void optimizer_steps(const core::OptimizerStep* steps, std::size_t count);
void optimizer_rows(UpdateRule rule, TensorImpl& p, const TensorImpl& indices, const TensorImpl& values,
                    TensorImpl* first, TensorImpl* second, TensorImpl* third, const UpdateNumbers& numbers,
                    bool touched);

}  // namespace capstan::on_cuda
