// The recurrent operations at their edges: views, nothing at all, padding, some of the gradients, tapes, memory, threads.
#include <functional>
#include <optional>

#include "tests/recurrent_use.hpp"

using namespace capstan;
using namespace tests;

namespace {

using core::RecurrentKind;
using Tensors = std::vector<Tensor>;
using View = Tensor (*)(const Tensor&);

/// The same elements in memory that runs backwards along every axis.
Tensor backwards(const Tensor& x) {
  const std::vector<Index> reversed(static_cast<std::size_t>(x.rank()), Index(from(-1, -1)));
  return x.index(std::span<const Index>(reversed)).copy().index(std::span<const Index>(reversed));
}
Tensor as_it_is(const Tensor& x) { return x; }

Tensors each(const Tensors& tensors, View view) {
  Tensors list;
  for (const Tensor& x : tensors) list.push_back(x.defined() ? view(x) : x);
  return list;
}

void watch_all(GradientTape& tape, const Tensors& tensors) {
  for (const Tensor& x : tensors) tape.watch(x);
}

}  // namespace

// --- views and empty tensors ---------------------------------------------------------------------------------------

TEST_CASE("operands and output gradients of recurrent operations may be views", "[recurrent]") {
  for (const RecurrentUse& use : recurrent_uses({.batch = 4, .time = 3, .inputs = 3, .hidden = 5})) {
    INFO(use.text());
    const Tensors operands = recurrent_operands(use), weights = recurrent_weights(run_recurrent(use, operands));
    const Tensors expected = run_with_gradients(run_recurrent, use, operands, weights);
    for (const View view : {&strided, &backwards})
      check_close(run_with_gradients(run_recurrent, use, each(operands, view), each(weights, view)), expected);

    // one row for the whole batch, one step for all, one unit's gradient for all
    const auto stretched = [](const Tensor& x, int axis) { return broadcast_to(narrow(x, axis, 0, 1), x.shape()); };
    Tensors some = operands, seeds;
    for (int axis = 0; axis + 1 < some[0].rank(); ++axis) some[0] = stretched(some[0], axis);
    for (const std::size_t i : {1u, 2u})
      if (some[i].defined()) some[i] = stretched(some[i], 0);
    for (const Tensor& w : weights) seeds.push_back(stretched(stretched(w, 0), -1));
    check_close(run_with_gradients(run_recurrent, use, some, seeds),
                run_with_gradients(run_recurrent, use, each(some, [](const Tensor& x) { return x.copy(); }),
                                   each(seeds, [](const Tensor& x) { return x.copy(); })));
  }
}

TEST_CASE("outputs of a recurrent operation may have the memory of another order, and so may gradients",
          "[recurrent]") {
  const auto noise = [](const Shape& shape, std::uint64_t seed) {
    return random_in(-1, 1, shape, DType::float32, seed);
  };
  using Layer = std::function<Tensor(const Tensor& x, const SequenceOptions& options)>;
  const std::int64_t batch = 6, hidden = 70;
  const Tensor h = noise({batch, hidden}, 1), p = noise({batch, 4}, 2), c = noise({batch, hidden}, 3);
  const Layer layers[] = {
      [&](const Tensor& x, const SequenceOptions& o) {
        return lstm(x, h, c, {noise({5, 280}, 4), noise({hidden, 280}, 5)}, o).outputs;
      },
      [&](const Tensor& x, const SequenceOptions& o) {
        return lstm(x, p, c, {noise({5, 280}, 4), noise({4, 280}, 5), {}, noise({hidden, 4}, 6)}, o).outputs;
      },
      [&](const Tensor& x, const SequenceOptions& o) {
        return gru(x, h, {noise({5, 210}, 4), noise({hidden, 210}, 5)}, true, o).outputs;
      },
      [&](const Tensor& x, const SequenceOptions& o) {
        return rnn(x, h, {noise({5, hidden}, 4), noise({hidden, hidden}, 5)}, Activation::tanh, o).outputs;
      }};
  for (std::size_t i = 0; i < std::size(layers); ++i)
    for (const std::int64_t time : {1, 4})
      for (const bool some : {false, true}) {
        INFO("layer " << i << ", " << time << " steps" << (some ? ", lengths" : ""));
        SequenceOptions options;
        if (some) options.lengths = from_vector(std::vector<std::int64_t>{time, 0, 1, time, 1, time});
        const Tensor input = noise({batch, time, 5}, 7);
        const auto run = [&](bool turned) -> Tensors {
          options.time_major_memory = turned;
          GradientTape tape;
          tape.watch(input);
          const Tensor x = turned ? transpose(transpose(input, 0, 1).copy(), 0, 1) : input.copy();
          Tensor gradient;
          tape.on_gradient(x, [&](const Tensor& g) { gradient = g; });
          const Tensor outputs = layers[i](x, options);
          tape.gradient(sum(outputs * outputs), input);
          return {outputs, gradient};
        };
        const Tensors plain = run(false), turned = run(true);
        for (const std::size_t k : {0u, 1u}) {
          CHECK(plain[k].is_contiguous());
          CHECK(transpose(turned[k], 0, 1).is_contiguous());
        }
        check_same(turned, plain);
      }
}

