// Jacobians: one replay for each element of the target, each with a seed that is one there and zero elsewhere.
#include <capstan/create.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include <algorithm>
#include <vector>

#include "autograd/gradient.hpp"
#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"

namespace capstan {

namespace {

/// Zeros like the target, with ones at some of its elements.
Tensor seed_at(const Tensor& target, const Shape& ones, std::int64_t stride, std::int64_t offset, Where where) {
  Tensor seed = zeros_like(target, where);
  const Tensor place = core::make_view(*seed.impl(), ones, &stride, offset, where);
  core::backend_of(seed.device(), where).fill(*place.impl(), 1);
  return seed;
}

Shape joined(const char* op, const Shape& target, const Shape& source, int shared, Where where) {
  std::int64_t sizes[2 * kMaxRank];
  int rank = 0;
  for (const std::int64_t size : target) sizes[rank++] = size;
  for (int axis = shared; axis < source.rank(); ++axis) sizes[rank++] = source[axis];
  if (rank > kMaxRank)
    base::fail<ShapeError>(where, op, ": the target is ", target, " and the source ", source,
                           "; the result would have ", rank, " axes, and a tensor has at most ", kMaxRank, ".");
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
}

/// What both kinds of Jacobian are asked for. With `shared` = 1 the first axis of the target and the sources is one.
struct Task {
  const char* op;
  const Tensor& target;
  std::span<const Tensor> sources;
  const JacobianOptions& options;
  Where where;
  int shared;

  /// Replays that it takes: elements of the target, or of one row of it.
  std::int64_t passes() const {
    std::int64_t count = 1;
    for (int axis = shared; axis < target.rank(); ++axis) count *= target.shape()[axis];
    return count;
  }
  Tensor seed(std::int64_t pass, std::int64_t count) const {
    return shared == 0 ? seed_at(target, Shape(), 1, pass, where)
                       : seed_at(target, Shape({target.shape()[0]}, where), count, pass, where);
  }
};

/// The gradients of all passes for one source, [.., passes, ..], in the shape of the Jacobian.
Tensor assembled(const Task& task, const Tensor& source, const Shape& shape, std::vector<Tensor>& rows) {
  bool connected = false;
  for (const Tensor& row : rows) connected = connected || row.defined();
  if (!connected)
    return task.options.unconnected == Unconnected::zeros ? zeros(shape, {source.dtype(), source.device()}, task.where)
                                                          : Tensor();
  for (Tensor& row : rows)
    if (!row.defined()) row = zeros_like(source, task.where);
  if (shape.numel() == 0) return zeros(shape, {source.dtype(), source.device()}, task.where);
  return reshape(rows.size() == 1 ? rows[0] : stack(rows, task.shared, task.where), shape, task.where);
}

std::vector<Tensor> jacobians(TapeState* state, const Task& task) {
  TapeState& tape = autograd::usable(task.op, state, task.where);
  core::described(task.op, task.target, task.where);
  std::vector<Shape> shapes;
  for (const Tensor& source : task.sources) {
    const Shape& shape = core::described(task.op, source, task.where).shape;
    const Shape& target = task.target.shape();
    if (task.shared > 0 && (target.rank() == 0 || shape.rank() == 0 || target[0] != shape[0]))
      base::fail<ShapeError>(task.where, task.op, ": the target is ", target, " and the source ", shape,
                             "; both must have a first axis, of one size.");
    shapes.push_back(joined(task.op, target, shape, task.shared, task.where));
  }

  const autograd::Held held(tape);
  const autograd::Rollback rollback;  // of what outer tapes record
  const std::int64_t count = task.passes();
  std::vector<std::vector<Tensor>> rows(task.sources.size());
  std::vector<Tensor> gradients(task.sources.size());
  // a target without elements is replayed once, to see what it is connected to
  for (std::int64_t pass = 0; pass < std::max<std::int64_t>(count, 1); ++pass) {
    const Tensor seed = count > 0 ? task.seed(pass, count) : zeros_like(task.target, task.where);
    gradients.assign(gradients.size(), Tensor());
    autograd::run_gradient(state,
                           {task.op,
                            {&task.target, 1},
                            task.sources,
                            {&seed, 1},
                            Unconnected::undefined,
                            task.where,
                            /*keep=*/pass + 1 < count},
                           gradients.data());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(std::move(gradients[i]));
  }
  std::vector<Tensor> result;
  result.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) result.push_back(assembled(task, task.sources[i], shapes[i], rows[i]));
  return result;
}

}  // namespace

std::vector<Tensor> GradientTape::jacobian(const Tensor& target, std::span<const Tensor> sources,
                                           const JacobianOptions& options, Where where) {
  return jacobians(state_, {"GradientTape::jacobian", target, sources, options, where, 0});
}

std::vector<Tensor> GradientTape::jacobian(const Tensor& target, const std::vector<Tensor>& sources,
                                           const JacobianOptions& options, Where where) {
  return jacobian(target, std::span<const Tensor>(sources), options, where);
}
std::vector<Tensor> GradientTape::jacobian(const Tensor& target, std::initializer_list<Tensor> sources,
                                           const JacobianOptions& options, Where where) {
  return jacobian(target, std::span<const Tensor>(sources.begin(), sources.size()), options, where);
}
Tensor GradientTape::jacobian(const Tensor& target, const Tensor& source, const JacobianOptions& options, Where where) {
  return jacobian(target, std::span<const Tensor>(&source, 1), options, where)[0];
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source, const JacobianOptions& options,
                                    Where where) {
  return jacobians(state_, {"GradientTape::batch_jacobian", target, {&source, 1}, options, where, 1})[0];
}

}  // namespace capstan
