// Recurrent sequences of inputs that `embedding` looked up: results are those of inputs that come from elsewhere, bit for
// bit where all rows have all steps; gradients are, but for roundings.
#include <string>

#include <capstan/debug.hpp>
#include <capstan/ops/embedding.hpp>

#include "autograd/embedding.hpp"
#include "tests/recurrent_use.hpp"

using namespace capstan;
using namespace tests;
using core::RecurrentKind;

namespace {

using Tensors = std::vector<Tensor>;

struct Words {
  std::int64_t rows;  // of the table
  EmbeddingOptions options = {};
  DType type = DType::int64;
};

/// In the order of x, any but the last row of the table.
Tensor ids_for(const RecurrentUse& use, const Words& words) {
  const Shape shape = use.time_major ? Shape{use.time, use.batch} : Shape{use.batch, use.time};
  const Tensor ids = floor(random_in(0, static_cast<double>(words.rows - 1), shape, DType::float64, 77));
  return minimum(ids, std::max<double>(0, static_cast<double>(words.rows - 2))).to(words.type);
}

/// Operands whose first one is a table for x.
Tensors with_table(Tensors operands, const RecurrentUse& use, const Words& words) {
  operands[0] = random_in(-1, 1, {words.rows, use.inputs}, use.dtype, 33);
  return operands;
}

/// The results, then the gradients for the table and all other operands. `known`: it shows where x comes from.
Tensors run_looked_up(RecurrentRun run, const RecurrentUse& use, const Tensors& operands, const Words& words,
                      bool known) {
  const Tensor ids = ids_for(use, words);
  const Tensors sources = existing(operands);
  GradientTape tape;
  for (const Tensor& source : sources) tape.watch(source);
  Tensors o = operands;
  o[0] = embedding(ids, operands[0], words.options);
  CHECK(autograd::looked_up(o[0], words.rows, Where::current()).rows == words.rows);
  if (!known) o[0] = o[0] + 0;
  Tensors list = run(use, o);
  const Tensors gradients = tape.gradient(list, sources, recurrent_weights(list), Unconnected::zeros);
  list.insert(list.end(), gradients.begin(), gradients.end());
  return list;
}

void check_looked_up(RecurrentRun run, const RecurrentUse& use, const Tensors& plain, const Words& words,
                     double allowed = tolerance::roundings64) {
  INFO(use.text() << ", a table of " << words.rows << " rows");
  const Tensors operands = with_table(plain, use, words);
  const Tensors actual = run_looked_up(run, use, operands, words, true);
  const Tensors expected = run_looked_up(run, use, operands, words, false);
  const std::size_t results = expected.size() - existing(operands).size();
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("number " << i << " of results and gradients");
    if (i < results && use.lengths.empty()) CHECK(same(actual[i], expected[i]));
    else CHECK(close(actual[i], expected[i], allowed));
  }
}

/// Of few rows, of few rows that have units enough for all threads, and of many rows. (All lines together, or where steps
/// multiply their inputs all rows, are even: a last one by itself would be added up in another order.)
const RecurrentUse kSizes[] = {{.batch = 3, .time = 8, .inputs = 5, .hidden = 7},
                               {.batch = 20, .time = 6, .inputs = 90, .hidden = 130},
                               {.batch = 64, .time = 5, .inputs = 30, .hidden = 50},
                               {.batch = 51, .time = 4, .inputs = 80, .hidden = 20}};

}  // namespace

TEST_CASE("recurrent sequences of inputs that were looked up give what those of others give",
          "[recurrent][embedding]") {
  for (const RecurrentUse& size : kSizes)
    for (const RecurrentUse& use : recurrent_uses(size))
      if (!use.cell)
        for (const std::int64_t rows : {1, 2, 7, 12})
          check_looked_up(run_recurrent, use, recurrent_operands(use), {rows});
}

TEST_CASE("they do with more lines and rows than are put in order at once, and with an odd number of rows",
          "[recurrent][embedding]") {
  for (RecurrentUse use : {RecurrentUse{.batch = 64, .time = 20, .inputs = 6, .hidden = 8},
                           RecurrentUse{.batch = 10, .time = 130, .inputs = 70, .hidden = 9}})
    for (const std::int64_t rows : {40, 513, 600}) check_looked_up(run_recurrent, use, recurrent_operands(use), {rows});
  RecurrentUse odd{.batch = 25, .time = 4, .inputs = 6, .hidden = 8};
  odd.lengths = ragged_lengths(odd.batch, odd.time);
  check_looked_up(run_recurrent, odd, recurrent_operands(odd), {5});
}

