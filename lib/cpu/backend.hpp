#pragma once
// The entries of the CPU's table, by file.
#include "lib/core/backend.hpp"

namespace capstan::on_cpu {

using core::BadIndex;
using core::BadMatrix;
using core::LocateTask;
using core::PoolTask;
using core::PositionRule;
using core::RandomTask;
using core::ResponseNorm;
using core::RnnBackward;
using core::RnnForward;

// elementwise.cpp
void unary(int op, const TensorImpl& x, TensorImpl& out);
void unary_backward(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out);
void binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void parametric(int op, double p, double q, const TensorImpl& x, TensorImpl& out);
void parametric_backward(int op, double p, double q, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
void accumulate(TensorImpl& a, const TensorImpl& b);
// compare.cpp
bool any_bad(const TensorImpl& x, bool infinite);
void predicate(kernels::Predicate op, const TensorImpl& x, TensorImpl& out);
void bitwise(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void compare(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void logical(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void select(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
// convolve.cpp
void convolve(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
              std::int64_t groups, TensorImpl& out);
void convolve_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                         const core::Window& window, std::int64_t groups, TensorImpl& out);
void convolve_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window, std::int64_t groups,
                     TensorImpl& out);
// avg_pool.cpp
void avg_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out);
void avg_pool_scatter(const PoolTask& task, const TensorImpl& grad, TensorImpl& out);
// copy.cpp
void copy(const TensorImpl& x, TensorImpl& out);
void fill(TensorImpl& out, Scalar value);
// random.cpp
void random(const RandomTask& task, TensorImpl& out);
void bernoulli(const RandomTask& task, const TensorImpl& probability, TensorImpl& out);
void categorical(const RandomTask& task, const TensorImpl& logits, TensorImpl& out);
// reduce.cpp
void reduce(kernels::Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out);
void argmax(const TensorImpl& x, int axis, TensorImpl& out);
void argmin(const TensorImpl& x, int axis, TensorImpl& out);
// lists.cpp
void scale(const TensorImpl& x, const TensorImpl& factor, TensorImpl& out, TensorImpl* bad);
void blend(const TensorImpl& value, double weight, TensorImpl& average);
void exchange(TensorImpl& a, TensorImpl& b);
void add_powers(const TensorImpl& x, double order, TensorImpl& total);
// max_pool.cpp
void max_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out, TensorImpl* places);
void max_pool_positions(const PoolTask& task, const TensorImpl& places, TensorImpl& out);
void max_pool_gather(const PoolTask& task, const TensorImpl& x, const TensorImpl& places, TensorImpl& out);
void max_pool_scatter(const PoolTask& task, const TensorImpl& grad, const TensorImpl& places, TensorImpl& out);
// moments.cpp
void moments(const TensorImpl& x, unsigned reduced, double correction, bool root, TensorImpl& mean, TensorImpl& spread);
void prod_backward(const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
// rows.cpp
void softmax(bool log, const TensorImpl& x, TensorImpl& out);
void softmax_backward(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out);
void logsumexp(const TensorImpl& x, TensorImpl& out);
void cross_entropy(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& sums);
void cross_entropy_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                            const TensorImpl& sums, TensorImpl& out);
// losses.cpp
void loss(int op, double p, const TensorImpl& x, const TensorImpl& target, TensorImpl& out);
void loss_backward(int op, bool right, double p, const TensorImpl& grad, const TensorImpl& x, const TensorImpl& target,
                   TensorImpl& out);
void multilabel_margin(const TensorImpl& x, const TensorImpl& labels, TensorImpl& out, TensorImpl* slope);
// matmul.cpp
void matmul(const TensorImpl& a, const TensorImpl& b, const TensorImpl* bias, TensorImpl& out, bool accumulate);
// triangle.cpp
void triangle(bool upper, std::int64_t offset, const TensorImpl& x, TensorImpl& out);
// solve.cpp, with LAPACK
BadMatrix solve(const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
BadMatrix solve_triangular(bool upper, bool unit, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
BadMatrix lstsq(const TensorImpl& a, const TensorImpl& b, double rcond, TensorImpl& out, TensorImpl& rank,
                TensorImpl& values);
void determinant(const TensorImpl& x, TensorImpl* det, TensorImpl* sign, TensorImpl* logabs);
BadMatrix cholesky(const TensorImpl& x, TensorImpl& out);
// decompose.cpp, with LAPACK
void qr(const TensorImpl& x, TensorImpl& q, TensorImpl& r);
BadMatrix svd(const TensorImpl& x, TensorImpl* u, TensorImpl& s, TensorImpl* vh);
BadMatrix eigh(const TensorImpl& x, TensorImpl& w, TensorImpl* v);
// embedding.cpp
void embedding_bag(const TensorImpl& table, const TensorImpl& indices, const TensorImpl& bounds,
                   const TensorImpl* weights, std::int64_t padding, bool mean, TensorImpl& out);
// ctc.cpp
void ctc_loss(const core::CtcTask& task, TensorImpl& losses);
void ctc_loss_backward(const core::CtcTask& task, const TensorImpl& grad, TensorImpl& out);
void ctc_greedy(const core::CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores);
// ctc_beam_search.cpp
void ctc_beam_search(const core::CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores);
// dropout.cpp
void dropout(const core::DropoutTask& task, const TensorImpl& x, TensorImpl& kept, TensorImpl& out);
void keep(const TensorImpl& kept, std::int64_t group, double scale, const TensorImpl& x, TensorImpl& out);
// indexing.cpp
BadIndex check_indices(const TensorImpl& indices, std::int64_t low, std::int64_t high);
bool take(const TensorImpl& x, const TensorImpl& positions, const PositionRule& rule, TensorImpl& out);
void locate(const TensorImpl& indices, const LocateTask& task, TensorImpl& out);
void one_hot(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out);
// scatter.cpp
void combine(core::Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
             TensorImpl& target);
bool scatter(core::Combine kind, const TensorImpl& x, const TensorImpl& values, const TensorImpl& positions,
             const PositionRule& rule, TensorImpl& target, TensorImpl& out);
bool find_last(const TensorImpl& target, const TensorImpl& positions, const PositionRule& rule, std::int64_t extent,
               TensorImpl& last);
void gather_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);
// masks.cpp
std::int64_t count_true(const TensorImpl& mask, TensorImpl& before);
void true_positions(const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
void compress(const TensorImpl& x, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
void expand(const TensorImpl& values, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
void unravel(const TensorImpl& flat, const Shape& shape, TensorImpl& out);
// sort.cpp
void sort(const TensorImpl& x, int axis, bool descending, TensorImpl* values, TensorImpl* indices);
// select.cpp
void topk(const TensorImpl& x, int axis, bool largest, bool ordered, TensorImpl& values, TensorImpl& indices);
// search.cpp
void searchsorted(const TensorImpl& sorted, const TensorImpl& values, bool right, TensorImpl& out);
std::int64_t count_distinct(const TensorImpl& sorted);
void distinct(const TensorImpl& sorted, const TensorImpl* order, TensorImpl& values, TensorImpl* indices,
              TensorImpl* inverse, TensorImpl* counts);
void histogram(const TensorImpl& x, const TensorImpl* weights, const TensorImpl& edges, TensorImpl& out);
void bincount(const TensorImpl& x, const TensorImpl* weights, TensorImpl& out);
// cumulative.cpp
void cumulate(core::Cumulation kind, const TensorImpl& x, int axis, bool exclusive, bool reverse, TensorImpl& out);
void cumulative_extreme(bool largest, const TensorImpl& x, int axis, TensorImpl& values, TensorImpl& indices);
void recur(const TensorImpl& b, const TensorImpl& a, int axis, bool reverse, TensorImpl& out);
// resample.cpp
void resample(const TensorImpl& x, const core::Resample& task, TensorImpl& out);
// grid_sample.cpp
void grid_sample(const TensorImpl& x, const TensorImpl& grid, const core::GridSample& task, TensorImpl& out);
void grid_spread(const TensorImpl& grad, const TensorImpl& grid, const core::GridSample& task, TensorImpl& out);
void grid_slopes(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid, const core::GridSample& task,
                 TensorImpl& out);
// unfold.cpp
void unfold(const TensorImpl& x, const core::Window& window, TensorImpl& out);
void fold(const TensorImpl& x, const core::Window& window, TensorImpl& out);
// layer_norm.cpp
void layer_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon, TensorImpl& out,
                TensorImpl* mean, TensorImpl& inverse);
void layer_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl* mean,
                         const TensorImpl& inverse, TensorImpl* dx, TensorImpl* dweight, TensorImpl* dbias);
// group_norm.cpp
void group_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, std::int64_t groups,
                double epsilon, TensorImpl& out, TensorImpl& mean, TensorImpl& inverse);
void group_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, std::int64_t groups, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias);
// batch_norm.cpp
void batch_norm_training(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon,
                         TensorImpl& out, TensorImpl& mean, TensorImpl& variance, TensorImpl& inverse);
void batch_norm(const TensorImpl& x, const TensorImpl& mean, const TensorImpl& variance, const TensorImpl* weight,
                const TensorImpl* bias, double epsilon, TensorImpl& out, TensorImpl& inverse);
void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, bool training, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias);
// response_norm.cpp
void response_norm(const ResponseNorm& norm, const TensorImpl& x, TensorImpl& out);
void response_norm_backward(const ResponseNorm& norm, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
// rnn.cpp
void rnn_forward(const RnnForward& task, TensorImpl& out);
void rnn_backward(const RnnBackward& task);
// recurrent_forward.cpp, recurrent_backward.cpp
void recurrent_forward(const core::RecurrentTask& task, const core::RecurrentResults& out);
void recurrent_backward(const core::RecurrentTask& task, const core::RecurrentGradients& to);
void recurrent_both_forward(const core::RecurrentTask& a, const core::RecurrentResults& out_a,
                            const core::RecurrentTask& b, const core::RecurrentResults& out_b);
void recurrent_both_backward(const core::RecurrentTask& a, const core::RecurrentGradients& to_a,
                             const core::RecurrentTask& b, const core::RecurrentGradients& to_b);
// attention.cpp
void attention(const core::AttentionTask& task, TensorImpl& out, TensorImpl& statistics);
void attention_backward(const core::AttentionTask& task, const core::AttentionGradients& gradients);
// optimizers.cpp
void optimizer_steps(const core::OptimizerStep* steps, std::size_t count);
void optimizer_rows(UpdateRule rule, TensorImpl& p, const TensorImpl& indices, const TensorImpl& values,
                    TensorImpl* first, TensorImpl* second, TensorImpl* third, const UpdateNumbers& numbers,
                    bool touched);

}  // namespace capstan::on_cpu
