#pragma once
// What a device must be able to compute. One table for each backend; backends.cpp picks it by device.
//
// Arguments are checked before: types agree, shapes fit, indices are in range where that can be known from the host.
// `out` is freshly allocated and contiguous unless an entry says otherwise; inputs may have any strides.
#include <cstdint>

#include "lib/core/tensor_impl.hpp"
#include "lib/kernels/op_list.hpp"
#include "lib/kernels/optimizer_steps.hpp"

namespace capstan::core {

enum class RandomKind : std::uint8_t { uniform, normal, truncated_normal, bernoulli, integers };

struct RandomTask {
  RandomKind kind;
  std::uint64_t seed, first_block;
  double a, b;             // low and high, mean and standard deviation, or probability
  std::int64_t low, high;  // integers
};
/// Blocks of the generator that a task of `count` elements uses.
std::int64_t random_blocks(RandomKind kind, std::int64_t count) noexcept;

struct RnnForward {
  const TensorImpl &x, &h0, &wx, &wh, &b;
  bool relu;
};
struct RnnBackward {
  const TensorImpl &x, &h0, &wx, &wh, &h;
  const TensorImpl *grad, *grad_last;  // of all steps and of the last; either may be null
  TensorImpl* dx;                      // null if not needed
  TensorImpl &dh0, &dwx, &dwh, &db;
  bool relu;
};

/// The first index that is out of range, and where it stands; position -1 for none.
struct BadIndex {
  std::int64_t position = -1, value = 0;
};

struct Backend {
  // elementwise; operands broadcast to out's shape
  void (*unary)(int op, const TensorImpl& x, TensorImpl& out);
  void (*unary_backward)(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out);
  void (*binary)(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
  void (*compare)(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
  void (*logical)(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);  // 0 and, 1 or, 2 not a
  void (*select)(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
  /// a += b, both contiguous and of one shape
  void (*accumulate)(TensorImpl& a, const TensorImpl& b);

  // any strides on both sides; x broadcasts and is converted
  void (*copy)(const TensorImpl& x, TensorImpl& out);
  void (*fill)(TensorImpl& out, Scalar value);
  void (*random)(const RandomTask& task, TensorImpl& out);

  // reductions; `reduced` has a bit for each reduced axis, out keeps the others
  void (*reduce)(kernels::Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out);
  void (*argmax)(const TensorImpl& x, int axis, TensorImpl& out);
  // along the last axis
  void (*softmax)(bool log, const TensorImpl& x, TensorImpl& out);
  void (*softmax_backward)(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out);
  void (*logsumexp)(const TensorImpl& x, TensorImpl& out);

  // out [..., m, n] (+)= a [..., m, k] b [..., k, n]; leading axes broadcast to out's
  void (*matmul)(const TensorImpl& a, const TensorImpl& b, TensorImpl& out, bool accumulate);

  BadIndex (*check_indices)(const TensorImpl& indices, std::int64_t low, std::int64_t high);
  // along the first axis of x [n, rest]; indices contiguous, negative ones count from the end
  void (*gather)(const TensorImpl& x, const TensorImpl& indices, TensorImpl& out);
  void (*gather_backward)(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);  // out zeroed first
  void (*pick)(const TensorImpl& x, const TensorImpl& indices, TensorImpl& out);
  void (*pick_backward)(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);
  void (*one_hot)(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out);

  // losses over rows: x [rows, classes], labels [rows]
  void (*cross_entropy)(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& logsumexp);
  void (*cross_entropy_backward)(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                                 const TensorImpl& logsumexp, TensorImpl& out);

  void (*rnn_forward)(const RnnForward& task, TensorImpl& out);
  void (*rnn_backward)(const RnnBackward& task);

  // parameters and states are contiguous
  void (*adam)(TensorImpl& p, const TensorImpl& g, TensorImpl& m, TensorImpl& v, const kernels::AdamStep& step);
  void (*sgd)(TensorImpl& p, const TensorImpl& g, TensorImpl* velocity, const kernels::SgdStep& step);
};

/// The table of a device. Throws DeviceError if there is none.
const Backend& backend_of(Device device, Where where);
void require_device(const char* op, Device device, Where where);

const Backend& cpu_backend();
/// Null in builds without CUDA, and as long as that backend has no operations.
const Backend* cuda_backend();
int cuda_device_count() noexcept;

}  // namespace capstan::core