TEST_CASE("recurrent operations take batches of no rows", "[recurrent]") {
  for (const RecurrentUse& use : recurrent_uses({.batch = 0, .time = 4}))
    for (const View view : {&as_it_is, &strided}) {
      INFO(use.text() << (view == &strided ? ", views" : ""));
      const PoisonedBuffers poisoned(kNaN);
      const Tensors operands = each(recurrent_operands(use), view), sources = existing(operands);
      const Tensors list = run_with_gradients(run_recurrent, use, operands);
      const std::size_t results = list.size() - sources.size();
      if (!use.cell) CHECK(list[0].shape() == (use.time_major ? Shape{4, 0, use.units()} : Shape{0, 4, use.units()}));
      CHECK(list[use.cell ? 0u : 1u].shape() == Shape{0, use.units()});
      if (use.has_c()) CHECK(list[results - 1].shape() == Shape{0, use.hidden});
      for (std::size_t i = 0; i < sources.size(); ++i) CHECK(same(list[results + i], zeros_like(sources[i])));
    }
  const Tensor lengths = from_vector(std::vector<std::int64_t>());
  const Tensors o = recurrent_operands({.batch = 0, .time = 4});
  CHECK(lstm(o[0], o[1], o[2], {o[3], o[4], o[5]}, {.lengths = lengths}).outputs.shape() == Shape{0, 4, 3});
}

TEST_CASE("recurrent operations take steps without inputs", "[recurrent]") {
  for (const std::int64_t batch : {3, 24, 64})
    for (const RecurrentUse& use : recurrent_uses({.batch = batch, .time = 4, .inputs = 0})) {
      INFO(use.text() << ", batch " << batch);
      const PoisonedBuffers poisoned(kNaN);
      const Tensors operands = recurrent_operands(use);
      check_close(run_with_gradients(run_recurrent, use, operands),
                  run_with_gradients(run_recurrent_by_steps, use, operands), tolerance::sequence64);
    }
}

// --- padding -------------------------------------------------------------------------------------------------------

namespace {

/// x or outputs of a sequence with `filler` at the steps that rows have not.
Tensor padded_with(const RecurrentUse& use, const Tensor& x, double filler) {
  Tensor valid = sequence_mask(from_vector(use.lengths), use.time);
  if (use.time_major) valid = transpose(valid);
  return where(expand_dims(valid, -1), x, filler);
}

}  // namespace

TEST_CASE("what stands behind the ends of rows reaches no value and no gradient of either order", "[recurrent]") {
  for (RecurrentUse use : recurrent_uses({.batch = 5, .time = 4}))
    for (unsigned options = 0; options < 4; ++options) {
      if (use.lengths.empty()) continue;
      use.lengths = {4, 0, 2, 1, 3};
      use.reverse = (options & 1u) != 0;
      use.time_major = (options & 2u) != 0;
      INFO(use.text());
      Tensors clean = recurrent_operands(use);
      clean[0] = padded_with(use, clean[0], 0);
      Tensors weights = recurrent_weights(run_recurrent(use, clean));
      weights[0] = padded_with(use, weights[0], 0);
      const Tensors once = run_with_gradients(run_recurrent, use, clean, weights),
                    twice = run_with_second_gradients(run_recurrent, use, clean, weights);
      for (const double poison : {kNaN, kInfinity, -kInfinity}) {
        INFO("padded with " << poison);
        Tensors dirty = clean, dirty_weights = weights;
        dirty[0] = padded_with(use, clean[0], poison);
        check_same(run_with_gradients(run_recurrent, use, dirty, weights), once);
        check_same(run_with_second_gradients(run_recurrent, use, dirty, weights), twice);
        dirty_weights[0] = padded_with(use, weights[0], poison);
        check_same(run_with_gradients(run_recurrent, use, dirty, dirty_weights), once);
        check_same(run_with_second_gradients(run_recurrent, use, dirty, dirty_weights), twice);
      }
      const Tensor &dx = once[weights.size()], &second = twice[twice.size() - existing(clean).size()];
      CHECK(number(max(abs(second))) > 1e-4);  // something does flow
      CHECK(same(padded_with(use, dx, 0), dx));
      CHECK(same(padded_with(use, second, 0), second));
    }
}

