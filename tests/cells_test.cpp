// Recurrent cells: formulas with every option, where parameters start, weights of other libraries, whole sequences.
#include <algorithm>
#include <cmath>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr DType f64 = DType::float64;
using Numbers = std::vector<double>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, f64, seed); }

template <class Model>
std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& p : nn::named_parameters(model)) names.push_back(p.name);
  return names;
}

/// The cell with other numbers in all of its parameters, so that none of them hides behind a 0 or a 1.
template <class Cell>
Cell randomized(Cell cell, std::uint64_t seed) {
  for (const NamedTensor& p : nn::named_parameters(cell)) {
    Tensor value = p.value;
    value.assign(random(value.shape(), seed++));
  }
  return cell;
}

// --- by hand: the formulas of the headers, number by number ------------------------------------------------------

Numbers numbers_of(const Tensor& t) { return t.defined() ? values(t) : Numbers(); }

/// A matrix of plain numbers.
struct Matrix {
  explicit Matrix(const Tensor& t) : numbers(values(t)), columns(static_cast<std::size_t>(t.size(1))) {}
  Matrix(std::size_t height, std::size_t width) : numbers(height * width), columns(width) {}

  std::size_t rows() const { return numbers.size() / columns; }
  double& operator()(std::size_t i, std::size_t j) { return numbers[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return numbers[i * columns + j]; }
  Tensor tensor() const {
    return from_doubles(numbers, Shape({static_cast<std::int64_t>(rows()), static_cast<std::int64_t>(columns)}));
  }

  Numbers numbers;
  std::size_t columns;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double activated(Activation activation, double x) {
  return activation == Activation::relu ? std::max(x, 0.0) : std::tanh(x);
}
double limited(double x, double limit) { return limit > 0 ? std::clamp(x, -limit, limit) : x; }

/// a @ b.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows(), b.columns);
  for (std::size_t i = 0; i < a.rows(); ++i)
    for (std::size_t k = 0; k < b.columns; ++k)
      for (std::size_t j = 0; j < a.columns; ++j) result(i, k) += a(i, j) * b(j, k);
  return result;
}

/// x @ wx + h @ wh + b.
Matrix sums(const Matrix& x, const Tensor& wx, const Matrix& h, const Tensor& wh, const Tensor& b) {
  Matrix result = product(x, Matrix(wx));
  const Matrix from_state = product(h, Matrix(wh));
  const Numbers bias = numbers_of(b);
  for (std::size_t i = 0; i < result.rows(); ++i)
    for (std::size_t k = 0; k < result.columns; ++k) result(i, k) += from_state(i, k) + (bias.empty() ? 0 : bias[k]);
  return result;
}

Matrix rnn_by_hand(const nn::RnnCell& cell, Activation activation, const Matrix& x, const Matrix& h) {
  Matrix result = sums(x, cell.wx, h, cell.wh, cell.b);
  for (double& value : result.numbers) value = activated(activation, value);
  return result;
}

Matrix gru_by_hand(const nn::GruCell& cell, bool reset_after, const Matrix& x, const Matrix& h) {
  const std::size_t size = h.columns;
  const Matrix gates = sums(x, cell.wx, h, cell.wh, cell.b), from_x = product(x, Matrix(cell.wx)), wh(cell.wh);
  const Numbers b = numbers_of(cell.b), bn = numbers_of(cell.bn);
  Matrix result(h.rows(), size);
  for (std::size_t i = 0; i < h.rows(); ++i)
    for (std::size_t k = 0; k < size; ++k) {
      double from_state = 0;
      for (std::size_t j = 0; j < size; ++j)
        from_state += (reset_after ? 1 : logistic(gates(i, j))) * h(i, j) * wh(j, 2 * size + k);
      if (reset_after) from_state = logistic(gates(i, k)) * (from_state + (bn.empty() ? 0 : bn[k]));
      const double z = logistic(gates(i, size + k));
      const double n = std::tanh(from_x(i, 2 * size + k) + (b.empty() ? 0 : b[2 * size + k]) + from_state);
      result(i, k) = (1 - z) * n + z * h(i, k);
    }
  return result;
}

/// Brings each row's columns first..first+count-1 to mean 0 and variance 1, then scales and shifts them.
void normalize_part(Matrix& m, std::size_t first, std::size_t count, double epsilon, const Numbers& gain,
                    const Numbers& shift) {
  const double n = static_cast<double>(count);
  for (std::size_t i = 0; i < m.rows(); ++i) {
    double mean = 0, variance = 0;
    for (std::size_t k = first; k < first + count; ++k) mean += m(i, k) / n;
    for (std::size_t k = first; k < first + count; ++k) variance += (m(i, k) - mean) * (m(i, k) - mean) / n;
    for (std::size_t k = first; k < first + count; ++k)
      m(i, k) = (m(i, k) - mean) / std::sqrt(variance + epsilon) * gain[k] + shift[k];
  }
}

/// One step: h and c become those after it.
void lstm_by_hand(const nn::LstmCell& cell, const nn::LstmCellOptions& o, const Matrix& x, Matrix& h, Matrix& c) {
  const std::size_t size = c.columns, f_begin = o.coupled_gates ? 0 : size;
  Matrix gates = sums(x, cell.wx, h, cell.wh, cell.b);
  if (o.layer_norm)
    for (std::size_t first = 0; first < gates.columns; first += size)
      normalize_part(gates, first, size, o.norm_epsilon, values(cell.gate_gain), values(cell.gate_shift));
  const Numbers see_i = numbers_of(cell.peephole_i), see_f = numbers_of(cell.peephole_f),
                see_o = numbers_of(cell.peephole_o);
  const auto gate = [&](std::size_t i, std::size_t begin, std::size_t k, const Numbers& peephole) {
    return logistic(gates(i, begin + k) + (peephole.empty() ? 0 : peephole[k] * c(i, k)));
  };
  for (std::size_t i = 0; i < c.rows(); ++i)
    for (std::size_t k = 0; k < size; ++k) {
      const double forget = gate(i, f_begin, k, see_f);
      const double input = o.coupled_gates ? 1 - forget : gate(i, 0, k, see_i);
      c(i, k) = forget * c(i, k) + input * activated(o.activation, gates(i, f_begin + size + k));
    }
  if (o.layer_norm) normalize_part(c, 0, size, o.norm_epsilon, values(cell.cell_gain), values(cell.cell_shift));
  for (double& value : c.numbers) value = limited(value, o.cell_clip);
  Matrix out(c.rows(), size);
  for (std::size_t i = 0; i < c.rows(); ++i)
    for (std::size_t k = 0; k < size; ++k)
      out(i, k) = gate(i, f_begin + 2 * size, k, see_o) * activated(o.activation, c(i, k));
  h = o.projection > 0 ? product(out, Matrix(cell.projection)) : out;
  for (double& value : h.numbers) value = limited(value, o.projection_clip);
}

// --- options ------------------------------------------------------------------------------------------------------

struct LstmVariant {
  const char* name;
  nn::LstmCellOptions options;
};

std::vector<LstmVariant> lstm_variants() {
  return {
      {"plain", {.dtype = f64}},
      {"no bias", {.use_bias = false, .dtype = f64}},
      {"projection", {.projection = 3, .dtype = f64}},
      {"projection to more units", {.projection = 6, .dtype = f64}},
      {"relu", {.activation = Activation::relu, .dtype = f64}},
      {"peepholes", {.peepholes = true, .dtype = f64}},
      {"clip", {.cell_clip = 0.2, .dtype = f64}},
      {"projection and its clip", {.projection = 2, .projection_clip = 0.05, .dtype = f64}},
      {"coupled", {.coupled_gates = true, .dtype = f64}},
      {"coupled with peepholes, no bias", {.use_bias = false, .peepholes = true, .coupled_gates = true, .dtype = f64}},
      {"layer norm", {.layer_norm = true, .dtype = f64}},
      {"layer norm with another epsilon", {.layer_norm = true, .norm_epsilon = 0.3, .dtype = f64}},
      {"all but coupled",
       {.peepholes = true,
        .cell_clip = 0.3,
        .projection = 3,
        .projection_clip = 0.05,
        .layer_norm = true,
        .dtype = f64}},
      {"all",
       {.peepholes = true,
        .cell_clip = 0.3,
        .projection = 3,
        .projection_clip = 0.05,
        .coupled_gates = true,
        .layer_norm = true,
        .dtype = f64}}};
}

/// Whether a step of such a cell is one operation.
bool is_plain(const nn::LstmCellOptions& o) {
  return !o.peepholes && !o.coupled_gates && !o.layer_norm && o.cell_clip == 0 && o.projection_clip == 0 &&
         o.activation == Activation::tanh;
}

}  // namespace

