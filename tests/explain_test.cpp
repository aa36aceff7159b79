// What a tape says of itself: how a target was computed, where a chain ends, which lines keep memory.
#include "tests/support.hpp"

#include <algorithm>
#include <sstream>

using namespace capstan;
using namespace tests;

namespace {

std::string at(int line) { return " at explain_test.cpp:" + std::to_string(line); }

bool begins_with(const std::string& text, const std::string& beginning) {
  INFO("the text is\n" << text << "and should begin with\n" << beginning);
  CHECK(text.rfind(beginning, 0) == 0u);
  return text.rfind(beginning, 0) == 0;
}

/// Counts what is written to it.
class CountingBuffer : public std::streambuf {
 public:
  std::int64_t characters = 0, lines = 0;

 protected:
  int_type overflow(int_type c) override {
    ++characters;
    if (traits_type::eq_int_type(c, traits_type::to_int_type('\n'))) ++lines;
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    characters += count;
    lines += std::count(text, text + count, '\n');
    return count;
  }
};

}  // namespace

// --- chains ----------------------------------------------------------------------------------------------------

TEST_CASE("explain lists the operations from the target back to the source", "[tape][explain]") {
  const Tensor x = ones({4, 3});
  GradientTape tape;
  tape.watch(x);
  const int line = __LINE__ + 1;
  const Tensor h = exp(x);
  const Tensor doubled = h * 2;
  const Tensor loss = sum(doubled);
  CHECK(tape.explain(loss, x) == "The target [] depends on the source [4, 3]:\n  sum []" + at(line + 2) +
                                     "\n  mul [4, 3]" + at(line + 1) + "\n  exp [4, 3]" + at(line) + "\n");
  CHECK(tape.explain(doubled, h) ==
        "The target [4, 3] depends on the source [4, 3]:\n  mul [4, 3]" + at(line + 1) + "\n");
}

