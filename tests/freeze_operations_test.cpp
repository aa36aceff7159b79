// Plans of single operations, and of a few together, beside the operations themselves.
#include <functional>
#include <utility>

#include "tests/plans.hpp"

using namespace capstan;
using namespace tests;

namespace {

struct Row {
  const char* name;
  std::function<Tensors(const Tensor&)> net;
  Shape shape;
  double tolerance = 0;
  DType dtype = DType::float32;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(plan_agrees(row.net, {PlanInput(row.shape, row.dtype)}, row.tolerance));
  }
}

}  // namespace

TEST_CASE("plans of elementwise operations give the same bits", "[freeze][host]") {
  const Tensor w = random_in(-1, 1, {6}, DType::float32, 3);
  check({
      {"arithmetic",
       [&](const Tensor& x) {
         return Tensors{(x + w) * 2 - x / 3.0f, 1.0f - x, -x};
       },
       {4, 6}},
      {"functions",
       [](const Tensor& x) {
         return Tensors{tanh(x), sigmoid(x), exp(x), erf(x), abs(x)};
       },
       {4, 6}},
      {"activations",
       [](const Tensor& x) {
         return Tensors{relu(x), gelu(x), silu(x), softplus(x), elu(x)};
       },
       {4, 6}},
      {"powers",
       [](const Tensor& x) {
         return Tensors{pow(x, 3), square(x), sqrt(abs(x)), clip(x, -0.5, 0.5)};
       },
       {24}},
      {"comparisons",
       [](const Tensor& x) {
         return Tensors{x > 0.25f, less_equal(x, 0), isnan(x), x == x};
       },
       {4, 6}},
      {"where",
       [](const Tensor& x) {
         return Tensors{where(x > 0.0f, x, 0), masked_fill(x, x < 0.0f, 7)};
       },
       {4, 6}},
      {"logic",
       [](const Tensor& x) {
         return Tensors{logical_and(x > 0.0f, x < 0.5f), !(x > 0.0f)};
       },
       {4, 6}},
      {"casts",
       [](const Tensor& x) {
         return Tensors{x.to(DType::int32), x.to(DType::float16), x.to(DType::bool8)};
       },
       {4, 6}},
      {"whole numbers",
       [](const Tensor& x) {
         return Tensors{floor_divide(x, 2), remainder(x, 3), bitwise_and(x, 1), x * x, x.to(DType::float32) * 0.5f};
       },
       {4, 6},
       0,
       DType::int64},
      {"truth",
       [](const Tensor& x) {
         return Tensors{!x, where(x, 1.0f, zeros({4, 6}))};
       },
       {4, 6},
       0,
       DType::bool8},
      {"float64",
       [](const Tensor& x) {
         return Tensors{tanh(x) * 3 + x, lgamma(x)};
       },
       {4, 6},
       0,
       DType::float64},
      {"float16",
       [](const Tensor& x) {
         return Tensors{tanh(x) * 3 + x, exp(x)};
       },
       {4, 6},
       0,
       DType::float16},
      {"bfloat16",
       [](const Tensor& x) {
         return Tensors{tanh(x) * 3 + x, exp(x)};
       },
       {4, 6},
       0,
       DType::bfloat16},
      {"a number",
       [](const Tensor& x) {
         return Tensors{x * x, x + arange(3.0)};
       },
       Shape()},
  });
}