// --- formulas -----------------------------------------------------------------------------------------------------

TEST_CASE("an rnn cell computes its formula", "[nn][cells]") {
  for (const Activation activation : {Activation::tanh, Activation::relu})
    for (const bool biased : {true, false}) {
      INFO((activation == Activation::tanh ? "tanh" : "relu") << (biased ? "" : ", no bias"));
      const nn::RnnCell cell =
          randomized(nn::RnnCell(2, 4, {.activation = activation, .use_bias = biased, .dtype = f64}), 1);
      nn::RnnCell::State state{random({3, 4}, 11)};
      Matrix h(state.h);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Tensor x = random({3, 2}, 12 + step);
        h = rnn_by_hand(cell, activation, Matrix(x), h);
        const auto [output, after] = cell(x, state);
        CHECK(close(output, h.tensor(), tolerance::roundings64));
        CHECK(same(after.h, output));
        state = after;
      }
    }
}

TEST_CASE("a gru cell computes its formula, the reset gate before the product or after it", "[nn][cells]") {
  for (const bool reset_after : {true, false})
    for (const bool biased : {true, false}) {
      INFO((reset_after ? "after" : "before") << (biased ? "" : ", no bias"));
      const nn::GruCell cell =
          randomized(nn::GruCell(2, 4, {.reset_after = reset_after, .use_bias = biased, .dtype = f64}), 21);
      nn::GruCell::State state{random({3, 4}, 31)};
      Matrix h(state.h);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Tensor x = random({3, 2}, 32 + step);
        h = gru_by_hand(cell, reset_after, Matrix(x), h);
        const auto [output, after] = cell(x, state);
        CHECK(close(output, h.tensor(), tolerance::roundings64));
        CHECK(same(after.h, output));
        state = after;
      }
    }
}

