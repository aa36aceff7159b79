// Places where tapes have been wrong once: sources in the middle, stretched gradients, many parts, several threads,
// operations that fail half way.
#include <optional>
#include <sstream>
#include <thread>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// d sum(f(x)) / dx without an output gradient, so that the first gradient is one stretched value.
template <class F>
Tensor slope_of_sum(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(sum(f(x)), x);
}

}  // namespace

TEST_CASE("a source in the middle of a computation gets its gradient, whatever made it", "[tape]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  const std::pair<const char*, Tensor (*)(const Tensor&)> makers[] = {
      {"exp", [](const Tensor& t) { return exp(t); }},
      {"sum", [](const Tensor& t) { return sum(t, 0); }},
      {"reshape", [](const Tensor& t) { return reshape(t, {4}); }},
      {"transpose", [](const Tensor& t) { return transpose(t); }},
      {"index",
       [](const Tensor& t) {
         return t.index({all, 1});
       }},
      {"clip", [](const Tensor& t) { return clip(t, 0, 3); }},
      {"softmax", [](const Tensor& t) { return softmax(t); }},
      {"gather",
       [](const Tensor& t) {
         return gather(t, Tensor{1, 0, 1});
       }},
      {"matmul", [](const Tensor& t) { return matmul(t, t); }},
      {"concat",
       [](const Tensor& t) {
         return concat({t, t});
       }},
      {"logsumexp", [](const Tensor& t) { return logsumexp(t, 1); }},
  };
  for (const auto& [name, make] : makers) {
    INFO(name);
    GradientTape tape{{.persistent = true}};
    tape.watch(x);
    const Tensor h = make(x);
    const Tensor y = sum(h * h);
    CHECK(same(tape.gradient(y, h), 2 * h));        // d(h*h)/dh
    CHECK(same(tape.gradient(y, y), Tensor(1.0)));  // of a target for itself
    const auto [dh, dx] = tape.gradient(y, h, x);   // both, one above the other
    CHECK(same(dh, 2 * h));
    CHECK(dx.shape() == x.shape());
  }
}

TEST_CASE("what made a source may be changed in place: its replay is not needed", "[tape]") {
  Tensor x = {1.0, 2.0};
  GradientTape tape;
  tape.watch(x);
  const Tensor h = square(x);
  const Tensor y = h * h;
  x.fill(0);  // square saved x, but nothing asks for the gradient of x
  CHECK(same(tape.gradient(y, h), {2.0, 8.0}));
}

TEST_CASE("one stretched gradient reduces to every shape it came from", "[tape]") {
  const Tensor x = uniform({3, 4}, 1, 2, default_rng(), {DType::float64});
  for (const Shape& shape : {Shape{4}, Shape{3, 1}, Shape{1, 4}, Shape{}, Shape{1}, Shape{2, 1, 4}}) {
    const Tensor b = ones(shape, {DType::float64});
    const double share = static_cast<double>(std::max<std::int64_t>(12, shape.rank() == 3 ? 24 : 12)) /
                         static_cast<double>(shape.numel());
    INFO(to_string(shape));
    CHECK(same(slope_of_sum([&](const Tensor& t) { return x + t; }, b), full(shape, share, {DType::float64})));
  }
  const Tensor w = ones({4, 2}, {DType::float64}), bias = zeros({2}, {DType::float64});
  CHECK(same(slope_of_sum([&](const Tensor& t) { return linear(x, w, t); }, bias), {3.0, 3.0}));  // three rows
}

TEST_CASE("reductions of stretched tensors count every element", "[reduce]") {
  CHECK(sum(broadcast_to(Tensor(2.0f), {4})).item<float>() == 8);
  CHECK(mean(broadcast_to(Tensor(2.0f), {3, 4})).item<float>() == 2);
  CHECK(max(broadcast_to(Tensor{{1.0f}, {5.0f}}, {2, 3})).item<float>() == 5);
  CHECK(same(sum(broadcast_to(Tensor{{1.0f}, {5.0f}}, {2, 3}), 1), {3.0f, 15.0f}));
  CHECK(same(sum(broadcast_to(Tensor{1.0f, 5.0f}, {3, 2}), 0), {3.0f, 15.0f}));
  CHECK(same(sum(broadcast_to(Tensor{1, 5}, {3, 2}), 0), {std::int64_t{3}, std::int64_t{15}}));
  CHECK(same(argmax(broadcast_to(Tensor{1.0f, 5.0f}, {3, 2}), 1), {std::int64_t{1}, std::int64_t{1}, std::int64_t{1}}));
}

