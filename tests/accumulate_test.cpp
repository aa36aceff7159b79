// Gradients of micro-batches add up to that of the large batch; operations on lists.
#include "tests/support.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

struct Net {
  nn::Linear first{4, 5, {.dtype = DType::float64}}, second{5, 3, {.dtype = DType::float64}};
  Tensor operator()(const Tensor& x) { return second(tanh(first(x))); }
};

Tensors gradients_of(Net& net, const Tensor& x, const Tensor& labels, bool mean_loss) {
  GradientTape tape;
  const Tensor losses = sparse_softmax_cross_entropy(net(x), labels);
  return tape.gradient(mean_loss ? mean(losses) : sum(losses), nn::parameters(net));
}

/// Rows of a table of 10: a gradient held as slices.
Tensor slices(const std::vector<std::int64_t>& rows, double value, DType dtype = DType::float64) {
  const auto count = static_cast<std::int64_t>(rows.size());
  return from_row_slices({from_vector(rows), full({count, 2}, value, {dtype})}, {10, 2});
}
/// The same, whole.
Tensor dense(const std::vector<std::int64_t>& rows, double value, DType dtype = DType::float64) {
  Tensor x = zeros({10, 2}, {dtype});
  for (const std::int64_t row : rows) x.index_put({row, all}, x[row] + value);
  return x;
}

}  // namespace

TEST_CASE("micro-batches give the gradient of the large batch", "[accumulate]") {
  Net net;
  const Tensor x = random_in(-1, 1, {12, 4}, DType::float64, 421), labels = random_in(0, 3, {12}, DType::int64, 422);
  for (const bool mean_loss : {true, false}) {
    const Tensors expected = gradients_of(net, x, labels, mean_loss);
    optim::GradientAccumulator accumulator({.batches = 4, .mean = mean_loss});
    for (std::int64_t i = 0; i < 4; ++i) {
      CHECK_FALSE(accumulator.ready());
      accumulator.add(gradients_of(net, narrow(x, 0, 3 * i, 3), narrow(labels, 0, 3 * i, 3), mean_loss));
    }
    CHECK(accumulator.ready());
    const Tensors actual = accumulator.take();
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) CHECK(close(actual[i], expected[i], tolerance::roundings64));
    CHECK_FALSE(accumulator.ready());
  }
}

TEST_CASE("training by micro-batches takes the steps of large batches", "[accumulate]") {
  Net large;
  Net small = large;
  optim::Adam adam_large(nn::parameters(large), {.learning_rate = 0.01});
  optim::Adam adam_small(nn::parameters(small), {.learning_rate = 0.01});
  const Tensor x = random_in(-1, 1, {8, 4}, DType::float64, 423), labels = random_in(0, 3, {8}, DType::int64, 424);
  optim::GradientAccumulator accumulator({.batches = 2});
  for (int step = 0; step < 5; ++step) {
    adam_large.apply(gradients_of(large, x, labels, true));
    for (std::int64_t i = 0; i < 2; ++i)
      accumulator.add(gradients_of(small, narrow(x, 0, 4 * i, 4), narrow(labels, 0, 4 * i, 4), true));
    adam_small.apply(accumulator.take());
  }
  CHECK(close(small.first.weight, large.first.weight, 1e-10));
  CHECK(close(small.second.bias, large.second.bias, 1e-10));
}

TEST_CASE("the mean is over what was added, more or less than asked for", "[accumulate]") {
  optim::GradientAccumulator accumulator({.batches = 2});
  accumulator.add({Tensor{6.0}});
  CHECK(accumulator.added() == 1);
  CHECK(same(accumulator.take()[0], {6.0}));
  for (const double value : {3.0, 6.0, 12.0}) accumulator.add({Tensor{value}});
  CHECK(accumulator.ready());
  CHECK(same(accumulator.take()[0], {7.0}));  // 21 / 3
  accumulator.add({Tensor{1.0}});
  accumulator.reset();
  CHECK(accumulator.added() == 0);
  accumulator.add({Tensor{1.0, 2.0}, Tensor{3.0}});  // other shapes, and another number of them
  CHECK(same(accumulator.take()[1], {3.0}));
}

