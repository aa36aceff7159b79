// The rows of capstan_ops.cpp in LibTorch: single operations, not recorded.
#include <torch/torch.h>

#include <string>

#include "bench/rows.hpp"
#include "bench/torch_values.hpp"

namespace bench {
namespace {

/// The work of `prepare`, not recorded, in the rows by threads.
template <class Prepare>
void threads_rows(const std::string& name, Prepare prepare) {
  row_by_threads(name, guarded<torch::NoGradGuard>(prepare));
}

/// The same of `prepare(sizes)`, and the growth rows.
template <class Prepare>
void forward_rows(const std::string& name, const Growing& workload, Prepare prepare) {
  growing_by_threads(name, workload, guarded<torch::NoGradGuard>(prepare));
}

torch::Tensor square(const Sizes& sizes, std::uint64_t seed = 1) { return values({sizes.size, sizes.size}, seed); }
torch::Tensor rows(const Sizes& sizes, std::uint64_t seed = 1) { return values({1024, sizes.width}, seed); }
/// Of elements in their rows.
torch::Tensor places(const Sizes& sizes) { return indices({1024, sizes.width}, sizes.width, 3); }

void add_rows(const std::string& name, const Growing& workload) {
  const auto add = [](const Sizes& sizes) {
    return [a = values({sizes.size}, 1), b = values({sizes.size}, 2)] { return torch::add(a, b); };
  };
  growing_rows(name + "/plain", workload, guarded<torch::NoGradGuard>(add));
  growing_rows(name + "/inference", workload, guarded<c10::InferenceMode>(add));
}

void elementwise_rows() {
  add_rows("add_1", kAddOne);
  add_rows("add_64", kAdd);
  forward_rows("exp", kElementwise,
               [](const Sizes& sizes) { return [x = values({sizes.size})] { return torch::exp(x); }; });
  forward_rows("tanh", kElementwise,
               [](const Sizes& sizes) { return [x = values({sizes.size})] { return torch::tanh(x); }; });
  forward_rows("sigmoid", kElementwise,
               [](const Sizes& sizes) { return [x = values({sizes.size})] { return torch::sigmoid(x); }; });
}

void square_rows() {
  forward_rows("softmax", kRows,
               [](const Sizes& sizes) { return [x = rows(sizes)] { return torch::softmax(x, -1); }; });
  forward_rows("sum_axis0", kSquare, [](const Sizes& sizes) { return [x = square(sizes)] { return x.sum(0); }; });
  forward_rows("sum_axis1", kSquare, [](const Sizes& sizes) { return [x = square(sizes)] { return x.sum(1); }; });
  forward_rows("sum_all", kSquare, [](const Sizes& sizes) { return [x = square(sizes)] { return x.sum(); }; });
  forward_rows("transposed_copy", kSquare,
               [](const Sizes& sizes) { return [x = square(sizes)] { return x.t().contiguous(); }; });
}

void index_rows() {
  forward_rows("gather_rows/index_select", kPickedRows, [](const Sizes& sizes) {
    return [x = values({50000, 128}), i = indices({sizes.batch}, 50000, 3)] { return x.index_select(0, i); };
  });
  forward_rows("gather_rows/embedding", kPickedRows, [](const Sizes& sizes) {
    return [x = values({50000, 128}), i = indices({sizes.batch}, 50000, 3)] { return torch::embedding(x, i); };
  });
  forward_rows("gather_elements", kRows,
               [](const Sizes& sizes) { return [x = rows(sizes), i = places(sizes)] { return x.gather(1, i); }; });
  forward_rows("scatter_add_rows", kPickedRows, [](const Sizes& sizes) {
    return [x = values({50000, 128}), i = indices({sizes.batch}, 50000, 3), y = values({sizes.batch, 128}, 2)] {
      return x.index_add(0, i, y);
    };
  });
  forward_rows("scatter_add_elements", kRows, [](const Sizes& sizes) {
    return [x = rows(sizes), i = places(sizes), y = rows(sizes, 2)] { return x.scatter_add(1, i, y); };
  });
  forward_rows("where", kRows, [](const Sizes& sizes) {
    return [x = rows(sizes, 1), y = rows(sizes, 2), c = rows(sizes, 3) > 0] { return torch::where(c, x, y); };
  });
}

void order_rows() {
  forward_rows("sort_rows", kRows, [](const Sizes& sizes) { return [x = rows(sizes)] { return x.sort(-1); }; });
  forward_rows("sort_columns", kRows, [](const Sizes& sizes) { return [x = rows(sizes)] { return x.sort(0); }; });
  forward_rows("sort_long", kLong,
               [](const Sizes& sizes) { return [x = values({sizes.size})] { return x.sort(-1); }; });
  forward_rows("topk_rows", kRows, [](const Sizes& sizes) { return [x = rows(sizes)] { return x.topk(10); }; });
  forward_rows("topk_long", kLong,
               [](const Sizes& sizes) { return [x = values({sizes.size})] { return x.topk(100); }; });
  forward_rows("cumsum_rows", kRows, [](const Sizes& sizes) { return [x = rows(sizes)] { return x.cumsum(-1); }; });
  forward_rows("cumsum_columns", kRows, [](const Sizes& sizes) { return [x = rows(sizes)] { return x.cumsum(0); }; });
  forward_rows("cumsum_long", kLong,
               [](const Sizes& sizes) { return [x = values({sizes.size})] { return x.cumsum(-1); }; });
}

void product_rows() {
  const auto product = [](const Sizes& sizes) {
    return [a = square(sizes, 1), b = square(sizes, 2)] { return torch::mm(a, b); };
  };
  threads_rows("matmul_256", [product] { return product({0, 0, 0, 256}); });
  forward_rows("matmul_1024", kProduct, product);
  threads_rows("batched_matmul_32", [] {
    return [a = values({256, 32, 32}, 1), b = values({256, 32, 32}, 2)] { return torch::bmm(a, b); };
  });
  threads_rows("batched_matmul_heads", [] {
    return [a = values({8, 12, 64, 64}, 1), b = values({8, 12, 64, 64}, 2)] { return torch::matmul(a, b); };
  });
  threads_rows("batched_matmul_broadcast", [] {
    return [a = values({64, 48, 64}, 1), b = values({64, 48}, 2)] { return torch::matmul(a, b); };
  });
  threads_rows("einsum_attention", [] {
    return [q = values({8, 128, 8, 64}, 1), k = values({8, 128, 8, 64}, 2)] {
      return torch::einsum("bqhd,bkhd->bhqk", {q, k});
    };
  });
  threads_rows("einsum_bilinear", [] {
    return [x = values({128, 64}, 1), w = values({64, 32, 64}, 2), y = values({128, 64}, 3)] {
      return torch::einsum("bi,ioj,bj->bo", {x, w, y});
    };
  });
}

}  // namespace

void op_rows() {
  elementwise_rows();
  square_rows();
  index_rows();
  order_rows();
  product_rows();
}

}  // namespace bench
