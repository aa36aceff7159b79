// The recurrent operations: fused kernels against the rule in ordinary operations and against plain loops; biases,
// lengths, 16-bit types, long sequences.
#include <algorithm>

#include "tests/recurrent_use.hpp"

using namespace capstan;
using namespace tests;

namespace {

using core::RecurrentKind;
using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;

std::size_t size_of_axis(std::int64_t size) { return static_cast<std::size_t>(size); }

// --- against the rule ----------------------------------------------------------------------------------------------

void compare_with_rule(const RecurrentUse& use) {
  INFO(use.text());
  const PoisonedBuffers poisoned(kNaN);
  const Tensors operands = recurrent_operands(use);
  check_close(run_with_gradients(run_recurrent, use, operands),
              run_with_gradients(run_recurrent_by_steps, use, operands),
              use.dtype == DType::float64 ? tolerance::sequence64 : tolerance::sequence32);
}

struct Extents {
  std::int64_t batch, time, inputs, hidden;
};
const Extents small_ones[] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {5, 2, 3, 16}};
// rows among the threads, with few inputs or many; units among them; both, by type; sums over two parts of a batch, of
// wide inputs or of many rows a step; over eight
const Extents large_ones[] = {{31, 7, 9, 33},   {64, 5, 27, 64},   {130, 3, 2, 24}, {131, 3, 70, 50},
                              {20, 4, 30, 200}, {3, 6, 40, 300},   {49, 2, 3, 300}, {5, 3, 4, 290},
                              {64, 8, 100, 98}, {64, 20, 400, 98}, {202, 2, 9, 20}, {258, 5, 6, 20}};

struct Variant {
  RecurrentKind kind;
  bool projected = false;
};
const Variant variants[] = {{RecurrentKind::rnn_tanh},
                            {RecurrentKind::rnn_relu},
                            {RecurrentKind::gru},
                            {RecurrentKind::lstm},
                            {RecurrentKind::lstm, true}};

RecurrentUse use_of(const Variant& v, const Extents& e, DType dtype) {
  return {.kind = v.kind,
          .batch = e.batch,
          .time = e.time,
          .inputs = e.inputs,
          .hidden = e.hidden,
          .projection = v.projected ? (e.hidden + 1) / 2 : 0,
          .dtype = dtype};
}
/// Options as bits: 1 reverse, 2 time-major, 4 lengths.
RecurrentUse with_options(RecurrentUse use, unsigned options) {
  use.reverse = (options & 1u) != 0;
  use.time_major = (options & 2u) != 0;
  if ((options & 4u) != 0) use.lengths = ragged_lengths(use.batch, use.time);
  return use;
}

// --- plain loops ---------------------------------------------------------------------------------------------------

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// The numbers of a matrix; zeros if it is undefined.
class Matrix {
 public:
  Matrix(const Tensor& t, std::size_t columns) : numbers_(t.defined() ? values(t) : Numbers()), columns_(columns) {}
  double operator()(std::size_t i, std::size_t j) const { return numbers_.empty() ? 0.0 : numbers_[i * columns_ + j]; }
  std::size_t columns() const { return columns_; }

 private:
  Numbers numbers_;
  std::size_t columns_;
};

Numbers times(const Numbers& row, const Matrix& m) {
  Numbers result(m.columns());
  for (std::size_t i = 0; i < row.size(); ++i)
    for (std::size_t j = 0; j < result.size(); ++j) result[j] += row[i] * m(i, j);
  return result;
}

/// The formulas of the header, number by number.
class Loops {
 public:
  Loops(const RecurrentUse& use, const Tensors& o)
      : use_(use),
        hidden_(size_of_axis(use.hidden)),
        units_(size_of_axis(use.units())),
        columns_(size_of_axis(use.rule().blocks() * use.hidden)),
        wx_(o[3], columns_),
        wh_(o[4], columns_),
        b_(o[5], columns_),
        bn_(o[6], hidden_),
        projection_(o[7], units_) {}

