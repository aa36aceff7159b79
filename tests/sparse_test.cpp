// Gradients held as row slices: made by lookups, read by optimizers, whole for everybody else.
#include "tests/support.hpp"

#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include <capstan/capstan.hpp>

using namespace capstan;
using namespace tests;

namespace {

/// d sum(w * square(looked-up rows)) / d table for several lookups; w counts up so that no two rows weigh the same.
Tensor lookup_gradient(const Tensor& table, const std::vector<Tensor>& lookups, bool whole = false) {
  GradientTape tape;
  tape.watch(table);
  Tensor total = whole ? sum(table) : zeros({}, {table.dtype()});
  for (const Tensor& rows : lookups) {
    const Tensor found = gather(table, rows);
    const Tensor weight = reshape(linspace(1, 2, found.numel(), {table.dtype()}), found.shape());
    total = total + sum(weight * square(found));
  }
  return tape.gradient(total, table);
}

/// The same by a product with a matrix of ones and zeros, which no lookup touches.
Tensor dense_gradient(const Tensor& table, const std::vector<Tensor>& lookups, bool whole = false) {
  GradientTape tape;
  tape.watch(table);
  Tensor total = whole ? sum(table) : zeros({}, {table.dtype()});
  for (const Tensor& rows : lookups) {
    const Tensor wrapped = where(rows < 0, rows + table.size(0), rows);
    const Tensor found = matmul(one_hot(wrapped, table.size(0), 1, 0, table.dtype()), table);
    const Tensor weight = reshape(linspace(1, 2, found.numel(), {table.dtype()}), found.shape());
    total = total + sum(weight * square(found));
  }
  return tape.gradient(total, table);
}

Tensor table() { return random_in(-1, 1, {40, 3}); }

}  // namespace

TEST_CASE("the gradient of a lookup is held as row slices and equals the whole one", "[sparse]") {
  const Tensor x = table();
  for (const Tensor& rows : {Tensor{3, 7, 3, 39, 0}, Tensor{-1, 5}, Tensor{{1, 2}, {2, 1}}}) {
    const Tensor g = lookup_gradient(x, {rows});
    CHECK(has_row_slices(g));
    CHECK(g.shape() == x.shape());
    CHECK(has_row_slices(g));  // asking for the shape does not fill it in
    CHECK(row_slices(g).indices.numel() == rows.numel());
    const std::optional<RowSlices> found = find_row_slices(g);
    REQUIRE(found.has_value());
    CHECK(close(from_row_slices(*found, x.shape()), dense_gradient(x, {rows}), 1e-14));
    CHECK(close(g, dense_gradient(x, {rows}), 1e-14));
    CHECK_FALSE(has_row_slices(g));  // comparing did
    CHECK_FALSE(find_row_slices(g).has_value());
    CHECK_THROWS_AS(row_slices(g), Error);
  }
}

TEST_CASE("an undefined tensor has no row slices", "[sparse]") {
  CHECK_FALSE(has_row_slices(Tensor()));
  CHECK_FALSE(find_row_slices(Tensor()).has_value());
}

TEST_CASE("row slices of several lookups are kept together", "[sparse]") {
  const Tensor x = table(), a = {3, 7, 3}, b = {7, 11};
  const Tensor g = lookup_gradient(x, {a, b});
  REQUIRE(has_row_slices(g));
  CHECK(row_slices(g).indices.numel() == 5);
  const RowSlices once = coalesce(row_slices(g));
  CHECK(same(once.indices, {std::int64_t{3}, std::int64_t{7}, std::int64_t{11}}));
  CHECK(close(from_row_slices(once, x.shape()), dense_gradient(x, {a, b}), 1e-14));
  CHECK(close(g, dense_gradient(x, {a, b}), 1e-14));
}

