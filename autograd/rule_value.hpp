#pragma once
// The fourth evaluator of the rules: tensors. A rule's gradient, instantiated with Value, runs as public operations,
// so that outer tapes record it and gradients of gradients need no second rule.
#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>

#include "lib/base/text.hpp"

namespace capstan::autograd {

/// A tensor, or a number that waits for a tensor to stand beside. Made from an lvalue it only refers to the tensor,
/// which saves counting references: rules pass values around by the dozen.
class Value {
 public:
  Value(const Tensor& t, Where w) noexcept : where(w), lent_(&t) {}
  Value(Tensor&& t, Where w) noexcept : where(w), own_(std::move(t)) {}
  explicit Value(double x) noexcept : number(x) {}
  Value(const Value& other) : where(other.where), number(other.number), lent_(other.lent_) {
    if (lent_ == nullptr) own_ = other.own_;
  }
  Value& operator=(const Value&) = delete;

  const Tensor& tensor() const noexcept { return lent_ != nullptr ? *lent_ : own_; }
  /// The tensor, moved out where it is the value's own.
  Tensor take() && { return lent_ != nullptr ? *lent_ : std::move(own_); }
  bool is_number() const noexcept { return !tensor().defined(); }

  Where where{};
  double number = 0;

 private:
  Tensor own_;
  const Tensor* lent_ = nullptr;
};

#define CAPSTAN_VALUE_OPERATOR(symbol)                                                         \
  inline Value operator symbol(const Value& a, const Value& b) {                               \
    if (a.is_number() && b.is_number()) return Value(a.number symbol b.number);                \
    if (b.is_number()) return {Operand(a.tensor(), a.where) symbol Scalar(b.number), a.where}; \
    if (a.is_number()) return {ScalarOperand(a.number, b.where) symbol b.tensor(), b.where};   \
    return {Operand(a.tensor(), a.where) symbol b.tensor(), a.where};                          \
  }
CAPSTAN_VALUE_OPERATOR(+)
CAPSTAN_VALUE_OPERATOR(-)
CAPSTAN_VALUE_OPERATOR(*)
CAPSTAN_VALUE_OPERATOR(/)
#undef CAPSTAN_VALUE_OPERATOR

/// What a comparison of values gives: a bool tensor.
struct Condition {
  Tensor tensor;
  Where where;
};
#define CAPSTAN_VALUE_COMPARISON(symbol, function)                                                                   \
  inline Condition operator symbol(const Value& a, const Value& b) {                                                 \
    return {                                                                                                         \
        b.is_number() ? function(a.tensor(), Scalar(b.number), a.where) : function(a.tensor(), b.tensor(), a.where), \
        a.where};                                                                                                    \
  }
CAPSTAN_VALUE_COMPARISON(<, less)
CAPSTAN_VALUE_COMPARISON(<=, less_equal)
CAPSTAN_VALUE_COMPARISON(>, greater)
CAPSTAN_VALUE_COMPARISON(>=, greater_equal)
CAPSTAN_VALUE_COMPARISON(==, equal)
#undef CAPSTAN_VALUE_COMPARISON

inline Value select(const Condition& c, const Value& a, const Value& b) {
  const Where w = c.where;
  if (a.is_number() && b.is_number())
    base::fail<BackendError>(w,
                             "select: a rule chooses between two numbers; at least one must depend on its arguments.");
  if (a.is_number()) return {capstan::where(c.tensor, Scalar(a.number), b.tensor(), w), w};
  if (b.is_number()) return {capstan::where(c.tensor, a.tensor(), Scalar(b.number), w), w};
  return {capstan::where(c.tensor, a.tensor(), b.tensor(), w), w};
}
inline Value operator-(const Value& x) { return {neg(x.tensor(), x.where), x.where}; }
inline Value zero_of(const Value& x) { return {zeros_like(x.tensor(), x.where), x.where}; }

#define CAPSTAN_VALUE_FUNCTION(name) \
  inline Value name(const Value& x) { return {capstan::name(x.tensor(), x.where), x.where}; }
CAPSTAN_VALUE_FUNCTION(abs)
CAPSTAN_VALUE_FUNCTION(cos)
CAPSTAN_VALUE_FUNCTION(cosh)
CAPSTAN_VALUE_FUNCTION(digamma)
CAPSTAN_VALUE_FUNCTION(erfc)
CAPSTAN_VALUE_FUNCTION(exp)
CAPSTAN_VALUE_FUNCTION(log)
CAPSTAN_VALUE_FUNCTION(log1p)
CAPSTAN_VALUE_FUNCTION(round)
CAPSTAN_VALUE_FUNCTION(sigmoid)
CAPSTAN_VALUE_FUNCTION(sin)
CAPSTAN_VALUE_FUNCTION(sinh)
CAPSTAN_VALUE_FUNCTION(sqrt)
CAPSTAN_VALUE_FUNCTION(tanh)
#undef CAPSTAN_VALUE_FUNCTION
Tensor polygamma_of(double order, const Tensor& x, Where where);  // of derivatives, so beyond what users may ask for
inline Value polygamma(const Value& order, const Value& x) {      // the order is a number
  return {polygamma_of(order.number, x.tensor(), x.where), x.where};
}
inline Value hypot(const Value& x, const Value& y) {
  return {capstan::hypot(x.tensor(), y.tensor(), x.where), x.where};
}
inline Value pow(const Value& x, const Value& y) {
  if (y.is_number()) return {capstan::pow(x.tensor(), Scalar(y.number), x.where), x.where};
  return {capstan::pow(x.tensor(), y.tensor(), x.where), x.where};
}

}  // namespace capstan::autograd
