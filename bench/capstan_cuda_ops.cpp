// Single operations on a GPU, not recorded, and a chain of small ones that is.
#include "bench/cuda_rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

constexpr double kFloat = 4, kIndex = 8;  // bytes
constexpr std::int64_t kFeatures = 128;

const Growing kVector = along_size(std::int64_t{1} << 26, std::int64_t{1} << 20, std::int64_t{1} << 28);
const Growing kMatrix{{.batch = 8192, .width = 4096}, {{"size", &Sizes::size, 1024, 16384}}};
const Growing kTableRows{{.size = 200000}, {{"rows", &Sizes::size, 10000, 1000000}}};

/// Squares of `size`, or [batch, width].
cs::Shape matrix_of(const Sizes& sizes) {
  return sizes.size > 0 ? cs::Shape{sizes.size, sizes.size} : cs::Shape{sizes.batch, sizes.width};
}

/// Of a function of one tensor, of which `passes` times its bytes are read or written.
template <class ShapeOf, class Function>
void unary_rows(Bench& bench, const std::string& name, const Growing& workload, double passes, ShapeOf shape_of,
                Function function) {
  each_size(name, workload, [&](const std::string& row, const Sizes& sizes) {
    const cs::Shape shape = shape_of(sizes);
    bench.row(row, {.bytes = passes * kFloat * static_cast<double>(shape.numel())},
              [&] { return [x = values(shape), function] { function(x); }; });
  });
}

template <class Function>
void vector_rows(Bench& bench, const std::string& name, Function function) {
  const auto shape_of = [](const Sizes& sizes) { return cs::Shape{sizes.size}; };
  unary_rows(bench, name, kVector, 2, shape_of, function);
}

template <class Function>
void matrix_rows(Bench& bench, const std::string& name, double passes, Function function) {
  unary_rows(bench, name, kMatrix, passes, matrix_of, function);
}

template <class Function>
void pair_rows(Bench& bench, const std::string& name, Function function) {
  each_size(name, kVector, [&](const std::string& row, const Sizes& sizes) {
    const cs::Shape shape{sizes.size};
    bench.row(row, {.bytes = 3 * kFloat * static_cast<double>(sizes.size)},
              [&] { return [a = values(shape, 1), b = values(shape, 2), function] { function(a, b); }; });
  });
}

void elementwise_rows(Bench& bench) {
  vector_rows(bench, "copy", [](const cs::Tensor& x) { x.copy(); });
  pair_rows(bench, "add", [](const cs::Tensor& a, const cs::Tensor& b) { cs::add(a, b); });
  pair_rows(bench, "mul", [](const cs::Tensor& a, const cs::Tensor& b) { cs::mul(a, b); });
  vector_rows(bench, "exp", [](const cs::Tensor& x) { cs::exp(x); });
  vector_rows(bench, "tanh", [](const cs::Tensor& x) { cs::tanh(x); });
  vector_rows(bench, "sigmoid", [](const cs::Tensor& x) { cs::sigmoid(x); });
  each_size("where", kVector, [&](const std::string& row, const Sizes& sizes) {
    const cs::Shape shape{sizes.size};
    bench.row(row, {.bytes = (3 * kFloat + 1) * static_cast<double>(sizes.size)}, [&] {
      return [c = values(shape, 3) > 0, a = values(shape, 1), b = values(shape, 2)] { cs::where(c, a, b); };
    });
  });
}

void reduction_rows(Bench& bench) {
  matrix_rows(bench, "transposed_copy", 2, [](const cs::Tensor& x) { cs::transpose(x).contiguous(); });
  matrix_rows(bench, "sum_axis0", 1, [](const cs::Tensor& x) { cs::sum(x, 0); });
  matrix_rows(bench, "sum_axis1", 1, [](const cs::Tensor& x) { cs::sum(x, 1); });
  matrix_rows(bench, "sum_all", 1, [](const cs::Tensor& x) { cs::sum(x); });
}

