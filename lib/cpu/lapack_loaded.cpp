// LAPACK's routines, of an OpenBLAS that the first of them loads. It takes longer to start than a small program runs,
// for its tables and threads, and most programs never ask it for anything.
//
// CAPSTAN_OPENBLAS_NAME is what a linker would have noted, CAPSTAN_OPENBLAS_FOLDER where it was then.
#include "lib/base/shared_library.hpp"
#include "lib/base/signals.hpp"
#include "lib/cpu/lapack.hpp"

namespace capstan::on_cpu::lapack {

const Library& library() {
  static const Library loaded = [] {
    const Where where = core::calling_place();
    const base::NoSignals for_its_threads;
    const base::SharedLibrary openblas(CAPSTAN_OPENBLAS_FOLDER, CAPSTAN_OPENBLAS_NAME, "LAPACK",
                                       "install libopenblas0-pthread", where);
    Library all;
#define CAPSTAN_FIND(name)                                                                  \
  all.of_float.name = openblas.function<decltype(all.of_float.name)>("s" #name "_", where); \
  all.of_double.name = openblas.function<decltype(all.of_double.name)>("d" #name "_", where);
    CAPSTAN_LAPACK_NAMES(CAPSTAN_FIND)
#undef CAPSTAN_FIND
    const int parallel = openblas.function<int (*)()>("openblas_get_parallel", where)();
    all.one_at_a_time = parallel == kSequential;
    if (parallel == kOpenMp) {
      all.openmp = {openblas.function<int (*)()>("omp_get_max_threads", where),
                    openblas.function<void (*)(int)>("omp_set_num_threads", where)};
      return all;
    }
    openblas.function<void (*)(int)>("openblas_set_num_threads", where)(1);
    // Threads that it has made wait for work for a tenth of a second, on the processors that our loops want.
    if (!openblas.was_there() && openblas.has("blas_thread_shutdown_"))
      openblas.function<int (*)()>("blas_thread_shutdown_", where)();
    return all;
  }();
  return loaded;
}

}  // namespace capstan::on_cpu::lapack
