// The operation that first makes a NaN or an infinity: who is blamed, who is not, and what the message says.
#include "tests/support.hpp"

#include <thread>

using namespace capstan;
using namespace tests;

namespace {

std::string at(int line) { return " at debug_numerics_test.cpp:" + std::to_string(line); }

const float kHuge = 3e38f;

using TensorFunctionOfOne = std::function<Tensor(const Tensor&)>;

/// True if the call throws no NumericError.
bool passes(const Call& call) {
  try {
    call();
  } catch (const NumericError&) { return false; }
  return true;
}

}  // namespace

TEST_CASE("the operation that makes an infinity is named with its place, its input and where that comes from",
          "[debug]") {
  const debug::NumericsScope watching;
  const Tensor x = {{1.0f, -1.0f, 2.0f}, {3.0f, 0.0f, 5.0f}};
  const int made = __LINE__ + 1;
  const Tensor y = relu(x);
  const int taken = __LINE__ + 1;
  const std::string text = message_of<NumericError>([&] { log(y); });
  CHECK(text ==
        "log" + at(taken) + " made 2 of 6 values -inf; first at [0, 1]; its input there is 0 (relu" + at(made) + ")");
}

TEST_CASE("all operands are named at the place, also those that are stretched to it", "[debug]") {
  const debug::NumericsScope watching;
  const Tensor a = {{1.0, 2.0}, {3.0, 4.0}}, b = {0.5, 0.0};
  const int line = __LINE__ + 1;
  const std::string text = message_of<NumericError>([&] { a / b; });
  CHECK(text == "div" + at(line) + " made 2 of 4 values inf; first at [0, 1]; its inputs there are 2 and 0");
}

TEST_CASE("values of several kinds are counted apart", "[debug]") {
  const debug::NumericsScope watching;
  const Tensor x = {-1.0, 0.0, 1.0};
  const int line = __LINE__ + 1;
  const std::string text = message_of<NumericError>([&] { log(x); });
  CHECK(text ==
        "log" + at(line) + " made 2 of 3 values not finite (1 nan, 1 -inf); first at [0]; its input there is -1");
}

TEST_CASE("the message reads as it is promised", "[debug]") {
  const debug::NumericsScope watching;
  Tensor x = zeros({10, 64});
  for (const std::int64_t row : {4, 7, 9}) x.index_put({row, 12}, -400.0f);
  const int made = __LINE__ + 1;
  const Tensor y = exp(x);
  const int taken = __LINE__ + 1;
  const std::string text = message_of<NumericError>([&] { log(y); });
  CHECK(text ==
        "log" + at(taken) + " made 3 of 640 values -inf; first at [4, 12]; its input there is 0 (exp" + at(made) + ")");
}

TEST_CASE("where places do not correspond the message says what the operands hold", "[debug]") {
  const debug::NumericsScope watching;
  const int line = __LINE__ + 1;
  const Tensor a = full({2, 3}, 1e30f);
  const Tensor b = {{1e30f, 1.0f}, {1e30f, 0.0f}, {-5.0f, 0.0f}};
  const std::string product = message_of<NumericError>([&] { matmul(a, b); });
  CHECK(product == "matmul" + at(line + 2) + " made 2 of 4 values inf; first at [0, 0]; its inputs hold 1e+30 (full" +
                       at(line) + ") and -5 to 1e+30");
  const Tensor large = {kHuge, kHuge};
  const std::string total = message_of<NumericError>([&] { sum(large); });
  CHECK(total == "sum" + at(line + 6) + " made its value inf; its input holds 3e+38");
}