TEST_CASE("undefined gradients add nothing", "[accumulate]") {
  optim::GradientAccumulator accumulator({.batches = 3, .mean = false});
  accumulator.add({Tensor(), Tensor{1.0}, Tensor()});
  accumulator.add({Tensor{2.0}, Tensor(), Tensor()});
  accumulator.add({Tensor{3.0}, Tensor{4.0}, Tensor()});
  const Tensors sums = accumulator.take();
  CHECK(same(sums[0], {5.0}));
  CHECK(same(sums[1], {5.0}));
  CHECK_FALSE(sums[2].defined());
}

TEST_CASE("the caller's gradients stay as they are, and those handed over are added to in place", "[accumulate]") {
  const Tensor mine = {1.0, 2.0};
  optim::GradientAccumulator accumulator({.batches = 2, .mean = false});
  accumulator.add({mine});
  accumulator.add({mine});
  CHECK(same(accumulator.take()[0], {2.0, 4.0}));
  CHECK(same(mine, {1.0, 2.0}));

  Tensors list;
  list.push_back(Tensor{1.0, 2.0});
  const double* const place = list[0].data<double>();
  accumulator.add(std::move(list));
  accumulator.add({Tensor{10.0, 20.0}});
  const Tensors sums = accumulator.take();
  CHECK(same(sums[0], {11.0, 22.0}));
  CHECK(sums[0].data<double>() == place);
}

TEST_CASE("row slices stay slices while they are few", "[accumulate][sparse]") {
  optim::GradientAccumulator accumulator({.batches = 2});
  accumulator.add({slices({3, 7, 3}, 2)});
  accumulator.add({slices({7, 1}, 4)});
  const Tensors few = accumulator.take();
  REQUIRE(has_row_slices(few[0]));
  CHECK(row_slices(few[0]).indices.numel() == 5);
  CHECK(same(few[0], (dense({3, 7, 3}, 2) + dense({7, 1}, 4)) / 2));

  for (int i = 0; i < 4; ++i) accumulator.add({slices({i, 5, 6}, 1)});  // 12 slices of 10 rows
  const Tensors many = accumulator.take();
  CHECK_FALSE(has_row_slices(many[0]));
  CHECK(same(many[0], (dense({0, 5, 6}, 1) + dense({1, 5, 6}, 1) + dense({2, 5, 6}, 1) + dense({3, 5, 6}, 1)) / 4));
}

TEST_CASE("row slices beside whole gradients become whole", "[accumulate][sparse]") {
  const Tensor all_ones = ones({10, 2}, {DType::float64}), expected = all_ones + dense({3, 7, 3}, 2);
  for (const bool slices_first : {true, false}) {
    const Tensor rows = slices({3, 7, 3}, 2);
    optim::GradientAccumulator accumulator({.batches = 2, .mean = false});
    accumulator.add({slices_first ? rows : all_ones});
    accumulator.add({slices_first ? all_ones : rows});
    const Tensors sums = accumulator.take();
    CHECK_FALSE(has_row_slices(sums[0]));
    CHECK(same(sums[0], expected));
    CHECK(has_row_slices(rows));
    CHECK(same(all_ones, ones({10, 2}, {DType::float64})));
  }
}

TEST_CASE("16-bit gradients are added up in float32 and rounded once", "[accumulate][half]") {
  optim::GradientAccumulator accumulator({.batches = 9, .mean = false});
  accumulator.add({Tensor{2048.0f}.to(DType::float16), slices({1}, 2048, DType::float16)});
  // 2048 + 1 is 2048 in float16, whose numbers are 2 apart there
  for (int i = 0; i < 8; ++i) accumulator.add({Tensor{1.0f}.to(DType::float16), slices({1}, 1, DType::float16)});
  const Tensors sums = accumulator.take();
  CHECK(same(sums[0], Tensor{2056.0f}.to(DType::float16)));
  CHECK(same(sums[1], dense({1}, 2056, DType::float16)));
}

