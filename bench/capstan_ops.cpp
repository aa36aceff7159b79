// Single operations, not recorded.
#include <capstan/capstan.hpp>

#include "bench/capstan_values.hpp"
#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

cs::Tensor square(const Sizes& sizes, std::uint64_t seed = 1) { return values({sizes.size, sizes.size}, seed); }
cs::Tensor rows(const Sizes& sizes, std::uint64_t seed = 1) { return values({1024, sizes.width}, seed); }
/// Of elements in their rows.
cs::Tensor places(const Sizes& sizes) { return indices({1024, sizes.width}, sizes.width, 3); }

void elementwise_rows() {
  const auto add = [](const Sizes& sizes) {
    return [a = values({sizes.size}, 1), b = values({sizes.size}, 2)] { return cs::add(a, b); };
  };
  growing_rows("add_1", kAddOne, add);
  growing_rows("add_64", kAdd, add);
  growing_by_threads("exp", kElementwise,
                     [](const Sizes& sizes) { return [x = values({sizes.size})] { return cs::exp(x); }; });
  growing_by_threads("tanh", kElementwise,
                     [](const Sizes& sizes) { return [x = values({sizes.size})] { return cs::tanh(x); }; });
  growing_by_threads("sigmoid", kElementwise,
                     [](const Sizes& sizes) { return [x = values({sizes.size})] { return cs::sigmoid(x); }; });
}

void square_rows() {
  growing_by_threads("softmax", kRows,
                     [](const Sizes& sizes) { return [x = rows(sizes)] { return cs::softmax(x, -1); }; });
  growing_by_threads("sum_axis0", kSquare,
                     [](const Sizes& sizes) { return [x = square(sizes)] { return cs::sum(x, 0); }; });
  growing_by_threads("sum_axis1", kSquare,
                     [](const Sizes& sizes) { return [x = square(sizes)] { return cs::sum(x, 1); }; });
  growing_by_threads("sum_all", kSquare, [](const Sizes& sizes) { return [x = square(sizes)] { return cs::sum(x); }; });
  growing_by_threads("transposed_copy", kSquare,
                     [](const Sizes& sizes) { return [x = square(sizes)] { return cs::transpose(x).contiguous(); }; });
}

void index_rows() {
  growing_by_threads("gather_rows", kPickedRows, [](const Sizes& sizes) {
    return [x = values({50000, 128}), i = indices({sizes.batch}, 50000, 3)] { return cs::gather(x, i); };
  });
  growing_by_threads("gather_elements", kRows, [](const Sizes& sizes) {
    return [x = rows(sizes), i = places(sizes)] { return cs::take_along_axis(x, i, 1); };
  });
  growing_by_threads("scatter_add_rows", kPickedRows, [](const Sizes& sizes) {
    return [x = values({50000, 128}), i = indices({sizes.batch}, 50000, 3), y = values({sizes.batch, 128}, 2)] {
      return cs::index_add(x, {i}, y);
    };
  });
  growing_by_threads("scatter_add_elements", kRows, [](const Sizes& sizes) {
    return [x = rows(sizes), i = places(sizes), y = rows(sizes, 2)] { return cs::scatter_add(x, i, y, 1); };
  });
  growing_by_threads("where", kRows, [](const Sizes& sizes) {
    return [x = rows(sizes, 1), y = rows(sizes, 2), c = rows(sizes, 3) > 0] { return cs::where(c, x, y); };
  });
}

void order_rows() {
  growing_by_threads("sort_rows", kRows,
                     [](const Sizes& sizes) { return [x = rows(sizes)] { return cs::sort_with_indices(x, -1); }; });
  growing_by_threads("sort_columns", kRows,
                     [](const Sizes& sizes) { return [x = rows(sizes)] { return cs::sort_with_indices(x, 0); }; });
  growing_by_threads("sort_long", kLong, [](const Sizes& sizes) {
    return [x = values({sizes.size})] { return cs::sort_with_indices(x, -1); };
  });
  growing_by_threads("topk_rows", kRows,
                     [](const Sizes& sizes) { return [x = rows(sizes)] { return cs::topk(x, 10); }; });
  growing_by_threads("topk_long", kLong,
                     [](const Sizes& sizes) { return [x = values({sizes.size})] { return cs::topk(x, 100); }; });
  growing_by_threads("cumsum_rows", kRows,
                     [](const Sizes& sizes) { return [x = rows(sizes)] { return cs::cumsum(x, -1); }; });
  growing_by_threads("cumsum_columns", kRows,
                     [](const Sizes& sizes) { return [x = rows(sizes)] { return cs::cumsum(x, 0); }; });
  growing_by_threads("cumsum_long", kLong,
                     [](const Sizes& sizes) { return [x = values({sizes.size})] { return cs::cumsum(x, -1); }; });
}

void product_rows() {
  const auto matmul = [](const Sizes& sizes) {
    return
        [a = values({sizes.size, sizes.size}, 1), b = values({sizes.size, sizes.size}, 2)] { return cs::matmul(a, b); };
  };
  row_by_threads("matmul_256", [matmul] { return matmul({0, 0, 0, 256}); });
  growing_by_threads("matmul_1024", kProduct, matmul);
  row_by_threads("batched_matmul_32", [] {
    return [a = values({256, 32, 32}, 1), b = values({256, 32, 32}, 2)] { return cs::matmul(a, b); };
  });
  row_by_threads("batched_matmul_heads", [] {
    return [a = values({8, 12, 64, 64}, 1), b = values({8, 12, 64, 64}, 2)] { return cs::matmul(a, b); };
  });
  row_by_threads("batched_matmul_broadcast", [] {
    return [a = values({64, 48, 64}, 1), b = values({64, 48}, 2)] { return cs::matmul(a, b); };
  });
  row_by_threads("einsum_attention", [] {  // scores of 8 heads of 64 over 128 positions
    return [q = values({8, 128, 8, 64}, 1), k = values({8, 128, 8, 64}, 2)] {
      return cs::einsum("bqhd,bkhd->bhqk", {q, k});
    };
  });
  row_by_threads("einsum_bilinear", [] {
    return [x = values({128, 64}, 1), w = values({64, 32, 64}, 2), y = values({128, 64}, 3)] {
      return cs::einsum("bi,ioj,bj->bo", {x, w, y});
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