TEST_CASE("of a table and weights each gets its gradient alone, too", "[recurrent][embedding]") {
  const RecurrentUse use{.batch = 16, .time = 4, .inputs = 5, .hidden = 5};
  const Words words{6};
  const Tensors o = with_table(recurrent_operands(use), use, words);
  const Tensor ids = ids_for(use, words);
  const Tensors all = existing(o);
  const auto gradients = [&](const Tensors& sources) {
    GradientTape tape;
    tape.watch(o[0]);  // or the tape would not see the lookup
    for (const Tensor& source : all) tape.watch(source);
    Tensors operands = o;
    operands[0] = embedding(ids, o[0]);
    return tape.gradient(sum(square(run_recurrent(use, operands)[0])), sources);
  };
  const Tensors expected = gradients(all);
  for (std::size_t i = 0; i < all.size(); ++i) check_close(gradients({all[i]}), {expected[i]});
}

TEST_CASE("rows without any steps pass nothing on to a table", "[recurrent][embedding]") {
  RecurrentUse use{.batch = 12, .time = 3, .inputs = 4, .hidden = 5};
  use.lengths.assign(12, 0);
  const Tensors o = with_table(recurrent_operands(use), use, {4});
  GradientTape tape;
  tape.watch(o[0]);
  Tensors operands = o;
  operands[0] = embedding(ids_for(use, {4}), o[0]);
  const Tensor total = sum(run_recurrent(use, operands)[0]) + sum(o[0]) * 0;
  CHECK(same(tape.gradient(total, o[0]), zeros_like(o[0])));
}

TEST_CASE("they do in float32, by any number of threads", "[recurrent][embedding][threads]") {
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    for (RecurrentUse size : kSizes) {
      size.dtype = DType::float32;
      for (const RecurrentUse& use : recurrent_uses(size))
        if (!use.cell) check_looked_up(run_recurrent, use, recurrent_operands(use), {11}, tolerance::sequence32);
    }
  }
}

TEST_CASE("they do in both directions", "[recurrent][embedding][threads]") {
  for (const int threads : {1, 2}) {
    const ThreadCount count(threads);
    for (const RecurrentKind kind : {RecurrentKind::lstm, RecurrentKind::gru})
      for (RecurrentUse use : kSizes)
        for (const bool ragged : {false, true}) {
          use.kind = kind;
          if (ragged) use.lengths = ragged_lengths(use.batch, use.time), use.time_major = true;
          check_looked_up(run_both_directions, use, both_operands(use), {9});
        }
  }
}

TEST_CASE("they do with every option of an embedding", "[recurrent][embedding]") {
  const RecurrentUse use{.batch = 30, .time = 4, .inputs = 6, .hidden = 9};
  for (const DType type : {DType::int64, DType::int32, DType::uint8})
    for (const EmbeddingOptions& options : std::initializer_list<EmbeddingOptions>{
             {}, {.padding_index = 3}, {.padding_index = -7}, {.scale_by_frequency = true}, {.max_norm = 0.5}})
      check_looked_up(run_recurrent, use, recurrent_operands(use), {10, options, type});
}

TEST_CASE("a table that is used elsewhere too, and inputs that are, get the gradients of all",
          "[recurrent][embedding]") {
  const RecurrentUse use{.batch = 16, .time = 4, .inputs = 5, .hidden = 5};
  const Words words{6};
  const Tensors o = with_table(recurrent_operands(use), use, words);
  const Tensor ids = ids_for(use, words);
  const auto gradients = [&](bool known, bool of_inputs) {
    GradientTape tape;
    tape.watch(o[0]);
    Tensors operands = o;
    const Tensor x = embedding(ids, o[0]);
    operands[0] = known ? x : x + 0;
    const Tensor more = sum(square(x)) + sum(pow(o[0], 3)) + sum(square(embedding(ids, o[0])));
    const Tensor target = sum(run_recurrent(use, operands)[0]) + sum(square(run_recurrent(use, operands)[1])) + more;
    return of_inputs ? tape.gradient(target, {o[0], x}) : tape.gradient(target, {o[0]});
  };
  const Tensors expected = gradients(false, true);
  check_close(gradients(true, true), expected);
  check_close(gradients(true, false), {expected[0]});
}

