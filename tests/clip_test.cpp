// Clipping: by value, by norm, by global norm; norms of lists.
#include "tests/support.hpp"

#include <cmath>
#include <utility>

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// A table's gradient held as row slices: rows 3, 7, 3 of 40.
Tensor sliced(DType dtype = DType::float64) {
  const Tensor values = Tensor{{1.0, -2.0}, {3.0, 4.0}, {5.0, 0.5}}.to(dtype);
  return from_row_slices({from_vector(std::vector<std::int64_t>{3, 7, 3}), values}, {40, 2});
}
/// The same, whole.
Tensor whole(DType dtype = DType::float64) {
  Tensor x = zeros({40, 2}, {dtype});
  x.index_put({3, all}, Tensor{6.0, -1.5}.to(dtype));
  x.index_put({7, all}, Tensor{3.0, 4.0}.to(dtype));
  return x;
}

}  // namespace

TEST_CASE("a global norm is that of all elements together", "[clip]") {
  const Tensors list = {Tensor{{3.0, 0.0}, {-1.0, 1.0}}, Tensor(), Tensor(-5.0), zeros({0, 3}, {DType::float64})};
  CHECK(same(optim::global_norm(list), Tensor(6.0)));                                           // 9 + 1 + 1 + 25 = 36
  CHECK(same(optim::global_norm(list, 1), Tensor(10.0)));                                       // 3 + 1 + 1 + 5
  CHECK(same(optim::global_norm(list, kInfinity), Tensor(5.0)));                                // the largest magnitude
  CHECK(close(optim::global_norm(list, 3), Tensor(std::cbrt(154.0)), tolerance::roundings64));  // 27 + 1 + 1 + 125
  const double root = std::sqrt(3.0) + 2 + std::sqrt(5.0);
  CHECK(close(optim::global_norm(list, 0.5), Tensor(root * root), tolerance::roundings64));
}

TEST_CASE("the norm of nothing is 0", "[clip]") {
  for (const double order : {1.0, 2.0, 3.0, kInfinity}) {
    CHECK(same(optim::global_norm({}, order), Tensor(0.0f)));
    CHECK(same(optim::global_norm({Tensor(), Tensor()}, order), Tensor(0.0f)));
    CHECK(same(optim::global_norm({zeros({0}, {DType::float64})}, order), Tensor(0.0)));
    CHECK(same(optim::global_norm({zeros({2, 3})}, order), Tensor(0.0f)));
  }
}

TEST_CASE("a global norm is of the widest type, and of float32 for 16 bits", "[clip][half]") {
  CHECK(optim::global_norm({Tensor{1.0f}, Tensor{1.0}}).dtype() == DType::float64);
  CHECK(optim::global_norm({Tensor{1.0f}, Tensor{1.0f}.to(DType::float16)}).dtype() == DType::float32);
  const Tensor half = full({200}, 60000, {DType::float16});  // the norm is beyond the range of float16
  CHECK(close(optim::global_norm({half}), Tensor(static_cast<float>(number(half[0]) * std::sqrt(200.0))), 1e-7));
  CHECK(same(optim::global_norm({full({4}, 0.5, {DType::bfloat16})}), Tensor(1.0f)));
}

TEST_CASE("norms are added up in float64, the same for any number of threads", "[clip][threads]") {
  const Tensor tenths = full({1000000}, 0.1f), x = random_in(-1, 1, {300001}, DType::float32, 411);
  CHECK(close(optim::global_norm({tenths}), Tensor(0.1f * 1000), 1e-7));
  for (const double order : {1.0, 2.0, 2.5, kInfinity}) {
    std::vector<float> found;
    for (const int count : {1, 2, 3, 8}) {
      const ThreadCount threads(count);
      const optim::ClippedGradients clipped = optim::clip_by_global_norm({x}, 0.5, {.order = order});
      found.push_back(clipped.norm.item<float>());
      found.push_back(clipped.gradients[0].at<float>(299999));
    }
    for (std::size_t i = 2; i < found.size(); ++i) CHECK(found[i] == found[i - 2]);
  }
}

