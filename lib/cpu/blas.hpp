#pragma once
// What the users of OpenBLAS share.
#include <cblas.h>

namespace capstan::on_cpu {

/// Loops are split by our own threads, each of which calls OpenBLAS; it must not start more.
inline void hold_blas_to_one_thread() {
  static const bool once = (openblas_set_num_threads(1), true);
  (void)once;
}

}  // namespace capstan::on_cpu