TEST_CASE("concat takes more parts than a sixteen-bit number counts", "[tape]") {
  constexpr std::int64_t count = 70000;
  const Tensor x = arange(0.0, static_cast<double>(count));
  GradientTape tape;
  tape.watch(x);
  const Tensor y = stack(unstack(x));
  CHECK(same(tape.gradient(y * y, x), 2 * x));
}

TEST_CASE("a tensor that another thread watches too stays on this thread's tape", "[tape][threads]") {
  const Tensor w = {1.0, 2.0};
  GradientTape tape;
  tape.watch(w);
  const Tensor y = w * 2;
  std::thread([&] {
    GradientTape other;
    other.watch({y, w});
    CHECK(same(other.gradient(y * w, w), y));
    CHECK(other.recording() == false);
  }).join();
  CHECK(same(tape.gradient(sum(y * y), w), {8.0, 16.0}));  // d(4 w^2) = 8 w
}

TEST_CASE("a parameter that two threads train on at once loses no gradient", "[tape][threads]") {
  Parameter shared(ones({8}, {DType::float64}));
  const auto work = [&shared](int& wrong) {
    for (int i = 0; i < 2000; ++i) {
      GradientTape tape;
      const Tensor y = sum(shared * 2) + sum(shared * shared) + sum(exp(shared) * 0);
      const Tensor g = tape.gradient(y, shared);
      if (!g.defined() || g.at<double>(0) != 4) ++wrong;  // 2 + 2x at x = 1
    }
  };
  int wrong[2] = {0, 0};
  std::thread first(work, std::ref(wrong[0])), second(work, std::ref(wrong[1]));
  first.join();
  second.join();
  CHECK(wrong[0] + wrong[1] == 0);
}

TEST_CASE("threads may write to different rows of one tensor", "[threads]") {
  const Tensor x = zeros({2, 100});
  Tensor first = x[0], second = x[1];
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) second.fill(2);
  });
  for (int i = 0; i < 100; ++i) first.fill(1);
  other.join();
  CHECK(number(sum(x)) == 300);
}

TEST_CASE("a tape that outlives its thread gives back what it recorded", "[tape][threads]") {
  const std::int64_t before = memory::stats().in_use;
  std::optional<GradientTape> tape;
  std::thread([&] {
    tape.emplace();
    const Tensor x = ones({1000});
    tape->watch(x);
    const Tensor y = exp(x);
  }).join();
  CHECK_THROWS_AS(tape->watch(ones({1})), TapeError);
  tape.reset();
  CHECK(memory::stats().in_use == before);
}

// It ends where it began: on another thread it could not tell its own one that the tape records again.
static_assert(!std::is_move_constructible_v<GradientTape::Pause> && !std::is_move_assignable_v<GradientTape::Pause>);

TEST_CASE("a pause may outlive its tape", "[tape]") {
  GradientTape tape;
  {
    auto pause = tape.stop_recording();
    tape = GradientTape();
    CHECK(tape.recording());
  }
  CHECK(tape.recording());
}

TEST_CASE("an operation that fails half way leaves no entry behind", "[tape][errors]") {
  const Tensor a = {1.0f, 2.0f, 3.0f};
  GradientTape tape;
  tape.watch(a);
  CHECK_THROWS_AS(a + ones({4}, {DType::float64}), ShapeError);
  CHECK_THROWS_AS(stack({a, Tensor{1, 2, 3}}), DTypeError);
  CHECK_THROWS_AS(matmul(a, ones({2, 2})), ShapeError);
  CHECK_THROWS_AS(mse_loss(a, ones({2})), ShapeError);
  CHECK(tape.size() == 0);
  const Tensor y = a * a;
  CHECK(tape.size() == 1);
  CHECK(same(tape.gradient(y, a), 2 * a));
}

TEST_CASE("memory that runs out in the middle of an operation leaves the tape as it was", "[tape][errors]") {
  const Tensor x = ones({1 << 16});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 2;
  memory::release_cache();
  for (std::int64_t room = 0; room < (1 << 22); room += 1 << 16) {  // the failure moves through the operation
    memory::set_limit(cpu(), memory::stats().reserved + room + 1);
    try {
      const Tensor z = log_softmax(transpose(reshape(y + cast(ones({1}), DType::float64), {256, 256})), 0);
      break;
    } catch (const OutOfMemoryError&) { CHECK(tape.size() == 1); }
    memory::release_cache();
  }
  memory::set_limit(cpu(), 0);
}