TEST_CASE("sums are still there if memory runs out while they are taken", "[accumulate][half][host][errors]") {
  optim::GradientAccumulator accumulator({.batches = 2});
  for (const double value : {1.0, 3.0})
    accumulator.add({full({4}, value), full({512, 512}, value, {DType::bfloat16}), slices({1}, value, DType::float16)});
  memory::release_cache();
  memory::set_limit(cpu(), memory::stats().reserved + 1);
  CHECK_THROWS_AS(accumulator.take(), OutOfMemoryError);
  memory::set_limit(cpu(), 0);
  CHECK(accumulator.ready());
  const Tensors means = accumulator.take();
  CHECK(same(means[0], full({4}, 2.0)));  // (1 + 3) / 2
  CHECK(same(means[1], full({512, 512}, 2.0, {DType::bfloat16})));
  CHECK(same(means[2], dense({1}, 2, DType::float16)));
}

TEST_CASE("a mean of 16-bit gradients is rounded once whether they are slices or not", "[accumulate][half]") {
  optim::GradientAccumulator accumulator({.batches = 7});
  for (int i = 0; i < 7; ++i) {
    const double value = i < 6 ? 1500 : 565.5;
    accumulator.add({full({4}, value, {DType::float16}), slices({1}, value, DType::float16)});
  }
  const Tensors means = accumulator.take();  // 1366.5, which float32 would make a little more
  CHECK(same(means[0], full({4}, 1366, {DType::float16})));
  CHECK(same(means[1], dense({1}, 1366, DType::float16)));
}

TEST_CASE("accumulated gradients belong to whoever takes them", "[accumulate]") {
  optim::GradientAccumulator accumulator;
  accumulator.add({Tensor{1.0}});
  Tensors first = accumulator.take();
  accumulator.add({Tensor{5.0}});
  first[0].fill(-1);
  CHECK(same(accumulator.take()[0], {5.0}));

  optim::GradientAccumulator one({.batches = 2, .mean = false});
  one.add({Tensor{1.0}});
  optim::GradientAccumulator two = one;  // shares the sum so far
  one.add({Tensor{10.0}});
  two.add({Tensor{100.0}});
  CHECK(same(one.take()[0], {11.0}));
  CHECK(same(two.take()[0], {101.0}));
}

TEST_CASE("a tape that follows gradients follows their sum", "[accumulate][tape]") {
  const Tensor x = {2.0, 3.0};
  GradientTape tape;
  tape.watch(x);
  optim::GradientAccumulator accumulator({.batches = 2});
  accumulator.add({x * x});
  accumulator.add({x * 4});
  CHECK(same(tape.gradient(accumulator.take()[0], x), {4.0, 5.0}));  // (2x + 4) / 2
}

TEST_CASE("an accumulator goes on from a saved state, bit for bit", "[accumulate][half][sparse]") {
  const auto gradients = [](double value) {
    return Tensors{Tensor{value, 0.1}, Tensor(), slices({3, 7, 3}, value), Tensor{1.0f}.to(DType::float16)};
  };
  const std::vector<double> added = {0.1, 0.2, 0.3};
  for (std::size_t before = 0; before <= 3; ++before) {
    INFO("behind " << before);
    optim::GradientAccumulator whole({.batches = 3}), first({.batches = 3}), second({.batches = 3});
    second.add({Tensor{7.0}});  // goes
    for (const double value : added) whole.add(gradients(value));
    for (std::size_t i = 0; i < before; ++i) first.add(gradients(added[i]));
    const std::vector<NamedTensor> state = first.state();
    if (before < 3) first.add(gradients(100));  // is no part of the state
    second.load_state(state);
    CHECK(second.added() == static_cast<std::int64_t>(before));
    for (std::size_t i = before; i < 3; ++i) second.add(gradients(added[i]));
    const Tensors expected = whole.take(), actual = second.take();
    REQUIRE(actual.size() == 4);
    CHECK(has_row_slices(actual[2]) == has_row_slices(expected[2]));
    CHECK_FALSE(actual[1].defined());
    for (const std::size_t i : {0, 2, 3}) CHECK(same(actual[i], expected[i]));
  }
}

