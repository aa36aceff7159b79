// Attention against plain loops and against ordinary operations; masks, views, threads, memory; positions.
#include <cmath>
#include <functional>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed, DType dtype = DType::float64) {
  return random_in(-1, 1, shape, dtype, seed);
}
double tolerance_of(DType dtype) { return dtype == DType::float64 ? tolerance::product64 : tolerance::roundings32; }

/// What is added to the score of a head's query and key; -infinity forbids.
using Added = std::function<double(std::int64_t head, std::int64_t query, std::int64_t key)>;

/// The definition, in loops and double; operands [heads, length, features].
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Added& added) {
  const std::int64_t heads = q.size(0), queries = q.size(1), width = q.size(2), keys = k.size(1), columns = v.size(2);
  const std::vector<double> qs = values(q), ks = values(k), vs = values(v);
  const auto at = [](const std::vector<double>& list, std::int64_t i) { return list[static_cast<std::size_t>(i)]; };
  std::vector<double> result;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < queries; ++i) {
      std::vector<double> shares;
      double total = 0, largest = -kInfinity;
      for (std::int64_t j = 0; j < keys; ++j) {
        double product = 0;
        for (std::int64_t c = 0; c < width; ++c)
          product += at(qs, (h * queries + i) * width + c) * at(ks, (h * keys + j) * width + c);
        shares.push_back(product * scale + added(h, i, j));
        largest = std::fmax(largest, shares.back());
      }
      for (double& share : shares) total += share = largest == -kInfinity ? 0 : std::exp(share - largest);
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum_of = 0;
        for (std::int64_t j = 0; j < keys; ++j) sum_of += at(shares, j) * at(vs, (h * keys + j) * columns + c);
        result.push_back(total == 0 ? 0 : sum_of / total);
      }
    }
  return from_doubles(result, {heads, queries, columns});
}

Tensor heads_in_one_axis(const Tensor& x) { return reshape(x, {x.size(0) * x.size(1), x.size(2), x.size(3)}); }

/// What a mask or bias adds, element by element.
Added from_tensor(const Tensor& mask, const Shape& scores) {
  const std::vector<double> list = values(broadcast_to(mask, scores).contiguous());
  const bool flags = mask.dtype() == DType::bool8;
  return [=](std::int64_t h, std::int64_t i, std::int64_t j) {
    const double value = list[static_cast<std::size_t>((h * scores[2] + i) * scores[3] + j)];
    return !flags ? value : value != 0 ? 0 : -kInfinity;
  };
}

double nothing(std::int64_t, std::int64_t, std::int64_t) { return 0; }

/// Gradients of sum(f(inputs) * weights).
template <class F>
Tensors gradients_of(F f, const Tensors& inputs, const Tensor& weights) {
  GradientTape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = f(inputs);
  return tape.gradient(y, inputs, {.output_gradient = weights.to(y.dtype())});
}

/// Attention in one kernel, or, with its weights, by operations.
auto attending(const AttentionOptions& options, bool with_weights) {
  return [=](const Tensors& in) {
    return with_weights ? attention_with_weights(in[0], in[1], in[2], options).output
                        : scaled_dot_product_attention(in[0], in[1], in[2], options);
  };
}

/// Queries, keys and values of one layer side by side, as one projection makes them, and the heads of one of them.
constexpr std::int64_t kBatch = 2, kHeads = 3, kLength = 9, kWidth = 4;
Tensor heads_of(const Tensor& packed, std::int64_t part) {
  const Tensor own = narrow(packed, 2, part * kHeads * kWidth, kHeads * kWidth);
  return permute(reshape(own, {kBatch, kLength, kHeads, kWidth}), {0, 2, 1, 3});
}
Tensor from_packed(const Tensor& packed) {
  return scaled_dot_product_attention(heads_of(packed, 0), heads_of(packed, 1), heads_of(packed, 2));
}

}  // namespace

TEST_CASE("attention weighs values by the exponentials of scores", "[attention]") {
  const Tensor q = {{1.0, 0.0}}, k = {{1.0, 0.0}, {0.0, 1.0}}, v = {{4.0}, {8.0}};
  const Tensor y = scaled_dot_product_attention(q, k, v, {.scale = std::log(3.0)});
  CHECK(close(y, {{5.0}}, tolerance::roundings64));   // exp of log(3) and 0: weights 3/4 and 1/4
  const double usual = std::exp(1 / std::sqrt(2.0));  // 1 / sqrt(features) by default
  CHECK(close(scaled_dot_product_attention(q, k, v), {{(4 * usual + 8) / (usual + 1)}}, tolerance::roundings64));
  const AttentionResult both = attention_with_weights(q, k, v, {.scale = std::log(3.0)});
  CHECK(close(both.output, {{5.0}}, tolerance::roundings64));
  CHECK(close(both.weights, {{0.75, 0.25}}, tolerance::roundings64));
}

