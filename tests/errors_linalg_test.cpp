// Bad input to linear algebra: the right exception, word for word, nothing changed and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_linalg_test.cpp";
const std::string floating = "; it must be a floating type.";
const std::string no_common = "; the Array API table has no common type for them. Convert one with x.to(dtype).";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string two_axes = ": the tensor is [3]; it must have two axes or more, [..., m, n].";
const std::string not_square = ": the matrices of [2, 3] are not square; the last two sizes must be equal.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor square = {{2.0f, 1.0f}, {1.0f, 2.0f}};
  Tensor integers = {{1, 2}, {3, 4}};
  Tensor three = {1.0f, 2.0f, 3.0f};
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(same(square, {{2.0f, 1.0f}, {1.0f, 2.0f}}));
    CHECK(x.version() == 0);
    CHECK(square.version() == 0);
  }
};

}  // namespace

TEST_CASE("einsum refuses malformed equations and sizes that do not fit", "[errors]") {
  const Operands o;
  const std::string stray = " is neither a letter nor a part of \"...\", \",\" or one \"->\" in ";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { einsum("ij,jk->ik", {o.x}); },
       "einsum: there are 1 operands, and 2 terms in \"ij,jk->ik\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ij", std::vector<Tensor>{}); },
       "einsum: there are 0 operands, and 1 terms in \"ij\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("i1->i", {o.x}); }, "einsum: '1'" + stray + "\"i1->i\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("i..j", {o.x}); }, "einsum: '.'" + stray + "\"i..j\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ij->i->j", {o.x}); }, "einsum: '-'" + stray + "\"ij->i->j\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("...i...", {o.x}); },
       "einsum: a term has \"...\" twice in \"...i...\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ijk", {o.x}); },
       "einsum: operand 0 is [2, 3], and its term names 3 axes in \"ijk\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("i", {o.x}); },
       "einsum: operand 0 is [2, 3], and its term names 1 axes in \"i\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ijk...", {o.x}); },
       "einsum: operand 0 is [2, 3], and its term names 3 axes in \"ijk...\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("i i", {o.x}); },
       "einsum: operand 0 is [2, 3], and its two axes 'i' differ in size in \"ii\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ij,jk->ik", {o.x, o.x}); },
       "einsum: axes 'j' of sizes 3 and 2 must be equal or 1 in \"ij,jk->ik\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("...,...", {o.x, o.square}); },
       "einsum: axes '...' of sizes 3 and 2 must be equal or 1 in \"...,...\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ij->k", {o.x}); },
       "einsum: the result names 'k', and no operand does in \"ij->k\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("ij->ii", {o.x}); },
       "einsum: the result names 'i' twice in \"ij->ii\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("...i->i", {o.x}); },
       "einsum: the operands have axes for \"...\", and the result does not in \"...i->i\"."},
      {__LINE__, message_of<ShapeError>, [&] { einsum("abcde,fghij", {zeros({1, 1, 1, 1, 1}), zeros({1, 1, 1, 1, 1})}); },
       "einsum: a product of [1, 1, 1, 1, 1] and [1, 1, 1, 1, 1] would have 10 axes; a tensor has at most 8."},
      {__LINE__, message_of<DTypeError>, [&] { einsum("ij", {o.integers}); }, "einsum: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { einsum("ij", {o.none}); }, "einsum" + undefined},
  }, file);
}