TEST_CASE("plans of reductions, running totals and orders give the same bits", "[freeze][host]") {
  check({
      {"sums",
       [](const Tensor& x) {
         return Tensors{sum(x), sum(x, 1), mean(x, 0), prod(x, 1, {.keepdims = true})};
       },
       {40, 30}},
      {"extremes",
       [](const Tensor& x) {
         return Tensors{max(x, 1), min(x), argmax(x, 1), argmin(x, 0)};
       },
       {40, 30}},
      {"moments",
       [](const Tensor& x) {
         return Tensors{var(x, 1), capstan::std(x, 0), moments(x).variance};
       },
       {9, 30}},
      {"questions",
       [](const Tensor& x) {
         return Tensors{any_of(x > 0.9f, 1), all_of(x > -0.9f, 0), count_nonzero(x)};
       },
       {9, 30}},
      {"softmax",
       [](const Tensor& x) {
         return Tensors{softmax(x), log_softmax(x, 0), logsumexp(x, 1)};
       },
       {9, 30}},
      {"a large softmax", [](const Tensor& x) { return Tensors{softmax(x)}; }, {512, 300}},
      {"running totals",
       [](const Tensor& x) {
         return Tensors{cumsum(x, 1),         cumsum(x, 0, {.exclusive = true, .reverse = true}),
                        cumprod(x, 1),        cummax(x, 1).values,
                        cummin(x, 0).indices, diff(x)};
       },
       {9, 30}},
      {"orders",
       [](const Tensor& x) {
         const SortResult sorted = sort_with_indices(x, 0, {.descending = true});
         return Tensors{sort(x), argsort(x, 1), sorted.values, sorted.indices};
       },
       {9, 30}},
      {"a long sort",
       [](const Tensor& x) {
         return Tensors{sort(x), argsort(x)};
       },
       {5000}},
      {"ranks",
       [](const Tensor& x) {
         const TopkResult best = topk(x, 4), least = topk(x, 2, 0, {.largest = false});
         return Tensors{best.values, best.indices, least.values, least.indices};
       },
       {9, 30}},
      {"counts",
       [](const Tensor& x) {
         return Tensors{histogram(x, 4, -1, 1).counts, searchsorted(sort(x), x)};
       },
       {30}},
  });
}

TEST_CASE("plans of views and joined parts give the same bits", "[freeze][host]") {
  check({
      {"views",
       [](const Tensor& x) {
         return Tensors{transpose(x), x[2], x.index({all, range(5, 0, -2)}), reshape(x, {6, 4}), expand_dims(x, 1)};
       },
       {4, 6}},
      {"what is computed of views",
       [](const Tensor& x) {
         return Tensors{transpose(x) * 2, x.index({range(1, 3)}) + x.index({range(2, 4)}), sum(x[1])};
       },
       {4, 6}},
      {"broadcasts",
       [](const Tensor& x) {
         return Tensors{broadcast_to(x[0], {3, 6}), expand_dims(x, 2) * x[0]};
       },
       {4, 6}},
      {"joined",
       [](const Tensor& x) {
         return Tensors{concat({x, relu(x)}, 1), stack({x, -x}), stack({x, x}, 2)};
       },
       {4, 6}},
      {"parts",
       [](const Tensor& x) {
         Tensors all_parts = split(x, 3, 1);
         for (const Tensor& row : unstack(x)) all_parts.push_back(row * 2);
         return all_parts;
       },
       {4, 6}},
      {"padded",
       [](const Tensor& x) {
         return Tensors{pad(x, {{0, 0}, {1, 2}}), pad(x, {{1, 1}, {2, 0}}, PadMode::reflect),
                        pad(x, {{0, 3}, {0, 0}}, PadMode::wrap)};
       },
       {4, 6}},
      {"rearranged",
       [](const Tensor& x) {
         return Tensors{flip(x), roll(x, 2, 1), tile(x, {2, 1}), repeat(x, 3, 0)};
       },
       {4, 6}},
      {"triangles",
       [](const Tensor& x) {
         return Tensors{tril(x), triu(x, 1), diagonal(x), x * eye(6)};
       },
       {6, 6}},
      {"windows", [](const Tensor& x) { return Tensors{sliding_window(x, 0, 3) * 2}; }, {9}},
  });
}

TEST_CASE("plans of looking up and writing by indices give the same bits", "[freeze][host]") {
  const Tensor table = random_in(-1, 1, {5, 3}, DType::float32, 4);
  const auto write = [](const Tensor& x) {
    Tensor y = zeros({4, 6}), z = x * 2;
    y.index_put({all, range(0, 3)}, x.index({all, range(3, 6)}));
    y.index_put({1}, 5);
    y.set(9.0f, 3, 5);
    z += x;
    z[0].fill(0);
    z.index_put({Tensor{1, 3}}, x.index({range(0, 2)}), {.accumulate = true});
    return Tensors{y, z};
  };
  check({
      {"rows of a table",
       [&](const Tensor& i) {
         return Tensors{gather(table, i), one_hot(i, 5)};
       },
       {7},
       0,
       DType::int64},
      {"narrow indices", [&](const Tensor& i) { return Tensors{gather(table, i)}; }, {2, 3}, 0, DType::int32},
      {"rows by constants",
       [](const Tensor& x) {
         return Tensors{gather(x, Tensor{2, 0, 2}), x.index({Tensor{1, -1}})};
       },
       {4, 6}},
      {"along an axis",
       [](const Tensor& x) {
         return Tensors{take_along_axis(x, argsort(x)), pick(x, argmax(x, 1))};
       },
       {4, 6}},
      {"scattered",
       [](const Tensor& x) {
         const Tensor to = argsort(x);
         return Tensors{scatter(zeros({4, 6}), to, x), scatter_add(ones({4, 6}), floor_divide(to, 2), x)};
       },
       {4, 6}},
      {"set and added",
       [](const Tensor& x) {
         return Tensors{index_set(zeros({4, 6}), {Tensor{3, 0}}, x.index({range(0, 2)})), index_add(x, {0}, 1.0f)};
       },
       {4, 6}},
      {"segments",
       [](const Tensor& x) {
         return Tensors{segment_sum(x, Tensor{0, 0, 2, 1}, 3)};
       },
       {4, 6}},
      {"written in place", write, {4, 6}},
  });
}