TEST_CASE("an lstm cell computes its formulas with every option", "[nn][cells]") {
  std::uint64_t seed = 100;
  for (const LstmVariant& variant : lstm_variants()) {
    INFO(variant.name);
    const nn::LstmCellOptions& options = variant.options;
    const nn::LstmCell cell = randomized(nn::LstmCell(2, 4, options), seed += 30);
    const std::int64_t units = options.projection > 0 ? options.projection : 4;
    nn::LstmCell::State state{random({3, units}, seed + 20), random({3, 4}, seed + 21)};
    Matrix h(state.h), c(state.c);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor x = random({3, 2}, seed + 22 + step);
      lstm_by_hand(cell, options, Matrix(x), h, c);
      const auto [output, after] = cell(x, state);
      CHECK(close(after.h, h.tensor(), tolerance::roundings64));
      CHECK(close(after.c, c.tensor(), tolerance::roundings64));
      CHECK(same(output, after.h));
      state = after;
    }
    if (options.cell_clip > 0) CHECK(number(max(abs(state.c))) == options.cell_clip);  // it was in the way
    if (options.projection_clip > 0) CHECK(number(max(abs(state.h))) == options.projection_clip);
    CHECK(cell.has_sequence() == is_plain(options));
  }
}

namespace {

/// The gradients of a step for everything that it depends on.
std::vector<Tensor> slopes(const nn::LstmCell& cell, const Tensor& x, const nn::LstmCell::State& before) {
  const std::vector<Tensor> sources = {x, before.h, before.c, cell.wx, cell.wh, cell.b, cell.projection};
  GradientTape tape;
  tape.watch({x, before.h, before.c});
  const auto [output, after] = cell(x, before);
  const Tensor total = sum(square(output)) + sum(after.c * 0.7);
  return tape.gradient(total, sources);
}

}  // namespace