// --- which gradients -----------------------------------------------------------------------------------------------

TEST_CASE("a recurrent gradient depends neither on which others are needed nor on outer tapes", "[recurrent]") {
  for (const std::int64_t time : {1, 3})
    for (const RecurrentUse& use : recurrent_uses({.batch = 2, .time = time})) {
      const Tensors operands = recurrent_operands(use), sources = existing(operands);
      const Tensors weights = recurrent_weights(run_recurrent(use, operands));
      for (std::size_t r = 0; r < weights.size(); ++r) {
        const GradientOptions options{.output_gradient = weights[r], .unconnected = Unconnected::zeros};
        GradientTape whole;
        watch_all(whole, sources);
        const Tensor result = run_recurrent(use, operands)[r];
        const Tensors expected = whole.gradient(result, sources, options);
        for (std::size_t s = 0; s < sources.size(); ++s)
          for (const bool listened : {false, true}) {
            INFO(use.text() << ": result " << r << ", source " << s << (listened ? ", with an outer tape" : ""));
            std::optional<GradientTape> outer;
            if (listened) outer.emplace();
            GradientTape tape;
            tape.watch(sources[s]);
            const Tensor again = run_recurrent(use, operands)[r];
            CHECK(close(tape.gradient(again, sources[s], options), expected[s], tolerance::roundings64));
          }
      }
    }
}

TEST_CASE("an operand that stands in two places gets the gradients of both", "[recurrent]") {
  struct Shared {
    RecurrentUse use;
    std::size_t first, second;  // operands
  };
  const Shared cases[] = {{{.kind = RecurrentKind::rnn_tanh, .inputs = 3}, 3, 4},
                          {{.kind = RecurrentKind::rnn_tanh, .inputs = 3, .reverse = true}, 3, 4},
                          {{.kind = RecurrentKind::gru, .inputs = 3}, 3, 4},
                          {{.kind = RecurrentKind::gru, .inputs = 3, .reset_after = false}, 3, 4},
                          {{.kind = RecurrentKind::gru, .inputs = 3, .cell = true}, 0, 1},
                          {{.kind = RecurrentKind::lstm, .inputs = 3}, 3, 4},
                          {{.kind = RecurrentKind::lstm}, 1, 2},
                          {{.kind = RecurrentKind::lstm, .cell = true}, 1, 2}};
  for (const Shared& c : cases) {
    Tensors apart = recurrent_operands(c.use);
    apart[c.second] = apart[c.first].copy();
    Tensors together = apart;
    together[c.second] = together[c.first];
    const Tensors weights = recurrent_weights(run_recurrent(c.use, apart));
    const Tensors parts = run_with_gradients(run_recurrent, c.use, apart, weights);
    const auto gradient = [&](std::size_t operand) {
      return parts[weights.size() + operand - (operand > 2 && !c.use.has_c() ? 1u : 0u)];  // those that exist
    };
    const Tensor expected = gradient(c.first) + gradient(c.second);
    for (const bool listened : {false, true}) {
      INFO(c.use.text() << ": operands " << c.first << " and " << c.second << (listened ? ", with an outer tape" : ""));
      std::optional<GradientTape> outer;
      if (listened) outer.emplace();
      GradientTape tape;
      tape.watch(together[c.first]);
      const Tensors results = run_recurrent(c.use, together);
      const Tensors sources = {together[c.first]};
      CHECK(close(tape.gradient(results, sources, weights)[0], expected, tolerance::roundings64));
    }
  }
}

// --- tapes and memory ----------------------------------------------------------------------------------------------

TEST_CASE("a persistent tape gives recurrent gradients twice, and recording changes no result", "[recurrent]") {
  for (const RecurrentUse& use : recurrent_uses({.batch = 7, .time = 4, .hidden = 20})) {
    INFO(use.text());
    const Tensors operands = recurrent_operands(use), sources = existing(operands);
    GradientTape tape{{.persistent = true}};
    watch_all(tape, sources);
    const Tensors results = run_recurrent(use, operands), weights = recurrent_weights(results);
    const Tensors once = tape.gradient(results, sources, weights), twice = tape.gradient(results, sources, weights);
    check_same(twice, once);
    const NoGrad off;
    check_same(run_recurrent(use, operands), results);
  }
}

