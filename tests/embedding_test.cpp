// Embeddings and bags of them: values by hand and by plain loops, gradients as row slices, padding, norms, modules.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;

Tensor table() { return random_in(-1, 1, {40, 3}, DType::float64, 401); }

/// d sum(w * square(f(x))) / dx with weights that count up.
template <class F>
Tensor weighed_gradient(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  const Tensor weight = reshape(linspace(1, 2, y.numel(), {.dtype = y.dtype()}), y.shape());
  return tape.gradient(sum(weight * square(y)), x);
}

/// Bags by plain loops: the rows of each as a list.
struct PlainBags {
  std::vector<std::vector<Numbers>> rows;

  PlainBags(const std::vector<std::int64_t>& indices, const Numbers& weights, const std::vector<std::int64_t>& bounds,
            const Tensor& from, std::int64_t padding) {
    const Numbers all_rows = values(from);
    const auto width = static_cast<std::size_t>(from.size(1));
    for (std::size_t b = 0; b + 1 < bounds.size(); ++b) {
      rows.emplace_back();
      for (std::int64_t i = bounds[b]; i < bounds[b + 1]; ++i) {
        const std::int64_t index = indices[static_cast<std::size_t>(i)];
        if (index == padding) continue;
        Numbers row;
        for (std::size_t j = 0; j < width; ++j)
          row.push_back(all_rows[static_cast<std::size_t>(index) * width + j] *
                        (weights.empty() ? 1 : weights[static_cast<std::size_t>(i)]));
        rows.back().push_back(row);
      }
    }
  }
  Tensor result(BagMode mode, std::int64_t width) const {
    Numbers list;
    for (const std::vector<Numbers>& bag : rows)
      for (std::size_t j = 0; j < static_cast<std::size_t>(width); ++j) {
        double total = 0, largest = bag.empty() ? 0 : -kInfinity;
        for (const Numbers& row : bag) {
          total += row[j];
          largest = std::max(largest, row[j]);
        }
        const double count = bag.empty() ? 1 : static_cast<double>(bag.size());
        list.push_back(mode == BagMode::max ? largest : mode == BagMode::mean ? total / count : total);
      }
    return from_vector(list, Shape({static_cast<std::int64_t>(rows.size()), width}));
  }
};

}  // namespace

// --- lookups -----------------------------------------------------------------------------------------------------

TEST_CASE("an embedding has the rows of its table at the indices", "[embedding]") {
  const Tensor x = {{0.0f, 1.0f}, {10.0f, 11.0f}, {20.0f, 21.0f}};
  CHECK(same(embedding(Tensor{{2, 0}, {2, 1}}, x), {{{20.0f, 21.0f}, {0.0f, 1.0f}}, {{20.0f, 21.0f}, {10.0f, 11.0f}}}));
  CHECK(same(embedding(Tensor(1), x), {10.0f, 11.0f}));
  CHECK(embedding(zeros({2, 0}, {.dtype = DType::int64}), x).shape() == Shape{2, 0, 2});
  CHECK(embedding(zeros({0}, {.dtype = DType::int64}), zeros({0, 4})).shape() == Shape{0, 4});
  for (const DType type : {DType::int8, DType::uint8, DType::int16, DType::int64})
    CHECK(same(embedding(Tensor{2, 1}.to(type), x), {{20.0f, 21.0f}, {10.0f, 11.0f}}));
  for (const DType type : {DType::float16, DType::bfloat16, DType::float64})
    CHECK(same(embedding(Tensor{2, 1}, x.to(type)), Tensor{{20.0f, 21.0f}, {10.0f, 11.0f}}.to(type)));
  CHECK(same(embedding(strided(Tensor{{2, 0}, {2, 1}}), strided(x)), embedding(Tensor{{2, 0}, {2, 1}}, x)));
}

TEST_CASE("the gradient of an embedding is held as the rows that were looked up", "[embedding][sparse]") {
  const Tensor x = table(), words = {{3, 7}, {3, 39}};
  const Tensor g = weighed_gradient([&](const Tensor& t) { return embedding(words, t); }, x);
  REQUIRE(has_row_slices(g));
  CHECK(row_slices(g).indices.numel() == 4);
  const Tensor dense =
      weighed_gradient([&](const Tensor& t) { return matmul(one_hot(words, 40, 1, 0, DType::float64), t); }, x);
  CHECK(close(g, dense, tolerance::roundings64));
}