TEST_CASE("a step that is made of operations gives what the one operation gives, gradients included", "[nn][cells]") {
  nn::LstmCell plain = randomized(nn::LstmCell(3, 4, {.projection = 2, .dtype = f64}), 41);
  nn::LstmCell composed(3, 4, {.cell_clip = 1e6, .projection = 2, .dtype = f64});
  nn::copy_parameters(plain, composed);
  REQUIRE(plain.has_sequence());
  REQUIRE_FALSE(composed.has_sequence());
  const Tensor x = random({5, 3}, 51);
  const nn::LstmCell::State before{random({5, 2}, 52), random({5, 4}, 53)};
  const auto [one, one_state] = plain(x, before);
  const auto [other, other_state] = composed(x, before);
  CHECK(close(one, other, tolerance::roundings64));
  CHECK(close(one_state.c, other_state.c, tolerance::roundings64));
  const std::vector<Tensor> one_slopes = slopes(plain, x, before), other_slopes = slopes(composed, x, before);
  REQUIRE(one_slopes.size() == other_slopes.size());
  for (std::size_t i = 0; i < one_slopes.size(); ++i) {
    INFO("gradient " << i);
    CHECK(close(one_slopes[i], other_slopes[i], tolerance::roundings64));
  }
}

// --- starts -------------------------------------------------------------------------------------------------------

TEST_CASE("biases of gates start where their options say", "[nn][cells]") {
  const nn::LstmCell lstm(3, 2);
  CHECK(same(lstm.b, {0.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f}));  // the forget block
  CHECK(same(nn::LstmCell(3, 2, {.forget_bias = 0}).b, zeros({8})));
  CHECK(
      same(nn::LstmCell(3, 2, {.forget_bias = -0.5, .coupled_gates = true}).b, {-0.5f, -0.5f, 0.0f, 0.0f, 0.0f, 0.0f}));
  const nn::LstmCell normed(3, 2, {.forget_bias = 2, .layer_norm = true, .norm_gain = 0.5, .norm_shift = 0.25});
  CHECK_FALSE(normed.b.defined());
  CHECK(same(normed.gate_gain, full({8}, 0.5)));
  CHECK(same(normed.gate_shift, {0.25f, 0.25f, 2.25f, 2.25f, 0.25f, 0.25f, 0.25f, 0.25f}));
  CHECK(same(normed.cell_gain, {0.5f, 0.5f}));
  CHECK(same(normed.cell_shift, {0.25f, 0.25f}));

  CHECK(same(nn::GruCell(3, 2).b, zeros({6})));
  const nn::GruCell gru(3, 2, {.gate_bias = 1});
  CHECK(same(gru.b, {1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f}));  // r and z
  CHECK(same(gru.bn, zeros({2})));
}

TEST_CASE("what the gates start higher by comes on top of the initializer, and disturbs no random number",
          "[nn][cells]") {
  const auto cell_of = [](double forget_bias) {
    Rng rng(7);
    return nn::LstmCell(
        3, 2, {.forget_bias = forget_bias, .projection = 2, .bias_init = nn::init::uniform(-1, 1), .dtype = f64}, rng);
  };
  const nn::LstmCell without = cell_of(0), with = cell_of(1.5);
  CHECK(same(with.b, without.b + Tensor{0.0, 0.0, 1.5, 1.5, 0.0, 0.0, 0.0, 0.0}));
  CHECK(same(with.wx, without.wx));
  CHECK(same(with.projection, without.projection));
  CHECK(number(max(abs(without.b))) > 0);
  const nn::Initializer spread = nn::init::uniform(2, 3);
  const nn::LstmCell drawn(3, 2,
                           {.peepholes = true,
                            .projection = 5,
                            .input_init = spread,
                            .recurrent_init = spread,
                            .peephole_init = spread,
                            .projection_init = spread});
  for (const Tensor& weight :
       {drawn.wx, drawn.wh, drawn.peephole_i, drawn.peephole_f, drawn.peephole_o, drawn.projection})
    CHECK(number(min(weight)) >= 2);
}

