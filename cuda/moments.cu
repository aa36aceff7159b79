// Means and variances in one pass. Threads add up, in double, the distances of their values from the first of them and
// the squares of these: what all values have in common costs no digits, and equal values have variance 0 exactly. These
// sums become means and variances of parts, which are joined (Chan, Golub and LeVeque, "Algorithms for computing the
// sample variance", The American Statistician 37, 1983).
#include "cuda/backend.hpp"
#include "cuda/reduce.cuh"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {
namespace {

struct Distances {
  double count, base, first, second;  // first and second: sums of distances from the base, and of their squares
};
struct Moment {
  double count, mean, squares;  // squares: sum of squared distances from the mean
};

template <class T>
struct MomentRule {
  using Value = T;
  using State = Distances;
  using Part = Moment;
  static constexpr int kRowPack = kPack<T>, kColumnPack = kColumnsOfThread<T>;

  T *mean, *spread;
  double correction;
  bool root;

  __device__ State start() const { return {0, 0, 0, 0}; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    if (state.count == 0) state.base = finite_or_zero(static_cast<double>(widen(values[0])));
    double first = 0, second = 0;
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) {
      const double distance = static_cast<double>(widen(values[j])) - state.base;
      first += distance;
      second += distance * distance;
    }
    state.count += N;
    state.first += first;
    state.second += second;
  }
  __device__ Part part(const State& s) const {
    if (s.count == 0) return {0, 0, 0};
    const double squares = s.second - s.first * s.first / s.count;
    return {s.count, s.base + s.first / s.count, squares < 0 ? 0 : squares};
  }
  __device__ Part operator()(const Part& a, const Part& b) const {
    if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
    const double count = a.count + b.count, distance = b.mean - a.mean, share = b.count / count;
    const bool finite = distance - distance == 0;
    return {count, finite ? a.mean + distance * share : a.mean * (a.count / count) + b.mean * share,
            a.squares + b.squares + distance * distance * (a.count * share)};
  }
  __device__ void store(std::int64_t i, const Part& all) const {
    const double divisor = all.count - correction > 0 ? all.count - correction : 0;
    const double variance = all.squares / divisor;
    mean[i] = narrow<T>(static_cast<Compute<T>>(all.mean));
    spread[i] = narrow<T>(static_cast<Compute<T>>(root ? kernels::sqrt(variance) : variance));
  }
};

}  // namespace

void moments(const TensorImpl& x, unsigned reduced, double correction, bool root, TensorImpl& mean,
             TensorImpl& spread) {
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    reduce_by(MomentRule<T>{mean.as<T>(), spread.as<T>(), correction, root}, x, reduced);
  });
}

}  // namespace capstan::on_cuda