TEST_CASE("attention is its definition, with every kind of mask and bias", "[attention]") {
  const Shape scores = {2, 3, 5, 7};
  const auto flags = [](const Shape& shape, std::uint64_t seed) { return random(shape, seed) > -0.3; };
  const auto numbers = [](const Shape& shape, std::uint64_t seed) {
    return where(random(shape, seed) > -0.6, random(shape, seed + 1), -kInfinity);
  };
  const std::pair<const char*, AttentionOptions> cases[] = {
      {"nothing", {}},
      {"a mask of keys", {.mask = flags({7}, 11)}},
      {"a mask of queries and keys", {.mask = flags({5, 7}, 12)}},
      {"padding of each batch entry", {.mask = flags({2, 1, 1, 7}, 13)}},
      {"a mask of each head", {.mask = flags({3, 5, 7}, 14)}},
      {"a mask of queries", {.mask = flags({5, 1}, 15)}},
      {"a mask of everything", {.mask = flags({2, 3, 5, 7}, 16)}},
      {"a transposed mask", {.mask = transpose(flags({7, 5}, 17))}},
      {"every second key of a mask", {.mask = flags({5, 14}, 18).index({all, range(0, 14, 2)})}},
      {"one bool", {.mask = Tensor(true)}},
      {"a floating mask", {.mask = numbers({5, 7}, 19)}},
      {"a bias of each head", {.bias = numbers({3, 5, 7}, 21)}},
      {"a bias of keys", {.bias = numbers({2, 1, 1, 7}, 23)}},
      {"a bias of queries", {.bias = numbers({5, 1}, 25)}},
      {"a transposed bias", {.bias = transpose(numbers({7, 5}, 27))}},
      {"a stretched bias", {.bias = broadcast_to(numbers({5, 1}, 28), {5, 7})}},
      {"one number", {.bias = Tensor(0.5)}},
      {"a mask and a bias", {.mask = flags({7}, 29), .bias = numbers({5, 7}, 30)}},
      {"a mask and a bias of everything", {.mask = flags({2, 3, 5, 7}, 32), .bias = numbers({2, 3, 5, 7}, 33)}},
      {"a floating mask and a bias", {.mask = numbers({7}, 35), .bias = numbers({5, 7}, 37)}},
      {"causal", {.causal = true}},
      {"causal with a mask and a bias", {.mask = flags({7}, 39), .bias = numbers({5, 7}, 40), .causal = true}},
      {"a negative scale", {.scale = -0.7}},
  };
  for (const DType dtype : {DType::float64, DType::float32}) {
    const Tensor q = random({2, 3, 5, 4}, 1, dtype), k = random({2, 3, 7, 4}, 2, dtype),
                 v = random({2, 3, 7, 6}, 3, dtype);
    for (const auto& [usage, options] : cases) {
      INFO(usage << " in " << name(dtype));
      const Added mask = options.mask.defined() ? from_tensor(options.mask, scores) : &nothing;
      const Added bias = options.bias.defined() ? from_tensor(options.bias, scores) : &nothing;
      const bool causal = options.causal;
      const Added all_of_it = [&](std::int64_t h, std::int64_t i, std::int64_t j) {
        return (causal && j > i ? -kInfinity : 0) + mask(h, i, j) + bias(h, i, j);
      };
      const Tensor expected = reshape(plain_attention(heads_in_one_axis(q), heads_in_one_axis(k), heads_in_one_axis(v),
                                                      options.scale.value_or(0.5), all_of_it),
                                      {2, 3, 5, 6});
      const Tensor y = scaled_dot_product_attention(q, k, v, options);
      CHECK(y.dtype() == dtype);
      CHECK(close(y, expected, tolerance_of(dtype)));
      CHECK(close(attention_with_weights(q, k, v, options).output, expected, tolerance_of(dtype)));
    }
  }
}