TEST_CASE("plans keep as much of borrowed memory as the tensor has, where positions write beside it",
          "[freeze][host]") {
  std::vector<float> memory(500 * 8, 1.0f);
  const Tensor to = zeros({8, 8}, {.dtype = DType::int64});
  const Tensor borrowed = from_memory(memory.data(), {500, 8}), own = borrowed.copy();
  const auto bytes_of = [](auto net, const Shape& shape, const Tensor& table) {
    auto plan = freeze([&](const Tensor& x) { return net(x, table); }, {{shape}});
    return plan.bytes();
  };
  const auto written = [&](const Tensor& x, const Tensor& table) { return scatter(table, to, x, 0); };
  const auto added = [&](const Tensor& x, const Tensor& table) {
    return segment_sum(table, cast(x, DType::int64), 500);
  };
  CHECK(bytes_of(written, {8, 8}, borrowed) == bytes_of(written, {8, 8}, own));
  CHECK(bytes_of(added, {500}, borrowed) == bytes_of(added, {500}, own));
}

TEST_CASE("plans of resampling give the same bits", "[freeze][host]") {
  const Tensor grid = random_in(-1, 1, {2, 5, 6, 2}, DType::float32, 5);
  const auto larger = [](const Tensor& x) {
    return Tensors{interpolate(x, {.scale_factor = 2}),
                   interpolate(x, {.size = {9, 5}, .mode = InterpolateMode::linear}),
                   interpolate(x, {.scale_factor = 2, .mode = InterpolateMode::cubic})};
  };
  check({
      {"larger", larger, {2, 4, 6, 5}},
      {"sampled", [&](const Tensor& x) { return Tensors{grid_sample(x, grid)}; }, {2, 4, 6, 5}},
      {"shuffled",
       [](const Tensor& x) {
         return Tensors{pixel_shuffle(x, 2), channel_shuffle(x, 2)};
       },
       {2, 4, 6, 5}},
  });
}

TEST_CASE("plans of products give the same values", "[freeze][host]") {
  const Tensor w = random_in(-1, 1, {60, 40}, DType::float32, 6), wide = random_in(-1, 1, {60, 40}, DType::float64, 7);
  check({
      {"products",
       [&](const Tensor& x) {
         return Tensors{matmul(x, w), linear(x, w, w[0]), matmul(x, transpose(x))};
       },
       {30, 60},
       tolerance::product32},
      {"of one row", [&](const Tensor& x) { return Tensors{matmul(x, w)}; }, {1, 60}, tolerance::product32},
      {"of vectors",
       [&](const Tensor& x) {
         return Tensors{matmul(x, w), dot(x, x), outer(x, x)};
       },
       {60},
       tolerance::product32},
      {"batches",
       [](const Tensor& x) { return Tensors{matmul(x, transpose(x, 1, 2))}; },
       {5, 7, 60},
       tolerance::product32},
      {"einsum",
       [&](const Tensor& x) {
         return Tensors{einsum("bij,jk->bki", {x, w}), einsum("bij,bij->b", {x, x})};
       },
       {3, 4, 60},
       tolerance::product32},
      {"float64",
       [&](const Tensor& x) { return Tensors{matmul(x, wide)}; },
       {30, 60},
       tolerance::product64,
       DType::float64},
      {"float16",
       [&](const Tensor& x) { return Tensors{matmul(x, w.to(DType::float16))}; },
       {30, 60},
       tolerance::agreement_float16,
       DType::float16},
  });
}
