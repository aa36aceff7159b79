// capstan_cuda_bench: Capstan's rows on a GPU, one line of JSON each. bench/cuda/torch_cuda.py has the same in PyTorch;
// bench/run_cuda.py compares them.
#include <stdexcept>

#include "bench/cuda_rows.hpp"

namespace bench {
namespace {

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::runtime_error(option + " wants a value");
      return std::string(argv[i]);
    };
    if (option == "--list") options.list = true;
    else if (option == "--filter") options.filter = std::regex(value());
    else if (option == "--min-time") options.min_time = std::stod(value());
    else if (option == "--repeats") options.repeats = std::max(1, std::stoi(value()));
    else
      throw std::runtime_error("usage: " + std::string(argv[0]) +
                               " [--list] [--filter REGEX] [--min-time SECONDS] [--repeats N]");
  }
  return options;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    const bench::Options options = bench::read_options(argc, argv);
    if (!options.list && !capstan::cuda_available())
      throw std::runtime_error("there is no GPU that this build can use");
    bench::Bench bench(options);
    bench::op_rows(bench);
    bench::layer_rows(bench);
    bench::training_rows(bench);
    return bench.failed() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
