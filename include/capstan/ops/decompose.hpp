#pragma once
// Solving linear systems, and taking matrices apart: LAPACK on every matrix of a batch.
//
// All of them:
// Shapes    matrices are the last two axes, leading axes are a batch; empty batches and matrices are fine
// Types     floating; the 16-bit ones are computed in float32
// Gradient  of every order unless the entry says otherwise, written in public operations (Giles, "Collected matrix
//           derivative results", 2008; Walter and Lehmann, "Algorithmic differentiation of linear algebra functions",
//           2018; PyTorch where they leave a choice)
// Values    a matrix that holds a NaN or an infinity gives NaN everywhere, and never an exception; other matrices of
//           its batch do not notice
// Cost      of the order of n^3 a matrix. The matrices of a batch share the threads; one matrix runs on one thread, so
//           results do not depend on the number of threads
// Throws    ShapeError    fewer than two axes, or not square where that is asked for     DTypeError, DeviceError
//           MissingLibraryError  a build without LAPACK, or a system without OpenBLAS, which the first call loads
// Defined in autograd/solve.cpp and autograd/decompose.cpp.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- systems of equations ------------------------------------------------------------------------------------------

/// x with a @ x = b, by LU decomposition with partial pivoting (getrf, getrs).
///
/// Shapes    a [..., n, n]; b [..., n, k], or [n] for one right side, whose axis the result then has; leading axes
///           broadcast (NumPy 2 and the Array API: only a b of one axis is a vector)
/// Gradient  for both: gb = solve(a^T, g), ga = -gb x^T
/// Throws    NumericError  a matrix is singular (exactly; lstsq and pinv take any), naming it     ShapeError
Tensor solve(const Tensor& a, const Tensor& b, Where where = Where::current());

struct TriangularOptions {
  bool upper = false;          ///< a is upper triangular; else lower. The other triangle is not read
  bool unit_diagonal = false;  ///< take the diagonal as ones, without reading it
};
/// The same for a triangular `a`: n^2 operations for each right side. Shapes, gradient (a triangle for `a`) and errors
/// as `solve`; a zero on the diagonal is singular. NaN and infinities just take part.
Tensor solve_triangular(const Tensor& a, const Tensor& b, TriangularOptions options = {},
                        Where where = Where::current());

struct LstsqResult {
  Tensor solution;         ///< [..., n, k] or [..., n]
  Tensor residuals;        ///< sum(square(b - a @ x), -2): [..., k], k = 1 for a vector; [0] if m <= n or the rank of a
                           ///< finite matrix is < n
  Tensor rank;             ///< int64 [...]; 0 where a or b is not finite
  Tensor singular_values;  ///< of a, descending: [..., min(m, n)]
};
/// x that makes |a @ x - b| smallest, and among those the shortest: numpy.linalg.lstsq, by singular values (gelsd).
///
/// Shapes    a [..., m, n]; b [..., m, k] or [m]; leading axes broadcast
/// Options   singular values up to rcond times the largest count as 0; a negative rcond is max(m, n) times the spacing
///           of numbers at 1. LAPACK takes 0, and 1 or more, for that spacing (as in NumPy)
/// Gradient  of the solution (and the residuals) for both, where every matrix has full rank; NumericError at replay
///           elsewhere
/// Throws    NumericError  the singular values did not converge     ShapeError
LstsqResult lstsq(const Tensor& a, const Tensor& b, double rcond = -1, Where where = Where::current());

/// Inverses of square matrices. Gradient -y^T g y^T. NumericError for a singular matrix, naming it.
Tensor inverse(const Tensor& x, Where where = Where::current());

/// Moore-Penrose inverses [..., n, m] of matrices [..., m, n], by singular values; those up to rtol times the largest
/// count as 0, where a negative rtol is max(m, n) times the spacing of numbers at 1.
/// Gradient  where the rank does not change nearby (Golub and Pereyra 1973)
/// Throws    NumericError  the singular values did not converge
Tensor pinv(const Tensor& x, double rtol = -1, Where where = Where::current());