TEST_CASE("the kernel of attention and ordinary operations give the same values and gradients", "[attention]") {
  struct Sizes {
    std::int64_t heads, queries, keys, width, columns;
  };
  // below and above a register, a tile, a block of queries, a piece of a product, a task
  for (const Sizes s :
       {Sizes{1, 1, 1, 1, 1}, Sizes{2, 3, 5, 4, 4}, Sizes{1, 7, 13, 3, 5}, Sizes{2, 128, 128, 64, 64},
        Sizes{1, 70, 129, 17, 33}, Sizes{1, 201, 40, 8, 130}, Sizes{3, 16, 300, 140, 16}, Sizes{1, 400, 20, 2, 2}})
    for (const bool causal : {false, true}) {
      const Shape wanted = {s.heads, s.queries, s.columns};
      const Tensors inputs = {random({s.heads, s.queries, s.width}, 41, DType::float32),
                              random({s.heads, s.keys, s.width}, 42, DType::float32),
                              random({s.heads, s.keys, s.columns}, 43, DType::float32)};
      const Tensor weights = random(wanted, 44, DType::float32);
      const AttentionOptions options{.mask = random({s.queries, s.keys}, 45) > -0.8, .causal = causal};
      const auto fused = [&](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2], options); };
      const auto ordinary = [&](const Tensors& in) {
        return attention_with_weights(in[0], in[1], in[2], options).output;
      };
      Tensors wide;
      for (const Tensor& x : inputs) wide.push_back(x.to(DType::float64));
      const Tensor expected = ordinary(wide);
      const Tensors expected_gradients = gradients_of(ordinary, wide, weights);
      for (const Tensors& in : {inputs, wide}) {
        const DType dtype = in[0].dtype();
        INFO(s.queries << " queries, " << s.keys << " keys, " << s.width << " and " << s.columns << " features"
                       << (causal ? ", causal" : "") << ", " << name(dtype));
        CHECK(close(fused(in), expected, tolerance_of(dtype)));
        const Tensors gradients = gradients_of(fused, in, weights);
        for (std::size_t i = 0; i < 3; ++i) {
          INFO("gradient " << i);
          CHECK(gradients[i].dtype() == dtype);
          CHECK(close(gradients[i], expected_gradients[i], tolerance_of(dtype)));
        }
      }
    }
}

TEST_CASE("only the gradients that are asked for are computed", "[attention]") {
  const Tensors inputs = {random({4, 3}, 51), random({5, 3}, 52), random({5, 2}, 53)};
  const auto attend = [](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); };
  const Tensor weights = random({4, 2}, 54);
  const Tensors all_three = gradients_of(attend, inputs, weights);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto of_one = [&](const Tensors& in) {
      Tensors some = inputs;
      some[i] = in[0];
      return attend(some);
    };
    CHECK(same(gradients_of(of_one, {inputs[i]}, weights)[0], all_three[i]));
  }
}

TEST_CASE("a query that may attend to nothing gets zeros, and so do its gradients", "[attention]") {
  const Tensor q = random({3, 4}, 61), k = random({5, 4}, 62), v = random({5, 2}, 63), weights = random({3, 2}, 64);
  const Tensor flags = {
      {true, true, false, true, true}, {false, false, false, false, false}, {true, false, false, true, true}};
  const AttentionOptions by_mask{.mask = flags}, by_bias{.bias = where(flags, Tensor(0.0), -kInfinity)};
  const Tensor others = {0, 2};
  for (const AttentionOptions& options : {by_mask, by_bias})
    for (const bool with_weights : {false, true}) {
      const auto attend = [&](const Tensors& in) {
        return with_weights ? attention_with_weights(in[0], in[1], in[2], options).output
                            : scaled_dot_product_attention(in[0], in[1], in[2], options);
      };
      const Tensor y = attend({q, k, v});
      CHECK(same(y[1], {0.0, 0.0}));
      const Tensors gradients = gradients_of(attend, {q, k, v}, weights);
      CHECK(same(gradients[0][1], zeros({4}, {.dtype = DType::float64})));
      // as if it were not there
      const auto of_others = [&](const Tensors& in) {
        return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = gather(flags, others)});
      };
      CHECK(close(gather(y, others), of_others({gather(q, others), k, v}), tolerance::product64));
      const Tensors expected = gradients_of(of_others, {gather(q, others), k, v}, gather(weights, others));
      CHECK(close(gather(gradients[0], others), expected[0], tolerance::product64));
      CHECK(close(gradients[1], expected[1], tolerance::product64));
      CHECK(close(gradients[2], expected[2], tolerance::product64));
    }
  CHECK(same(attention_with_weights(q, k, v, by_mask).weights[1], zeros({5}, {.dtype = DType::float64})));
}