TEST_CASE("a tape that listens while a cell is made hears nothing of its bias", "[nn][cells]") {
  const GradientTape tape;
  const nn::LstmCell lstm(3, 2);
  const nn::GruCell gru(3, 2, {.gate_bias = 1});
  CHECK(tape.size() == 0);
}

TEST_CASE("cells have the parameters that their options need, in a fixed order", "[nn][cells]") {
  using Names = std::vector<std::string>;
  nn::RnnCell rnn(3, 2), rnn_without(3, 2, {.use_bias = false});
  CHECK(names_of(rnn) == Names{"wx", "wh", "b"});
  CHECK(names_of(rnn_without) == Names{"wx", "wh"});
  nn::GruCell gru(3, 2), before(3, 2, {.reset_after = false}), gru_without(3, 2, {.use_bias = false});
  CHECK(names_of(gru) == Names{"wx", "wh", "b", "bn"});
  CHECK(names_of(before) == Names{"wx", "wh", "b"});
  CHECK(names_of(gru_without) == Names{"wx", "wh"});
  CHECK(gru.wx.shape() == Shape{3, 6});
  CHECK(gru.wh.shape() == Shape{2, 6});
  CHECK(gru.inputs() == 3);
  CHECK(gru.outputs() == 2);
  CHECK(rnn.outputs() == 2);

  nn::LstmCell plain(3, 2), projected(3, 2, {.projection = 4}),
      coupled(3, 2, {.peepholes = true, .coupled_gates = true});
  CHECK(names_of(plain) == Names{"wx", "wh", "b"});
  CHECK(names_of(projected) == Names{"wx", "wh", "b", "projection"});
  CHECK(projected.wh.shape() == Shape{4, 8});
  CHECK(projected.inputs() == 3);
  CHECK(projected.outputs() == 4);
  CHECK(projected.projection.shape() == Shape{2, 4});
  CHECK(names_of(coupled) == Names{"wx", "wh", "b", "peephole_f", "peephole_o"});
  CHECK(coupled.wx.shape() == Shape{3, 6});
  nn::LstmCell full_one(3, 2, {.peepholes = true, .projection = 1, .layer_norm = true});
  CHECK(names_of(full_one) == Names{"wx", "wh", "peephole_i", "peephole_f", "peephole_o", "projection", "gate_gain",
                                    "gate_shift", "cell_gain", "cell_shift"});
}

TEST_CASE("zero states have the cell's sizes and type, and no rows give no rows", "[nn][cells]") {
  const nn::LstmCell cell(3, 2, {.projection = 4, .dtype = f64});
  const nn::LstmCell::State state = cell.zero_state(5);
  CHECK(same(state.h, zeros({5, 4}, {.dtype = f64})));
  CHECK(same(state.c, zeros({5, 2}, {.dtype = f64})));
  CHECK(same(nn::RnnCell(3, 2).zero_state(4).h, zeros({4, 2})));
  CHECK(same(nn::GruCell(3, 2).zero_state(0).h, zeros({0, 2})));

  const Tensor none = zeros({0, 3});
  const nn::RnnCell rnn(3, 2);
  const nn::GruCell gru(3, 2);
  CHECK(rnn(none, rnn.zero_state(0)).first.shape() == Shape{0, 2});
  CHECK(gru(none, gru.zero_state(0)).first.shape() == Shape{0, 2});
  for (const bool composed : {false, true}) {
    const nn::LstmCell lstm(3, 2, {.peepholes = composed, .layer_norm = composed});
    CHECK(lstm(none, lstm.zero_state(0)).second.c.shape() == Shape{0, 2});
  }
}

TEST_CASE("cells of every floating type compute in it", "[nn][cells]") {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    INFO(name(dtype));
    const Tensor x = random_in(-1, 1, {4, 3}, dtype, 61);
    const nn::RnnCell rnn(3, 2, {.dtype = dtype});
    CHECK(rnn(x, rnn.zero_state(4)).first.dtype() == dtype);
    const nn::GruCell gru(3, 2, {.dtype = dtype});
    CHECK(gru(x, gru.zero_state(4)).first.dtype() == dtype);
    for (const bool composed : {false, true}) {
      const nn::LstmCell lstm(3, 2, {.peepholes = composed, .layer_norm = composed, .dtype = dtype});
      const auto [output, state] = lstm(x, lstm.zero_state(4));
      CHECK(output.dtype() == dtype);
      CHECK(state.c.dtype() == dtype);
      CHECK(number(max(abs(output.to(DType::float32)))) > 0);
    }
  }
}

