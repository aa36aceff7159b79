#include "tests/recurrent_use.hpp"

#include <algorithm>

namespace tests {

using namespace capstan;
using core::RecurrentKind;

namespace {

using Tensors = std::vector<Tensor>;

Tensor lengths_of(const RecurrentUse& use) { return use.lengths.empty() ? Tensor() : from_vector(use.lengths); }

}  // namespace

autograd::RecurrentRule RecurrentUse::rule() const {
  const bool before = kind == RecurrentKind::gru && !reset_after;
  return {
      .kind = before ? RecurrentKind::gru_before : kind, .cell = cell, .reverse = reverse, .time_major = time_major};
}

std::string RecurrentUse::op() const {
  const std::string family = kind == RecurrentKind::lstm ? "lstm" : kind == RecurrentKind::gru ? "gru" : "rnn";
  return cell ? family + "_cell" : family;
}

std::string RecurrentUse::text() const {
  std::string line = op();
  const auto add = [&line](const std::string& what) { line += ", " + what; };
  if (kind == RecurrentKind::rnn_relu) add("relu");
  if (!reset_after) add("reset before the product");
  add("batch " + std::to_string(batch));
  if (!cell) add("time " + std::to_string(time));
  add("inputs " + std::to_string(inputs));
  add("hidden " + std::to_string(hidden));
  if (projection > 0) add("projection " + std::to_string(projection));
  if (reverse) add("reverse");
  if (time_major) add("time-major");
  if (!lengths.empty()) add("lengths");
  if (!b) add("no b");
  if (!bn) add("no bn");
  add(name(dtype));
  return line;
}

std::vector<std::int64_t> ragged_lengths(std::int64_t batch, std::int64_t time) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t row = 0; row < batch; ++row) lengths.push_back((11 * row + 3) % (time + 1));
  return lengths;
}

std::vector<RecurrentUse> recurrent_uses(const RecurrentUse& base) {
  std::vector<RecurrentUse> uses;
  for (const RecurrentKind kind :
       {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu, RecurrentKind::gru, RecurrentKind::lstm})
    for (const bool other : {false, true}) {
      RecurrentUse use = base;
      use.kind = kind;
      if (other && kind == RecurrentKind::gru) use.reset_after = false;
      else if (other && kind == RecurrentKind::lstm) use.projection = (base.hidden + 1) / 2;
      else if (other) continue;
      use.cell = true;
      uses.push_back(use);
      use.cell = false;
      uses.push_back(use);
      use.reverse = true;
      use.time_major = true;
      use.lengths = ragged_lengths(base.batch, base.time);
      uses.push_back(use);
    }
  return uses;
}

Tensors recurrent_operands(const RecurrentUse& use, std::uint64_t seed) {
  const std::int64_t columns = use.rule().blocks() * use.hidden, units = use.units();
  std::uint64_t next = seed;
  const auto random = [&](const Shape& shape, double most) { return random_in(-most, most, shape, use.dtype, next++); };
  // sums over the rows have variance 1
  const auto weights = [&](std::int64_t rows, std::int64_t width) {
    return random({rows, width}, std::sqrt(3 / static_cast<double>(std::max<std::int64_t>(rows, 1))));
  };
  const Shape x = use.cell         ? Shape{use.batch, use.inputs}
                  : use.time_major ? Shape{use.time, use.batch, use.inputs}
                                   : Shape{use.batch, use.time, use.inputs};
  const bool has_bn = use.kind == RecurrentKind::gru && use.reset_after && use.bn;
  Tensors operands;
  operands.push_back(random(x, 1));
  operands.push_back(random({use.batch, units}, 1));
  operands.push_back(use.has_c() ? random({use.batch, use.hidden}, 1) : Tensor());
  operands.push_back(weights(use.inputs, columns));
  operands.push_back(weights(units, columns));
  operands.push_back(use.b ? random({columns}, 1) : Tensor());
  operands.push_back(has_bn ? random({use.hidden}, 1) : Tensor());
  operands.push_back(use.projection > 0 ? weights(use.hidden, units) : Tensor());
  return operands;
}

Tensors existing(const Tensors& tensors) {
  Tensors list;
  for (const Tensor& tensor : tensors)
    if (tensor.defined()) list.push_back(tensor);
  return list;
}