TEST_CASE("an optimizer that runs out of memory changes no parameter", "[optim][errors]") {
  std::vector<Tensor> parameters = {ones({4}), ones({512, 512})};
  optim::Sgd sgd(parameters);
  const std::vector<Tensor> gradients = {ones({4}), transpose(ones({512, 512}))};  // the second must be copied
  memory::release_cache();
  memory::set_limit(cpu(), memory::stats().reserved + 1);
  CHECK_THROWS_AS(sgd.apply(gradients), OutOfMemoryError);
  memory::set_limit(cpu(), 0);
  CHECK(same(parameters[0], ones({4})));
  CHECK(sgd.steps() == 0);
}

TEST_CASE("writing single values goes past no tape either", "[tape][errors][host]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  Tensor y = x + 1;
  CHECK_THROWS_AS(y.set<float>(5, 0), TapeError);
  CHECK_THROWS_AS(y.mutable_span<float>(), TapeError);
  Tensor stretched = broadcast_to(Tensor{1.0f}, {3});
  CHECK_THROWS_AS(stretched.set<float>(5, 0), ShapeError);
}

TEST_CASE("copy_async goes past no tape either, and copies what overlaps as it was", "[tape][errors][host]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 2;
  CHECK_THROWS_AS(copy_async(zeros({2}), y), TapeError);
  CHECK(same(y, {2.0f, 4.0f}));
  const Tensor line = {0, 1, 2, 3, 4};
  copy_async(line.index({range(0, 4)}), line.index({range(1, 5)})).synchronize();
  CHECK(same(line, {0, 0, 1, 2, 3}));
  CHECK(line.version() == 1u);
}

TEST_CASE("a Buffer made of a Parameter is none", "[tape]") {
  const Buffer b(Parameter(ones({3})));
  GradientTape tape;
  CHECK_THROWS_AS(tape.gradient(sum(b * b), b), TapeError);
  Parameter p(ones({2}));
  const Buffer copied(p);
  CHECK(p.trainable());
}

TEST_CASE("layers inside Sequential and cells inside unroll are named by the caller's line", "[tape][nn]") {
  nn::Sequential net{nn::Linear{2, 3}, nn::Linear{3, 1}};
  GradientTape tape;
  const Tensor y = net(ones({1, 2}));
  nn::RnnCell cell{1, 2};
  nn::unroll(cell, ones({2, 3, 1}), {.lengths = Tensor{1, 3}});
  const nn::TransformerLayerOptions small{.embed = 2, .feed_forward = 3};
  nn::Sequential attentive{nn::MultiheadAttention{{.embed = 2}}, nn::TransformerEncoderLayer{small},
                           nn::TransformerEncoder{{.layer = small, .layers = 1}}};
  attentive(ones({1, 3, 2}));
  CHECK(split_message(message_of<ShapeError>([&] { attentive(ones({3})); })).file == "tape_edges_test.cpp");
  std::ostringstream text;
  text << tape;
  CHECK(text.str().find("layers.hpp") == std::string::npos);
  CHECK(text.str().find("unroll.hpp") == std::string::npos);
  CHECK(text.str().find("tape_edges_test.cpp") != std::string::npos);
}

TEST_CASE("what is read in borrowed memory does not change while the same memory is written", "[tensor][host]") {
  float few[] = {1, 2, 3, 4};
  Tensor target = from_memory(few, {4});
  const Tensor places = {1, 2, 3};
  target.index_put({places}, from_memory(few, {3}));
  CHECK(same(target, {1.0f, 1.0f, 2.0f, 3.0f}));

  std::vector<double> numbers(1000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const std::vector<Tensor> averages = {from_memory(numbers.data() + 1, {999})};
  const std::vector<Tensor> values = {from_memory(numbers.data(), {999})};
  blend_each(averages, values, 0.5);
  for (std::size_t i = 1; i < numbers.size(); ++i) CHECK(numbers[i] == static_cast<double>(i) - 0.5);
  CHECK_THROWS_AS(exchange_each(averages, values), Error);
}

TEST_CASE("arange counts exactly at the ends of its type", "[create]") {
  CHECK(arange(9007199254740993, 9007199254740996).numel() == 3);
  CHECK(arange(INT64_MAX - 2, INT64_MAX).numel() == 2);
  CHECK(arange(INT64_MIN, INT64_MIN + 3).at<std::int64_t>(2) == INT64_MIN + 2);
  CHECK(arange(5, 0, -2).to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 3, 1});
  CHECK_THROWS_AS(arange(0.0, 1e300), ShapeError);
  CHECK_THROWS_AS(permutation(-3), ShapeError);
  CHECK_THROWS_AS(split_sizes(ones({3}), {-1, 4}), ShapeError);
  CHECK_THROWS_AS(zeros({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(Tensor{std::int64_t{1}} + 18446744073709551615u, DTypeError);
}
