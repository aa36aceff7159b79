// Both directions of a layer as one operation: what the two sequences give by themselves, bit for bit.
#include <optional>

#include "tests/recurrent_use.hpp"

using namespace capstan;
using namespace tests;
using core::RecurrentKind;

namespace {

using Tensors = std::vector<Tensor>;

Tensors run_apart(const RecurrentUse& use, const Tensors& o) {
  RecurrentUse back = use;
  back.reverse = true;
  Tensors a = run_recurrent(use, Tensors(o.begin(), o.begin() + 8));
  Tensors given(o.begin() + 8, o.end());
  given[0] = o[0];
  const Tensors b = run_recurrent(back, given);
  a[0] = concat({a[0], b[0]}, -1);
  a.insert(a.end(), b.begin() + 1, b.end());
  return a;
}

/// Of a gru of either kind, and of an lstm without and with a projection.
std::vector<RecurrentUse> uses(RecurrentUse base) {
  std::vector<RecurrentUse> all;
  base.kind = RecurrentKind::lstm;
  all.push_back(base);
  base.projection = (base.hidden + 1) / 2;
  all.push_back(base);
  base.kind = RecurrentKind::gru;
  base.projection = 0;
  all.push_back(base);
  base.reset_after = false;
  all.push_back(base);
  return all;
}

}  // namespace

TEST_CASE("both directions give what each gives by itself", "[recurrent][threads]") {
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    for (const DType dtype : {DType::float32, DType::float64})
      for (RecurrentUse base : {RecurrentUse{.batch = 3, .time = 5, .inputs = 4, .hidden = 5},  // too little to share
                                RecurrentUse{.batch = 1, .time = 40, .inputs = 40, .hidden = 70},  // a thread each
                                RecurrentUse{.batch = 33, .time = 3, .inputs = 9, .hidden = 130},  // units are shared
                                RecurrentUse{.batch = 64, .time = 9, .inputs = 20, .hidden = 40},  // rows are
                                RecurrentUse{.batch = 70, .time = 1, .inputs = 90, .hidden = 30},
                                RecurrentUse{.batch = 0, .time = 2, .inputs = 3, .hidden = 4}})
        for (const bool ragged : {false, true}) {
          base.dtype = dtype;
          if (ragged) base.lengths = ragged_lengths(base.batch, base.time), base.time_major = true;
          for (const RecurrentUse& use : uses(base)) {
            INFO(use.text() << ", threads " << threads);
            const Tensors operands = both_operands(use);
            check_same(run_with_gradients(run_both_directions, use, operands),
                       run_with_gradients(run_apart, use, operands));
          }
        }
  }
}

TEST_CASE("both directions are one entry, which may be asked twice, and for gradients of last states alone",
          "[recurrent]") {
  for (const RecurrentUse& use : uses({.batch = 4, .time = 6, .inputs = 3, .hidden = 8})) {
    INFO(use.text());
    const Tensors o = both_operands(use), sources = existing(o);
    const auto gradients = [&](RecurrentRun run) {
      GradientTape tape{{.persistent = true}};
      for (const Tensor& one : sources) tape.watch(one);
      const Tensors results = run(use, o);
      if (run == run_both_directions) CHECK(tape.size() == 1);
      Tensors list = tape.gradient(sum(square(results.back())), sources, {.unconnected = Unconnected::zeros});
      for (Tensor& one : tape.gradient(sum(square(results[0])), sources)) list.push_back(std::move(one));
      return list;
    };
    check_same(gradients(run_both_directions), gradients(run_apart));
  }
}

TEST_CASE("operands and output gradients of both directions may be views", "[recurrent]") {
  for (const RecurrentUse& use : uses({.batch = 4, .time = 3, .inputs = 3, .hidden = 5})) {
    INFO(use.text());
    const Tensors o = both_operands(use), seeds = recurrent_weights(run_both_directions(use, o));
    const auto views = [](Tensors list) {
      for (Tensor& one : list)
        if (one.defined()) one = strided(one);
      return list;
    };
    check_close(run_with_gradients(run_both_directions, use, views(o), views(seeds)),
                run_with_gradients(run_apart, use, o, seeds));
  }
}