TEST_CASE("the row of the padding index gets no gradient and no slice", "[embedding][sparse]") {
  const Tensor x = table(), words = {3, 7, 3, 39, 7};
  for (const std::int64_t padding : {7, 7 - 40}) {
    const Tensor g =
        weighed_gradient([&](const Tensor& t) { return embedding(words, t, {.padding_index = padding}); }, x);
    REQUIRE(has_row_slices(g));
    CHECK(same(row_slices(g).indices, {std::int64_t{3}, std::int64_t{3}, std::int64_t{39}}));
    const Tensor whole = weighed_gradient([&](const Tensor& t) { return embedding(words, t); }, x);
    CHECK(close(g, index_set(whole, {7}, 0), tolerance::roundings64));
  }
  CHECK(same(embedding(words, x, {.padding_index = 7}), embedding(words, x)));  // its values are the table's
}

TEST_CASE("gradients scaled by frequency are divided by how often their index occurs", "[embedding]") {
  const Tensor x = table(), words = {{3, 7, 3}, {3, 39, 7}};
  const Tensor plain = weighed_gradient([&](const Tensor& t) { return embedding(words, t); }, x);
  const Tensor scaled =
      weighed_gradient([&](const Tensor& t) { return embedding(words, t, {.scale_by_frequency = true}); }, x);
  Tensor counts = ones({40, 1}, {.dtype = DType::float64});
  counts.index_put({3}, 3);
  counts.index_put({7}, 2);
  CHECK(close(scaled, plain / counts, tolerance::roundings64));
}

TEST_CASE("a single index has the gradient of a list of one", "[embedding][sparse]") {
  const Tensor x = table();
  const EmbeddingOptions variants[] = {{}, {.padding_index = 7}, {.padding_index = 3}, {.scale_by_frequency = true}};
  for (const EmbeddingOptions& options : variants) {
    const Tensor one = weighed_gradient([&](const Tensor& t) { return embedding(Tensor(3), t, options); }, x);
    const Tensor list = weighed_gradient([&](const Tensor& t) { return embedding(Tensor{3}, t, options); }, x);
    CHECK(same(one, list));
  }
}

TEST_CASE("gradients of gradients of embeddings leave out the padding too", "[embedding]") {
  const Tensor x = table(), words = {3, 7, 3};
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor y = sum(pow(embedding(words, x, {.padding_index = 7}), 3));
  const Tensor g = inner.gradient(y, x);
  CHECK(close(g, index_set(zeros_like(x), {3}, 6 * square(x[3])), tolerance::roundings64));  // 3 x^2, twice
  CHECK(close(outer.gradient(sum(g), x), index_set(zeros_like(x), {3}, 12 * x[3]), tolerance::roundings64));
}

TEST_CASE("max_norm shortens the rows that are looked up, in the table itself", "[embedding]") {
  const Tensor before = {{3.0, 4.0}, {0.3, 0.4}, {6.0, 8.0}, {0.0, -2.0}};
  const Tensor words = {0, 1, 3, 0};
  const Tensor x = before.copy();
  const Tensor y = embedding(words, x, {.max_norm = 1});
  // 5 becomes 1, 0.5 stays, 2 becomes 1; row 2 was not asked for. PyTorch divides by the norm + 1e-7
  const Tensor expected = {{0.6, 0.8}, {0.3, 0.4}, {6.0, 8.0}, {0.0, -1.0}};
  CHECK(close(x, expected, 1e-7));
  CHECK(same(x[1], before[1]));
  CHECK(same(x[2], before[2]));
  CHECK(same(y, gather(x, words)));
  const std::uint32_t writes = x.version();
  CHECK(same(embedding(words, x, {.max_norm = 1.5}), y));
  CHECK(x.version() == writes);  // nothing was too long

  const Tensor other = before.copy();
  embedding(Tensor{0}, other, {.max_norm = 3.5, .norm = 1});
  CHECK(close(other[0], {1.5, 2.0}, 1e-7));  // |3| + |4| = 7 becomes 3.5
  Parameter trained(before);
  GradientTape tape;
  const Tensor found = embedding(Tensor{2}, trained, {.max_norm = 5});
  CHECK(close(tape.gradient(found, trained), {{0.0, 0.0}, {0.0, 0.0}, {1.0, 1.0}, {0.0, 0.0}}, 1e-12));
  CHECK(close(trained[2], {3.0, 4.0}, 1e-7));
}

// --- bags --------------------------------------------------------------------------------------------------------