TEST_CASE("keys that are masked out have no influence, whatever they are", "[attention]") {
  const Tensor q = random({3, 4}, 71), v = random({3, 2}, 72);
  Tensor k = random({3, 4}, 73);
  const Tensor mask = {true, false, true}, bias = {0.5, -kInfinity, -0.25};
  const Tensor by_mask = scaled_dot_product_attention(q, k, v, {.mask = mask});
  const Tensor by_bias = scaled_dot_product_attention(q, k, v, {.bias = bias});
  for (const double strange : {kNaN, kInfinity, 1e300}) {
    k.index_put({1}, strange);
    CHECK(same(scaled_dot_product_attention(q, k, v, {.mask = mask}), by_mask));
    CHECK(same(scaled_dot_product_attention(q, k, v, {.bias = bias}), by_bias));
    CHECK(close(attention_with_weights(q, k, v, {.mask = mask}).output, by_mask, tolerance::product64));
  }
}

TEST_CASE("keys that are masked out have no influence on gradients, whatever they are", "[attention]") {
  const Tensor q = random({3, 4}, 74), v = random({3, 2}, 75), weights = random({3, 2}, 76), seen = {0, 2};
  Tensor k = random({3, 4}, 77);
  const Tensors expected = gradients_of(attending({}, false), {q, gather(k, seen), gather(v, seen)}, weights);
  const AttentionOptions by_mask{.mask = Tensor{true, false, true}}, by_bias{.bias = Tensor{0.0, -kInfinity, 0.0}};
  for (const double strange : {kNaN, kInfinity, 1e300}) {
    k.index_put({1}, strange);
    for (const AttentionOptions& options : {by_mask, by_bias})
      for (const bool with_weights : {false, true}) {
        INFO("a key of " << strange << ", with weights: " << with_weights);
        const Tensors gradients = gradients_of(attending(options, with_weights), {q, k, v}, weights);
        CHECK(close(gradients[0], expected[0], tolerance::product64));
        for (std::size_t i = 1; i < 3; ++i) {
          CHECK(close(gather(gradients[i], seen), expected[i], tolerance::product64));
          CHECK(same(gradients[i][1], zeros({gradients[i].size(1)}, {.dtype = DType::float64})));
        }
      }
  }
}

TEST_CASE("masked keys and queries that are NaN leave the gradients of a bias and of gradients alone", "[attention]") {
  const Tensor q = random({3, 4}, 91), v = random({3, 2}, 92), weights = random({3, 2}, 93), bias = random({3, 3}, 94);
  const Tensor flags = {{true, false, true}, {false, false, false}, {true, false, true}};
  Tensor strange_q = q.copy(), k = random({3, 4}, 95), strange_k = k.copy();
  strange_q.index_put({1}, kNaN);
  strange_k.index_put({1}, kNaN);
  const auto attend = [&](const Tensors& in) {
    return scaled_dot_product_attention(in[0], in[1], v, {.mask = flags, .bias = in[2]});
  };
  const auto slopes = [&](const Tensors& in) {
    GradientTape inner;
    for (const Tensor& x : in) inner.watch(x);
    const Tensors each = inner.gradient(attend(in), in, {.output_gradient = weights});
    return stack({sum(square(each[0])), sum(square(each[1])), sum(square(each[2]))});
  };
  const Tensor ones_of_slopes = ones({3}, {.dtype = DType::float64});
  const Tensors first = gradients_of(attend, {q, k, bias}, weights),
                second = gradients_of(slopes, {q, k, bias}, ones_of_slopes);
  const Tensors strange_first = gradients_of(attend, {strange_q, strange_k, bias}, weights),
                strange_second = gradients_of(slopes, {strange_q, strange_k, bias}, ones_of_slopes);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("gradient " << i);
    CHECK(close(strange_first[i], first[i], tolerance::product64));
    CHECK(close(strange_second[i], second[i], tolerance::product64));
  }
}

TEST_CASE("a key that is NaN spoils the gradients of those queries alone that may attend to it", "[attention]") {
  const Tensor q = random({3, 4}, 96), v = random({3, 2}, 97), weights = random({3, 2}, 98);
  Tensor k = random({3, 4}, 99);
  const auto first_two = [](const Tensor& x) { return narrow(x, 0, 0, 2); };
  for (const bool with_weights : {false, true}) {
    INFO("with weights: " << with_weights);
    const auto attend = attending({.causal = true}, with_weights);
    const Tensors expected = gradients_of(attend, {first_two(q), first_two(k), first_two(v)}, first_two(weights));
    for (const double strange : {kNaN, kInfinity}) {
      Tensor strange_k = k.copy();
      strange_k.index_put({2}, strange);  // causal: only the last query sees it
      const Tensor gradient = gradients_of(attend, {q, strange_k, v}, weights)[0];
      CHECK(close(first_two(gradient), expected[0], tolerance::product64));
    }
    k.index_put({2}, kNaN);
    CHECK(same(gradients_of(attend, {q, k, v}, weights)[0][2], full({4}, kNaN, {.dtype = DType::float64})));
  }
}

