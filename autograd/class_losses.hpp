#pragma once
// Labels of classes: how losses look them up.
#include <cstdint>

#include "autograd/ops.hpp"

namespace capstan::autograd {

struct Labels {
  Tensor index;   // contiguous, each one a class
  Tensor counts;  // bool, whether a row does; undefined if all do
};

/// Checks labels of x, whose classes are on `axis`: type, shape, and that each is a class or `ignored`, which may be
/// null. `what` is what an error calls x: "logits".
Labels look_up(const char* op, const char* what, const TensorImpl& x, int axis, const Tensor& labels,
               const std::int64_t* ignored, Where where);

/// -log softmax(logits)[label] for each row, shown as `op`, and 0 for those that do not count, whatever they hold. The
/// logits are floating, and their classes on the last axis.
Tensor sparse_rows(const char* op, const Tensor& logits, const Labels& found, Where where);

/// Throws unless the weights are undefined, or floating and one for each class.
void require_class_weight(const char* op, const Tensor& weight, const TensorImpl& x, int axis, Where where);
/// The weight of each label; undefined if the weights are.
Tensor class_weight_of(const Tensor& weight, const Tensor& index, DType dtype, Where where);

/// A view with that axis moved behind the others.
Tensor classes_last(const Tensor& x, int axis, Where where);

}  // namespace capstan::autograd