TEST_CASE("products of vectors and tensors refuse shapes that do not fit", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { tensordot(o.x, o.x, 1); },
       "tensordot: sizes differ: a is [2, 3] and b is [2, 3]; a.size(1) = 3 must equal b.size(0) = 2."},
      {__LINE__, message_of<ShapeError>, [&] { tensordot(o.x, o.x, 3); },
       "tensordot: 3 axes were asked for: a is [2, 3] and b is [2, 3]; the count must be >= 0 and at most either rank."},
      {__LINE__, message_of<ShapeError>, [&] { tensordot(o.x, o.x, -1); },
       "tensordot: -1 axes were asked for: a is [2, 3] and b is [2, 3]; the count must be >= 0 and at most either rank."},
      {__LINE__, message_of<ShapeError>, [&] { tensordot(o.x, o.x, {0, 1}, {0}); },
       "tensordot: 2 axes of a and 1 of b were given; they go in pairs."},
      {__LINE__, message_of<ShapeError>, [&] { tensordot(o.x, o.x, {0, -2}, {0, 1}); },
       "tensordot: axis -2 is named twice for shape [2, 3]; name each once."},
      {__LINE__, message_of<IndexError>, [&] { tensordot(o.x, o.x, {2}, {0}); },
       "tensordot: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<DTypeError>, [&] { tensordot(o.x, o.integers, 1); }, "tensordot: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { dot(o.x, o.x); },
       "dot: sizes differ: a is [2, 3] and b is [2, 3]; a.size(1) = 3 must equal b.size(0) = 2."},
      {__LINE__, message_of<DTypeError>, [&] { dot(o.integers, o.integers); }, "dot: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { outer(o.three, Tensor{1, 2}); }, "outer: types do not mix: a is float32 and b is int32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { vecdot(o.square, o.integers); }, "vecdot: types do not mix: a is float32 and b is int32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { kron(o.integers, o.square); }, "kron: types do not mix: a is int32 and b is float32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { cross(Tensor{1, 2, 3}, o.three); }, "cross: types do not mix: a is int32 and b is float32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { linear(o.square, o.square, Tensor{1, 2}); }, "linear: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { outer(o.x, o.three); },
       "outer: a is [2, 3] and b is [3]; both must have one axis."},
      {__LINE__, message_of<ShapeError>, [&] { vecdot(o.x, o.square); },
       "vecdot: a is [2, 3] and b is [2, 2]; both must have axis -1, of one size."},
      {__LINE__, message_of<ShapeError>, [&] { vecdot(o.x, o.three, 0); },
       "vecdot: a is [2, 3] and b is [3]; both must have axis -2, of one size."},
      {__LINE__, message_of<IndexError>, [&] { vecdot(o.x, o.x, 2); },
       "vecdot: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { cross(o.square, o.square); },
       "cross: a is [2, 2] and b is [2, 2]; axis -1 must have size 3."},
      {__LINE__, message_of<ShapeError>, [&] { kron(zeros({2, 2, 2, 2, 2}), zeros({2, 2, 2, 2})); },
       "kron: a is [2, 2, 2, 2, 2] and b is [2, 2, 2, 2]; together they have 9 axes above size 1, and the most is 8."},
      {__LINE__, message_of<ShapeError>, [&] { matrix_power(o.x, 2); }, "matrix_power" + not_square},
      {__LINE__, message_of<DTypeError>, [&] { matrix_power(o.integers, 2); },
       "matrix_power: the tensor is int32" + floating},
      {__LINE__, message_of<NumericError>, [&] { matrix_power(ones({2, 2}), -1); },
       "inverse: the matrix is singular: a is [2, 2], and pivot 1 is 0; it must have full rank. pinv takes any matrix."},
      {__LINE__, message_of<Error>, [&] { outer(o.three, o.none); }, "outer" + undefined},
      {__LINE__, message_of<Error>, [&] { kron(o.none, o.three); }, "kron" + undefined},
  }, file);
}

