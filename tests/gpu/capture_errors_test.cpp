// What captured steps refuse, in which words, and that afterwards everything is as it was before.
#include <capstan/capture.hpp>
#include <capstan/stream.hpp>

#include <stdexcept>
#include <thread>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// That nothing is left of a capture that failed: another one works, and so do plain operations.
void check_that_all_works() {
  CHECK_FALSE(capstan::detail::capturing());
  auto step = cuda::capture([](const Tensor& x) { return x * x + 1.0f; });
  for (int i = 0; i < 4; ++i) CHECK(values(step(full_on_gpu({40}, i))) == repeated(40, i * i + 1));
  CHECK(step.kernels() > 0);
  CHECK(values(full_on_gpu({40}, 2) * 3.0f) == repeated(40, 6));
  synchronize(kGpu);
}

/// Calls a captured step until it is captured, which fails in these words at that line of this file; twice, as the next
/// call tries again.
template <class Step>
void check_refused(Step& step, const Tensor& x, const std::string& text, const unsigned& line) {
  const Stream before = Stream::current(kGpu);
  step(x);  // runs
  for (int i = 0; i < 2; ++i) {
    const Message message = split_message(message_of<Error>([&] { step(x); }));
    CHECK(message.text == text);
    CHECK(message.file == "capture_errors_test.cpp");
    CHECK(message.line == line);
    CHECK(Stream::current(kGpu) == before);
    check_that_all_works();
  }
  CHECK(step.kernels() == 0);
}

std::string reads_text(const std::string& op) {
  return "capture: " + op +
         " reads values on the host; a captured step cannot wait for them. Return the tensor from the step and read it "
         "outside.";
}

}  // namespace

// --- inputs ------------------------------------------------------------------------------------------------------

TEST_CASE("the inputs of a captured step keep number, shapes and types", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  auto step = cuda::capture([](const Tensor& first, const auto&... more) {
    Tensor total = first * 2.0f;
    ((total = total + more), ...);
    return total;
  });
  const Tensor x = full_on_gpu({4}, 1), y = full_on_gpu({4}, 5);
  step(x, y);
  step(x, y);
  const auto text = [](const std::string& what) { return split_message(what).text; };
  CHECK(text(message_of<ShapeError>([&] { step(x, full_on_gpu({3}, 1)); })) ==
        "captured step: input 1 is [3] and was [4] when the step was captured; shapes must stay. Capture another one "
        "for this shape.");
  CHECK(text(message_of<DTypeError>([&] { step(full_on_gpu({4}, 1, DType::float64), y); })) ==
        "captured step: input 0 is float64 and was float32 when the step was captured; types must stay.");
  CHECK(text(message_of<ShapeError>([&] { step(x); })) ==
        "captured step: there are 1 inputs and were 2 when the step was captured; their number must stay.");
  CHECK(text(message_of<Error>([&] { step(x, Tensor()); })) ==
        "captured step: the tensor is undefined; give it a value first.");
  const Tensor longer = full_on_gpu({5}, 1);
  const unsigned line = __LINE__ + 1;
  const Message own = split_message(message_of<ShapeError>([&] { step.call(Where::current(), y, longer); }));
  CHECK(own.file == "capture_errors_test.cpp");
  CHECK(own.line == line);
  CHECK(values(step(y, x)) == repeated(4, 11));  // none of the calls has changed an input
  check_that_all_works();
}

// --- what cannot be recorded -------------------------------------------------------------------------------------

TEST_CASE("a captured step cannot read values on the host", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({4}, 2);
  unsigned line = 0;
  auto with_item = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    return t * sum(t).item<float>();
  });
  check_refused(with_item, x, reads_text("Tensor::to"), line);
  auto with_values = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    return t * t.to_vector<float>()[0];
  });
  check_refused(with_values, x, reads_text("Tensor::to"), line);
  auto with_wait = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    synchronize(kGpu);
    return t + 1.0f;
  });
  check_refused(with_wait, x, reads_text("synchronize"), line);
  auto with_mask = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    return sum(masked_select(t, t > 0.0f));
  });
  with_mask(x);
  const std::string what = split_message(message_of<Error>([&] { with_mask(x); })).text;
  CHECK(contains(what, " reads values on the host; a captured step cannot wait for them."));
  check_that_all_works();
}