TEST_CASE("a recurrent operation is one entry on the tape, and keeps gates and states of valid steps only",
          "[recurrent][memory]") {
  for (const RecurrentUse& use : recurrent_uses({.batch = 5, .time = 4})) {
    if (!use.reset_after) continue;  // made of others
    INFO(use.text());
    const Tensors operands = recurrent_operands(use);
    GradientTape tape;
    watch_all(tape, existing(operands));
    run_recurrent(use, operands);
    std::int64_t lines = use.cell ? use.batch : use.batch * use.time;
    if (!use.lengths.empty()) lines = 0;
    for (const std::int64_t length : use.lengths) lines += length;
    const bool simple = use.kind == RecurrentKind::rnn_tanh || use.kind == RecurrentKind::rnn_relu;
    const bool forward = !use.reverse && !use.time_major;
    std::int64_t elements = lines * use.hidden * (simple ? 1 : 4);  // of a plain rnn its outputs
    if (!use.cell && !(simple && forward)) elements += lines * (use.units() + (use.has_c() ? use.hidden : 0));
    for (const Tensor& operand : existing(operands)) elements += operand.numel();
    CHECK(tape.size() == 1);
    CHECK(tape.bytes_kept() == 8 * (elements + static_cast<std::int64_t>(use.lengths.size())));
  }
}

TEST_CASE("a recurrent operation that no tape follows keeps nothing but its results", "[recurrent][memory]") {
  const auto occupied_by = [](const std::function<Tensors()>& make) {
    const std::int64_t before = memory::stats().in_use;
    const Tensors results = make();
    return memory::stats().in_use - before;
  };
  for (const RecurrentUse& use : recurrent_uses({.batch = 6, .time = 7, .hidden = 20})) {
    INFO(use.text());
    const Tensors operands = recurrent_operands(use);
    const auto run = [&] { return run_recurrent(use, operands); };
    std::vector<Shape> shapes;
    for (const Tensor& result : run()) shapes.push_back(result.shape());
    const std::int64_t expected = occupied_by([&] {
      Tensors list;
      for (const Shape& shape : shapes) list.push_back(zeros(shape, {.dtype = DType::float64}));
      return list;
    });
    CHECK(occupied_by(run) <= expected);
    GradientTape tape;
    tape.watch(Tensor(1.0));
    CHECK(occupied_by(run) <= expected);
    tape.watch(operands[0]);
    {
      const NoGrad off;
      CHECK(occupied_by(run) <= expected);
    }
    CHECK(tape.size() == 0);
    if (use.has_c()) CHECK(occupied_by(run) > expected);  // so there is something that could be kept
  }
}

// --- threads -------------------------------------------------------------------------------------------------------

TEST_CASE("recurrent operations do not depend on the number of threads, nor on how rows are cut for them",
          "[recurrent][threads]") {
  const auto check = [](const RecurrentUse& use) {
    INFO(use.text());
    const Tensors operands = recurrent_operands(use);
    std::vector<std::vector<double>> expected;
    for (const int count : {1, 2, 3, 5}) {
      INFO(count << " threads");
      const ThreadCount some(count);
      std::vector<std::vector<double>> bits;
      for (const Tensor& x : run_with_gradients(run_recurrent, use, operands)) bits.push_back(values(x));
      if (expected.empty()) expected = bits;
      REQUIRE(bits.size() == expected.size());
      for (std::size_t i = 0; i < bits.size(); ++i) CHECK(same_bits(bits[i], expected[i]));
    }
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const RecurrentUse& use : recurrent_uses({.batch = 130, .time = 5, .inputs = 6, .hidden = 40, .dtype = dtype}))
      check(use);  // rows among the threads: in blocks of 130, 66, 44 and 26, or with lengths about half of that
    for (const RecurrentUse& use :
         recurrent_uses({.batch = 131, .time = 4, .inputs = 70, .hidden = 50, .dtype = dtype}))
      check(use);  // odd numbers of rows, with inputs that are multiplied beforehand
    for (const RecurrentUse& use : recurrent_uses({.batch = 133, .time = 4, .inputs = 6, .hidden = 50, .dtype = dtype}))
      check(use);  // and one more than a multiple of six, with inputs that are multiplied step by step
    for (const RecurrentUse& use : recurrent_uses({.batch = 5, .time = 3, .inputs = 4, .hidden = 300, .dtype = dtype}))
      check(use);  // units among them
    for (const RecurrentUse& use : recurrent_uses({.batch = 6, .time = 3, .inputs = 4, .hidden = 256, .dtype = dtype}))
      check(use);  // in wider pieces where these suit the threads
    for (const RecurrentUse& use : recurrent_uses({.batch = 6, .time = 2, .inputs = 4, .hidden = 270, .dtype = dtype}))
      check(use);  // in pieces of 48 or, for five threads, of 64
  }
}