TEST_CASE("norms and clipping take strided tensors", "[clip]") {
  const Tensor x = random_in(-1, 1, {5, 7}, DType::float64, 412);
  CHECK(same(optim::global_norm({strided(x)}), optim::global_norm({x})));
  CHECK(same(optim::clip_by_norm(strided(x), 0.25), optim::clip_by_norm(x, 0.25)));
  CHECK(same(optim::global_norm({broadcast_to(Tensor(0.5), {2, 8})}), Tensor(2.0)));  // 16 quarters
}

TEST_CASE("clipping by the global norm scales all tensors alike", "[clip]") {
  const Tensor a = {3.0, 0.0}, b = {{4.0}};
  const auto [gradients, norm] = optim::clip_by_global_norm({a, Tensor(), b}, 1);
  CHECK(same(norm, Tensor(5.0)));
  REQUIRE(gradients.size() == 3u);
  CHECK(close(gradients[0], {0.6, 0.0}, tolerance::roundings64));
  CHECK_FALSE(gradients[1].defined());
  CHECK(close(gradients[2], {{0.8}}, tolerance::roundings64));
  CHECK(same(a, {3.0, 0.0}));  // the caller's stay as they are
  CHECK(a.version() == 0);
}

TEST_CASE("gradients within the limit come back as they are", "[clip][host]") {
  const Tensor a = {3.0, 0.0}, b = {4.0};
  for (const double limit : {5.0, 6.0, kInfinity}) {
    const optim::ClippedGradients result = optim::clip_by_global_norm({a, b}, limit);
    CHECK(result.gradients[0].is_same(a));
    CHECK(result.gradients[1].is_same(b));
    CHECK(same(result.norm, Tensor(5.0)));
  }
}

TEST_CASE("a list that is handed over is clipped in place", "[clip]") {
  Tensors list;
  list.push_back(Tensor{3.0, 0.0});
  list.push_back(Tensor{4.0});
  const double* const places[] = {list[0].data<double>(), list[1].data<double>()};
  const optim::ClippedGradients result = optim::clip_by_global_norm(std::move(list), 1);
  CHECK(close(result.gradients[0], {0.6, 0.0}, tolerance::roundings64));
  CHECK(result.gradients[0].data<double>() == places[0]);
  CHECK(result.gradients[1].data<double>() == places[1]);

  Tensor base = Tensor{{3.0, 4.0}, {0.0, 0.0}};
  Tensors view;
  view.push_back(base[0]);  // somebody else holds the elements
  CHECK(close(optim::clip_by_global_norm(std::move(view), 1).gradients[0], {0.6, 0.8}, tolerance::roundings64));
  CHECK(same(base, {{3.0, 4.0}, {0.0, 0.0}}));
}

TEST_CASE("epsilon is added to the norm before the division, as PyTorch does", "[clip]") {
  const Tensor x = {3.0, 4.0};
  CHECK(close(optim::clip_by_global_norm({x}, 1, {.epsilon = 1}).gradients[0], {0.5, 4.0 / 6}, tolerance::roundings64));
  CHECK(
      close(optim::clip_by_global_norm({x}, 5, {.epsilon = 1}).gradients[0], {2.5, 20.0 / 6}, tolerance::roundings64));
}

TEST_CASE("a limit of 0 and a norm of 0 leave zeros", "[clip]") {
  CHECK(same(optim::clip_by_global_norm({Tensor{3.0, 4.0}}, 0).gradients[0], {0.0, 0.0}));
  CHECK(same(optim::clip_by_global_norm({Tensor{0.0, 0.0}}, 0).gradients[0], {0.0, 0.0}));
  CHECK(same(optim::clip_by_global_norm({Tensor{0.0, 0.0}}, 1).gradients[0], {0.0, 0.0}));
  CHECK(optim::clip_by_global_norm({}, 1).gradients.empty());
}