TEST_CASE("a query that may attend to nothing has no influence on gradients, even if it is NaN", "[attention]") {
  const Tensor k = random({5, 4}, 65), v = random({5, 2}, 66), weights = random({3, 2}, 67), others = {0, 2};
  Tensor q = random({3, 4}, 68);
  q.index_put({1}, kNaN);
  const Tensor flags = {
      {true, true, false, true, true}, {false, false, false, false, false}, {true, false, false, true, true}};
  const auto of_others = attending({.mask = gather(flags, others)}, false);
  const Tensors expected = gradients_of(of_others, {gather(q, others), k, v}, gather(weights, others));
  for (const bool with_weights : {false, true}) {
    INFO("with weights: " << with_weights);
    const Tensors gradients = gradients_of(attending({.mask = flags}, with_weights), {q, k, v}, weights);
    CHECK(close(gather(gradients[0], others), expected[0], tolerance::product64));
    CHECK(same(gradients[0][1], zeros({4}, {.dtype = DType::float64})));
    CHECK(close(gradients[1], expected[1], tolerance::product64));
    CHECK(close(gradients[2], expected[2], tolerance::product64));
  }
}

TEST_CASE("enormous scores are no harm, and a NaN that counts shows", "[attention]") {
  const Tensor q = {{1e4}, {-1e4}, {kNaN}}, k = {{1e4}, {-1e4}}, v = {{1.0}, {2.0}};
  CHECK(same(scaled_dot_product_attention(q, k, v), {{1.0}, {2.0}, {kNaN}}));
}

TEST_CASE("heads within a projection are read where they are, and the result stands like them", "[attention]") {
  const Tensor packed = random({kBatch, kLength, 3 * kHeads * kWidth}, 81, DType::float32);
  const Tensor q = heads_of(packed, 0), k = heads_of(packed, 1), v = heads_of(packed, 2);
  CHECK(q.shares_storage(packed));
  const Tensor y = from_packed(packed);
  CHECK(same(y, scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous())));
  CHECK(permute(y, {0, 2, 1, 3}).is_contiguous());

  const Tensor weights = random({kBatch, kHeads, kLength, kWidth}, 82, DType::float32);
  const Tensor together = gradients_of([](const Tensors& in) { return from_packed(in[0]); }, {packed}, weights)[0];
  const Tensors apart =
      gradients_of([](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); },
                   {q.contiguous(), k.contiguous(), v.contiguous()}, weights);
  for (std::int64_t part = 0; part < 3; ++part)
    CHECK(same(heads_of(together, part).contiguous(), apart[static_cast<std::size_t>(part)]));
}

TEST_CASE("operands of any layout give the same", "[attention]") {
  const Tensor q = random({2, 5, 4}, 91), k = random({2, 7, 4}, 92), v = random({2, 7, 3}, 93);
  const Tensor expected = scaled_dot_product_attention(q, k, v);
  CHECK(same(scaled_dot_product_attention(strided(q), strided(k), strided(v)), expected));
  CHECK(same(scaled_dot_product_attention(flip(flip(q, 1).contiguous(), 1), flip(flip(k, 2).contiguous(), 2), v),
             expected));
  const Tensor wide = gradients_of([](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); },
                                   {strided(q), strided(k), strided(v)}, strided(random({2, 5, 3}, 94)))[1];
  CHECK(same(wide, gradients_of([](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); },
                                {q, k, v}, random({2, 5, 3}, 94))[1]));
}

TEST_CASE("leading axes broadcast, and their gradients add up", "[attention]") {
  const Tensor q = random({2, 3, 5, 4}, 101), k = random({1, 7, 4}, 102), v = random({2, 1, 7, 6}, 103);
  const Tensor weights = random({2, 3, 5, 6}, 104);
  const auto attend = [](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); };
  const auto whole = [&](const Tensors& in) {
    return attend({in[0], broadcast_to(in[1], {2, 3, 7, 4}).copy(), broadcast_to(in[2], {2, 3, 7, 6}).copy()});
  };
  CHECK(same(attend({q, k, v}), whole({q, k, v})));
  const Tensors gradients = gradients_of(attend, {q, k, v}, weights),
                expected = gradients_of(whole, {q, k, v}, weights);
  for (std::size_t i = 0; i < 3; ++i) CHECK(close(gradients[i], expected[i], tolerance::product64));
}