TEST_CASE("clipping that asks for the norm reads on the host, and clipping that does not is recorded",
          "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({4}, 2);
  unsigned line = 0;
  const auto clipped = [&](const Tensor& t, bool error_if_nonfinite) {
    std::vector<Tensor> gradients;
    gradients.push_back(t * 3.0f);
    line = __LINE__ + 1;
    return optim::clip_by_global_norm(std::move(gradients), 6.0, {.error_if_nonfinite = error_if_nonfinite}).gradients;
  };
  auto strict = cuda::capture([&](const Tensor& t) { return clipped(t, true); });
  check_refused(strict, x, reads_text("Tensor::to"), line);
  auto lenient = cuda::capture([&](const Tensor& t) { return clipped(t, false); });
  for (int i = 0; i < 3; ++i) CHECK(values(lenient(x)[0]) == repeated(4, 3));  // of norm 12
}

TEST_CASE("tensors that a captured step leaves behind are found", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor state = full_on_gpu({4}, 0);
  unsigned line = 0;
  auto step = cuda::capture([&](const Tensor& x) {
    line = __LINE__ + 1;
    state = tanh(state + x);
    return sum(state);
  });
  const Tensor x = full_on_gpu({4}, 1);
  step(x);
  for (int i = 0; i < 2; ++i) {
    CHECK(split_message(message_of<Error>([&] { step(x); })).text ==
          "capture: 512 bytes made at capture_errors_test.cpp:" + std::to_string(line) +
              " are still held after the step and are not among its results; a replay would not make them again. "
              "Assign to a tensor that was there before, as in state.assign(next).");
    check_that_all_works();
    state = full_on_gpu({4}, 0);
  }
  auto assigned = cuda::capture([&](const Tensor& t) { state.assign(state + t); });
  for (int i = 1; i <= 4; ++i) {
    assigned(x);
    CHECK(values(state) == repeated(4, i));
  }
}

TEST_CASE("a captured step stays on its stream", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream other = Stream::create(kGpu);
  unsigned line = 0;
  auto step = cuda::capture([&](const Tensor& x) {
    line = __LINE__ + 1;
    const StreamScope scope(other);
    return x * 2.0f;
  });
  check_refused(step, full_on_gpu({4}, 1),
                "StreamScope: a captured step runs on a stream of its own; choose one around it.", line);
}

TEST_CASE("a captured step draws on the GPU", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({4}, 1), host = full({4}, 1.0f, {.device = cpu()});
  Rng rng(3);
  unsigned line = 0;
  auto drawn = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    return t + uniform({4}, 0, 1, rng, {.device = cpu()}).to(kGpu);
  });
  check_refused(drawn, x,
                "uniform: a captured step draws on the host, which a replay would not repeat; give the device.", line);
  auto dropped = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    return t + dropout(host, 0.5, rng).to(kGpu);
  });
  check_refused(
      dropped, x,
      "dropout: a captured step draws on the host, which a replay would not repeat; move the tensor to the GPU.", line);
  auto permuted = cuda::capture([&](const Tensor& t) {
    line = __LINE__ + 1;
    return gather(t, permutation(4, rng).to(kGpu));
  });
  check_refused(permuted, x, "permutation: it is drawn on the host, which a captured step cannot repeat.", line);
}

TEST_CASE("a captured step changes parameters on the GPU", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  optim::Sgd sgd({full({4}, 1.0f, {.device = cpu()})}, {.learning_rate = 0.5});
  unsigned line = 0;
  auto step = cuda::capture([&](const Tensor& x) {
    line = __LINE__ + 1;
    sgd.apply(std::vector<Tensor>{full({4}, 1.0f, {.device = cpu()})});
    return x + 1.0f;
  });
  check_refused(
      step, full_on_gpu({4}, 1),
      "Sgd: parameter 0 is on the cpu, where a replay of the captured step would not change it; move it to the GPU.",
      line);
  CHECK(sgd.steps() == 1);
  CHECK(values(sgd.parameters()[0]) == repeated(4, 0.5));
}