TEST_CASE("diagonals, triangles and norms refuse what has no matrices", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { diagonal(o.three); }, "diagonal" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { diagonal(o.x, 0, 1, -1); },
       "diagonal: axes 1 and -1 of shape [2, 3] are the same; they must be two."},
      {__LINE__, message_of<IndexError>, [&] { diagonal(o.x, 0, 0, 2); },
       "diagonal: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { diag(Tensor(1.0f)); }, "diag: the tensor is []; it must have one axis or two."},
      {__LINE__, message_of<ShapeError>, [&] { diag(o.three, INT64_MIN); },
       "diag: diagonal -9223372036854775808 is beyond any matrix."},
      {__LINE__, message_of<ShapeError>, [&] { trace(o.three); }, "trace" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { tril(o.three); }, "tril" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { triu(o.three); }, "triu" + two_axes},
      {__LINE__, message_of<Error>, [&] { tril(o.none); }, "tril" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { vector_norm(o.integers); }, "vector_norm: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { vector_norm(o.x, kNaN); }, "vector_norm: the order is nan; it must be a number."},
      {__LINE__, message_of<IndexError>, [&] { vector_norm(o.x, 2, 2); },
       "vector_norm: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { vector_norm(zeros({0, 3}), kInfinity, 0); },
       "vector_norm: shape [0, 3] has no elements to reduce; each reduced axis must have size 1 or more."},
      {__LINE__, message_of<ShapeError>, [&] { matrix_norm(o.three); }, "matrix_norm" + two_axes},
      {__LINE__, message_of<DTypeError>, [&] { matrix_norm(o.integers); }, "matrix_norm: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { matrix_norm(zeros({3, 0}), MatrixNorm::one); },
       "matrix_norm: shape [3, 0] leaves nothing to choose from; the matrices must have elements."},
      {__LINE__, message_of<ShapeError>, [&] { matrix_norm(zeros({3, 0}), MatrixNorm::two); },
       "matrix_norm: shape [3, 0] leaves nothing to choose from; the matrices must have elements."},
  }, file);
}

TEST_CASE("systems of equations refuse shapes that do not fit, and name the matrix that is singular", "[errors]") {
  const Operands o;
  const Tensor singular = {{1.0, 2.0}, {2.0, 4.0}}, batch = stack({eye(2, 2, {.dtype = DType::float64}), singular});
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { solve(o.x, o.three); }, "solve" + not_square},
      {__LINE__, message_of<ShapeError>, [&] { solve(o.three, o.three); }, "solve" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { solve(o.square, o.three); },
       "solve: a is [2, 2] and b is [3]; b must have as many rows, 2."},
      {__LINE__, message_of<ShapeError>, [&] { solve(o.square, Tensor(1.0f)); },
       "solve: a is [2, 2] and b is []; b must have as many rows, 2."},
      {__LINE__, message_of<ShapeError>, [&] { solve(zeros({2, 3, 3}), zeros({4, 3, 1})); },
       "solve: leading axes do not broadcast: a is [2, 3, 3] and b is [4, 3, 1]; sizes 2 and 4 must be equal or 1."},
      {__LINE__, message_of<DTypeError>, [&] { solve(o.integers, o.integers); }, "solve: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { solve(o.none, o.three); }, "solve" + undefined},
      {__LINE__, message_of<Error>, [&] { solve(o.square, o.none); }, "solve" + undefined},
      {__LINE__, message_of<NumericError>, [&] { solve(singular, singular); },
       "solve: the matrix is singular: a is [2, 2], and pivot 1 is 0; it must have full rank. lstsq takes any matrix."},
      {__LINE__, message_of<NumericError>, [&] { solve(batch, singular); },
       "solve: the matrix at [1] is singular: a is [2, 2, 2], and pivot 1 is 0; it must have full rank. "
       "lstsq takes any matrix."},
      {__LINE__, message_of<NumericError>, [&] { inverse(stack({batch, batch})); },
       "inverse: the matrix at [0, 1] is singular: a is [2, 2, 2, 2], and pivot 1 is 0; it must have full rank. "
       "pinv takes any matrix."},
      {__LINE__, message_of<ShapeError>, [&] { inverse(o.x); }, "inverse" + not_square},
      {__LINE__, message_of<DTypeError>, [&] { inverse(o.integers); }, "inverse: the tensor is int32" + floating},
      {__LINE__, message_of<NumericError>, [&] { solve_triangular(Tensor{{1.0, 0.0}, {1.0, 0.0}}, Tensor{1.0, 1.0}); },
       "solve_triangular: the matrix is singular: a is [2, 2], and pivot 1 is 0; it must have full rank."},
      {__LINE__, message_of<ShapeError>, [&] { solve_triangular(o.x, o.three); }, "solve_triangular" + not_square},
      {__LINE__, message_of<ShapeError>, [&] { lstsq(o.x, o.three); },
       "lstsq: a is [2, 3] and b is [3]; b must have as many rows, 2."},
      {__LINE__, message_of<Error>, [&] { lstsq(o.x, Tensor{1.0f, 2.0f}, kNaN); }, "lstsq: rcond is nan; it must be a number."},
      {__LINE__, message_of<ShapeError>, [&] { lstsq(o.three, o.three); }, "lstsq" + two_axes},
  }, file);
}

