// LAPACK's routines, linked with this library.
#include "lib/cpu/lapack.hpp"

// Of their addresses alone. What they take is said in lapack.hpp.
#define CAPSTAN_DECLARED(name) \
  void s##name##_();           \
  void d##name##_();
extern "C" {
CAPSTAN_LAPACK_NAMES(CAPSTAN_DECLARED)
void openblas_set_num_threads(int count);
int openblas_get_parallel();
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int count);
}
#undef CAPSTAN_DECLARED

namespace capstan::on_cpu::lapack {
namespace {

template <class T>
Routines<T> linked() {
  openblas_set_num_threads(1);
  Routines<T> found;
#define CAPSTAN_FIND(name)                                                                        \
  if constexpr (sizeof(T) == 4) found.name = reinterpret_cast<decltype(found.name)>(&s##name##_); \
  else found.name = reinterpret_cast<decltype(found.name)>(&d##name##_);
  CAPSTAN_LAPACK_NAMES(CAPSTAN_FIND)
#undef CAPSTAN_FIND
  return found;
}

}  // namespace

template <class T>
const Routines<T>& routines() {
  static const Routines<T> found = linked<T>();
  return found;
}
template const Routines<float>& routines();
template const Routines<double>& routines();

OpenMp openmp() {
  static const bool used = openblas_get_parallel() == kOpenMp;
  return used ? OpenMp{omp_get_max_threads, omp_set_num_threads} : OpenMp{};
}

}  // namespace capstan::on_cpu::lapack