TEST_CASE("the state of an accumulator has the entries that it promises", "[accumulate]") {
  optim::GradientAccumulator accumulator({.batches = 2});
  const auto names = [&] {
    std::vector<std::string> list;
    for (const NamedTensor& entry : accumulator.state()) list.push_back(entry.name);
    return list;
  };
  CHECK(names() == std::vector<std::string>{"added"});
  accumulator.add({Tensor{1.0}, Tensor(), slices({1}, 2)});
  CHECK(names() == std::vector<std::string>{"added", "type.0", "total.0", "type.1", "type.2", "total.2.indices",
                                            "total.2.values", "total.2.shape"});
}

TEST_CASE("a state that no accumulator gives is an error, and nothing changes", "[accumulate][errors]") {
  optim::GradientAccumulator accumulator({.batches = 2, .mean = false});
  accumulator.add({Tensor{5.0}});
  const auto load = [&](std::vector<NamedTensor> state) {
    return split_message(message_of<Error>([&] { accumulator.load_state(state); })).text;
  };
  const std::string op = "GradientAccumulator::load_state: ";
  const Tensor one = Tensor(std::int64_t{1}), real = zeros({0}, {DType::float64}), total = Tensor{2.0};
  CHECK(load({}) == op + "the state has no \"added\"; it must be one that state() gave.");
  CHECK(load({{"added", Tensor(std::int64_t{-1})}}) == op + "\"added\" is -1; it must be >= 0.");
  CHECK(load({{"added", one}, {"extra", one}}) == op + "\"extra\" is in the state and not in this optimizer.");
  CHECK(load({{"added", one}, {"type.0", zeros({0}, {DType::int64})}}) ==
        op + "\"type.0\" is int64 [0]; it must be of a floating type and shape [0].");
  CHECK(load({{"added", one}, {"type.0", total}}) ==
        op + "\"type.0\" is float64 [1]; it must be of a floating type and shape [0].");
  CHECK(load({{"added", one}, {"type.0", real}, {"total.0", Tensor{2.0f}}}) ==
        op + "\"total.0\" is float32 [1]; it must be of the gradient's type, or float32 for 16 bits.");
  CHECK(load({{"added", one}, {"type.0", real}, {"total.0.indices", arange(2)}}) ==
        op + "\"total.0.indices\" stands without \".values\" or \".shape\"; row slices have all three.");
  CHECK(load({{"added", one},
              {"type.0", real},
              {"total.0.indices", arange(1)},
              {"total.0.values", Tensor{2.0}},
              {"total.0.shape", total}}) == op + "\"total.0.shape\" is float64 [1]; it must be int64 [axes].");
  CHECK(same(accumulator.take()[0], {5.0}));
}

// --- lists -----------------------------------------------------------------------------------------------------

TEST_CASE("scaling a list says whether all of it was finite", "[lists]") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor x = Tensor{1.0, -2.0, 4.0}.to(dtype);
    const ScaledResult good = scale_each({x, Tensor(), Tensor{0.5f}}, 0.5);
    CHECK(good.finite);
    CHECK(same(good.tensors[0], Tensor{0.5, -1.0, 2.0}.to(dtype)));
    CHECK_FALSE(good.tensors[1].defined());
    CHECK(same(good.tensors[2], {0.25f}));
    for (const double bad : {kNaN, kInfinity, -kInfinity})
      for (const std::int64_t place : {0, 4095, 4096, 69999}) {
        Tensor large = ones({70000}, {dtype});
        large.index_put({place}, bad);
        CHECK_FALSE(scale_each({x, large}, 0.5).finite);
      }
  }
  CHECK(scale_each({}, 2).finite);
  CHECK(scale_each({zeros({0})}, 2).finite);
  const ScaledResult rows = scale_each({slices({3, 7, 3}, 2)}, 0.5);
  REQUIRE(has_row_slices(rows.tensors[0]));
  CHECK(same(rows.tensors[0], dense({3, 7, 3}, 1)));
  CHECK_FALSE(scale_each({slices({3}, kNaN)}, 0.5).finite);
  // factors that float32 has not
  CHECK(same(scale_each({Tensor{1e-10f}}, 1e39).tensors[0], {1e29f}));
  CHECK(same(scale_each({Tensor{1e30f}}, 1e-46).tensors[0], {1e-16f}));
  CHECK(same(scale_each({Tensor{5.0f}}, 1.0 / 3).tensors[0], {1.6666666f}));  // and 1.6666667 by a factor of float32
}