TEST_CASE("decompositions refuse what is no matrix, and name the one that is not positive definite", "[errors]") {
  const Operands o;
  const Tensor positive = eye(3, 3, {.dtype = DType::float64}), negative = positive * Tensor{1.0, 1.0, -1.0};
  const std::string rest = " is not positive definite: x is ";
  check_errors({
      {__LINE__, message_of<NumericError>, [&] { cholesky(negative); },
       "cholesky: the matrix" + rest + "[3, 3], and its leading minor of order 3 is not positive; all of them must be."},
      {__LINE__, message_of<NumericError>, [&] { cholesky(stack({positive, positive, negative})); },
       "cholesky: the matrix at [2]" + rest + "[3, 3, 3], and its leading minor of order 3 is not positive; all of them must be."},
      {__LINE__, message_of<NumericError>, [&] { cholesky(zeros({2, 2}), {.upper = true}); },
       "cholesky: the matrix" + rest + "[2, 2], and its leading minor of order 1 is not positive; all of them must be."},
      {__LINE__, message_of<ShapeError>, [&] { cholesky(o.x); }, "cholesky" + not_square},
      {__LINE__, message_of<ShapeError>, [&] { det(o.x); }, "det" + not_square},
      {__LINE__, message_of<ShapeError>, [&] { slogdet(o.three); }, "slogdet" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { eigh(o.x); }, "eigh" + not_square},
      {__LINE__, message_of<ShapeError>, [&] { eigvalsh(o.three); }, "eigvalsh" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { qr(o.three); }, "qr" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { svd(o.three); }, "svd" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { svdvals(o.three); }, "svdvals" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { pinv(o.three); }, "pinv" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { matrix_rank(o.three); }, "matrix_rank" + two_axes},
      {__LINE__, message_of<Error>, [&] { pinv(o.x, kNaN); }, "pinv: rtol is nan; it must be a number."},
      {__LINE__, message_of<DTypeError>, [&] { det(o.integers); }, "det: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { cholesky(o.integers); }, "cholesky: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { qr(o.integers); }, "qr: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { svd(o.integers); }, "svd: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { eigh(o.integers); }, "eigh: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { svd(o.none); }, "svd" + undefined},
  }, file);
}

TEST_CASE("gradients that do not exist are refused at replay", "[errors]") {
  const Tensor tall = {{1.0, 2.0}, {3.0, 5.0}, {0.0, 1.0}}, deficient = {{1.0, 2.0}, {2.0, 4.0}, {3.0, 6.0}};
  const auto gradient_of = [](const Tensor& x, Tensor (*f)(const Tensor&)) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    tape.gradient(y, x);
  };
  const Call complete = [&] {
    gradient_of(tall, [](const Tensor& x) { return qr(x, QrMode::complete).q; });
  };
  CHECK(split_message(message_of<TapeError>(complete)).text ==
        "qr: q is [3, 3] and r is [3, 2]; the complete form for more rows than columns has no gradient. Use the reduced one.");
  const Call no_rank = [&] {
    gradient_of(deficient, [](const Tensor& x) { return lstsq(x, Tensor{1.0, 2.0, 4.0}, 1e-10).solution; });
  };
  CHECK(split_message(message_of<NumericError>(no_rank)).text ==
        "lstsq: a is [3, 2], and the rank of a matrix is less than it could be; the gradient needs full rank.");
  const Call no_log = [&] {
    gradient_of(deficient.index({until(2)}), [](const Tensor& x) { return slogdet(x).logabsdet; });
  };
  CHECK(split_message(message_of<NumericError>(no_log)).text ==
        "inverse: the matrix is singular: a is [2, 2], and pivot 1 is 0; it must have full rank. pinv takes any matrix.");
}