TEST_CASE("norms that are not finite spread, or are an error if asked for", "[clip]") {
  const Tensors infinite = {Tensor{1.0, kInfinity}, Tensor{2.0}}, nan = {Tensor{1.0, kNaN}, Tensor{2.0}};
  const optim::ClippedGradients by_infinity = optim::clip_by_global_norm(infinite, 1);
  CHECK(same(by_infinity.norm, Tensor(kInfinity)));
  CHECK(same(by_infinity.gradients[0], {0.0, kNaN}));  // 1 / inf = 0; inf * 0 is NaN
  CHECK(same(by_infinity.gradients[1], {0.0}));
  for (const double order : {1.0, 2.0, 3.0, kInfinity}) {
    const optim::ClippedGradients by_nan = optim::clip_by_global_norm(nan, 1, {.order = order});
    CHECK(same(by_nan.norm, Tensor(kNaN)));
    CHECK(same(by_nan.gradients[1], {kNaN}));
  }
  CHECK(same(optim::clip_by_global_norm(infinite, kInfinity).gradients[0], {1.0, kInfinity}));
  CHECK_THROWS_AS(optim::clip_by_global_norm(nan, 1, {.error_if_nonfinite = true}), NumericError);
  CHECK_THROWS_AS(optim::clip_by_global_norm(infinite, 1, {.error_if_nonfinite = true}), NumericError);
  CHECK_NOTHROW(optim::clip_by_global_norm({Tensor{1.0}}, 1, {.error_if_nonfinite = true}));
}

TEST_CASE("clipping by norm looks at each tensor alone", "[clip]") {
  const Tensors clipped = optim::clip_by_norm({Tensor{3.0, 4.0}, Tensor(), Tensor{0.25}}, 1);
  CHECK(close(clipped[0], {0.6, 0.8}, tolerance::roundings64));
  CHECK_FALSE(clipped[1].defined());
  CHECK(same(clipped[2], {0.25}));
  CHECK(close(optim::clip_by_norm(Tensor{3.0, -4.0}, 2, {.order = kInfinity}), {1.5, -2.0}, tolerance::roundings64));
}

TEST_CASE("clipping by value limits every element", "[clip]") {
  const Tensors list = {Tensor{-3.0, 0.25, 3.0, kNaN}, Tensor(), Tensor(5.0f)};
  const Tensors both = optim::clip_by_value(list, 0.5), sides = optim::clip_by_value(list, -1, 2);
  CHECK(same(both[0], {-0.5, 0.25, 0.5, kNaN}));
  CHECK_FALSE(both[1].defined());
  CHECK(same(both[2], Tensor(0.5f)));
  CHECK(same(sides[0], {-1.0, 0.25, 2.0, kNaN}));
  CHECK(same(optim::clip_by_value(list, 1, 2)[0], {1.0, 1.0, 2.0, kNaN}));
}

TEST_CASE("values are limited in place where nobody else holds them", "[clip]") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
    const Tensor mine = Tensor{-3.0, 0.25, kNaN, 3.0}.to(dtype), expected = clip(mine, -1, 2);
    Tensors list;
    list.push_back(mine.copy());
    list.push_back(mine);
    const TensorImpl* const place = list[0].impl();
    const Tensors clipped = optim::clip_by_value(std::move(list), -1, 2);
    CHECK((clipped[0].impl() == place));
    CHECK((clipped[1].impl() != mine.impl()));
    CHECK(same(clipped[0], expected));
    CHECK(same(clipped[1], expected));
    CHECK(same(mine, Tensor{-3.0, 0.25, kNaN, 3.0}.to(dtype)));
    CHECK(same(optim::clip_by_value({mine, mine}, -1, 2)[1], expected));  // the same one twice
  }
}

TEST_CASE("16-bit gradients are scaled in float32 and rounded once", "[clip][half]") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = random_in(-2, 2, {100}, DType::float64, 413).to(dtype), wide = x.to(DType::float32);
    const optim::ClippedGradients narrow = optim::clip_by_global_norm({x}, 1);
    CHECK(same(narrow.gradients[0], optim::clip_by_global_norm({wide}, 1).gradients[0].to(dtype)));
    CHECK(same(narrow.norm, optim::global_norm({wide})));
  }
}

TEST_CASE("row slices count with each row once, and stay slices", "[clip][sparse][host]") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double allowed = dtype == DType::float64 ? tolerance::roundings64 : tolerance::roundings32;
    const Tensor other = Tensor{1.0, -1.0}.to(dtype);
    for (const double order : {1.0, 2.0, kInfinity}) {
      const Tensor rows = sliced(dtype);
      const auto [gradients, norm] = optim::clip_by_global_norm({rows, other}, 1, {.order = order});
      const optim::ClippedGradients expected = optim::clip_by_global_norm({whole(dtype), other}, 1, {.order = order});
      CHECK(close(norm, expected.norm, allowed));
      REQUIRE(has_row_slices(gradients[0]));
      CHECK(row_slices(gradients[0]).indices.numel() == 2);  // added up
      CHECK(has_row_slices(rows));                           // nor was the caller's filled in
      CHECK(close(gradients[0], expected.gradients[0], allowed));
    }
  }
  const Tensors within = optim::clip_by_global_norm({sliced()}, 100).gradients;
  REQUIRE(has_row_slices(within[0]));
  CHECK(same(within[0], whole()));
  const Tensor by_norm = optim::clip_by_norm(sliced(), 1);
  CHECK(has_row_slices(by_norm));
  CHECK(close(by_norm, optim::clip_by_norm(whole(), 1), tolerance::roundings64));
}

