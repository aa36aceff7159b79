// capstan_bench: Capstan's rows. torch_bench has the same in LibTorch, but for pipelines, samples and streams;
// scripts/bench compares them.
#include "bench/rows.hpp"

int main(int argc, char** argv) {
  bench::op_rows();
  bench::layer_rows();
  bench::recurrent_rows();
  bench::training_rows();
  bench::data_rows();
  bench::realtime_rows();
  bench::stream_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
