#pragma once
// Products of vectors, matrices and tensors; diagonals, triangles and norms of matrices. What takes matrices apart is
// in decompose.hpp.
//
// Matrices are the last two axes, and leading axes are a batch. Throws DeviceError for operands on different devices.
#include <string_view>

#include <capstan/ops/reduce.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Matrix product, as NumPy's matmul.
///
///   out[..., i, j] = sum(k) a[..., i, k] * b[..., k, j]
///
/// Shapes    a [..., m, k], b [..., k, n], leading axes broadcast; a [k] is taken as one row and b [k] as one column,
///           and that axis is dropped from the result; k = 0 gives zeros
/// Types     floating; promoted
/// Gradient  for both
/// Cost      2*m*k*n flops a product; transposed and row-strided operands are not copied
/// Throws    ShapeError  a rank of 0, inner sizes differ, leading axes do not broadcast     DTypeError, DeviceError
/// Defined in autograd/linalg.cpp.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = Where::current());

/// x @ weight + bias in one pass: `matmul(x, weight) + bias`. `bias` may be undefined for none.
///
/// Shapes    x [..., in], weight [in, out], bias [out] -> [..., out]
/// Types     floating; promoted
/// Gradient  for all three
/// Throws    ShapeError  inner sizes differ, a weight without two axes, a bias that is not [out]
///           DTypeError, DeviceError
/// Source    PyTorch's nn.functional.linear, with the weight transposed
/// Defined in autograd/linalg.cpp.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor(), Where where = Where::current());

/// c + a @ b in one pass, as PyTorch's addmm.
///
/// Shapes    a [m, k], b [k, n]; c broadcasts to [m, n]
/// Types     floating; promoted
/// Gradient  for all three
/// Cost      2*m*k*n flops
/// Throws    ShapeError, DTypeError, DeviceError
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Where where = Where::current());

// --- sums of products ----------------------------------------------------------------------------------------------

/// Einstein's summation, as NumPy's einsum: `einsum("bij,bjk->bik", {a, b})`.
///
/// Each operand has a term, a letter for each of its axes; equal letters are one index, and every index that the result
/// does not name is summed over. `...` stands for any axes, aligned at the last and broadcast. A letter twice in one
/// term takes the diagonal. Without `->` the result has the axes of `...`, then the letters that occur once, in
/// alphabetical order (capitals first); after `->` there must be `...` too if it stands for any axes (NumPy's rule).
/// Blanks do not count. An axis of size 1 broadcasts.
///
/// Shapes    at most 8 axes for each operand, each product of two, and the result
/// Types     floating; promoted
/// Gradient  for all operands, to any order: it is made of views, sums and `matmul`
/// Cost      of several operands the two cheapest to multiply come first, and so on; each product is one (batched)
///           matmul. With nothing to multiply the result may be a view
/// Throws    ShapeError  a malformed equation, sizes that do not fit     DTypeError
/// Source    https://numpy.org/doc/stable/reference/generated/numpy.einsum.html. Defined in autograd/einsum.cpp.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Where where = Where::current());
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands, Where where = Where::current());

/// Sums products over axes of both: the last `axes` of a and the first of b (0: all products), or the listed pairs.
///
/// Shapes    result: a's other axes, then b's
/// Types     floating; promoted
/// Gradient  for both
/// Throws    ShapeError  sizes of a pair differ, lists of different lengths     IndexError  an axis out of range
/// Defined in autograd/contract.cpp.
Tensor tensordot(const Tensor& a, const Tensor& b, int axes = 2, Where where = Where::current());
Tensor tensordot(const Tensor& a, const Tensor& b, std::span<const int> axes_a, std::span<const int> axes_b,
                 Where where = Where::current());
Tensor tensordot(const Tensor& a, const Tensor& b, std::initializer_list<int> axes_a, std::initializer_list<int> axes_b,
                 Where where = Where::current());

/// NumPy's dot: of vectors their inner product; else the sum over a's last axis and b's last but one (the only one of a
/// vector); with a tensor of shape [] the plain product. Floating; gradient for both.
Tensor dot(const Tensor& a, const Tensor& b, Where where = Where::current());

// All of these take numbers, promote, and are differentiable for both. Defined in autograd/vector_products.cpp.