  /// As run_recurrent, in float64.
  Tensors run(const Tensors& o) const {
    const std::size_t batch = size_of_axis(use_.batch), inputs = size_of_axis(use_.inputs);
    const std::int64_t steps = use_.cell ? 1 : use_.time;
    const std::size_t time = size_of_axis(steps);
    const Numbers x = values(o[0]), h0 = values(o[1]), c0 = use_.has_c() ? values(o[2]) : Numbers(batch * hidden_);
    Numbers outputs(batch * time * units_), last_h, last_c;
    for (std::size_t row = 0; row < batch; ++row) {
      Numbers h(h0.data() + row * units_, h0.data() + (row + 1) * units_);
      Numbers c(c0.data() + row * hidden_, c0.data() + (row + 1) * hidden_);
      const std::size_t length = use_.lengths.empty() ? time : size_of_axis(use_.lengths[row]);
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t t = use_.reverse ? length - 1 - i : i;
        const std::size_t line = use_.time_major ? t * batch + row : row * time + t;
        step(Numbers(x.data() + line * inputs, x.data() + (line + 1) * inputs), h, c);
        std::copy(h.begin(), h.end(), outputs.data() + line * units_);
      }
      last_h.insert(last_h.end(), h.begin(), h.end());
      last_c.insert(last_c.end(), c.begin(), c.end());
    }
    Tensors results;
    if (!use_.cell)
      results.push_back(from_doubles(
          outputs, use_.time_major ? Shape{steps, use_.batch, use_.units()} : Shape{use_.batch, steps, use_.units()}));
    results.push_back(from_doubles(last_h, {use_.batch, use_.units()}));
    if (use_.has_c()) results.push_back(from_doubles(last_c, {use_.batch, use_.hidden}));
    return results;
  }

 private:
  /// h and c become those after the step.
  void step(const Numbers& x, Numbers& h, Numbers& c) const {
    Numbers from_x = times(x, wx_), out(hidden_);
    for (std::size_t k = 0; k < columns_; ++k) from_x[k] += b_(0, k);
    const Numbers from_h = times(h, wh_);
    for (std::size_t k = 0; k < hidden_; ++k) {
      const auto gate = [&](std::size_t block) { return from_x[block * hidden_ + k] + from_h[block * hidden_ + k]; };
      switch (use_.kind) {
        case RecurrentKind::rnn_tanh: out[k] = std::tanh(gate(0)); break;
        case RecurrentKind::rnn_relu: out[k] = std::max(gate(0), 0.0); break;
        case RecurrentKind::gru:
        case RecurrentKind::gru_before: {
          const double r = logistic(gate(0)), z = logistic(gate(1));
          double recurrent = use_.reset_after ? r * (from_h[2 * hidden_ + k] + bn_(0, k)) : 0;
          for (std::size_t j = 0; j < hidden_ && !use_.reset_after; ++j)
            recurrent += logistic(from_x[j] + from_h[j]) * h[j] * wh_(j, 2 * hidden_ + k);
          out[k] = (1 - z) * std::tanh(from_x[2 * hidden_ + k] + recurrent) + z * h[k];
          break;
        }
        case RecurrentKind::lstm:
          c[k] = logistic(gate(1)) * c[k] + logistic(gate(0)) * std::tanh(gate(2));
          out[k] = logistic(gate(3)) * std::tanh(c[k]);
          break;
      }
    }
    h = use_.projection > 0 ? times(out, projection_) : out;
  }

  const RecurrentUse& use_;
  std::size_t hidden_, units_, columns_;
  Matrix wx_, wh_, b_, bn_, projection_;
};

void compare_with_loops(const RecurrentUse& use, double allowed) {
  INFO(use.text());
  const Tensors operands = recurrent_operands(use);
  check_close(run_recurrent(use, operands), Loops(use, operands).run(operands), allowed);
}

}  // namespace

TEST_CASE("recurrent steps give what their rule gives, gradients included", "[recurrent]") {
  for (const DType dtype : {DType::float64, DType::float32})
    for (const Variant& v : variants) {
      for (const Extents& e : small_ones) {
        RecurrentUse use = use_of(v, e, dtype);
        use.cell = true;
        compare_with_rule(use);
      }
      for (const Extents& e : large_ones) {
        // in float32 one sum in many may have either sign
        if (v.kind == RecurrentKind::rnn_relu && dtype == DType::float32) continue;
        RecurrentUse use = use_of(v, e, dtype);
        use.cell = true;
        compare_with_rule(use);
      }
    }
}

