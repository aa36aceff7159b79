// torch_bench: the rows of capstan_bench in LibTorch.
// TORCH_THREADS sets the threads of its kernels; BLAS reads its own variable, OPENBLAS_NUM_THREADS.
#include <torch/torch.h>

#include <cstdlib>

#include "bench/rows.hpp"

int main(int argc, char** argv) {
  if (const char* threads = std::getenv("TORCH_THREADS")) at::set_num_threads(std::atoi(threads));
  bench::op_rows();
  bench::layer_rows();
  bench::recurrent_rows();
  bench::training_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