TEST_CASE("a watcher may come between both directions and their gradients", "[recurrent]") {
  const RecurrentUse use{.batch = 3, .time = 4, .inputs = 3, .hidden = 6};
  const Tensors o = both_operands(use);
  const auto gradient = [&](bool watched) {
    GradientTape tape;
    tape.watch(o[0]);
    const Tensor loss = sum(square(run_both_directions(use, o)[0]));
    std::optional<debug::Profiler> profiler;
    if (watched) profiler.emplace();
    return tape.gradient(loss, o[0]);
  };
  CHECK(same(gradient(true), gradient(false)));
}

TEST_CASE("gradients of gradients of both directions", "[recurrent]") {
  for (const RecurrentUse& use : uses({.batch = 2, .time = 3, .inputs = 2, .hidden = 4, .lengths = {3, 1}})) {
    INFO(use.text());
    const Tensors operands = both_operands(use);
    check_close(run_with_second_gradients(run_both_directions, use, operands),
                run_with_second_gradients(run_apart, use, operands));
  }
}

TEST_CASE("both directions without the gradients of one", "[recurrent]") {
  for (const RecurrentUse& use : uses({.batch = 4, .time = 6, .inputs = 3, .hidden = 8})) {
    INFO(use.text());
    const Tensors o = both_operands(use);
    for (const std::size_t wx : {3, 11}) {
      const auto gradient = [&](RecurrentRun run) {
        GradientTape tape;
        tape.watch(o[wx]);
        const Tensor outputs = run(use, o)[0];
        return tape.gradient(sum(outputs * random_in(-1, 1, outputs.shape(), use.dtype, 900)), o[wx]);
      };
      CHECK(same(gradient(run_both_directions), gradient(run_apart)));
    }
  }
}

TEST_CASE("both directions share weights and states", "[recurrent]") {
  const RecurrentUse use{.batch = 3, .time = 4, .inputs = 3, .hidden = 6};
  Tensors o = both_operands(use);
  for (std::size_t i = 1; i < 8; ++i) o[8 + i] = o[i];
  const auto gradients = [&](RecurrentRun run) {
    GradientTape tape;
    for (const Tensor& one : existing(o)) tape.watch(one);
    return tape.gradient(sum(square(run(use, o)[0])), {o[0], o[1], o[2], o[3], o[4], o[5]});
  };
  check_close(gradients(run_both_directions), gradients(run_apart));
}

TEST_CASE("both directions under autocast, and in 16-bit types", "[recurrent]") {
  for (const bool cast : {false, true}) {
    RecurrentUse use{.batch = 3, .time = 4, .inputs = 3, .hidden = 6};
    use.dtype = cast ? DType::float32 : DType::bfloat16;
    const Tensors o = both_operands(use);
    const auto run = [&](RecurrentRun which) {
      if (!cast) return which(use, o);
      const AutocastScope scope(DType::bfloat16);
      return which(use, o);
    };
    check_same(run(run_both_directions), run(run_apart));
  }
}

TEST_CASE("watchers see two operations of both directions", "[recurrent]") {
  const RecurrentUse use{.batch = 3, .time = 4, .inputs = 3, .hidden = 6};
  const Tensors o = both_operands(use), expected = run_apart(use, o);
  debug::Profiler profiler;
  check_same(run_both_directions(use, o), expected);
  profiler.stop();
  std::int64_t count = 0;
  for (const debug::ProfileRow& row : profiler.table())
    if (row.name == "lstm") count += row.count;
  CHECK(count == 2);
}

TEST_CASE("memory that a thread of both directions does not get is told to who called", "[recurrent][threads][host]") {
  const ThreadCount count(2);
  const RecurrentUse use{.batch = 1, .time = 600, .inputs = 300, .hidden = 70, .dtype = DType::float32};
  const Tensors o = both_operands(use), before = run_both_directions(use, o);
  memory::release_cache();
  memory::set_limit(cpu(), memory::stats().reserved + (1 << 19));  // for the results, but not for all gates
  CHECK_THROWS_AS(run_both_directions(use, o), OutOfMemoryError);
  memory::set_limit(cpu(), 0);
  CHECK(same(run_both_directions(use, o)[0], before[0]));
}