TEST_CASE("a captured step uses one GPU", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(2);
  const Tensor there = full({4}, 1.0f, {.device = cuda(1)});
  unsigned line = 0;
  auto step = cuda::capture([&](const Tensor& x) {
    line = __LINE__ + 1;
    const Tensor copy = there.copy();
    return x + 1.0f;
  });
  check_refused(step, full_on_gpu({4}, 1),
                "capture: copy runs on cuda:1, which a replay would not repeat: the step is captured on cuda:0.", line);
  auto moved = cuda::capture([&](const Tensor& x) {
    line = __LINE__ + 1;
    return x + there.to(kGpu);
  });
  check_refused(moved, full_on_gpu({4}, 1),
                "capture: Tensor::to runs on cuda:1, which a replay would not repeat: the step is captured on cuda:0.",
                line);
  auto on_second = cuda::capture([](const Tensor& x) { return x * 3.0f; }, cuda(1));
  for (int i = 0; i < 4; ++i) CHECK(values(on_second(full({4}, i, {.device = cuda(1)}))) == repeated(4, 3 * i));
}

TEST_CASE("captured steps do not nest", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const auto plain = [](const Tensor& x) { return x * 2.0f; };
  auto inner = cuda::capture(plain);
  bool nested = false;
  auto outer = cuda::capture([&](const Tensor& x) { return nested ? inner(x) + 1.0f : plain(x) + 1.0f; });
  const Tensor x = full_on_gpu({4}, 3);
  inner(x);
  outer(x);
  nested = true;
  CHECK(split_message(message_of<Error>([&] { outer(x); })).text ==
        "capture: this thread captures another step already; end that first.");
  check_that_all_works();
  CHECK(values(inner(x)) == repeated(4, 6));
  CHECK(split_message(message_of<Error>([&] { outer(x); })).text ==
        "captured step: this thread captures another step, which cannot hold a replay; call the function itself "
        "there.");
  check_that_all_works();
  CHECK(values(inner(x)) == repeated(4, 6));
  nested = false;
  for (int i = 0; i < 3; ++i) CHECK(values(outer(x)) == repeated(4, 7));
}

TEST_CASE("a generator that is seeded anew needs another capture", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Rng rng(7);
  auto step = cuda::capture([&](const Tensor& x) { return dropout(x, 0.5, rng); });
  const Tensor x = full_on_gpu({64}, 1);
  for (int i = 0; i < 3; ++i) step(x);
  const RngState stood = rng.state();
  rng = Rng(8);
  CHECK(split_message(message_of<Error>([&] { step(x); })).text ==
        "captured step: a generator has seed 8 and stream 0, and had 7 and 0 when the step was captured; capture it "
        "anew.");
  CHECK(rng.position() == 0);
  rng.restore(stood);
  Rng same_place(7);
  same_place.restore(stood);
  CHECK(same_bits(values(step(x)), values(dropout(x, 0.5, same_place))));
}

// --- what is left of a step that could not be captured -----------------------------------------------------------

namespace {

/// A linear fit that draws, and can fail behind its step.
struct Fit {
  Rng rng{9};
  Parameter w{random_on_gpu({6, 2}, 21)};
  optim::Adam adam{{w}, {.learning_rate = 0.05}};
  int fail = 0;  // 1: reads on the host, 2: throws

  Tensor step(const Tensor& x) {
    for (int k = 0; k < 2; ++k) {  // two steps of one optimizer
      GradientTape tape;
      const Tensor y = matmul(dropout(x, 0.7, rng), w), loss = mean(y * y);
      adam.apply(tape.gradient(loss, adam.parameters()));
    }
    if (fail == 1) return full_on_gpu({1}, sum(w).item<float>());
    if (fail == 2) throw std::runtime_error("mine");
    return sum(w);
  }
};

}  // namespace

