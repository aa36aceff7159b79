// Sums and products: of floating elements in double, of integers and bool in 64 bits, where they wrap around as NumPy's
// do. Norms, of float32 and float64.
#include "cuda/reduce.cuh"

#include "cuda/backend.hpp"
#include "cuda/factors.cuh"

namespace capstan::on_cuda {
namespace {

/// Up to 16 elements are added up in their own type of arithmetic, by pairs; these sums in double.
template <class T>
struct Sum {
  using Value = T;
  using State = double;
  using Part = double;
  static constexpr int kRowPack = kPack<T>, kColumnPack = kColumnsOfThread<T>;

  void* out;
  bool single;  // float32 for 16-bit elements: means divide before they round

  __device__ State start() const { return 0; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    state += static_cast<double>(sum_of_pairs<N>(values));
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(Part a, Part b) const { return a + b; }
  __device__ void store(std::int64_t i, Part total) const {
    if constexpr (core::kIsHalf<T>)
      if (single) {
        static_cast<float*>(out)[i] = static_cast<float>(total);
        return;
      }
    static_cast<T*>(out)[i] = narrow<T>(static_cast<Compute<T>>(total));
  }
};

/// The root of the sum of squares, which double holds where T does not.
template <class T>
struct Norm {
  using Value = T;
  using State = double;
  using Part = double;
  static constexpr int kRowPack = kPack<T>, kColumnPack = kColumnsOfThread<T>;

  T* out;

  __device__ State start() const { return 0; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) state += static_cast<double>(values[j]) * static_cast<double>(values[j]);
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(Part a, Part b) const { return a + b; }
  __device__ void store(std::int64_t i, Part squares) const { out[i] = static_cast<T>(::sqrt(squares)); }
};

template <class T>
struct Product {
  using Value = T;
  using State = Factor;
  using Part = Factor;
  static constexpr int kRowPack = 1, kColumnPack = 1;

  T* out;

  __device__ State start() const { return {1, 0}; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) {
      if constexpr (sizeof(T) == 8) state = state * factor_of(values[j]);
      else state = scaled_factor(state.part * static_cast<double>(widen(values[j])), state.exponent);
    }
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(const Part& a, const Part& b) const { return a * b; }
  __device__ void store(std::int64_t i, const Part& total) const {
    out[i] = narrow<T>(static_cast<Compute<T>>(value_of(total)));
  }
};

/// Sums and products of integers and bool.
template <class T>
struct Whole {
  using Value = T;
  using State = std::uint64_t;
  using Part = std::uint64_t;
  static constexpr int kRowPack = 1, kColumnPack = 1;

  std::int64_t* out;
  bool product;

  __device__ State start() const { return product ? 1 : 0; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) state = (*this)(state, static_cast<std::uint64_t>(values[j]));
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(Part a, Part b) const { return product ? a * b : a + b; }
  __device__ void store(std::int64_t i, Part total) const { out[i] = static_cast<std::int64_t>(total); }
};

void combine_all(bool product, const TensorImpl& x, unsigned mask, TensorImpl& out) {
  core::visit(x.dtype, [&]<class T>(core::Type<T>) {
    if constexpr (!core::kIsReal<T>) reduce_by(Whole<T>{out.as<std::int64_t>(), product}, x, mask);
    else if (product) reduce_by(Product<T>{out.as<T>()}, x, mask);
    else reduce_by(Sum<T>{out.data, out.dtype == DType::float32}, x, mask);
  });
}

}  // namespace

void reduce(kernels::Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out) {
  switch (kind) {
    case kernels::Reduction::sum: return combine_all(false, x, reduced, out);
    case kernels::Reduction::prod: return combine_all(true, x, reduced, out);
    case kernels::Reduction::norm:
      return core::visit_floating(x.dtype,
                                  [&]<class T>(core::Type<T>) { reduce_by(Norm<T>{out.as<T>()}, x, reduced); });
    case kernels::Reduction::max:
    case kernels::Reduction::any: return reduce_extreme(true, x, reduced, out);
    case kernels::Reduction::min:
    case kernels::Reduction::all: return reduce_extreme(false, x, reduced, out);
  }
}

}  // namespace capstan::on_cuda
