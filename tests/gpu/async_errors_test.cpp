// What kernels find wrong after the call has returned: who hears of it, in which words, and that it is over then. With
// CAPSTAN_CUDA_SYNC=1 the same comes from the call itself, as on the CPU.
#include <capstan/stream.hpp>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

const std::string file = "async_errors_test.cpp";

Tensor indices(const std::vector<std::int64_t>& list) { return from_vector(list).to(kGpu); }

constexpr const char* kLate = "; found on cuda:0 after the call had returned.";

/// An index out of range of five rows, as somebody who waits hears of it.
std::string late_index(std::int64_t index, std::int64_t position) {
  return "take: index " + std::to_string(index) + " at position " + std::to_string(position) +
         " is out of range; it must be in [-5, 5)" + kLate;
}

/// Checks text and place of what `wait` throws; with CAPSTAN_CUDA_SYNC=1 of what `call` throws, where the text is
/// `at_once`.
void check_index_error(const Call& call, const Call& wait, const std::string& at_once, const std::string& late,
                       const unsigned& line) {
  Message message;
  if (waits_always()) {
    message = split_message(message_of<IndexError>(call));
    CHECK(message.text == at_once);
  } else {
    call();
    message = split_message(message_of<IndexError>(wait));
    CHECK(message.text == late);
  }
  CHECK(message.file == file);
  CHECK(message.line == line);
  synchronize(kGpu);  // throws nothing any more
  const Tensor x = full_on_gpu({5, 2}, 4);
  CHECK(values(take(x, indices({0, 4, -1}), 0)) == repeated(6, 4));
}

}  // namespace

TEST_CASE("an index out of range is told to whoever waits for the device, with the caller's line", "[gpu][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_on_gpu({5, 2}, 1), index = indices({0, 3, 7, 1});
  unsigned line = 0;
  Tensor y;
  const Call call = [&] {
    line = __LINE__ + 1;
    y = take(x, index, 0);
  };
  const std::string at_once = "take: index 7 at [2] is out of range for axis 0 of shape [5, 2]; it must be in [-5, 5).";
  const std::string late = late_index(7, 2);
  check_index_error(
      call, [] { synchronize(kGpu); }, at_once, late, line);
  check_index_error(
      call, [] { Stream::current(kGpu).synchronize(); }, at_once, late, line);
  check_index_error(
      call, [] { Event(kGpu).synchronize(); }, at_once, late, line);
  check_index_error(
      call, [&] { x.to_vector<float>(); }, at_once, late, line);
  check_index_error(
      call, [&] { sum(x).item<float>(); }, at_once, late, line);
  check_index_error(
      call, [&] { y.to(cpu()); }, at_once, late, line);
  check_index_error(
      call, [&] { to_string(x); }, at_once, late, line);
}

TEST_CASE("gather names the caller's line, too", "[gpu][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_on_gpu({5, 2}, 1), index = indices({-6});
  unsigned line = 0;
  const Call call = [&] {
    line = __LINE__ + 1;
    gather(x, index);
  };
  Message message;
  if (waits_always()) {
    message = split_message(message_of<IndexError>(call));
  } else {
    call();
    message = split_message(message_of<IndexError>([] { synchronize(kGpu); }));
  }
  CHECK(contains(message.text, ": index -6 at "));
  CHECK(contains(message.text, "; it must be in [-5, 5)"));
  CHECK(message.file == file);
  CHECK(message.line == line);
  synchronize(kGpu);
}

TEST_CASE("an error of another stream reaches who waits for that stream", "[gpu][errors][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_on_gpu({5, 2}, 1), index = indices({9});
  const Stream stream = Stream::create(kGpu);
  unsigned line = 0;
  const Call call = [&] {
    const StreamScope scope(stream);
    line = __LINE__ + 1;
    take(x, index, 0);
  };
  check_index_error(
      call, [&] { stream.synchronize(); },
      "take: index 9 at [0] is out of range for axis 0 of shape [5, 2]; it must be in [-5, 5).", late_index(9, 0),
      line);
}

TEST_CASE("of several errors the first is told", "[gpu][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  if (waits_always()) return;  // each comes by itself
  const Tensor x = random_on_gpu({5, 2}, 1), good = indices({1, 2}), bad = indices({1, 50}), worse = indices({60, 2});
  take(x, good, 0);
  const unsigned line = __LINE__ + 1;
  take(x, bad, 0);
  const Tensor y = take(x, worse, 0);
  const Tensor z = y * 2.0f;
  const Message message = split_message(message_of<IndexError>([&] { z.to(cpu()); }));
  CHECK(message.text == late_index(50, 1));
  CHECK(message.line == line);
  synchronize(kGpu);
}

TEST_CASE("every call may be the one that fails, however many there have been", "[gpu][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_on_gpu({5, 2}, 1), good = indices({1, 2}), bad = indices({5});
  for (int i = 0; i < 300; ++i) take(x, good, 0);
  unsigned line = 0;
  const Call call = [&] {
    line = __LINE__ + 1;
    take(x, bad, 0);
    for (int i = 0; i < 300 && !waits_always(); ++i) take(x, good, 0);
  };
  check_index_error(
      call, [] { synchronize(kGpu); },
      "take: index 5 at [0] is out of range for axis 0 of shape [5, 2]; it must be in [-5, 5).", late_index(5, 0),
      line);
}

