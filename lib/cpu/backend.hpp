#pragma once
// The entries of the CPU's table, by file.
#include "lib/core/backend.hpp"

namespace capstan::on_cpu {

using core::BadIndex;
using core::RandomTask;
using core::RnnBackward;
using core::RnnForward;

// elementwise.cpp
void unary(int op, const TensorImpl& x, TensorImpl& out);
void unary_backward(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out);
void binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void accumulate(TensorImpl& a, const TensorImpl& b);
// compare.cpp
void compare(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void logical(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
void select(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
// copy.cpp
void copy(const TensorImpl& x, TensorImpl& out);
void fill(TensorImpl& out, Scalar value);
// random.cpp
void random(const RandomTask& task, TensorImpl& out);
// reduce.cpp
void reduce(kernels::Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out);
void argmax(const TensorImpl& x, int axis, TensorImpl& out);
// rows.cpp
void softmax(bool log, const TensorImpl& x, TensorImpl& out);
void softmax_backward(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out);
void logsumexp(const TensorImpl& x, TensorImpl& out);
void cross_entropy(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& logsumexp);
void cross_entropy_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                            const TensorImpl& logsumexp, TensorImpl& out);
// matmul.cpp
void matmul(const TensorImpl& a, const TensorImpl& b, TensorImpl& out, bool accumulate);
// indexing.cpp
BadIndex check_indices(const TensorImpl& indices, std::int64_t low, std::int64_t high);
void gather(const TensorImpl& x, const TensorImpl& indices, TensorImpl& out);
void gather_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);
void pick(const TensorImpl& x, const TensorImpl& indices, TensorImpl& out);
void pick_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);
void one_hot(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out);
// rnn.cpp
void rnn_forward(const RnnForward& task, TensorImpl& out);
void rnn_backward(const RnnBackward& task);
// optimizers.cpp
void adam(TensorImpl& p, const TensorImpl& g, TensorImpl& m, TensorImpl& v, const kernels::AdamStep& step);
void sgd(TensorImpl& p, const TensorImpl& g, TensorImpl* velocity, const kernels::SgdStep& step);

}  // namespace capstan::on_cpu