TEST_CASE("attention does not depend on the number of threads", "[attention][threads]") {
  const Tensors inputs = {random({3, 500, 16}, 111, DType::float32), random({3, 130, 16}, 112, DType::float32),
                          random({3, 130, 24}, 113, DType::float32)};
  const Tensor weights = random({3, 500, 24}, 114, DType::float32);
  const auto attend = [](const Tensors& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  };
  Tensors expected;
  for (const int count : {1, 2, 3, 5}) {
    const ThreadCount some(count);
    Tensors results = gradients_of(attend, inputs, weights);
    results.push_back(attend(inputs));
    if (expected.empty()) expected = results;
    INFO(count << " threads");
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(same_bits(values(results[i]), values(expected[i])));
  }
}

TEST_CASE("nothing of the size of the scores is kept for the gradient", "[attention][memory]") {
  constexpr std::int64_t kPositions = 256;
  const Tensor q = random({2, kPositions, 8}, 121, DType::float32), k = random({2, kPositions, 8}, 122, DType::float32),
               v = random({2, kPositions, 8}, 123, DType::float32);
  GradientTape tape;
  tape.watch({q, k, v});
  const Tensor y = scaled_dot_product_attention(q, k, v, {.causal = true});
  CHECK(tape.bytes_kept() == (4 * 2 * kPositions * 8 + 2 * kPositions * 2) * 4);  // q, k, v, y; two numbers a query
  CHECK(tape.size() == 1);
  const std::int64_t scores = 2 * kPositions * kPositions * 4;
  CHECK(tape.bytes_kept() < scores / 4);
  memory::release_cache();
  memory::reset_peak();
  const std::int64_t before = memory::stats().reserved;
  const ThreadCount one(1);
  tape.gradient(y, {q, k, v});
  CHECK(memory::stats().peak_reserved - before < scores);  // nor made on the way
}

TEST_CASE("16-bit types are computed with in float32 and rounded once", "[attention]") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensors inputs = {random({2, 5, 4}, 131, dtype), random({2, 7, 4}, 132, dtype),
                            random({2, 7, 3}, 133, dtype)};
    Tensors wide;
    for (const Tensor& x : inputs) wide.push_back(x.to(DType::float32));
    const AttentionOptions options{.mask = random({5, 7}, 134) > -0.5, .causal = true};
    const auto attend = [&](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2], options); };
    const Tensor weights = random({2, 5, 3}, 135, dtype);
    CHECK(same(attend(inputs), attend(wide).to(dtype)));
    const Tensors gradients = gradients_of(attend, inputs, weights), expected = gradients_of(attend, wide, weights);
    for (std::size_t i = 0; i < 3; ++i) CHECK(same(gradients[i], expected[i].to(dtype)));

    const AttentionResult both = attention_with_weights(inputs[0], inputs[1], inputs[2], options),
                          wide_both = attention_with_weights(wide[0], wide[1], wide[2], options);
    CHECK(same(both.output, wide_both.output.to(dtype)));
    CHECK(same(both.weights, wide_both.weights.to(dtype)));
    const Tensor bias = random({5, 7}, 136, dtype);
    const Tensor gradient = gradients_of(
        [&](const Tensors& in) {
          return scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {.bias = in[0]});
        },
        {bias}, weights)[0];
    const Tensor wide_gradient = gradients_of(
        [&](const Tensors& in) { return scaled_dot_product_attention(wide[0], wide[1], wide[2], {.bias = in[0]}); },
        {bias.to(DType::float32)}, weights)[0];
    CHECK(same(gradient, wide_gradient.to(dtype)));
  }
}

TEST_CASE("scores beyond the largest float16 are no harm to it, with dropout too", "[attention]") {
  const TensorOptions type{.dtype = DType::float16};
  const Tensor q = full({1, 4}, 300, type), k = full({2, 4}, 300, type), v = full({2, 1}, 3, type);
  Rng rng(1);
  CHECK(same(attention_with_weights(q, k, v).weights, full({1, 2}, 0.5, type)));
  CHECK(number(scaled_dot_product_attention(q, k, v, {.keep = 0.999}, rng)) < 7);  // NaN is not
}

TEST_CASE("more keys than memory holds, as a view may have, are refused", "[attention]") {
  constexpr std::int64_t kMany = std::int64_t{1} << 58;
  const Tensor q = ones({1, 1}), many = broadcast_to(ones({1, 1}), {kMany, 1});
  CHECK_THROWS_AS(scaled_dot_product_attention(q, many, many), OutOfMemoryError);
}

