// Single operations, not recorded.
#include <capstan/capstan.hpp>

#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

/// Always the same numbers, uniform in [-2, 2).
cs::Tensor values(const cs::Shape& shape, std::uint64_t seed = 1) {
  cs::Rng rng(seed);
  return cs::uniform(shape, -2, 2, rng);
}

void matmul_rows(std::int64_t n) {
  row_by_threads("matmul_" + std::to_string(n), [n] {
    return [a = values({n, n}, 1), b = values({n, n}, 2)] { return cs::matmul(a, b); };
  });
}

}  // namespace

void op_rows() {
  row("add_1", [] { return [a = values({1}, 1), b = values({1}, 2)] { return cs::add(a, b); }; });
  row("add_64", [] { return [a = values({64}, 1), b = values({64}, 2)] { return cs::add(a, b); }; });

  matmul_rows(256);
  matmul_rows(1024);

  row_by_threads("exp", [] { return [x = values({1 << 20})] { return cs::exp(x); }; });
  row_by_threads("tanh", [] { return [x = values({1 << 20})] { return cs::tanh(x); }; });
  row_by_threads("sigmoid", [] { return [x = values({1 << 20})] { return cs::sigmoid(x); }; });

  row_by_threads("softmax", [] { return [x = values({1024, 1024})] { return cs::softmax(x, -1); }; });
  row_by_threads("sum_axis0", [] { return [x = values({1024, 1024})] { return cs::sum(x, 0); }; });
  row_by_threads("sum_axis1", [] { return [x = values({1024, 1024})] { return cs::sum(x, 1); }; });
  row_by_threads("sum_all", [] { return [x = values({1024, 1024})] { return cs::sum(x); }; });
  row_by_threads("transposed_copy", [] {
    return [x = values({1024, 1024})] { return cs::transpose(x).contiguous(); };
  });
}

}  // namespace bench
