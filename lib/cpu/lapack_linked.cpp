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

const Library& library() {
  static const Library linked = [] {
    Library all;
#define CAPSTAN_FIND(name)                                                        \
  all.of_float.name = reinterpret_cast<decltype(all.of_float.name)>(&s##name##_); \
  all.of_double.name = reinterpret_cast<decltype(all.of_double.name)>(&d##name##_);
    CAPSTAN_LAPACK_NAMES(CAPSTAN_FIND)
#undef CAPSTAN_FIND
    all.one_at_a_time = openblas_get_parallel() == kSequential;
    if (openblas_get_parallel() == kOpenMp) all.openmp = {omp_get_max_threads, omp_set_num_threads};
    else openblas_set_num_threads(1);
    return all;
  }();
  return linked;
}

}  // namespace capstan::on_cpu::lapack