TEST_CASE("attention without keys, queries, features or heads is well-defined", "[attention]") {
  const TensorOptions type{.dtype = DType::float64};
  const auto attend = [](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); };
  const std::pair<Tensors, Tensor> cases[] = {
      {{random({2, 3, 4}, 141), zeros({2, 0, 4}, type), zeros({2, 0, 5}, type)}, zeros({2, 3, 5}, type)},  // no keys
      {{zeros({2, 0, 4}, type), random({2, 3, 4}, 142), random({2, 3, 5}, 143)}, zeros({2, 0, 5}, type)},
      {{zeros({0, 2, 4}, type), zeros({0, 3, 4}, type), zeros({0, 3, 5}, type)}, zeros({0, 2, 5}, type)},
      {{random({2, 3, 4}, 144), random({2, 3, 4}, 145), zeros({2, 3, 0}, type)}, zeros({2, 3, 0}, type)},
      {{zeros({1, 0}, type), zeros({2, 0}, type), Tensor{{1.0}, {2.0}}}, Tensor{{1.5}}}};  // all scores 0: the mean
  for (const auto& [inputs, expected] : cases) {
    INFO(to_string(inputs[0].shape()) << " and " << to_string(inputs[1].shape()));
    CHECK(same(attend(inputs), expected));
    CHECK(same(attention_with_weights(inputs[0], inputs[1], inputs[2]).output, expected));
    const Tensors gradients = gradients_of(attend, inputs, ones_like(expected));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(gradients[i].shape() == inputs[i].shape());
      CHECK(number(sum(isfinite(gradients[i]).to(DType::int64))) == static_cast<double>(gradients[i].numel()));
    }
  }
}

TEST_CASE("a bias that is followed gets its gradient", "[attention]") {
  const Tensor q = random({2, 3, 4}, 151), k = random({2, 5, 4}, 152), v = random({2, 5, 2}, 153);
  const Tensor bias = random({3, 5}, 154), weights = random({2, 3, 2}, 155);
  const auto fused = [&](const Tensors& in) { return scaled_dot_product_attention(q, k, v, {.bias = in[0]}); };
  const auto ordinary = [&](const Tensors& in) {
    return matmul(softmax(matmul(q, transpose(k, 1, 2)) * 0.5 + in[0]), v);
  };
  CHECK(
      close(gradients_of(fused, {bias}, weights)[0], gradients_of(ordinary, {bias}, weights)[0], tolerance::product64));
  const Tensor half = bias.to(DType::float32);  // of another type: converted, and its gradient back
  CHECK(gradients_of(fused, {half}, weights)[0].dtype() == DType::float32);
}

TEST_CASE("dropout in attention drops weights, and draws nothing if all are kept", "[attention]") {
  const Tensor q = random({2, 6, 4}, 161), k = random({2, 7, 4}, 162), v = random({2, 7, 3}, 163);
  Rng rng(7), same_rng(7), again(7);
  const Tensor weights = attention_with_weights(q, k, v).weights;
  const Tensor expected = matmul(dropout(weights, 0.6, same_rng), v);
  CHECK(same(scaled_dot_product_attention(q, k, v, {.keep = 0.6}, rng), expected));
  CHECK(rng.position() == same_rng.position());
  const AttentionResult result = attention_with_weights(q, k, v, {.keep = 0.6}, again);
  CHECK(same(result.output, expected));
  CHECK(same(result.weights, weights));  // those before dropout
  const std::uint64_t position = rng.position();
  scaled_dot_product_attention(q, k, v, {}, rng);
  CHECK(rng.position() == position);
}

TEST_CASE("a causal mask lets each query see what came before it", "[attention]") {
  CHECK(same(causal_mask(2, 3), {{true, false, false}, {true, true, false}}));
  CHECK(same(causal_mask(2, 4, 2), {{true, true, true, false}, {true, true, true, true}}));  // two keys known before
  CHECK(same(causal_mask(3, 2, -1), {{false, false}, {true, false}, {true, true}}));
  CHECK(same(causal_mask(2, 1, INT64_MIN), {{false}, {false}}));
  CHECK(same(causal_mask(2, 1, INT64_MAX), {{true}, {true}}));
  CHECK(causal_mask(0, 3).shape() == Shape{0, 3});
  const Tensor q = random({5, 4}, 171), k = random({7, 4}, 172), v = random({7, 3}, 173);
  CHECK(close(scaled_dot_product_attention(q, k, v, {.causal = true}),
              scaled_dot_product_attention(q, k, v, {.mask = causal_mask(5, 7)}), tolerance::product64));
}