TEST_CASE("bags give sums, means and largest values of their rows", "[embedding]") {
  const Tensor x = {{1.0, -1.0}, {2.0, -2.0}, {4.0, -4.0}}, words = {2, 0, 1, 1, 2}, offsets = {0, 2, 2};
  const auto bags = [&](BagMode mode) { return embedding_bag(words, x, {.offsets = offsets, .mode = mode}); };
  CHECK(same(bags(BagMode::sum), {{5.0, -5.0}, {0.0, 0.0}, {8.0, -8.0}}));  // rows 2 0, none, 1 1 2
  CHECK(same(bags(BagMode::mean), {{2.5, -2.5}, {0.0, 0.0}, {8 / 3.0, -8 / 3.0}}));
  CHECK(same(bags(BagMode::max), {{4.0, -1.0}, {0.0, 0.0}, {4.0, -2.0}}));
  CHECK(same(embedding_bag(words, x, {.offsets = offsets}), bags(BagMode::mean)));  // unless said otherwise
  const Tensor grid = {{2, 0}, {1, 1}};
  CHECK(same(embedding_bag(grid, x, {.mode = BagMode::sum}), {{5.0, -5.0}, {4.0, -4.0}}));
  CHECK(same(embedding_bag(grid, x, {.weights = Tensor{{1.0, 2.0}, {0.5, 0.0}}, .mode = BagMode::sum}),
             {{6.0, -6.0}, {1.0, -1.0}}));  // 4 + 2*1 and 0.5*2
  CHECK(same(embedding_bag(zeros({2, 0}, {.dtype = DType::int64}), x), zeros({2, 2}, {.dtype = DType::float64})));
  CHECK(embedding_bag(zeros({0, 3}, {.dtype = DType::int32}), x).shape() == Shape{0, 2});
  const Tensor none = zeros({0}, {.dtype = DType::int32});
  CHECK(embedding_bag(none, x, {.offsets = none}).shape() == Shape{0, 2});
}

TEST_CASE("padding does not count in bags, and the last offset ends the last of them", "[embedding]") {
  const Tensor x = {{1.0}, {2.0}, {4.0}}, words = {2, 0, 1, 1, 2}, offsets = {0, 2, 4};
  const auto bags = [&](BagMode mode, bool last) {
    return embedding_bag(words, x,
                         {.offsets = offsets, .mode = mode, .padding_index = -2, .include_last_offset = last});
  };
  CHECK(same(bags(BagMode::sum, false), {{5.0}, {0.0}, {4.0}}));  // rows 2 0, none but padding, 2
  CHECK(same(bags(BagMode::mean, false), {{2.5}, {0.0}, {4.0}}));
  CHECK(same(bags(BagMode::max, false), {{4.0}, {0.0}, {4.0}}));
  CHECK(same(bags(BagMode::sum, true), {{5.0}, {0.0}}));  // what stands behind the last bag is in none
  CHECK(same(bags(BagMode::max, true), {{4.0}, {0.0}}));
}

TEST_CASE("many bags are what plain loops make of them, with any number of threads", "[embedding]") {
  const Tensor x = random_in(-1, 1, {50, 300}, DType::float64, 402);
  const std::vector<std::int64_t> bounds = {0, 7, 7, 90, 91, 400};
  const Tensor words = randint(0, 50, {400});
  const std::vector<std::int64_t> indices = words.to_vector<std::int64_t>();
  const Tensor offsets = from_vector(std::vector<std::int64_t>(bounds.begin(), bounds.end() - 1));
  const Tensor weights = random_in(-1, 1, {400}, DType::float64, 403);
  for (const int threads : {1, 2, 5}) {
    const ThreadCount count(threads);
    for (const std::int64_t padding : {-1, 17})
      for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
        EmbeddingBagOptions options{.offsets = offsets, .mode = mode};
        if (padding >= 0) options.padding_index = padding;
        const PlainBags plain(indices, {}, bounds, x, padding);
        CHECK(close(embedding_bag(words, x, options), plain.result(mode, 300), tolerance::roundings64));
        CHECK(close(embedding_bag(words, strided(x), options), plain.result(mode, 300), tolerance::roundings64));
      }
    const PlainBags weighed(indices, values(weights), bounds, x, -1);
    CHECK(close(embedding_bag(words, x, {.offsets = offsets, .weights = weights, .mode = BagMode::sum}),
                weighed.result(BagMode::sum, 300), tolerance::roundings64));
  }
}

TEST_CASE("bags of 16-bit tables are added up in double and rounded once", "[embedding]") {
  const Tensor words = zeros({1, 4096}, {.dtype = DType::int32});
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const Tensor x = full({1, 2}, 1, {.dtype = type});
    CHECK(same(embedding_bag(words, x, {.mode = BagMode::sum}), full({1, 2}, 4096, {.dtype = type})));
    CHECK(same(embedding_bag(words, x), full({1, 2}, 1, {.dtype = type})));
  }
}