/// Rows of a table of half a million.
void table_rows(Bench& bench) {
  const cs::Shape table{500000, kFeatures};
  each_size("gather_rows", kTableRows, [&](const std::string& row, const Sizes& sizes) {
    const double bytes = static_cast<double>(sizes.size) * (2 * kFloat * kFeatures + kIndex);
    bench.row(row, {.bytes = bytes},
              [&] { return [x = values(table), i = indices({sizes.size}, table[0])] { cs::gather(x, i); }; });
  });
  each_size("scatter_add_rows", kTableRows, [&](const std::string& row, const Sizes& sizes) {
    bench.row(row, {}, [&] {
      return [x = values(table), i = indices({sizes.size}, table[0]), y = values({sizes.size, kFeatures}, 2)] {
        cs::index_add(x, {i}, y);
      };
    });
  });
}

/// An index for each element, within its row.
void element_rows(Bench& bench) {
  each_size("gather_elements", kMatrix, [&](const std::string& row, const Sizes& sizes) {
    const cs::Shape shape = matrix_of(sizes);
    const double bytes = static_cast<double>(shape.numel()) * (2 * kFloat + kIndex);
    bench.row(row, {.bytes = bytes},
              [&] { return [x = values(shape), i = indices(shape, shape[1])] { cs::take_along_axis(x, i, 1); }; });
  });
  each_size("scatter_add_elements", kMatrix, [&](const std::string& row, const Sizes& sizes) {
    const cs::Shape shape = matrix_of(sizes);
    bench.row(row, {}, [&] {
      return [x = values(shape), i = indices(shape, shape[1]), y = values(shape, 2)] { cs::scatter_add(x, i, y, 1); };
    });
  });
}

/// Of [size, size], or of so many of them as `batch` says.
void matmul_row(Bench& bench, const std::string& name, const Sizes& sizes, cs::DType dtype) {
  const cs::Shape shape =
      sizes.batch > 0 ? cs::Shape{sizes.batch, sizes.size, sizes.size} : cs::Shape{sizes.size, sizes.size};
  const double flops = 2 * static_cast<double>(shape.numel()) * static_cast<double>(sizes.size);
  bench.row(name, {.flops = flops},
            [&] { return [a = values(shape, 1).to(dtype), b = values(shape, 2).to(dtype)] { cs::matmul(a, b); }; });
}

void product_rows(Bench& bench) {
  const auto row = [&](const std::string& name, const Sizes& sizes) {
    matmul_row(bench, name, sizes, cs::DType::float32);
  };
  each_size("matmul_4096", along_size(4096, 512, 1024), row);
  row("matmul_8192", {.size = 8192});
  each_size("batched_matmul", {{.batch = 64, .size = 1024}, {{"batch", &Sizes::batch, 4, 256}}}, row);
  cs::cuda::allow_tf32(true);
  row("matmul_4096_tf32", {.size = 4096});
  row("matmul_8192_tf32", {.size = 8192});
  row("batched_matmul_tf32", {.batch = 64, .size = 1024});
  cs::cuda::allow_tf32(false);
  matmul_row(bench, "matmul_4096_bf16", {.size = 4096}, cs::DType::bfloat16);
  matmul_row(bench, "matmul_8192_bf16", {.size = 8192}, cs::DType::bfloat16);
}

/// Multiplications of 64 numbers, one behind the other, and a sum, recorded, and the gradient.
struct Chain {
  std::int64_t length;
  cs::Tensor x = values({64}, 1) * 0.05 + 1, w = values({64}, 2) * 0.05 + 1;

  void operator()() const {
    cs::GradientTape tape;
    tape.watch(x);
    cs::Tensor y = x;
    for (std::int64_t i = 0; i < length; ++i) y = y * w;
    tape.gradient(cs::sum(y), x);
  }
};

void small_rows(Bench& bench) {
  const auto issue_row = [&](const std::string& row, const Sizes& sizes) {
    const cs::Shape shape{sizes.size};
    bench.issue_row(row, 1000, [&] { return [a = values(shape, 1), b = values(shape, 2)] { cs::add(a, b); }; });
  };
  each_size("add_16_issue", along_size(16, 1024, 65536), issue_row);
  each_size("chain_32_backward", kChain, [&](const std::string& row, const Sizes& sizes) {
    bench.row(row, {}, [&] { return Chain{sizes.steps}; });
  });
}

}  // namespace

void op_rows(Bench& bench) {
  elementwise_rows(bench);
  reduction_rows(bench);
  table_rows(bench);
  element_rows(bench);
  product_rows(bench);
  small_rows(bench);
}

}  // namespace bench