TEST_CASE("row slices beside whole gradients, or as many as rows, become whole", "[sparse]") {
  const Tensor x = table(), a = {3, 7, 3};
  const Tensor both = lookup_gradient(x, {a}, true);
  CHECK_FALSE(has_row_slices(both));
  CHECK(close(both, dense_gradient(x, {a}, true), 1e-14));
  std::vector<std::int64_t> every(40);
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int64_t>(i);
  CHECK_FALSE(has_row_slices(lookup_gradient(x, {from_vector(every)})));
}

TEST_CASE("a lookup in a computed table passes its gradient on", "[sparse]") {
  const Tensor x = table(), rows = {3, 7, 3};
  GradientTape tape;
  tape.watch(x);
  const Tensor g = tape.gradient(sum(gather(tanh(x), rows)), x);
  GradientTape other;
  other.watch(x);
  CHECK(close(g, other.gradient(sum(matmul(one_hot(rows, 40, 1, 0, DType::float64), tanh(x))), x), 1e-14));
}

TEST_CASE("gradients of gradients of lookups are right", "[sparse]") {
  const Tensor x = table(), rows = {3, 7, 3};
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor g = inner.gradient(sum(pow(gather(x, rows), 3)), x);
  const Tensor second = outer.gradient(sum(g), x);  // 6 x for each time a row was taken
  Tensor expected = zeros_like(x);
  expected.index_put({3, all}, 12 * x[3]);
  expected.index_put({7, all}, 6 * x[7]);
  CHECK(close(second, expected, 1e-13));
}