TEST_CASE("clipping row slices by value keeps them if zeros stay zeros", "[clip][sparse]") {
  const Tensors kept = optim::clip_by_value({sliced()}, 2), filled = optim::clip_by_value({sliced()}, 1, 2);
  CHECK(has_row_slices(kept[0]));
  CHECK(same(kept[0], clip(whole(), -2, 2)));  // rows add up first: 1 + 5 and -2 + 0.5
  CHECK_FALSE(has_row_slices(filled[0]));
  CHECK(same(filled[0], clip(whole(), 1, 2)));
}

TEST_CASE("a tape that follows gradients records their clipping, with the same values", "[clip][tape]") {
  const Tensor a = {3.0, 0.0}, b = {4.0};
  const optim::ClippedGradients alone = optim::clip_by_global_norm({a, b}, 1);
  GradientTape tape{{.persistent = true}};
  tape.watch({a, b});
  const optim::ClippedGradients followed = optim::clip_by_global_norm({a, b}, 1);
  CHECK(same(followed.gradients[0], alone.gradients[0]));
  CHECK(same(followed.norm, alone.norm));
  // y = a / sqrt(a.a + b.b): dy0/da = [1/n - 9/n^3, 0], dy0/db = -12/n^3 with n = 5
  const Tensor weight = {1.0, 0.0};
  const Tensor target = sum(followed.gradients[0] * weight);
  CHECK(close(tape.gradient(target, a), {0.2 - 9 / 125.0, 0.0}, tolerance::roundings64));
  CHECK(close(tape.gradient(target, b), {-12 / 125.0}, tolerance::roundings64));
  CHECK(close(tape.gradient(followed.norm, a), {0.6, 0.0}, tolerance::roundings64));

  const optim::ClippedGradients within = optim::clip_by_global_norm({a, b}, 10);
  CHECK(same(within.gradients[0], a));
  CHECK(same(tape.gradient(sum(within.gradients[0] * weight), a), {1.0, 0.0}));
}

TEST_CASE("the gradient of a norm is 0 where the norm is, and shared among ties of the largest", "[clip][tape]") {
  const Tensor zero = {0.0, 0.0}, ties = {-2.0, 1.0, 2.0}, more = {2.0};
  GradientTape tape{{.persistent = true}};
  tape.watch({zero, ties, more});
  for (const double order : {1.0, 2.0, 3.0, kInfinity})
    CHECK(same(tape.gradient(optim::global_norm({zero}, order), zero), {0.0, 0.0}));
  const Tensor largest = optim::global_norm({ties, more}, kInfinity);
  CHECK(close(tape.gradient(largest, ties), {-1 / 3.0, 0.0, 1 / 3.0}, tolerance::roundings64));
  CHECK(close(tape.gradient(largest, more), {1 / 3.0}, tolerance::roundings64));
}

TEST_CASE("gradients of a tape are clipped without memory of their size", "[clip]") {
  const Tensor x = zeros({1 << 20});  // 4 MB
  GradientTape tape;
  tape.watch(x);
  const Tensor loss = sum(x * 2);
  Tensors gradients = tape.gradient(loss, Tensors{x});
  memory::release_cache();
  memory::reset_peak();
  const std::int64_t before = memory::stats().peak_reserved;
  const optim::ClippedGradients clipped = optim::clip_by_global_norm(std::move(gradients), 1);
  CHECK(memory::stats().peak_reserved - before < 1 << 20);
  CHECK(close(clipped.norm, Tensor(2048.0f), 1e-6));  // 2 * sqrt(2^20)
  CHECK(close(clipped.gradients[0][5], Tensor(2.0f / 2048), 1e-6));
}
