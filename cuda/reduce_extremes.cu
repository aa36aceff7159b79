// Largest and smallest elements, and where the first of them stand. NaN is beyond everything.
#include <limits>

#include "cuda/backend.hpp"
#include "cuda/reduce.cuh"

namespace capstan::on_cuda {
namespace {

/// What elements are compared as: numbers that lanes exchange.
template <class T>
using Key = std::conditional_t<core::kIsReal<T>, Compute<T>, std::conditional_t<sizeof(T) == 8, std::int64_t, int>>;

template <class K>
__device__ inline bool is_nan(K key) {
  if constexpr (std::is_floating_point_v<K>) return key != key;
  else return false;
}

/// No element is farther from the extreme.
template <class T>
Key<T> worst_key(bool largest) {
  if constexpr (core::kIsReal<T>) {
    constexpr Key<T> kInfinity = std::numeric_limits<Key<T>>::infinity();
    return largest ? -kInfinity : kInfinity;
  } else {
    return static_cast<Key<T>>(largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
  }
}

/// Of bool: any and all.
template <class T>
struct Extreme {
  using Value = T;
  using State = Key<T>;
  using Part = Key<T>;
  static constexpr int kRowPack = core::kIsReal<T> ? kPack<T> : 1;
  static constexpr int kColumnPack = core::kIsReal<T> ? kColumnsOfThread<T> : 1;

  T* out;
  bool largest;
  Key<T> worst;

  __device__ State start() const { return worst; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) state = (*this)(state, static_cast<Key<T>>(widen(values[j])));
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(Part a, Part b) const {
    if (is_nan(a) || is_nan(b)) return is_nan(a) ? a : b;
    return (largest ? b > a : b < a) ? b : a;
  }
  __device__ void store(std::int64_t i, Part best) const { out[i] = narrow<T>(static_cast<Compute<T>>(best)); }
};

template <class K>
struct BestKey {
  K key;
  std::int64_t place;
};

/// The place of the extreme: the first of equal ones, or of NaN.
template <class T>
struct PlaceOfExtreme {
  using Value = T;
  using State = BestKey<Key<T>>;
  using Part = State;
  static constexpr int kRowPack = core::kIsReal<T> ? kPack<T> : 1, kColumnPack = 1;

  std::int64_t* out;
  bool largest;
  Key<T> worst;

  __device__ State start() const { return {worst, INT64_MAX}; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At& places) const {
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) state = (*this)(state, State{static_cast<Key<T>>(widen(values[j])), places(j)});
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(const Part& a, const Part& b) const {
    const bool a_nan = is_nan(a.key), b_nan = is_nan(b.key);
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.key != b.key) return largest == (b.key > a.key) ? b : a;
    return b.place < a.place ? b : a;
  }
  __device__ void store(std::int64_t i, const Part& best) const { out[i] = best.place; }
};

void place_of_extreme(bool largest, const TensorImpl& x, int axis, TensorImpl& out) {
  core::visit_numbers(x.dtype, [&]<class T>(core::Type<T>) {
    reduce_by(PlaceOfExtreme<T>{out.as<std::int64_t>(), largest, worst_key<T>(largest)}, x, 1u << axis);
  });
}

}  // namespace

void reduce_extreme(bool largest, const TensorImpl& x, unsigned mask, TensorImpl& out) {
  core::visit(x.dtype, [&]<class T>(core::Type<T>) {
    reduce_by(Extreme<T>{out.as<T>(), largest, worst_key<T>(largest)}, x, mask);
  });
}

void argmax(const TensorImpl& x, int axis, TensorImpl& out) { place_of_extreme(true, x, axis, out); }
void argmin(const TensorImpl& x, int axis, TensorImpl& out) { place_of_extreme(false, x, axis, out); }

}  // namespace capstan::on_cuda