TEST_CASE("optimizers take row slices for what the whole gradient would do", "[sparse]") {
  const Tensor rows = {3, 7, 3, 39};
  for (const DType type : {DType::float32, DType::float64}) {
    const auto train = [&](auto make, bool sparse) {
      const Tensor x = table().to(type).copy();
      auto optimizer = make(std::vector<Tensor>{x});
      for (int step = 0; step < 5; ++step) {
        Tensor g = lookup_gradient(x, {rows});
        CHECK(has_row_slices(g));
        if (!sparse) g = from_vector(values(g), x.shape()).to(type);
        optimizer.apply(std::vector<Tensor>{g});
        CHECK(has_row_slices(g) == sparse);  // not filled in
      }
      return x;
    };
    const double tolerance = type == DType::float32 ? 1e-6 : 1e-14;
    const auto plain = [](std::vector<Tensor> p) { return optim::Sgd(std::move(p), {.learning_rate = 0.1}); };
    const auto heavy = [](std::vector<Tensor> p) {
      return optim::Sgd(std::move(p), {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
    };
    const auto adam = [](std::vector<Tensor> p) {
      return optim::Adam(std::move(p), {.learning_rate = 0.1, .weight_decay = 0.01});
    };
    CHECK(close(train(plain, true), train(plain, false), tolerance));
    CHECK(close(train(heavy, true), train(heavy, false), tolerance));
    CHECK(close(train(adam, true), train(adam, false), tolerance));
  }
}

TEST_CASE("lazy optimizers leave rows without a slice alone", "[sparse]") {
  const Tensor x = table().copy(), before = x.copy();
  optim::Adam adam({x}, {.learning_rate = 0.1, .weight_decay = 0.5, .lazy = true});
  adam.apply(std::vector<Tensor>{lookup_gradient(x, {Tensor{3, 7}})});
  for (int row = 0; row < 40; ++row) CHECK(array_equal(x[row], before[row]) == (row != 3 && row != 7));
}

TEST_CASE("row slices stay when somebody looks at them, or records something else", "[sparse]") {
  const Tensor x = table();
  const auto slices = [&] { return lookup_gradient(x, {Tensor{3, 7, 3}}); };
  const Tensor g = slices();
  CHECK(to_string(g) == to_string(dense_gradient(x, {Tensor{3, 7, 3}})));
  CHECK(g.describe() == dense_gradient(x, {Tensor{3, 7, 3}}).describe());
  CHECK(zeros_like(g).shape() == x.shape());
  CHECK(g.to(g.dtype()).is_same(g));
  CHECK(g.to(g.device()).is_same(g));
  CHECK(has_row_slices(g));
  const std::vector<Tensor> given = {slices(), slices(), slices()};
  const auto check = [&] {
    CHECK(has_row_slices(optim::clip_by_value({given[0]}, 0.25)[0]));
    CHECK(has_row_slices(optim::clip_by_global_norm({given[0]}, 0.25).gradients[0]));
    optim::GradientAccumulator sums;
    for (const Tensor& one : given) sums.add({one});
    const Tensor sum = sums.take()[0];
    CHECK(has_row_slices(sum));
    CHECK(close(sum, dense_gradient(x, {Tensor{3, 7, 3}}), 1e-14));
    for (const Tensor& one : given) CHECK(has_row_slices(one));
    sums.add({given[0]});
    sums.add({ones_like(x)});
    CHECK(close(sums.take()[0], (dense_gradient(x, {Tensor{3, 7, 3}}) + 1) / 2, 1e-14));
  };
  check();
  {
    const Tensor other = ones({2});
    GradientTape tape;
    tape.watch(other);
    const Tensor y = other * 2;
    check();
  }
  const debug::Observer observer([](const debug::Operation&) {});
  check();
}

TEST_CASE("training a table takes no memory of the table's size for gradients", "[sparse]") {
  const Tensor x = zeros({100000, 64}), rows = {5, 99999, 17};
  optim::Sgd sgd({x}, {.learning_rate = 1});
  memory::release_cache();
  memory::reset_peak();
  const std::int64_t before = memory::stats().peak_reserved;
  GradientTape tape;
  tape.watch(x);
  sgd.apply(std::vector<Tensor>{tape.gradient(sum(gather(x, rows)), x)});
  CHECK(memory::stats().peak_reserved - before < 4 << 20);  // the table has 25.6 MB
  CHECK(number(sum(x)) == -3 * 64);
}

TEST_CASE("a function that the tape does not look into may return row slices", "[sparse][tape]") {
  const Tensor x = table(), rows = {3, 7, 3};
  const Tensor g = lookup_gradient(x, {rows});
  REQUIRE(has_row_slices(g));
  GradientTape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      x, [&](const Tensor&) { return g; }, [](const Tensor& d, const Tensor&, const Tensor&) { return d; });
  CHECK(close(y, dense_gradient(x, {rows}), 1e-14));
  CHECK(same(tape.gradient(y, x), ones_like(x)));
}

TEST_CASE("gradients held as row slices belong to the caller, one by one", "[sparse][tape]") {
  const Tensor x = table(), rows = {3, 7};
  GradientTape tape;
  tape.watch(x);
  std::vector<Tensor> g = tape.gradient(sum(gather(x, rows)), {x, x});
  REQUIRE(has_row_slices(g[0]));
  REQUIRE(has_row_slices(g[1]));
  RowSlices slices = row_slices(g[1]);
  slices.indices.fill(1000);  // a copy: the gradient's stay in range
  CHECK(same(row_slices(g[1]).indices, {std::int64_t{3}, std::int64_t{7}}));
  g[0].fill(0);
  CHECK(number(sum(g[1])) == 2 * 3);
}

TEST_CASE("coalesce takes views", "[sparse]") {
  const Tensor indices = from_vector(std::vector<std::int64_t>{5, 0, 2, 0, 5, 0}).index({range(0, 6, 2)});
  const Tensor values = transpose(Tensor{{1.0, 2.0, 3.0}, {10.0, 20.0, 30.0}});
  const RowSlices once = coalesce({indices, values});
  CHECK(same(once.indices, {std::int64_t{2}, std::int64_t{5}}));
  CHECK(same(once.values, {{2.0, 20.0}, {4.0, 40.0}}));
}

TEST_CASE("states of optimizers are whole, and each step counts as a write to them", "[sparse][optim]") {
  const Tensor p = zeros({5, 2}), square = zeros({5, 2}), mean = from_row_slices({arange(1), ones({1, 2})}, {5, 2});
  const std::uint32_t writes = mean.version();
  const ParameterUpdate update = {.rule = UpdateRule::adam,
                                  .parameter = p,
                                  .gradient = ones({5, 2}),
                                  .states = {mean, square},
                                  .numbers = {.rate = 1, .beta1 = 0.9, .beta2 = 0.999}};
  apply_updates("mine", {&update, 1});
  CHECK_FALSE(has_row_slices(mean));
  CHECK(mean.version() == writes + 1);
  CHECK(square.version() > 0u);
  CHECK(mean.at<float>(4, 1) == Approx(0.1));
}

TEST_CASE("threads that read one sliced tensor at once all see it whole", "[sparse][threads]") {
  const Tensor x = random_in(-1, 1, {1000, 16});
  const Tensor g = lookup_gradient(x, {Tensor{3, 7, 3}});
  const double expected = number(sum(dense_gradient(x, {Tensor{3, 7, 3}})));
  std::vector<std::thread> threads;
  std::vector<double> sums(4);
  for (std::size_t i = 0; i < sums.size(); ++i) threads.emplace_back([&, i] { sums[i] = sum(g).item<double>(); });
  for (std::thread& thread : threads) thread.join();
  for (const double s : sums) CHECK(s == Approx(expected));
}

TEST_CASE("a sliced tensor may be read whole while other threads take its rows", "[sparse][threads]") {
  std::atomic<int> failures{0};
  for (int round = 0; round < 200; ++round) {
    const Tensor g = from_row_slices({arange(4), ones({4, 3})}, {40, 3}), p = zeros({40, 3});
    std::vector<Tensor> totals = {ones({40, 3})};
    double whole = 0;
    std::latch start(3);
    const auto run = [&](const std::function<void()>& work) {
      start.arrive_and_wait();
      try {
        work();
      } catch (const Error&) { ++failures; }
    };
    std::thread stepping([&] {
      run([&] {
        optim::Sgd sgd({p}, {.learning_rate = 1});
        sgd.apply(std::vector<Tensor>{g});
      });
    });
    std::thread adding([&] { run([&] { add_each(totals, std::vector<Tensor>{g}); }); });
    run([&] { whole = number(sum(g)); });
    stepping.join();
    adding.join();
    CHECK(whole == 4 * 3);
    CHECK(number(sum(p)) == -4 * 3);
    CHECK(number(sum(totals[0])) == 40 * 3 + 4 * 3);
  }
  CHECK(failures == 0);
}

TEST_CASE("row slices that do not fit are refused", "[sparse][errors]") {
  const Tensor values = ones({2, 3});
  // clang-format off
  check_errors({
      {__LINE__, &message_of<DTypeError>, [&] { from_row_slices({Tensor{0, 1}, values}, {5, 3}); },
       "from_row_slices: the indices are int32; they must be int64."},
      {__LINE__, &message_of<ShapeError>, [&] { from_row_slices({arange(3), values}, {5, 3}); },
       "from_row_slices: indices [3] and values [2, 3] do not make a tensor of shape [5, 3]; they must be [n] and [n, ...] with its axes behind the first."},
      {__LINE__, &message_of<IndexError>, [&] { from_row_slices({arange(4, 6), values}, {5, 3}); },
       "from_row_slices: index 5 at [1] is out of range for axis 0 of shape [5, 3]; it must be in [0, 5)."},
      {__LINE__, &message_of<DTypeError>, [&] { from_row_slices({arange(2), values > 0}, {5, 3}); },
       "from_row_slices: the values are bool; they must be numbers, which can be added up."},
      {__LINE__, &message_of<DTypeError>, [&] { (void)coalesce({Tensor{0, 1}, values}); },
       "coalesce: the indices are int32; they must be int64."},
      {__LINE__, &message_of<ShapeError>, [&] { (void)coalesce({arange(3), values}); },
       "coalesce: the indices are [3] and the values [2, 3]; they must be [n] and [n, ...]."},
      {__LINE__, &message_of<Error>, [&] { row_slices(values); },
       "row_slices: the tensor of shape [2, 3] is held whole; ask has_row_slices first."},
  }, "sparse_test.cpp");
  // clang-format on
}