TEST_CASE("copying a cell copies its parameters and options", "[nn][cells]") {
  const nn::LstmCell original = randomized(nn::LstmCell(2, 3, {.peepholes = true, .cell_clip = 0.1, .dtype = f64}), 71);
  nn::LstmCell copy = original;
  const Tensor x = random({2, 2}, 81);
  const nn::LstmCell::State start = original.zero_state(2);
  CHECK(same(copy(x, start).first, original(x, start).first));
  copy.wx.fill(0);
  CHECK_FALSE(same_bits(values(copy(x, start).first), values(original(x, start).first)));
}

// --- weights of other libraries -----------------------------------------------------------------------------------

TEST_CASE("weights of TensorFlow's LSTM cells go where the header says", "[nn][cells]") {
  // LSTMCell.call of TensorFlow 1: i, j, f, o = split([x, h] @ kernel + bias), forget_bias is added to f
  const std::int64_t inputs = 2, units = 3;
  const Tensor kernel = random({inputs + units, 4 * units}, 91), bias = random({4 * units}, 92);
  const Tensor w_i_diag = random({units}, 93), w_f_diag = random({units}, 94), w_o_diag = random({units}, 95);
  const Tensor x = random({2, inputs}, 96), h = random({2, units}, 97), c = random({2, units}, 98);
  const double forget_bias = 0.75;
  const std::vector<Tensor> gates = split(matmul(concat({x, h}, 1), kernel) + bias, 4, 1);
  const Tensor new_c =
      sigmoid(gates[2] + forget_bias + w_f_diag * c) * c + sigmoid(gates[0] + w_i_diag * c) * tanh(gates[1]);
  const Tensor new_h = sigmoid(gates[3] + w_o_diag * new_c) * tanh(new_c);

  nn::LstmCell cell(inputs, units, {.peepholes = true, .dtype = f64});
  const std::vector<Tensor> blocks = split(kernel, 4, 1), biases = split(bias, 4);
  const Tensor ordered = concat({blocks[0], blocks[2], blocks[1], blocks[3]}, 1);  // i, f, j, o
  cell.wx.assign(narrow(ordered, 0, 0, inputs));
  cell.wh.assign(narrow(ordered, 0, inputs, units));
  cell.b.assign(concat({biases[0], biases[2] + forget_bias, biases[1], biases[3]}));
  cell.peephole_i.assign(w_i_diag);
  cell.peephole_f.assign(w_f_diag);
  cell.peephole_o.assign(w_o_diag);
  const auto [output, state] = cell(x, {h, c});
  CHECK(close(output, new_h, tolerance::roundings64));
  CHECK(close(state.c, new_c, tolerance::roundings64));
}

TEST_CASE("weights of TensorFlow's GRU cell go where the header says", "[nn][cells]") {
  // GRUCell.call of TensorFlow 1
  const std::int64_t inputs = 2, units = 3;
  const Tensor gate_kernel = random({inputs + units, 2 * units}, 101), gate_bias = random({2 * units}, 102);
  const Tensor candidate_kernel = random({inputs + units, units}, 103), candidate_bias = random({units}, 104);
  const Tensor x = random({2, inputs}, 105), h = random({2, units}, 106);
  const std::vector<Tensor> gates = split(sigmoid(matmul(concat({x, h}, 1), gate_kernel) + gate_bias), 2, 1);
  const Tensor &r = gates[0], &u = gates[1];
  const Tensor candidate = tanh(matmul(concat({x, r * h}, 1), candidate_kernel) + candidate_bias);
  const Tensor new_h = u * h + (1 - u) * candidate;

  nn::GruCell cell(inputs, units, {.reset_after = false, .dtype = f64});
  const Tensor kernel = concat({gate_kernel, candidate_kernel}, 1);
  cell.wx.assign(narrow(kernel, 0, 0, inputs));
  cell.wh.assign(narrow(kernel, 0, inputs, units));
  cell.b.assign(concat({gate_bias, candidate_bias}));
  CHECK(close(cell(x, {h}).first, new_h, tolerance::roundings64));
}

