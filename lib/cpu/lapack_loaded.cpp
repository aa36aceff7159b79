// LAPACK's routines, of an OpenBLAS that the first of them loads. It takes longer to start than a small program runs,
// for its tables and threads, and most programs never ask it for anything.
//
// CAPSTAN_OPENBLAS_NAME is what a linker would have noted, CAPSTAN_OPENBLAS_FOLDER where it was then.
#include "lib/base/shared_library.hpp"
#include "lib/base/signals.hpp"
#include "lib/cpu/lapack.hpp"

namespace capstan::on_cpu::lapack {
namespace {

const base::SharedLibrary& openblas() {
  static const base::SharedLibrary library = [] {
    const base::NoSignals for_its_threads;
    const base::SharedLibrary loaded(CAPSTAN_OPENBLAS_FOLDER, CAPSTAN_OPENBLAS_NAME, "LAPACK",
                                     "install libopenblas0-pthread", core::calling_place());
    loaded.function<void (*)(int)>("openblas_set_num_threads", core::calling_place())(1);
    // Threads that it has made wait for work for a tenth of a second, on the processors that our loops want.
    if (!loaded.was_there() && loaded.has("blas_thread_shutdown_"))
      loaded.function<int (*)()>("blas_thread_shutdown_", core::calling_place())();
    return loaded;
  }();
  return library;
}

template <class T>
Routines<T> loaded() {
  const base::SharedLibrary& library = openblas();
  Routines<T> found;
#define CAPSTAN_FIND(name) \
  found.name =             \
      library.function<decltype(found.name)>(sizeof(T) == 4 ? "s" #name "_" : "d" #name "_", core::calling_place());
  CAPSTAN_LAPACK_NAMES(CAPSTAN_FIND)
#undef CAPSTAN_FIND
  return found;
}

}  // namespace

template <class T>
const Routines<T>& routines() {
  static const Routines<T> found = loaded<T>();
  return found;
}
template const Routines<float>& routines();
template const Routines<double>& routines();

OpenMp openmp() {
  static const OpenMp found = [] {
    const base::SharedLibrary& library = openblas();
    const Where where = core::calling_place();
    if (library.function<int (*)()>("openblas_get_parallel", where)() != kOpenMp) return OpenMp{};
    return OpenMp{library.function<int (*)()>("omp_get_max_threads", where),
                  library.function<void (*)(int)>("omp_set_num_threads", where)};
  }();
  return found;
}

}  // namespace capstan::on_cpu::lapack