TEST_CASE("a step that could not be captured leaves optimizers and generators as they were", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  for (const int kind : {1, 2}) {
    Fit eager, captured;
    auto step = cuda::capture([&](const Tensor& x) { return captured.step(x); });
    const Tensor x = random_on_gpu({5, 6}, 22);
    CHECK(same_bits(values(step(x)), values(eager.step(x))));
    const std::int64_t held = memory::stats(kGpu).in_use;
    for (int i = 0; i < 3; ++i) {
      captured.fail = kind;
      if (kind == 1) CHECK(begins_with(message_of<Error>([&] { step(x); }), reads_text("Tensor::to")));
      else CHECK(message_of<std::runtime_error>([&] { step(x); }) == "mine");
      captured.fail = 0;
      CHECK(captured.adam.steps() == 2);
      CHECK(captured.rng.position() == eager.rng.position());
      CHECK(same_bits(values(captured.w), values(eager.w)));
      CHECK(memory::stats(kGpu).in_use <= held + 4096);  // the inputs of the step
    }
    for (int i = 0; i < 4; ++i) {  // by itself, captured, and replayed
      if (i == 0) CHECK(same_bits(values(captured.step(x)), values(eager.step(x))));
      else CHECK(same_bits(values(step(x)), values(eager.step(x))));
      CHECK(same_bits(values(captured.w), values(eager.w)));
    }
    CHECK(captured.adam.steps() == eager.adam.steps());
    CHECK(captured.rng.position() == eager.rng.position());
    check_that_all_works();
  }
}

TEST_CASE("a schedule that fails in a replay is an error of that call", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Fit fit;
  fit.adam.attach([](std::int64_t step) { return step == 4 ? -1.0 : 0.1; });
  auto step = cuda::capture([&](const Tensor& x) { return fit.step(x); });
  const Tensor x = random_on_gpu({5, 6}, 22);
  step(x);
  step(x);
  const std::vector<double> before = values(fit.w);
  CHECK(begins_with(message_of<Error>([&] { step(x); }),
                    "Adam: the schedule of group 0 gives -1 at step 4; a learning rate must be finite and >= 0."));
  CHECK(fit.adam.steps() == 4);
  CHECK(same_bits(values(fit.w), before));
  fit.adam.attach(optim::Schedule());
  step(x);
  CHECK(fit.adam.steps() == 6);
  CHECK_FALSE(same_bits(values(fit.w), before));
  check_that_all_works();
}

TEST_CASE("an optimizer whose states are replaced needs another capture", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Fit fit;
  auto step = cuda::capture([&](const Tensor& x) { return fit.step(x); });
  const Tensor x = random_on_gpu({5, 6}, 22);
  for (int i = 0; i < 3; ++i) step(x);
  fit.adam.load_state(fit.adam.state());
  CHECK(begins_with(message_of<Error>([&] { step(x); }),
                    "captured step: parameter 0, its states or its rule are others than when the step was captured; "
                    "capture it anew."));
  check_that_all_works();
}

TEST_CASE("another thread may wait for the device while a step is captured", "[gpu][capture][threads]") {
  CAPSTAN_NEEDS_GPUS(1);
  auto step = cuda::capture([](const Tensor& x) {
    const Tensor y = x * 2.0f;
    std::thread([] { synchronize(kGpu); }).join();
    return y + 1.0f;
  });
  for (int i = 0; i < 4; ++i) CHECK(values(step(full_on_gpu({4}, i))) == repeated(4, 2 * i + 1));
}

// --- errors that come later --------------------------------------------------------------------------------------

TEST_CASE("an index out of range in a replay names the line that was captured", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor table = random_on_gpu({5, 3}, 4);
  unsigned line = 0;
  auto step = cuda::capture([&](const Tensor& indices) {
    line = __LINE__ + 1;
    return take(table, indices, 0);
  });
  const auto indices = [](std::int64_t last) { return from_vector(std::vector<std::int64_t>{1, last}).to(kGpu); };
  for (int i = 0; i < 3; ++i) CHECK(same(step(indices(2)), take(table, indices(2), 0)));
  const Message message = split_message(message_of<IndexError>([&] {
    step(indices(9));
    synchronize(kGpu);
  }));
  CHECK(message.text ==
        "take: index 9 at position 1 is out of range; it must be in [-5, 5); found on cuda:0 after the call had "
        "returned.");
  CHECK(message.file == "capture_errors_test.cpp");
  CHECK(message.line == line);
  CHECK(same(step(indices(-1)), take(table, indices(-1), 0)));
  synchronize(kGpu);
  check_that_all_works();
}