TEST_CASE("the slopes of ALiBi are those of its authors", "[attention]") {
  const TensorOptions type{.dtype = DType::float64};
  const Tensor eight = alibi_bias(8, 1, 2, 0, type);  // distance 1: minus the slope
  for (std::int64_t head = 0; head < 8; ++head)
    CHECK(eight.at<double>(head, 0, 1) == -std::exp2(-static_cast<double>(head + 1)));  // 1/2 to 1/256
  // twelve heads: those of eight, then every second one of sixteen: 2^-0.5, 2^-1.5, ...
  const Tensor twelve = alibi_bias(12, 1, 2, 0, type);
  CHECK(twelve.at<double>(7, 0, 1) == -std::exp2(-8.0));
  for (std::int64_t more = 0; more < 4; ++more)
    CHECK(twelve.at<double>(8 + more, 0, 1) == -std::exp2(-0.5 - static_cast<double>(more)));
  const Tensor one = alibi_bias(1, 2, 3, 1, type);  // slope 2^-8, queries at places 1 and 2
  CHECK(same(one * -256.0, {{{1.0, 0.0, 1.0}, {2.0, 1.0, 0.0}}}));
  CHECK(alibi_bias(3, 2, 2).dtype() == DType::float32);
}

TEST_CASE("sinusoidal positions are sines and cosines of growing wavelength", "[attention]") {
  const Tensor table = sinusoidal_positions(3, 4, 10000, {.dtype = DType::float64});
  for (std::int64_t p = 0; p < 3; ++p) {
    const double place = static_cast<double>(p);
    const Tensor expected = from_doubles(
        {std::sin(place), std::cos(place), std::sin(place / 100), std::cos(place / 100)}, {4});  // 10000^(2/4) = 100
    CHECK(close(table[p], expected, tolerance::roundings64));
  }
  const Tensor odd = sinusoidal_positions(2, 3, 8, {.dtype = DType::float64});
  CHECK(odd.is_contiguous());
  CHECK(close(odd[1], from_doubles({std::sin(1.0), std::cos(1.0), std::sin(0.25)}, {3}), tolerance::roundings64));
  CHECK(sinusoidal_positions(0, 4).shape() == Shape{0, 4});
  CHECK(sinusoidal_positions(4, 0).shape() == Shape{4, 0});
}

TEST_CASE("rotary embedding turns pairs by angles that grow with the position", "[attention]") {
  const double c = std::cos(2.0), s = std::sin(2.0), c2 = std::cos(0.02), s2 = std::sin(0.02);
  const Tensor x = {{5.0, 6.0, 7.0, 8.0}, {0.0, 0.0, 0.0, 0.0}, {1.0, 2.0, 3.0, 4.0}};
  const Tensor neighbours = rotary_embedding(x);
  CHECK(same(neighbours[0], x[0]));  // position 0: no angle
  CHECK(close(neighbours[2], from_doubles({c - 2 * s, 2 * c + s, 3 * c2 - 4 * s2, 4 * c2 + 3 * s2}, {4}),
              tolerance::roundings64));
  const Tensor halves = rotary_embedding(x, {.interleaved = false});
  CHECK(close(halves[2], from_doubles({c - 3 * s, 2 * c2 - 4 * s2, 3 * c + s, 4 * c2 + 2 * s2}, {4}),
              tolerance::roundings64));

  const Tensor row = x.index({range(2, 3)}), places = {{2}, {0}};
  CHECK(same(rotary_embedding(row, {.offset = 2}), neighbours.index({range(2, 3)})));
  const Tensor both = rotary_embedding(stack({row, row}), {.positions = places});  // of each batch entry its own
  CHECK(same(both[0], neighbours.index({range(2, 3)})));
  CHECK(same(both[1], row));
}

TEST_CASE("products of rotary embeddings depend on distances alone", "[attention]") {
  const Tensor q = random({1, 8}, 181), k = random({1, 8}, 182);
  for (const bool interleaved : {true, false}) {
    const auto product = [&](std::int64_t at, std::int64_t other) {
      return number(sum(rotary_embedding(q, {.offset = at, .interleaved = interleaved}) *
                        rotary_embedding(k, {.offset = other, .interleaved = interleaved})));
    };
    CHECK(std::fabs(product(3, 1) - product(10, 8)) < tolerance::roundings64 * 10);
    CHECK(std::fabs(product(3, 1) - product(3, 2)) > 1e-3);
  }
}