/// int64 number of singular values above rtol times the largest; rtol as for `pinv`. 0 for a matrix that is not finite.
/// No gradient.
Tensor matrix_rank(const Tensor& x, double rtol = -1, Where where = Where::current());

// --- determinants --------------------------------------------------------------------------------------------------

/// Determinants of square matrices; 0 for singular ones, 1 for [0, 0].
/// Gradient  g times the cofactors: of the second order too at singular matrices, if their singular values differ
Tensor det(const Tensor& x, Where where = Where::current());

struct SlogdetResult {
  Tensor sign;       ///< -1, 0 or 1, of x's type; no gradient
  Tensor logabsdet;  ///< -infinity for singular matrices
};
/// Sign and log of the absolute value of determinants, which do not overflow.
/// Gradient  of logabsdet, g * inverse(x)^T; NumericError at replay for a singular matrix
SlogdetResult slogdet(const Tensor& x, Where where = Where::current());

// --- decompositions ------------------------------------------------------------------------------------------------

struct CholeskyOptions {
  bool upper = false;  ///< the upper factor u with u^T u = x, from the upper triangle of x
};
/// The lower triangular factor l, l l^T = x, of symmetric positive definite matrices (potrf). Only the lower triangle
/// of x is read.
/// Gradient  symmetric, as if x was kept symmetric
/// Throws    NumericError  not positive definite, naming the matrix and the leading minor that is not positive
Tensor cholesky(const Tensor& x, CholeskyOptions options = {}, Where where = Where::current());

struct QrResult {
  Tensor q, r;
};
enum class QrMode : std::uint8_t {
  reduced,  ///< q [..., m, k] and r [..., k, n] with k = min(m, n)
  complete  ///< q [..., m, m] and r [..., m, n]
};
/// x = q r, q with orthonormal columns and r upper triangular, by Householder reflections (geqrf, orgqr); signs as they
/// come, so r's diagonal may be negative.
/// Gradient  for matrices whose first min(m, n) columns are independent (NumericError at replay if r's diagonal has a
///           zero). None for `complete` if m > n: the further columns of q could be others (TapeError at replay)
QrResult qr(const Tensor& x, QrMode mode = QrMode::reduced, Where where = Where::current());

struct SvdOptions {
  bool full_matrices = true;  ///< u [..., m, m] and vh [..., n, n]; else u [..., m, k] and vh [..., k, n]
};
struct SvdResult {
  Tensor u, s, vh;
};
/// Singular values s [..., k] in descending order, k = min(m, n), and vectors: x = (u[..., :k] * s) @ vh[..., :k, :]
/// (gesdd). A column of u and its row of vh may both change sign.
///
/// Gradient  through u and vh for functions that do not depend on those signs; it divides by differences of squared
///           singular values (and, if m != n, by the values), so it is not finite where they are equal (or 0). That
///           through s alone has no such limits. Of full matrices, columns and rows beyond k count as constants, as in
///           PyTorch
/// Throws    NumericError  the algorithm did not converge
SvdResult svd(const Tensor& x, SvdOptions options = {}, Where where = Where::current());
/// The singular values alone. Cheaper than `svd` as long as no tape follows x.
Tensor svdvals(const Tensor& x, Where where = Where::current());

struct EighResult {
  Tensor eigenvalues;   ///< ascending, [..., n]
  Tensor eigenvectors;  ///< in columns, [..., n, n]: x @ v = v * w
};
/// Eigenvalues and orthonormal eigenvectors of symmetric matrices (syevd). Only the lower triangle is read. Each
/// eigenvector may change sign.
///
/// Gradient  symmetric, as if x was kept symmetric; through the vectors for functions that do not depend on their
///           signs, and not finite where eigenvalues are equal. That through the eigenvalues alone has no such limit
/// Throws    NumericError  the algorithm did not converge
EighResult eigh(const Tensor& x, Where where = Where::current());
/// The eigenvalues alone. Cheaper than `eigh` as long as no tape follows x.
Tensor eigvalsh(const Tensor& x, Where where = Where::current());

}  // namespace capstan