// --- values that are no numbers ----------------------------------------------------------------------------------

namespace {

/// The beginning of what is said of an operation on that line, and the rest of it if it comes late.
void check_numeric_error(const Call& call, const Call& wait, const std::string& op, const unsigned& line) {
  if (waits_always()) {
    const std::string text = message_of<NumericError>(call);
    CHECK(begins_with(text, op + " at " + file + ":" + std::to_string(line) + " made "));
  } else {
    call();
    const std::string text = message_of<NumericError>(wait);
    CHECK(text == op + " at " + file + ":" + std::to_string(line) + " made values that are not finite" + kLate);
  }
  synchronize(kGpu);
}

}  // namespace

TEST_CASE("check_numerics names the operation that made a NaN or an infinity", "[gpu][errors][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = Tensor{1.0f, -1.0f, 0.0f}.to(kGpu);
  unsigned line = 0;
  const debug::NumericsScope watching;
  const Call wait = [] { synchronize(kGpu); };
  const auto root = [&] {
    line = __LINE__ + 1;
    const Tensor y = sqrt(x);
    const Tensor z = y * 2.0f;  // has had them from there
  };
  check_numeric_error(root, wait, "sqrt", line);
  const auto logarithm = [&] {
    line = __LINE__ + 1;
    const Tensor y = log(abs(x));
  };
  check_numeric_error(logarithm, wait, "log", line);
  const Tensor fine = exp(x) + 1.0f;
  synchronize(kGpu);
  CHECK(values(fine)[2] == 2);
}

TEST_CASE("a step with gradients of a few rows can be captured while its numbers are checked",
          "[gpu][capture][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor table = full_on_gpu({50, 4}, 3), rows = Tensor{3, 7}.to(kGpu), seed = full_on_gpu({2, 4}, 0.5);
  auto step = cuda::capture([&](const Tensor& x) {
    GradientTape tape;
    tape.watch(table);
    const Tensor y = gather(table, rows) * x;
    return tape.gradient({y}, std::vector<Tensor>{table}, std::vector<Tensor>{seed})[0];
  });
  const debug::NumericsScope watching;
  for (int i = 0; i < 3; ++i) {
    const Tensor gradient = step(full_on_gpu({2, 4}, 2));
    CHECK(number(sum(gradient)) == 8);
  }
  synchronize(kGpu);
}

TEST_CASE("check_numerics looks at gradients of a few rows as they are", "[gpu][errors][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const auto sliced = [](double value) {
    return from_row_slices({Tensor{std::int64_t{3}, std::int64_t{7}}.to(kGpu), full_on_gpu({2, 4}, value)}, {50, 4});
  };
  const debug::NumericsScope watching;
  CHECK(message_of<NumericError>([&] {  // which reads a value at its end, and so tells of it
          scale_each(std::vector<Tensor>{sliced(3e38)}, 10);
        })
            .starts_with("scale_each"));
  const auto before = scale_each(std::vector<Tensor>{sliced(kNaN)}, 10);  // was so
  synchronize(kGpu);
  CHECK(has_row_slices(before.tensors[0]));
}

TEST_CASE("what was no number before is nobody's fault", "[gpu][errors][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({4}, kNaN);
  const debug::NumericsScope watching;
  const Tensor y = exp(x) + x * 2.0f, z = matmul(reshape(y, {2, 2}), ones({2, 2}, {.device = kGpu}));
  synchronize(kGpu);
  CHECK(std::isnan(values(z)[0]));
}

TEST_CASE("with check_numerics an optimizer does not use gradients that are no numbers", "[gpu][errors][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  Parameter w(Tensor{4.0f, -1.0f}.to(kGpu));
  optim::Sgd sgd({w}, {.learning_rate = 0.5});
  unsigned line = 0;
  {
    const debug::NumericsScope watching;
    std::vector<Tensor> gradients;
    const Call forward = [&] {
      GradientTape tape;
      line = __LINE__ + 1;
      const Tensor loss = sum(sqrt(w));
      gradients = tape.gradient(loss, sgd.parameters());
    };
    check_numeric_error(
        forward, [&] { sgd.apply(gradients); }, "sqrt", line);
  }
  CHECK(sgd.steps() == 0);
  CHECK(values(w) == std::vector<double>{4, -1});
  sgd.apply(std::vector<Tensor>{full_on_gpu({2}, 2)});
  CHECK(values(w) == std::vector<double>{3, -2});
}

TEST_CASE("gradients that are no numbers name the operation they belong to", "[gpu][errors][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = Tensor{4.0f, 0.0f}.to(kGpu);
  const debug::NumericsScope watching;
  unsigned line = 0;
  const Call call = [&] {
    GradientTape tape;
    tape.watch(x);
    line = __LINE__ + 1;
    const Tensor y = sqrt(x);
    tape.gradient(y, {x});
  };
  check_numeric_error(
      call, [] { synchronize(kGpu); }, "gradient of sqrt", line);
}