TEST_CASE("gradients of sums and means of bags are held as row slices", "[embedding][sparse]") {
  const Tensor x = table(), words = {3, 7, 3, 39, 7}, offsets = {0, 2};
  for (const BagMode mode : {BagMode::sum, BagMode::mean})
    for (const bool padded : {false, true}) {
      EmbeddingBagOptions options{.offsets = offsets, .mode = mode};
      if (padded) options.padding_index = 7;
      const Tensor g = weighed_gradient([&](const Tensor& t) { return embedding_bag(words, t, options); }, x);
      REQUIRE(has_row_slices(g));
      CHECK(row_slices(g).indices.numel() == (padded ? 3 : 5));
      const auto by_segments = [&](const Tensor& t) {
        const Tensor bags = padded ? Tensor{0, -1, 1, 1, -1} : Tensor{0, 0, 1, 1, 1};
        const Tensor rows = matmul(one_hot(words, 40, 1, 0, DType::float64), t);
        return mode == BagMode::sum ? segment_sum(rows, bags, 2) : segment_mean(rows, bags, 2);
      };
      CHECK(close(g, weighed_gradient(by_segments, x), tolerance::roundings64));
    }
}

TEST_CASE("bags scale gradients by frequency and shorten rows like embeddings", "[embedding]") {
  const Tensor x = table(), words = {{3, 7, 3}, {3, 39, 7}};
  const auto gradient = [&](bool scaled) {
    return weighed_gradient(
        [&](const Tensor& t) { return embedding_bag(words, t, {.mode = BagMode::sum, .scale_by_frequency = scaled}); },
        x);
  };
  Tensor counts = ones({40, 1}, {.dtype = DType::float64});
  counts.index_put({3}, 3);
  counts.index_put({7}, 2);
  CHECK(close(gradient(true), gradient(false) / counts, tolerance::roundings64));

  const Tensor rows = {{3.0, 4.0}, {6.0, 8.0}};
  CHECK(close(embedding_bag(Tensor{{0, 0}}, rows, {.mode = BagMode::sum, .max_norm = 1}), {{1.2, 1.6}}, 1e-7));
  CHECK(close(rows, {{0.6, 0.8}, {6.0, 8.0}}, 1e-7));
}

// --- modules -----------------------------------------------------------------------------------------------------

TEST_CASE("embedding modules look up rows of a table that is learned", "[embedding][nn]") {
  struct Model {
    nn::Embedding embed{10000, 200};
    nn::EmbeddingBag bags{{.count = 20, .size = 3, .mode = BagMode::sum, .padding_index = -1}};
  } model;
  CHECK(model.embed.weight.shape() == Shape{10000, 200});
  CHECK(number(max(abs(model.embed.weight))) <= 0.05 + 1e-9);  // in float32
  CHECK(number(max(abs(model.embed.weight))) > 0.0499);
  CHECK(same(model.embed(Tensor{{1, 2}}), gather(model.embed.weight, Tensor{{1, 2}})));
  CHECK(same(model.bags.weight[19], zeros({3})));  // the padding
  CHECK(nn::named_parameters(model)[1].name == "bags.weight");

  Rng rng(1);
  const nn::Embedding custom(
      {.count = 5, .size = 2, .padding_index = 0, .weight_init = nn::init::ones(), .dtype = DType::float64}, rng);
  CHECK(same(custom.weight, {{0.0, 0.0}, {1.0, 1.0}, {1.0, 1.0}, {1.0, 1.0}, {1.0, 1.0}}));

  const Tensor words = {3, 1, 19, 4}, offsets = {0, 2}, factors = {1.0f, 2.0f, 3.0f, 4.0f};
  const Tensor& w = model.bags.weight;
  CHECK(close(model.bags(words, offsets), stack({w[3] + w[1], w[4]}), tolerance::roundings32));
  CHECK(close(model.bags(words, offsets, factors), stack({w[3] + 2 * w[1], 4 * w[4]}), tolerance::roundings32));
  CHECK(close(model.bags(Tensor{{3, 1}}), expand_dims(w[3] + w[1], 0), tolerance::roundings32));
}

TEST_CASE("training a table leaves the rows that were not looked up, and the padding, alone", "[embedding][nn]") {
  nn::Embedding embed{{.count = 30, .size = 4, .padding_index = 0}};
  const Tensor before = embed.weight.copy();
  optim::Sgd sgd(nn::parameters(embed), {.learning_rate = 0.1});
  GradientTape tape;
  const Tensor loss = sum(square(embed(Tensor{{5, 0}, {7, 5}}) - 1));
  const std::vector<Tensor> gradients = tape.gradient(loss, sgd.parameters());
  CHECK(has_row_slices(gradients.at(0)));
  sgd.apply(gradients);
  for (int row = 0; row < 30; ++row) {
    INFO("row " << row);
    CHECK(array_equal(embed.weight[row], before[row]) == (row != 5 && row != 7));
  }
}
