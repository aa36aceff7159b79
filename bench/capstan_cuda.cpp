// capstan_cuda_bench: Capstan's rows on a GPU, one line of JSON each. bench/cuda/torch_cuda.py has the same in PyTorch;
// bench/run_cuda.py compares them.
#include <stdexcept>

#include "bench/cuda_rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

using Tensors = std::vector<cs::Tensor>;

constexpr std::int64_t kMany = std::int64_t{1} << 26, kRows = 8192, kColumns = 4096;
constexpr double kFloat = 4;
constexpr double kManyBytes = kFloat * (1 << 26), kMatrixBytes = kFloat * 8192 * 4096;

void elementwise_rows(Bench& bench) {
  bench.row("copy", {.bytes = 2 * kManyBytes}, [] { return [x = values({kMany})] { x.copy(); }; });
  bench.row("add", {.bytes = 3 * kManyBytes},
            [] { return [a = values({kMany}, 1), b = values({kMany}, 2)] { cs::add(a, b); }; });
  bench.row("mul", {.bytes = 3 * kManyBytes},
            [] { return [a = values({kMany}, 1), b = values({kMany}, 2)] { cs::mul(a, b); }; });
  bench.row("exp", {.bytes = 2 * kManyBytes}, [] { return [x = values({kMany})] { cs::exp(x); }; });
  bench.row("tanh", {.bytes = 2 * kManyBytes}, [] { return [x = values({kMany})] { cs::tanh(x); }; });
  bench.row("transposed_copy", {.bytes = 2 * kMatrixBytes}, [] {
    return [x = values({kRows, kColumns})] { cs::transpose(x).contiguous(); };
  });
  bench.row("sum_axis0", {.bytes = kMatrixBytes}, [] { return [x = values({kRows, kColumns})] { cs::sum(x, 0); }; });
  bench.row("sum_axis1", {.bytes = kMatrixBytes}, [] { return [x = values({kRows, kColumns})] { cs::sum(x, 1); }; });
  bench.row("sum_all", {.bytes = kMatrixBytes}, [] { return [x = values({kRows, kColumns})] { cs::sum(x); }; });
}

/// The row name_forward, not recorded, and the row of the name with the gradients for all inputs.
template <class Function>
void layer_rows(Bench& bench, const std::string& name, const std::vector<cs::Shape>& shapes, Cost forward, Cost both,
                Function function) {
  const auto make = [&shapes] {
    Tensors inputs;
    for (const cs::Shape& shape : shapes) inputs.push_back(values(shape, inputs.size() + 1));
    return inputs;
  };
  bench.row(name + "_forward", forward, [&] { return [inputs = make(), function] { function(inputs); }; });
  bench.row(name, both, [&] {
    Tensors inputs = make();
    const cs::Tensor grad = values(function(inputs).shape(), 9);
    return [inputs, grad, function] {
      cs::GradientTape tape;
      for (const cs::Tensor& input : inputs) tape.watch(input);
      tape.gradient(function(inputs), inputs, {.output_gradient = grad});
    };
  });
}

void normalizing_rows(Bench& bench) {
  // forward x and out; back the output's gradient, one tensor of x's size, and x's gradient
  const Cost forward{.bytes = 2 * kMatrixBytes}, both{.bytes = 5 * kMatrixBytes};
  layer_rows(bench, "softmax", {{kRows, kColumns}}, forward, both,
             [](const Tensors& in) { return cs::softmax(in[0]); });
  layer_rows(bench, "layer_norm", {{kRows, kColumns}, {kColumns}, {kColumns}}, forward, both,
             [](const Tensors& in) { return cs::layer_norm(in[0], 1, in[1], in[2]); });
}

void matmul_row(Bench& bench, const std::string& name, const cs::Shape& shape, cs::DType dtype) {
  const int rank = shape.rank();
  const double n = static_cast<double>(shape[rank - 1]), count = rank == 3 ? static_cast<double>(shape[0]) : 1;
  bench.row(name, {.flops = 2 * count * n * n * n},
            [&] { return [a = values(shape, 1).to(dtype), b = values(shape, 2).to(dtype)] { cs::matmul(a, b); }; });
}

void product_rows(Bench& bench, const std::string& suffix) {
  matmul_row(bench, "matmul_4096" + suffix, {4096, 4096}, cs::DType::float32);
  matmul_row(bench, "matmul_8192" + suffix, {8192, 8192}, cs::DType::float32);
  matmul_row(bench, "batched_matmul" + suffix, {64, 1024, 1024}, cs::DType::float32);

  const double flops3 = 2.0 * 32 * 64 * 56 * 56 * 64 * 9, flops5 = 2.0 * 50 * 64 * 28 * 28 * 32 * 25;
  layer_rows(bench, "conv3x3" + suffix, {{32, 64, 56, 56}, {64, 64, 3, 3}, {64}}, {.flops = flops3},
             {.flops = 3 * flops3}, [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 1}); });
  layer_rows(bench, "conv5x5" + suffix, {{50, 32, 28, 28}, {64, 32, 5, 5}, {64}}, {.flops = flops5},
             {.flops = 3 * flops5}, [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 2}); });
}

void matrix_rows(Bench& bench) {
  product_rows(bench, "");
  cs::cuda::allow_tf32(true);
  product_rows(bench, "_tf32");
  cs::cuda::allow_tf32(false);
  matmul_row(bench, "matmul_4096_bf16", {4096, 4096}, cs::DType::bfloat16);
  matmul_row(bench, "matmul_8192_bf16", {8192, 8192}, cs::DType::bfloat16);
}

/// 32 multiplications of 64 numbers and a sum, recorded, and the gradient.
struct Chain {
  cs::Tensor x = values({64}, 1) * 0.05 + 1, w = values({64}, 2) * 0.05 + 1;

  void operator()() const {
    cs::GradientTape tape;
    tape.watch(x);
    cs::Tensor y = x;
    for (int i = 0; i < 32; ++i) y = y * w;
    tape.gradient(cs::sum(y), x);
  }
};

void small_rows(Bench& bench) {
  bench.issue_row("add_16_issue", 1000, [] { return [a = values({16}, 1), b = values({16}, 2)] { cs::add(a, b); }; });
  bench.row("chain_32_backward", {}, [] { return Chain(); });
}

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
    bench::Bench bench(bench::read_options(argc, argv));
    if (!cs::cuda_available()) throw std::runtime_error("there is no GPU that this build can use");
    bench::elementwise_rows(bench);
    bench::normalizing_rows(bench);
    bench::matrix_rows(bench);
    bench::small_rows(bench);
    bench::training_rows(bench);
    return bench.failed() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