// --- sequences ----------------------------------------------------------------------------------------------------

namespace {

template <class State>
State row_of(const State& state, std::int64_t row) {
  return nn::map_state(state, [row](const Tensor& t) { return narrow(t, 0, row, 1); });
}

/// The sequence of a cell against its steps, each row by itself.
template <class Cell>
void check_sequence(const Cell& cell, const typename Cell::State& start, const SequenceOptions& options) {
  const Tensor x = random({4, 5, 2}, 111);
  Tensor given = x.copy();
  if (options.lengths.defined())
    for (std::int64_t row = 0; row < 4; ++row) given.index_put({row, from(options.lengths.at<int>(row))}, kNaN);
  const auto result = cell.sequence(options.time_major ? transpose(given, 0, 1) : given, start, options);
  const Tensor outputs = options.time_major ? transpose(result.first, 0, 1) : result.first;
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int64_t length = options.lengths.defined() ? options.lengths.at<int>(row) : 5;
    INFO("row " << row << " of length " << length);
    auto state = row_of(start, row);
    Tensor expected = zeros_like(outputs[row]);
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t t = options.reverse ? length - 1 - step : step;
      const auto [output, after] = cell(x.index({range(row, row + 1), t}), state);
      expected.index_put({t}, output[0]);
      state = after;
    }
    CHECK(close(outputs[row], expected, tolerance::roundings64));
    const std::vector<NamedTensor> last = nn::detail::named_tensors(row_of(result.second, row));
    const std::vector<NamedTensor> steps = nn::detail::named_tensors(state);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      INFO("state " << steps[i].name);
      CHECK(close(last[i].value, steps[i].value, tolerance::roundings64));
    }
  }
}

template <class Cell>
void check_sequences(const Cell& cell) {
  std::uint64_t seed = 121;
  const auto start = nn::map_state(cell.zero_state(4), [&](const Tensor& t) { return random(t.shape(), seed++); });
  for (const Tensor& lengths : {Tensor(), Tensor{5, 1, 0, 3}, Tensor{0, 0, 2, 0}})
    for (const bool reverse : {false, true})
      for (const bool time_major : {false, true}) {
        INFO((lengths.defined() ? "lengths" : "no lengths")
             << (reverse ? ", reversed" : "") << (time_major ? ", time major" : ""));
        check_sequence(cell, start, {.lengths = lengths, .reverse = reverse, .time_major = time_major});
      }
}

}  // namespace

TEST_CASE("the sequence of a cell is its steps, with lengths, in both directions and layouts", "[nn][cells]") {
  for (const Activation activation : {Activation::tanh, Activation::relu}) {
    INFO("RnnCell");
    check_sequences(randomized(nn::RnnCell(2, 3, {.activation = activation, .dtype = f64}), 131));
  }
  for (const bool reset_after : {true, false}) {
    INFO("GruCell");
    check_sequences(randomized(nn::GruCell(2, 3, {.reset_after = reset_after, .dtype = f64}), 141));
  }
  for (const LstmVariant& variant : lstm_variants()) {
    INFO("LstmCell, " << variant.name);
    check_sequences(randomized(nn::LstmCell(2, 4, variant.options), 151));
  }
}

TEST_CASE("unroll runs cells with every option, by their sequence or their steps", "[nn][cells]") {
  const Tensor x = random({3, 4, 2}, 171), lengths = {4, 2, 0};
  for (const LstmVariant& variant : lstm_variants()) {
    INFO(variant.name);
    nn::LstmCell cell = randomized(nn::LstmCell(2, 4, variant.options), 181);
    const auto [outputs, last] = nn::unroll(cell, x, {.lengths = lengths});
    const auto [expected, expected_last] = cell.sequence(x, cell.zero_state(3), {.lengths = lengths});
    CHECK(same(outputs, expected));
    CHECK(same(last.c, expected_last.c));
  }
}
