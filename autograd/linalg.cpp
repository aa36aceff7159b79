#include <capstan/ops/linalg.hpp>

#include "autograd/linalg.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;
using autograd::turned;

Shape autograd::broadcast_leading(const char* op, const TensorImpl& a, const TensorImpl& b, Where where) {
  const Shape la = with_sizes(a.shape, 2, {}, where), lb = with_sizes(b.shape, 2, {}, where);
  for (int i = 1; i <= la.rank() && i <= lb.rank(); ++i) {
    const std::int64_t sa = la[la.rank() - i], sb = lb[lb.rank() - i];
    if (sa != sb && sa != 1 && sb != 1)
      base::fail<ShapeError>(where, op, ": leading axes do not broadcast: a is ", a.shape, " and b is ", b.shape,
                             "; sizes ", sa, " and ", sb, " must be equal or 1.");
  }
  return core::broadcast_shapes(op, la, lb, where);
}

namespace {

/// Adds a @ b to the gradient for `input`, straight into the sum where that is possible.
void give_product(Replay& r, int input, const Tensor& a, const Tensor& b, const Shape& shape) {
  if (r.give_beside(input, a, b)) return;
  const Where where = r.where();
  TensorImpl* sum = r.accumulator(input);
  if (sum != nullptr && a.rank() == 2 && b.rank() == 2) {
    backend_of(*sum, where).matmul(*a.impl(), *b.impl(), nullptr, *sum, true);
    core::note_own();
  } else {
    r.give(input, autograd::sum_to(matmul(a, b, where), shape, where));
  }
}

struct ProductShapes {
  Shape a, b;
};

/// Of a @ b. Each operand was saved if the other is followed.
void give_products(Replay& r, const ProductShapes& shapes) {
  if (r.needs(0)) give_product(r, 0, r.grad(), turned(r.saved(1), r.where()), shapes.a);
  if (r.needs(1)) give_product(r, 1, turned(r.saved(0), r.where()), r.grad(), shapes.b);
}

/// What `product` makes of the rows of x [..., n], put together in x's leading axes.
template <class Product>
Tensor by_rows(const Tensor& x, Product product, Where where) {
  const TensorImpl& a = *x.impl();
  const int last = a.rank() - 1;
  std::int64_t sizes[kMaxRank], rows = 1;
  for (int axis = 0; axis < last; ++axis) rows *= sizes[axis] = a.shape[axis];
  const Tensor flat = product(reshape(x, {rows, a.shape[last]}, where));
  sizes[last] = flat.size(1, where);
  return reshape(flat, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(last) + 1), where), where);
}

/// Both of rank 2 or more, of one floating type.
Tensor matmul_matrices(const Tensor& x, const Tensor& y, Where where) {
  const TensorImpl &a = *x.impl(), &b = *y.impl();
  const int ra = a.rank(), rb = b.rank();
  if (rb == 2 && ra > 2) {  // one large product instead of many
    return by_rows(
        x, [&](const Tensor& rows) { return matmul_matrices(rows, y, where); }, where);
  }
  const Shape batch = autograd::broadcast_leading("matmul", a, b, where);
  const Shape shape = autograd::with_sizes(batch, 0, {a.shape[ra - 2], b.shape[rb - 1]}, where);
  Tensor out = autograd::result_like(a, shape, a.dtype, where);
  backend_of(a, where).matmul(a, b, nullptr, *out.impl(), false);
  if (autograd::attended()) {
    const autograd::ProductSaves saves(x, y);
    record(
        "matmul", where, [](Replay& r) { give_products(r, r.attributes<ProductShapes>()); }, {&x, &y}, {&out},
        {saves.left, saves.right}, ProductShapes{a.shape, b.shape});
  }
  return out;
}

void check_product(const char* op, const TensorImpl& a, const TensorImpl& b, Where where) {
  autograd::require_floating(op, a, where);
  autograd::require_floating(op, b, where);
  core::require_same_device(op, a, b, where);
  if (a.rank() == 0 || b.rank() == 0)
    base::fail<ShapeError>(where, op, ": a is ", a.shape, " and b is ", b.shape, "; both must have at least one axis.");
  const std::int64_t inner_a = a.shape[a.rank() - 1], inner_b = b.rank() == 1 ? b.shape[0] : b.shape[b.rank() - 2];
  if (inner_a == inner_b) return;
  const std::string text =
      base::join(op, ": inner sizes differ: a is ", a.shape, " and b is ", b.shape, "; a.size(", a.rank() - 1,
                 ") = ", inner_a, " must equal b.size(", b.rank() == 1 ? 0 : b.rank() - 2, ") = ", inner_b, ".");
  const bool turning_fits = b.rank() == 2 && b.shape[1] == inner_a;
  base::fail<ShapeError>(where, text, turning_fits ? " transpose(b) would fit." : "");
}