TEST_CASE("the gradient of scaling a list can be taken once more, by factors that float32 has not too",
          "[lists][tape]") {
  const Tensor x = {1e-30f, 2e-30f}, small = {1e-30f, 1e-30f};
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor y = scale_each({x}, 1e39).tensors[0];
  const Tensor slope = inner.gradient(y * y, x, {.output_gradient = small});  // 2e48 x
  CHECK(close(slope, {2e18f, 4e18f}, tolerance::roundings32));
  CHECK(close(outer.gradient(slope, x, {.output_gradient = small}), {2e18f, 2e18f}, tolerance::roundings32));
}

TEST_CASE("blending goes a share of the way, exactly there for a weight of 1", "[lists]") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensors averages = {Tensor{0.0, 8.0}.to(dtype), Tensor{1, 2}};
    const Tensors values = {strided(Tensor{4.0, -8.0}.to(dtype)), Tensor{7, 8}};
    blend_each(averages, values, 0.25);
    CHECK(same(averages[0], Tensor{1.0, 4.0}.to(dtype)));
    CHECK(same(averages[1], {7, 8}));  // integers follow
    CHECK(averages[0].version() == 1u);
    blend_each(averages, values, 1);
    CHECK(same(averages[0], values[0]));
  }
  const Tensors lost = {Tensor{kNaN, kInfinity}}, found = {Tensor{1.0, 2.0}};
  blend_each(lost, found, 1);
  CHECK(same(lost[0], {1.0, 2.0}));
  const Tensors far = {Tensor{kInfinity, -kInfinity, kInfinity}}, too = {Tensor{kInfinity, -kInfinity, 1.0}};
  blend_each(far, too, 0.5);
  CHECK(same(far[0], {kInfinity, -kInfinity, kNaN}));
  const Tensors equal_ones = {full({100}, 0.1f)}, same_ones = {full({100}, 0.1f)};
  for (int i = 0; i < 100; ++i) blend_each(equal_ones, same_ones, 1e-3);
  CHECK(same(equal_ones[0], same_ones[0]));
}

TEST_CASE("values that are views of averages count as they were before the blending", "[lists]") {
  const Tensor a = {0.0, 4.0}, b = {8.0, -4.0}, c = {2.0, 2.0};
  const auto view_of = [](const Tensor& x) { return reshape(reshape(x, {2, 1}), {2}); };
  blend_each(Tensors{a, b, c}, Tensors{view_of(b), view_of(a), a}, 0.25);
  CHECK(same(a, {2.0, 2.0}));   // 0 + (8 - 0) / 4, 4 + (-4 - 4) / 4
  CHECK(same(b, {6.0, -2.0}));  // 8 + (0 - 8) / 4, -4 + (4 + 4) / 4
  CHECK(same(c, {1.5, 2.5}));   // 2 + (0 - 2) / 4, 2 + (4 - 2) / 4
}

TEST_CASE("so do values in borrowed memory that averages borrow, too", "[lists][host]") {
  double memory[3] = {0, 4, 8};
  const Tensor first = from_memory(memory, {2}), last = from_memory(memory + 1, {2}), a = {2.0, 2.0};
  blend_each(Tensors{first, a}, Tensors{Tensor{8.0, 8.0}, last}, 0.5);
  CHECK(same(first, {4.0, 6.0}));
  CHECK(same(a, {3.0, 5.0}));  // 2 + (4 - 2) / 2, 2 + (8 - 2) / 2
}

TEST_CASE("exchanged tensors have each other's elements", "[lists]") {
  const Tensor a = random_in(-1, 1, {5000}, DType::float64, 425), b = random_in(-1, 1, {5000}, DType::float64, 426);
  const Tensor x = a.copy(), y = b.copy();
  const Tensors left = {x, Tensor{1, 2}, Tensor{true}, zeros({0})},
                right = {y, Tensor{3, 4}, Tensor{false}, zeros({0})};
  exchange_each(left, right);
  CHECK(same(x, b));
  CHECK(same(y, a));
  CHECK(same(left[1], {3, 4}));
  CHECK(same(right[2], {true}));
  CHECK(x.version() == 1u);
}