TEST_CASE("places are those of the result, also behind views", "[debug]") {
  const debug::NumericsScope watching;
  const Tensor x = {{1.0, 2.0, 3.0}, {4.0, 5.0, 0.0}};
  const std::string text = message_of<NumericError>([&] { log(transpose(x)); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("first at [2, 1]; its input there is 0 (permute"));
}

TEST_CASE("one bad value among many is found, wherever it stands", "[debug]") {
  const debug::NumericsScope watching;
  for (const int threads_to_use : {1, 3}) {
    const ThreadCount count(threads_to_use);
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
      for (const std::int64_t place : {0, 77, 299'999}) {
        std::vector<float> list(300'000, 4.0f);
        list[static_cast<std::size_t>(place)] = -1.0f;
        const Tensor x = from_vector(list).to(dtype);
        INFO(name(dtype) << " at " << place);
        const std::string text = message_of<NumericError>([&] { sqrt(x); });
        CHECK_THAT(text, Catch::Matchers::ContainsSubstring("made 1 of 300000 values nan; first at [" +
                                                            std::to_string(place) + "]; its input there is -1"));
      }
  }
}

TEST_CASE("the largest finite values of every type are no infinities", "[debug]") {
  const debug::NumericsScope watching;
  CHECK(passes([] { -Tensor{3.4028234e38f, -3.4028234e38f, 1e-45f}; }));
  CHECK(passes([] { -Tensor{1.7976931348623157e308, 5e-324}; }));
  CHECK(passes([] { -Tensor{65504.0f, 6e-8f}.to(DType::float16); }));
  CHECK(passes([] { -Tensor{3.38e38f, 1e-40f}.to(DType::bfloat16); }));
}

TEST_CASE("a conversion that overflows is to blame, of integers too", "[debug]") {
  const debug::NumericsScope watching;
  const Tensor x = {1.0f, 70000.0f}, integers = {1, 70000};
  for (const Tensor& wide : {x, integers}) {
    const std::string text = message_of<NumericError>([&] { cast(wide, DType::float16); });
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring("1 of 2 values inf; first at [1]; its input there is 70000"));
  }
}

TEST_CASE("who gets a bad value or writes one that was given is not blamed", "[debug]") {
  const debug::NumericsScope watching;
  const Tensor bad = {kNaN, 1.0, -kInfinity}, good = {1.0, 2.0, 3.0}, mask = {true, false, true};
  CHECK(passes([&] { bad.copy(); }));
  CHECK(passes([&] { exp(bad); }));
  CHECK(passes([&] { good + bad; }));
  CHECK(passes([&] { bad - bad; }));
  CHECK(passes([&] { sum(bad); }));
  CHECK(passes([&] { matmul(good, bad); }));
  CHECK(passes([&] { concat({good, bad}); }));
  CHECK(passes([&] { transpose(reshape(bad, {3, 1})); }));
  CHECK(passes([&] { full({3}, kInfinity); }));
  CHECK(passes([&] { full_like(good, kNaN); }));
  CHECK(passes([&] { good* kInfinity; }));
  CHECK(passes([&] { softmax(where(mask, good, -kInfinity)); }));
  CHECK(passes([&] { one_hot(Tensor{0, 1}, 2, 0.0, -kInfinity); }));
  CHECK(passes([&] {
    Tensor x = good.copy();
    x.fill(kInfinity);
    x.set(kNaN, 0);
    x.index_put({1}, 2.0);
    x += good;
  }));
}

TEST_CASE("there is nothing to find in tensors without elements and in integers", "[debug]") {
  const debug::NumericsScope watching;
  CHECK(passes([] { log(zeros({0, 3})); }));
  CHECK(passes([] { logsumexp(zeros({2, 0}), 1); }));  // -inf, as documented
  CHECK(passes([] { Tensor{1, 2} * 3; }));
}

TEST_CASE("infinities can be allowed, and the NaN made of them is still found", "[debug]") {
  const debug::NumericsScope watching(true, {.allow_infinity = true});
  Tensor x;
  const int made = __LINE__ + 1;
  CHECK(passes([&] { x = log(Tensor{0.0f}); }));
  const int line = __LINE__ + 1;
  const std::string text = message_of<NumericError>([&] { x - x; });
  const std::string infinite = "-inf (log" + at(made) + ")";
  CHECK(text == "sub" + at(line) + " made its value nan; its inputs there are " + infinite + " and " + infinite);
}

TEST_CASE("a gradient that is not finite is blamed on the operation that it is the gradient of", "[debug][tape]") {
  const debug::NumericsScope watching;
  const Tensor x = {4.0, 0.0};
  GradientTape tape;
  tape.watch(x);
  const int forward = __LINE__ + 1;
  const Tensor y = sqrt(x);
  const int replay = __LINE__ + 1;
  const std::string text = message_of<NumericError>([&] { tape.gradient(y, x); });
  CHECK(text == "gradient of sqrt" + at(forward) +
                    " made 1 of 2 values inf; first at [1]; the gradient there is 1 (ones" + at(replay) +
                    "); its saved value there is 0 (sqrt" + at(forward) + ")");
  message_of<TapeError>([&] { tape.gradient(y, x); });  // spent
}

TEST_CASE("who adds to a gradient that was not finite before is not blamed", "[debug][tape]") {
  const debug::NumericsScope watching;
  const Tensor x = {kInfinity, 1.0}, huge = {kInfinity, 1.0};
  const auto passes_with = [&](const TensorFunctionOfOne& f) {
    return passes([&] {
      const Tensor w = {2.0, 3.0};
      GradientTape tape;
      tape.watch(w);
      CHECK_FALSE(std::isfinite(values(tape.gradient(f(w), w))[0]));
    });
  };
  // the infinity comes through x, first or last, into a sum with gradients that are finite
  CHECK(passes_with([&](const Tensor& w) { return square(w) + w * x; }));
  CHECK(passes_with([&](const Tensor& w) { return w * x + square(w); }));
  CHECK(passes_with([&](const Tensor& w) { return square(w) + reshape(w, {1, 2}) * x + exp(w); }));
  CHECK(passes_with([&](const Tensor& w) { return square(w) + w[0] * x + exp(w); }));
  // or with the gradient that the program gives
  CHECK(passes([&] {
    const Tensor w = {2.0, 3.0};
    GradientTape tape;
    tape.watch(w);
    const Tensor h = w * 1.0, y = square(h) + exp(h);
    const Tensor seeds[] = {huge, Tensor{1.0, 1.0}}, targets[] = {h, y}, sources[] = {w};
    tape.gradient(targets, sources, seeds);
  }));
  // but it is found who makes one where there was none
  const Tensor zero = {0.0, 4.0};
  GradientTape tape;
  tape.watch(zero);
  const Tensor y = square(zero) + sqrt(zero);
  CHECK_THAT(message_of<NumericError>([&] { tape.gradient(y, zero); }),
             Catch::Matchers::ContainsSubstring("gradient of sqrt at debug_numerics_test.cpp:"));
}

TEST_CASE("an operation inside of a gradient says so", "[debug][tape]") {
  const debug::NumericsScope watching;
  const Tensor a = {1.0f}, b = {1e-30f};
  GradientTape tape;
  tape.watch(b);
  const int line = __LINE__ + 1;
  const Tensor y = a / b;  // 1e30, and its slope -1e60
  const std::string text = message_of<NumericError>([&] { tape.gradient(y, b); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring(", in the gradient of div, at debug_numerics_test.cpp:" +
                                                      std::to_string(line) + " made its value"));
}

TEST_CASE("an optimizer that leaves the numbers is named", "[debug]") {
  const debug::NumericsScope watching;
  const std::vector<Tensor> gradients = {Tensor{0.5f, kHuge}};
  optim::Sgd sgd({Tensor{1.0f, 2.0f}}, {.learning_rate = 10});
  const int line = __LINE__ + 1;
  const Call step = [&] { sgd.apply(gradients); };
  CHECK(message_of<NumericError>(step) ==
        "Sgd" + at(line) + " made 1 of 2 values -inf; first at [1]; its input holds 0.5 to 3e+38");
}

TEST_CASE("what throws is not recorded", "[debug][tape]") {
  const debug::NumericsScope watching;
  const Tensor x = {0.0, 1.0};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 2, labels = {1e308, 1.0};
  const std::int64_t size = tape.size();
  message_of<NumericError>([&] { log(y); });
  message_of<NumericError>([&] { softmax_cross_entropy(y, labels); });  // made of several; the second throws
  CHECK(tape.size() == size);
  CHECK(same(tape.gradient(y, x), {2.0, 2.0}));
}

TEST_CASE("the check is off before it is on, and after", "[debug]") {
  const Tensor zero = {0.0};
  CHECK(passes([&] { log(zero); }));
  {
    const debug::NumericsScope watching;
    CHECK_FALSE(passes([&] { log(zero); }));
    {
      const debug::NumericsScope not_here(false);
      CHECK(passes([&] { log(zero); }));
    }
    CHECK_FALSE(passes([&] { log(zero); }));
  }
  CHECK(passes([&] { log(zero); }));
}

TEST_CASE("check_numerics is for all threads, a scope for its own", "[debug][threads]") {
  const Tensor zero = {0.0};
  const auto passes_elsewhere = [&] {
    bool result = false;
    std::thread([&] { result = passes([&] { log(zero); }); }).join();
    return result;
  };
  debug::check_numerics(true);
  CHECK_FALSE(passes_elsewhere());
  {
    const debug::NumericsScope not_here(false);
    CHECK(passes([&] { log(zero); }));
    CHECK_FALSE(passes_elsewhere());
  }
  debug::check_numerics(false);
  CHECK(passes_elsewhere());
  const debug::NumericsScope here;
  CHECK(passes_elsewhere());
  CHECK_FALSE(passes([&] { log(zero); }));
}

TEST_CASE("several threads check at once", "[debug][threads]") {
  debug::check_numerics(true);
  int found[4] = {};
  std::vector<std::thread> threads_of_the_test;
  for (int& count : found)
    threads_of_the_test.emplace_back([&count] {
      const Tensor x = {4.0, 1.0, 0.0};
      for (int i = 0; i < 50; ++i) {
        try {
          log(sqrt(x));
        } catch (const NumericError&) { ++count; }
      }
    });
  for (std::thread& thread : threads_of_the_test) thread.join();
  debug::check_numerics(false);
  for (const int count : found) CHECK(count == 50);
}