TEST_CASE("gradients of looked up inputs go to whoever asks for them", "[recurrent][embedding]") {
  const RecurrentUse use{.batch = 16, .time = 4, .inputs = 5, .hidden = 5};
  const Words words{6};
  const Tensors o = with_table(recurrent_operands(use), use, words);
  const Tensor ids = ids_for(use, words);
  const auto run = [&](GradientTape& tape, Tensor& x) {
    tape.watch(o[0]);
    Tensors operands = o;
    operands[0] = x = embedding(ids, o[0]);
    return sum(square(run_recurrent(use, operands)[0]));
  };
  Tensor x;
  GradientTape plain;
  const Tensor target = run(plain, x);
  const Tensor of_table = plain.gradient(target, o[0]);

  GradientTape asked;
  const Tensor again = run(asked, x);
  const Tensor of_x = asked.gradient(again, x);
  CHECK(close(segment_sum(of_x, ids, words.rows), of_table, tolerance::roundings64));

  GradientTape hooked;
  const Tensor hooked_target = run(hooked, x);
  hooked.on_gradient(x, [](const Tensor& gradient) { return 2 * gradient; });
  CHECK(close(hooked.gradient(hooked_target, o[0]), 2 * of_table, tolerance::roundings64));

  GradientTape observed;
  const Tensor observed_target = run(observed, x);
  int lookups = 0;
  {
    const debug::Observer observer(
        [&](const debug::Operation& op) { lookups += op.backward && std::string(op.name) == "embedding"; });
    CHECK(close(observed.gradient(observed_target, o[0]), of_table, tolerance::roundings64));
  }
  CHECK(lookups == 1);

  GradientTape persistent{{.persistent = true}};
  const Tensor twice = run(persistent, x);
  const Tensor once = persistent.gradient(twice, o[0]);
  CHECK(same(persistent.gradient(twice, o[0]), once));
  CHECK(close(persistent.gradient(twice, x), of_x, tolerance::roundings64));
  CHECK(close(once, of_table, tolerance::roundings64));

  GradientTape outer;
  outer.watch(o[0]);
  GradientTape inner;
  const Tensor inside = run(inner, x);
  const Tensor first = inner.gradient(inside, o[0]);
  CHECK(close(first, of_table, tolerance::roundings64));
  CHECK(outer.gradient(sum(square(first)), o[0]).defined());
}

TEST_CASE("inputs that were written to after they had been looked up are taken as they are", "[recurrent][embedding]") {
  const RecurrentUse use{.batch = 8, .time = 4, .inputs = 3, .hidden = 4};
  const Words words{5};
  const Tensors o = with_table(recurrent_operands(use), use, words);
  const Tensor ids = ids_for(use, words);
  GradientTape tape;
  tape.watch(o[0]);
  const auto run = [&](const Tensor& x) {
    Tensors operands = o;
    operands[0] = x;
    return run_recurrent(use, operands);
  };
  const auto known = [](const Tensor& x) { return autograd::looked_up(x, 1000, Where::current()).index.defined(); };
  const Tensor x = embedding(ids, o[0]);
  CHECK(known(x));
  CHECK_FALSE(known(x + 0));
  CHECK_FALSE(known(x.copy()));
  CHECK_FALSE(known(o[0]));
  {
    const NoGrad off;
    CHECK_FALSE(known(x));  // no tape listens
    Tensor written = x;
    written.index_put({0}, 7.0);
  }
  CHECK_FALSE(known(x));
  check_same(run(x), run(x.copy()));

  Tensor changing = ids.copy();
  const Tensor y = embedding(changing, o[0]);
  changing.fill(1);
  CHECK_FALSE(known(y));
  check_same(run(y), run(y + 0));
}

TEST_CASE("an index that was overwritten behind the library's back is an error, no access out of range",
          "[recurrent][embedding][host]") {
  const RecurrentUse use{.batch = 4, .time = 3, .inputs = 3, .hidden = 4};
  const Tensors o = with_table(recurrent_operands(use), use, {5});
  for (const std::int64_t wrong : {-1, 5}) {
    std::vector<std::int64_t> memory(12, 1);
    const Tensor ids = from_memory(memory.data(), {4, 3});
    GradientTape tape;
    tape.watch(o[0]);
    Tensors operands = o;
    operands[0] = embedding(ids, o[0]);
    memory[7] = wrong;
    CHECK(message_of<IndexError>([&] { run_recurrent(use, operands); }).find("the table has 5 rows") !=
          std::string::npos);
  }
}

TEST_CASE("numbers that are not finite spread as they do without a lookup", "[recurrent][embedding]") {
  const RecurrentUse use{.batch = 24, .time = 3, .inputs = 4, .hidden = 6};
  const Words words{8};
  for (const double bad : {kNaN, kInfinity}) {
    Tensors o = with_table(recurrent_operands(use), use, words);
    o[0].index_put({7}, bad);  // which no line has
    const Tensors actual = run_looked_up(run_recurrent, use, o, words, true);
    for (const Tensor& one : actual) CHECK(all_of(isfinite(one)).item<bool>());
    o[0].index_put({2}, bad);
    const Tensors bad_ones = run_looked_up(run_recurrent, use, o, words, true);
    const Tensors expected = run_looked_up(run_recurrent, use, o, words, false);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same(isfinite(bad_ones[i]), isfinite(expected[i])));
  }
}