Tensors run_recurrent(const RecurrentUse& use, const Tensors& o) {
  const SequenceOptions options{.lengths = lengths_of(use), .reverse = use.reverse, .time_major = use.time_major};
  if (use.kind == RecurrentKind::lstm) {
    const LstmWeights w{o[3], o[4], o[5], o[7]};
    if (use.cell) {
      const LstmState after = lstm_cell(o[0], o[1], o[2], w);
      return {after.h, after.c};
    }
    const LstmResult result = lstm(o[0], o[1], o[2], w, options);
    return {result.outputs, result.last.h, result.last.c};
  }
  RnnResult result;
  if (use.kind == RecurrentKind::gru) {
    const GruWeights w{o[3], o[4], o[5], o[6]};
    if (use.cell) return {gru_cell(o[0], o[1], w, use.reset_after)};
    result = gru(o[0], o[1], w, use.reset_after, options);
  } else {
    const RnnWeights w{o[3], o[4], o[5]};
    const Activation activation = use.kind == RecurrentKind::rnn_relu ? Activation::relu : Activation::tanh;
    if (use.cell) return {rnn_cell(o[0], o[1], w, activation)};
    result = rnn(o[0], o[1], w, activation, options);
  }
  return {result.outputs, result.last};
}

Tensors both_operands(const RecurrentUse& use) {
  Tensors operands = recurrent_operands(use, 1);
  for (Tensor& operand : recurrent_operands(use, 50)) operands.push_back(std::move(operand));
  operands[8] = Tensor();
  return operands;
}

Tensors run_both_directions(const RecurrentUse& use, const Tensors& o) {
  const SequenceOptions options{.lengths = lengths_of(use), .time_major = use.time_major};
  if (use.kind == RecurrentKind::gru) {
    const GruWeights w{o[3], o[4], o[5], o[6]}, back{o[11], o[12], o[13], o[14]};
    const detail::GruBoth both =
        detail::gru_both(o[0], o[1], w, o[9], back, use.reset_after, options, Where::current());
    return {both.outputs, both.last, both.back_last};
  }
  const LstmWeights w{o[3], o[4], o[5], o[7]}, back{o[11], o[12], o[13], o[15]};
  const detail::LstmBoth both =
      detail::lstm_both(o[0], {o[1], o[2]}, w, {o[9], o[10]}, back, options, Where::current());
  return {both.outputs, both.last.h, both.last.c, both.back_last.h, both.back_last.c};
}

Tensors run_recurrent_by_steps(const RecurrentUse& use, const Tensors& o) {
  const autograd::RecurrentOutputs out = autograd::recurrent_by_steps(
      use.rule(), {o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7]}, lengths_of(use), Where::current());
  return existing({out.outputs, out.h, out.c});
}

Tensors recurrent_weights(const Tensors& results) {
  Tensors weights;
  for (const Tensor& result : results)
    weights.push_back(random_in(-1, 1, result.shape(), result.dtype(), 900 + weights.size()));
  return weights;
}

Tensors run_with_gradients(RecurrentRun run, const RecurrentUse& use, const Tensors& operands, const Tensors& weights) {
  const Tensors sources = existing(operands);
  GradientTape tape;
  for (const Tensor& source : sources) tape.watch(source);
  Tensors list = run(use, operands);
  const Tensors seeds = weights.empty() ? recurrent_weights(list) : weights;
  const Tensors gradients = tape.gradient(list, sources, seeds, Unconnected::zeros);
  list.insert(list.end(), gradients.begin(), gradients.end());
  return list;
}

Tensors run_with_second_gradients(RecurrentRun run, const RecurrentUse& use, const Tensors& operands,
                                  const Tensors& weights) {
  const Tensors sources = existing(operands);
  GradientTape outer;  // while it listens gradients are made of ordinary operations
  for (const Tensor& source : sources) outer.watch(source);
  Tensors list = run_with_gradients(run, use, operands, weights);
  Tensor penalty(0.0);
  for (std::size_t i = list.size() - sources.size(); i < list.size(); ++i) penalty = penalty + sum(square(list[i]));
  const Tensors second = outer.gradient(penalty, sources, {.unconnected = Unconnected::zeros});
  list.insert(list.end(), second.begin(), second.end());
  return list;
}

void check_same(const Tensors& actual, const Tensors& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("number " << i << " of results and gradients");
    CHECK(same(actual[i], expected[i]));
  }
}

void check_close(const Tensors& actual, const Tensors& expected, double allowed) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("number " << i << " of results and gradients");
    CHECK(close(actual[i], expected[i], allowed));
  }
}

}  // namespace tests