TEST_CASE("small recurrent sequences give what their rule gives with every option, gradients included", "[recurrent]") {
  for (const DType dtype : {DType::float64, DType::float32})
    for (const Variant& v : variants)
      for (const Extents& e : small_ones)
        for (unsigned options = 0; options < 8; ++options)
          compare_with_rule(with_options(use_of(v, e, dtype), options));
}

TEST_CASE("large recurrent sequences give what their rule gives, gradients included", "[recurrent]") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    unsigned turn = 0;
    for (const Variant& v : variants) {
      if (v.kind == RecurrentKind::rnn_relu && dtype == DType::float32) continue;  // as above
      for (const Extents& e : large_ones)
        for (const unsigned options : {0u, 1 + turn++ % 6, 7u})
          compare_with_rule(with_options(use_of(v, e, dtype), options));
    }
  }
}

TEST_CASE("recurrent operations compute the formulas of their header", "[recurrent]") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    const double allowed = dtype == DType::float64 ? tolerance::sequence64 : tolerance::sequence32;
    for (const bool biased : {true, false})
      for (RecurrentUse use : recurrent_uses({.batch = 3, .time = 5, .hidden = 4, .dtype = dtype})) {
        use.b = use.bn = biased;
        compare_with_loops(use, allowed);
        if (use.lengths.empty()) continue;
        use.lengths = {0, 5, 3};
        use.reverse = use.time_major = false;
        compare_with_loops(use, allowed);
      }
  }
}

TEST_CASE("a bias that is missing counts as zeros", "[recurrent]") {
  for (RecurrentUse use : recurrent_uses({.batch = 3, .time = 2}))
    for (const bool keep_b : {false, true}) {
      use.b = keep_b;
      use.bn = false;
      INFO(use.text());
      const Tensors missing = recurrent_operands(use);
      Tensors zero = missing;
      if (!use.b) zero[5] = zeros_like(missing[4][0]);
      if (use.kind == RecurrentKind::gru && use.reset_after) zero[6] = zeros_like(missing[1][0]);
      const Tensors actual = run_with_gradients(run_recurrent, use, missing),
                    expected = run_with_gradients(run_recurrent, use, zero);
      std::size_t at = actual.size() - existing(missing).size(), other = at;
      for (std::size_t i = 0; i < at; ++i) CHECK(same(actual[i], expected[i]));
      for (std::size_t i = 0; i < missing.size(); ++i) {
        if (missing[i].defined()) {
          CHECK(same(actual[at], expected[other]));
          ++at;
        }
        if (zero[i].defined()) ++other;
      }
      CHECK(at == actual.size());
      CHECK(other == expected.size());
    }
}

TEST_CASE("16-bit types give what float32 gives, to their precision", "[recurrent]") {
  for (RecurrentUse use : recurrent_uses({.batch = 3, .time = 3, .inputs = 4, .hidden = 5})) {
    use.dtype = DType::float16;
    INFO(use.text());
    const Tensors operands = recurrent_operands(use);
    Tensors wide;
    for (const Tensor& x : operands) wide.push_back(x.defined() ? x.to(DType::float32) : x);
    const Tensors results = run_recurrent(use, operands);
    check_close(results, run_recurrent(use, wide), tolerance::recurrent16);
    if (use.kind == RecurrentKind::rnn_relu) continue;  // near 0 its slope is a matter of rounding
    const Tensors weights = recurrent_weights(results);
    Tensors wide_weights;
    for (const Tensor& w : weights) wide_weights.push_back(w.to(DType::float32));
    const Tensors actual = run_with_gradients(run_recurrent, use, operands, weights);
    for (const Tensor& x : actual) CHECK(x.dtype() == DType::float16);
    check_close(actual, run_with_gradients(run_recurrent, use, wide, wide_weights), tolerance::recurrent16);
  }
}

// --- lengths -------------------------------------------------------------------------------------------------------