TEST_CASE("of several chains explain shows the shortest", "[tape][explain]") {
  const Tensor x(1.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor way_round = exp(exp(exp(x)));
  const int line = __LINE__ + 1;
  const Tensor y = way_round + x;
  CHECK(tape.explain(y, x) == "The target [] depends on the source []:\n  add []" + at(line) + "\n");
}

TEST_CASE("explain follows Parameters and answers on persistent tapes after a gradient", "[tape][explain]") {
  Parameter w(2.0f), unused(1.0f);
  GradientTape tape{{.persistent = true}};
  const Tensor y = w * w;
  tape.gradient(y, w);
  begins_with(tape.explain(y, w), "The target [] depends on the source []:\n  mul []");
  CHECK(tape.explain(y, unused) == "The source is a Parameter that no operation has used while the tape recorded.\n");
  GradientTape other{{.watch_parameters = false}};
  const Tensor z = w * w;
  CHECK(other.explain(z, w) ==
        "The source is a Parameter, and the tape was made with .watch_parameters = false: watch it.\n");
}

// --- breaks ----------------------------------------------------------------------------------------------------

TEST_CASE("explain names the stop_gradient that a chain ends at, and what runs behind it", "[tape][explain]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  const int line = __LINE__ + 1;
  const Tensor h = exp(x);
  const Tensor cut = stop_gradient(h);
  const Tensor y = sum(cut * 2);
  CHECK(tape.explain(y, x) == "The chain ends at stop_gradient" + at(line + 1) +
                                  ", which lets no gradient through:\n  sum []" + at(line + 2) + "\n  mul [2]" +
                                  at(line + 2) + "\n  stop_gradient [2]" + at(line + 1) +
                                  "  <- no gradient\n  exp [2]" + at(line) + "\n");
  begins_with(tape.explain(y, h), "The chain ends at stop_gradient" + at(line + 1));
  begins_with(tape.explain(h, x), "The target [2] depends");  // up to there all is well
}

TEST_CASE("explain prefers a way without a break", "[tape][explain]") {
  const Tensor x(1.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = stop_gradient(x) + exp(exp(x));
  begins_with(tape.explain(y, x), "The target [] depends on the source []:\n  add []");
}

TEST_CASE("explain names the operation whose integers end a chain, however many follow", "[tape][explain]") {
  const Tensor x = {{1.0f, 3.0f, 2.0f}};
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * 2;
  const int line = __LINE__ + 1;
  const Tensor best = argmax(h, 1);
  const Tensor y = sum(cast(best, DType::float32) * 2);
  const std::string text = tape.explain(y, x);
  begins_with(text, "The chain ends at int64 from argmax" + at(line) + ", and only floating values carry gradients:\n");
  CHECK(text.find("  argmax [1] int64" + at(line) + "  <- no gradient\n") != std::string::npos);
  begins_with(tape.explain(best, x), "The chain ends at int64 from argmax" + at(line));
  CHECK(tape.explain(y, best) == "The source is int64; gradients exist for floating types only.\n");
}

TEST_CASE("explain names what ran while the tape was paused, if another tape saw it", "[tape][explain]") {
  const Tensor x(1.0);
  GradientTape outer, inner;
  outer.watch(x);
  inner.watch(x);
  const int line = __LINE__ + 2;
  const auto compute = [&] {
    const auto pause = inner.stop_recording();
    return exp(x);
  };
  const Tensor y = compute(), z = y * 2;
  begins_with(inner.explain(z, x), "The chain ends at exp" + at(line + 1) +
                                       ", which ran while the tape did not record (stop_recording was last called" +
                                       at(line) + "), or before it watched what goes in:\n");
  begins_with(outer.explain(z, x), "The target [] depends");
}

TEST_CASE("explain names what ran before the tape began, if another tape saw it", "[tape][explain]") {
  const Tensor x(1.0);
  GradientTape outer;
  outer.watch(x);
  const int line = __LINE__ + 1;
  const Tensor y = exp(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor z = y * x;
  const Tensor w = y * 2;
  begins_with(inner.explain(z, x), "The target [] depends");  // straight through the product
  begins_with(inner.explain(w, x), "The chain ends at exp" + at(line) + ", which ran before the tape began:\n");
}

TEST_CASE("explain says what a source or a target lacks", "[tape][explain]") {
  const Tensor x = {1.0f, 2.0f}, other = {1.0f, 2.0f, 3.0f};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 2, apart = ones({3}), cut = stop_gradient(y);
  CHECK(tape.explain(x, x) == "The target is the source.\n");
  CHECK(tape.explain(y, other) == "The source [3] is not watched: watch it before it is used.\n");
  begins_with(tape.explain(y, cut), "The source [2] is not watched: it is the result of stop_gradient at ");
  CHECK(tape.explain(x, y) == "The target [2] was not computed from the source [2].\n");
  const std::string unknown =
      "The target [3] is not on the tape: it was made before the tape watched what it comes from, from nothing that "
      "the tape watches (as by zeros), or while the tape did not record";
  CHECK(tape.explain(apart, x) == unknown + ".\n");
  const int line = __LINE__ + 1;
  { const auto pause = tape.stop_recording(); }
  CHECK(tape.explain(apart, x) == unknown + " (stop_recording was last called" + at(line) + ").\n");
}

TEST_CASE("a spent tape says that it is spent, and where", "[tape][explain]") {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  const int line = __LINE__ + 1;
  tape.gradient(y, x);
  CHECK(tape.explain(y, x) == "The tape is spent: its gradient" + at(line) +
                                  " used up what was recorded. Explain before that, or make the tape persistent.\n");
  tape.reset();
  begins_with(tape.explain(y, x), "The source [] is not watched");
}

// --- what breaks must not change -------------------------------------------------------------------------------

TEST_CASE("what is cut off is not on the tape, may be changed in place, and can be watched anew", "[tape][explain]") {
  const Tensor x = {1.0, 2.0};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  Tensor cut = stop_gradient(x.copy());
  const std::int64_t size = tape.size(), kept = tape.bytes_kept();
  const Tensor behind = cut * 3;
  CHECK(tape.size() == size);
  CHECK(tape.bytes_kept() == kept);
  CHECK_FALSE(tape.follows(cut));
  CHECK_FALSE(tape.follows(behind));
  CHECK_THROWS_AS(tape.gradient(behind, x), TapeError);
  cut.fill(5);
  const Tensor product = cut * x;  // before it is watched
  tape.watch(cut);
  CHECK(tape.follows(cut));
  CHECK_FALSE(tape.gradient(product, cut).defined());
  CHECK(same(tape.gradient(cut * x, cut), x));
  cut.fill(7);  // watched, not computed
}

TEST_CASE("breaks keep no tensor alive, and go with the tape", "[tape][explain]") {
  const Tensor x = ones({1000});
  GradientTape tape;
  tape.watch(x);
  const auto cut_off = [&] { return sum(stop_gradient(x) * 2).item<float>(); };
  cut_off();
  const std::int64_t before = memory::stats().in_use;
  for (int i = 0; i < 50; ++i) cut_off();
  CHECK(memory::stats().in_use == before);
  const Tensor y = stop_gradient(x) * 2;
  tape.reset();
  tape.watch(x);
  begins_with(tape.explain(y, x), "The target [1000] is not on the tape");
}

TEST_CASE("a noted operation leaves a Parameter as it was", "[tape][explain]") {
  Parameter w(Tensor{1.0f, 3.0f});
  GradientTape tape;
  const Tensor best = argmax(w, 0);
  begins_with(tape.explain(best, w), "The chain ends at int64 from argmax");
  CHECK(same(tape.gradient(w * w, w), {2.0f, 6.0f}));
}

// --- size ------------------------------------------------------------------------------------------------------

TEST_CASE("a chain of a million operations is explained, printed, replayed, reset and destroyed by loops",
          "[tape][explain][host]") {
  constexpr int length = 1000000;
  const Tensor x = {1.0};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = y + 1;
  const std::string text = tape.explain(y, x);
  begins_with(text, "The target [1] depends on the source [1]:\n  add [1]");
  CHECK(text.find("  ... 999900 more operations\n") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 102);
  CountingBuffer buffer;
  std::ostream counting(&buffer);
  counting << tape;
  CHECK(buffer.lines == length);
  CHECK(buffer.characters > 20 * buffer.lines);
  CHECK(number(tape.gradient(y, x)) == 1);
  tape.reset();
  CHECK(tape.size() == 0);
  tape.watch(x);
  for (int i = 0; i < length; ++i) y = stop_gradient(y + x);  // a break at every other operation
  begins_with(tape.explain(y, x), "The chain ends at stop_gradient");
}

// --- memory ----------------------------------------------------------------------------------------------------

TEST_CASE("memory_by_line adds up what each line keeps, the largest first", "[tape][explain]") {
  const Tensor x = ones({1024});  // 4096 bytes
  GradientTape tape;
  tape.watch(x);
  const int line = __LINE__ + 1;
  const Tensor a = square(x) * square(x);  // keeps x, and both factors
  const Tensor b = a + 1;                  // keeps nothing
  const Tensor c = exp(b);                 // keeps its result
  const std::vector<LineMemory> lines = tape.memory_by_line();
  REQUIRE(lines.size() == 3u);
  CHECK(" at " + lines[0].line == at(line));
  CHECK(lines[0].operations == 3);
  CHECK(lines[0].bytes == 3 * 4096);  // x counts once
  CHECK(" at " + lines[1].line == at(line + 2));
  CHECK(lines[1].bytes == 4096);
  CHECK(" at " + lines[2].line == at(line + 1));
  CHECK(lines[2].bytes == 0);
  const std::string place = "explain_test.cpp:";
  CHECK(to_string(lines) == place + std::to_string(line) + "  3 operations  12288 bytes\n" + place +
                                std::to_string(line + 2) + "  1 operation  4096 bytes\n" + place +
                                std::to_string(line + 1) + "  1 operation  0 bytes\n");
  tape.gradient(c, x);
  CHECK(tape.memory_by_line().empty());
}

TEST_CASE("a stretched view counts the bytes that it keeps", "[tape][explain]") {
  const Tensor x = ones({1000}), one = ones({1});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * broadcast_to(one, {1000});
  CHECK(tape.bytes_kept() == 4);  // the one number, not a thousand
  CHECK(same(tape.gradient(y, x), ones({1000})));
}