/// c, broadcast, plus a @ b: matrices of one type.
Tensor product_added(const char* op, const Tensor& c, const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl &x = *a.impl(), &y = *b.impl(), &z = *c.impl();
  Tensor out = autograd::result_like(x, Shape({x.shape[0], y.shape[1]}, where), x.dtype, where);
  const bool is_bias = z.rank() == 1 && z.shape[0] == y.shape[1] && z.contiguous;
  if (!is_bias) backend_of(x, where).copy(z, *out.impl());
  backend_of(x, where).matmul(x, y, is_bias ? &z : nullptr, *out.impl(), !is_bias);
  if (autograd::attended()) {
    struct Shapes {
      ProductShapes product;
      Shape c;
    };
    const autograd::ProductSaves saves(a, b);
    record(
        op, where,
        [](Replay& r) {
          const auto shapes = r.attributes<Shapes>();
          give_products(r, shapes.product);
          if (r.needs(2)) r.give(2, autograd::sum_to(r.grad(), shapes.c, r.where()));
        },
        {&a, &b, &c}, {&out}, {saves.left, saves.right}, Shapes{{x.shape, y.shape}, c.impl()->shape});
  }
  return out;
}

}  // namespace

Tensor matmul(const Tensor& x, const Tensor& y, Where where) {
  if (autograd::lowers(x, y)) [[unlikely]]
    return autograd::lowered(&matmul, where, x, y);
  check_product("matmul", core::defined("matmul", x, where), core::defined("matmul", y, where), where);
  const autograd::Rollback rollback;
  Tensor a = x, b = y;
  if (a.dtype() != b.dtype()) autograd::promote_operands(a, b, where);
  if (a.rank() == 1) a = expand_dims(a, 0, where);
  if (b.rank() == 1) b = expand_dims(b, 1, where);
  Tensor out = matmul_matrices(a, b, where);
  if (y.rank() == 1) out = squeeze(out, -1, where);
  if (x.rank() == 1) out = squeeze(out, y.rank() == 1 ? -1 : -2, where);
  return out;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where) {
  if (autograd::lowers(x, weight, bias)) [[unlikely]]
    return autograd::lowered(&linear, where, x, weight, bias);
  const TensorImpl &a = core::defined("linear", x, where), &w = core::defined("linear", weight, where);
  check_product("linear", a, w, where);
  if (w.rank() != 2)
    base::fail<ShapeError>(where, "linear: the weight is ", w.shape, "; it must have two axes, [inputs, outputs].");
  if (!bias.defined()) return matmul(x, weight, where);
  const TensorImpl& c = core::defined("linear", bias, where);
  autograd::require_floating("linear", c, where);
  core::require_same_device("linear", a, c, where);
  if (c.rank() != 1 || c.shape[0] != w.shape[1])
    base::fail<ShapeError>(where, "linear: the bias is ", c.shape, " and the weight ", w.shape, "; the bias must be [",
                           w.shape[1], "].");
  const autograd::Rollback rollback;
  if (a.rank() < 2 || a.dtype != w.dtype || a.dtype != c.dtype) return add(matmul(x, weight, where), bias, where);
  const auto product = [&](const Tensor& rows) { return product_added("linear", bias, rows, weight, where); };
  return a.rank() == 2 ? product(x) : by_rows(x, product, where);
}

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Where where) {
  if (autograd::lowers(c, a, b)) [[unlikely]]
    return autograd::lowered(&addmm, where, c, a, b);
  const TensorImpl &x = core::defined("addmm", a, where), &y = core::defined("addmm", b, where);
  check_product("addmm", x, y, where);
  const TensorImpl& z = core::defined("addmm", c, where);
  autograd::require_floating("addmm", z, where);
  core::require_same_device("addmm", x, z, where);
  if (x.rank() != 2 || y.rank() != 2)
    base::fail<ShapeError>(where, "addmm: a is ", x.shape, " and b is ", y.shape, "; both must have two axes.");
  const Shape shape({x.shape[0], y.shape[1]}, where);
  if (z.rank() > 2 || core::broadcast_shapes("addmm", z.shape, shape, where) != shape)
    base::fail<ShapeError>(where, "addmm: c is ", z.shape, " and the product ", shape, "; c must broadcast to it.");
  const autograd::Rollback rollback;
  if (x.dtype != y.dtype || x.dtype != z.dtype) return add(c, matmul(a, b, where), where);
  return product_added("addmm", c, a, b, where);
}

}  // namespace capstan