TEST_CASE("rows without steps end with their initial states, and so do gradients", "[recurrent]") {
  for (RecurrentUse use : recurrent_uses({.batch = 2, .time = 3})) {
    if (use.cell) continue;
    use.lengths = {0, 0};
    INFO(use.text());
    const PoisonedBuffers poisoned(kNaN);
    const Tensors operands = recurrent_operands(use), sources = existing(operands);
    const Tensors weights = recurrent_weights(run_recurrent(use, operands));
    const Tensors list = run_with_gradients(run_recurrent, use, operands, weights);
    const std::size_t states = weights.size() - 1;
    CHECK(same(list[0], zeros_like(list[0])));
    for (std::size_t i = 1; i <= states; ++i) CHECK(same(list[i], operands[i]));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      INFO("gradient " << i);
      const bool state = i >= 1 && i <= states;
      CHECK(same(list[weights.size() + i], state ? weights[i] : zeros_like(sources[i])));
    }
  }
}

TEST_CASE("lengths have either integer type and any strides, and may all be T", "[recurrent]") {
  const RecurrentUse use{.batch = 3, .time = 4};
  const Tensors o = recurrent_operands(use);
  const auto outputs = [&o](const Tensor& lengths) {
    return lstm(o[0], o[1], o[2], {o[3], o[4], o[5]}, {.lengths = lengths}).outputs;
  };
  const Tensor lengths = {3, 0, 4}, expected = outputs(lengths);
  CHECK(lengths.dtype() == DType::int32);
  CHECK(same(outputs(lengths.to(DType::int64)), expected));
  const Tensor table = {{3, 9}, {0, 9}, {4, 9}}, backwards = {4, 0, 3};
  CHECK(same(outputs(table.index({all, 0})), expected));
  CHECK(same(outputs(table.to(DType::int64).index({all, 0})), expected));
  CHECK(same(outputs(backwards.to(DType::int64).index({from(-1, -1)})), expected));
  CHECK(same(outputs({4, 4, 4}), outputs(Tensor())));
  CHECK_FALSE(array_equal(outputs(Tensor()), expected));
}

// --- long sequences ------------------------------------------------------------------------------------------------

TEST_CASE("a thousand steps over whole numbers are exact, forward and back", "[recurrent]") {
  const TensorOptions type{.dtype = DType::float64};
  const Tensor x = floor(random_in(1, 10, {3, 1000, 2}));  // 1 to 9
  for (const bool reverse : {false, true}) {               // two kernels
    const Tensor h0 = zeros({3, 2}, type), wx = eye(2, -1, type), wh = eye(2, -1, type);
    GradientTape tape;
    tape.watch({x, h0, wx, wh});
    const RnnResult result = rnn(x, h0, {wx, wh}, Activation::relu, {.reverse = reverse});
    const auto [dx, dh, dwx, dwh] = tape.gradient(result.last, x, h0, wx, wh);
    const Tensor sums = cumsum(x, 1, {.reverse = reverse});
    CHECK(same(result.outputs, sums));
    CHECK(same(result.last, sum(x, 1)));
    CHECK(same(dx, ones({3, 1000, 2}, type)));
    CHECK(same(dh, ones({3, 2}, type)));
    CHECK(same(dwx, broadcast_to(expand_dims(sum(x, {0, 1}), 1), {2, 2})));
    CHECK(same(dwh, broadcast_to(expand_dims(sum(sums - x, {0, 1}), 1), {2, 2})));  // of the states before
  }
}

TEST_CASE("a thousand steps give what loops and the rule give", "[recurrent]") {
  for (const RecurrentKind kind : {RecurrentKind::rnn_tanh, RecurrentKind::gru, RecurrentKind::lstm})
    for (const bool reverse : {false, true}) {
      const RecurrentUse use{.kind = kind, .time = 1000, .reverse = reverse};
      INFO(use.text());
      compare_with_loops(use, tolerance::chained64);
      const Tensors operands = recurrent_operands(use);
      check_close(run_with_gradients(run_recurrent, use, operands),
                  run_with_gradients(run_recurrent_by_steps, use, operands), tolerance::chained64);
    }
}