/// Sum of products along one axis, which must have one size in both; the others broadcast. Integers stay what they are,
/// 16-bit floating types are multiplied and added up in float32.
Tensor vecdot(const Tensor& a, const Tensor& b, int axis = -1, Where where = Where::current());
/// out[i, j] = a[i] * b[j] for vectors; ShapeError for anything else (flatten first).
Tensor outer(const Tensor& a, const Tensor& b, Where where = Where::current());
/// Kronecker product: each element of a, times all of b, side by side. Sizes multiply; the shorter shape gets leading
/// axes of size 1. ShapeError if both have more than 8 axes above size 1 together.
Tensor kron(const Tensor& a, const Tensor& b, Where where = Where::current());
/// Cross product of vectors along an axis that must have size 3 in both (ShapeError); the others broadcast.
Tensor cross(const Tensor& a, const Tensor& b, int axis = -1, Where where = Where::current());

/// x @ x @ ... (n times) by repeated squaring; n = 1 gives x itself (as in NumPy), n = 0 identities and n < 0 powers of
/// the inverse (NumericError for singular matrices). Square matrices of a floating type; differentiable.
Tensor matrix_power(const Tensor& x, std::int64_t n, Where where = Where::current());

// --- diagonals and triangles ---------------------------------------------------------------------------------------
// Any type; differentiable. `offset` counts diagonals: above 0 to the right of the main one, below 0 beneath it; one
// that lies outside has no elements. ShapeError for fewer than two axes. Defined in autograd/diagonals.cpp.

/// A view of a diagonal of two axes, which become one at the end. The last two by default, as in the Array API
/// (numpy.diagonal and torch.diagonal take the first two).
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int axis0 = -2, int axis1 = -1,
                Where where = Where::current());
/// numpy.diag: a matrix with that diagonal and zeros of a vector, a view of the diagonal of a matrix.
Tensor diag(const Tensor& x, std::int64_t offset = 0, Where where = Where::current());
/// Sum of the diagonal of the last two axes. Integers give int64.
Tensor trace(const Tensor& x, std::int64_t offset = 0, Where where = Where::current());
/// The elements on and below a diagonal of the last two axes, zero above it.
Tensor tril(const Tensor& x, std::int64_t offset = 0, Where where = Where::current());
/// The elements on and above a diagonal of the last two axes, zero below it.
Tensor triu(const Tensor& x, std::int64_t offset = 0, Where where = Where::current());

// --- norms ---------------------------------------------------------------------------------------------------------

/// sum(|x|^order)^(1/order) over axes, all by default: NumPy's and the Array API's vector_norm.
///
/// Orders    any number; infinity the largest |x|, -infinity the smallest, 0 how many are not 0
/// Types     floating
/// Gradient  g * sign(x) * (|x|/y)^(order-1), and 0 at elements that are 0 and where the norm y is 0 (PyTorch's rule);
///           for +-infinity among ties shared evenly; none for order 0
/// Throws    ShapeError  no elements for an infinite order     Error  order is NaN     IndexError, DTypeError
/// Powers are not scaled: |x|^order and their sum must fit float64 for order 2, and for others the type that computes,
/// float32 for 16-bit types; beyond, the result is infinite or 0.
Tensor vector_norm(const Tensor& x, double order = 2, Axes axes = {}, ReduceOptions options = {},
                   Where where = Where::current());

/// Which norm of a matrix. numpy.linalg.norm calls them 'fro', 'nuc', 1, -1, 2, -2, inf and -inf.
enum class MatrixNorm : std::uint8_t {
  frobenius,       ///< square root of the sum of squares
  nuclear,         ///< sum of the singular values
  one,             ///< largest sum of |x| down a column
  minus_one,       ///< smallest such sum
  two,             ///< largest singular value
  minus_two,       ///< smallest singular value
  infinity,        ///< largest sum of |x| along a row
  minus_infinity,  ///< smallest such sum
};

/// Norms of the matrices in the last two axes, which go or, with keepdims, stay with size 1. Floating types.
/// Gradient to any order; ties share it evenly, and that of frobenius is 0 for a zero matrix.
/// Throws ShapeError  fewer than two axes; no sum or singular value to choose from
///        MissingLibraryError  nuclear, two and minus_two without LAPACK
/// Defined, with vector_norm, in autograd/norms.cpp.
Tensor matrix_norm(const Tensor& x, MatrixNorm order = MatrixNorm::frobenius, ReduceOptions options = {},
                   Where where = Where::current());

}  // namespace capstan
