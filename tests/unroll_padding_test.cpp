// What x holds past the end of a row, be it NaN or infinite, reaches no value and no gradient of any order.
#include "tests/plain_cell.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

const TensorOptions kDouble{.dtype = DType::float64};
const std::vector<std::vector<std::int64_t>> kLengths = {{3, 0, 4, 1}, {5, 2, 0, 5}, {2, 2, 2, 2}};  // of 5 steps

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// x [batch, time, inputs] with `filler` at the steps past each row's end.
Tensor filled(const Tensor& x, const std::vector<std::int64_t>& lengths, double filler) {
  std::vector<double> numbers = values(x);
  const auto time = static_cast<std::size_t>(x.size(1)), inputs = static_cast<std::size_t>(x.size(2));
  for (std::size_t row = 0; row < lengths.size(); ++row)
    for (std::size_t i = static_cast<std::size_t>(lengths[row]) * inputs; i < time * inputs; ++i)
      numbers[row * time * inputs + i] = filler;
  return from_doubles(numbers, x.shape());
}

/// Results of `run(x)`, gradients for x and the model's parameters, and gradients of their squares.
template <class Model, class Run>
Tensors results_and_gradients(Model& model, const Tensor& x, Run run) {
  Tensors sources = {x};
  for (const Tensor& p : nn::parameters(model)) sources.push_back(p);
  GradientTape outer;
  outer.watch(x);
  Tensors found, first;
  {
    GradientTape inner;
    inner.watch(x);
    found = run(x);
    Tensor total = zeros(Shape(), kDouble);
    for (std::size_t i = 0; i < found.size(); ++i)
      total = total + sum(square(found[i]) * random(found[i].shape(), 31 + i));
    first = inner.gradient(total, sources, {.unconnected = Unconnected::zeros});
  }
  Tensor penalty = zeros(Shape(), kDouble);
  for (const Tensor& g : first) penalty = penalty + sum(square(g));
  const Tensors second = outer.gradient(penalty, sources, {.unconnected = Unconnected::zeros});
  found.insert(found.end(), first.begin(), first.end());
  found.insert(found.end(), second.begin(), second.end());
  return found;
}

/// `run(x, lengths)` over x [4, 5, 3] must give the same with anything past the ends of the rows, and with zeros there.
template <class Model, class Run>
void check_padding(Model& model, Run run) {
  const Tensor x = random({4, 5, 3}, 41);
  for (const std::vector<std::int64_t>& lengths : kLengths) {
    const auto of_rows = [&](const Tensor& input) { return run(input, from_vector(lengths)); };
    const Tensors expected = results_and_gradients(model, filled(x, lengths, 0), of_rows);
    const std::size_t gradients = 1 + nn::parameters(model).size(), dx = expected.size() - 2 * gradients;
    CHECK(number(max(abs(expected[dx]))) > 1e-3);  // something does flow
    CHECK(number(max(abs(expected[dx + gradients]))) > 1e-3);
    for (const double poison : {kNaN, kInfinity, -kInfinity}) {
      INFO("lengths " << to_string(from_vector(lengths)) << ", padded with " << poison);
      const Tensors actual = results_and_gradients(model, filled(x, lengths, poison), of_rows);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("result " << i << " of " << expected.size() << ", gradients from " << dx);
        CHECK(close(actual[i], expected[i], tolerance::roundings64));
      }
      for (const std::size_t i : {dx, dx + gradients})
        CHECK(same(filled(actual[i], lengths, 0), actual[i]));  // exactly 0 past the ends
    }
  }
}

template <class State>
Tensors with_state(const Tensor& outputs, const State& state) {
  Tensors list = {outputs};
  for (const Tensor* tensor : nn::detail::state_tensors(state)) list.push_back(*tensor);
  return list;
}

/// One direction at a time, both layouts, at once and step by step.
template <class Cell>
void check_cell(Cell cell, const std::string& name) {
  for (const bool reverse : {false, true})
    for (const bool time_major : {false, true})
      for (const bool by_step : {false, true}) {
        INFO(name << (reverse ? ", reverse" : "") << (time_major ? ", time-major" : "")
                  << (by_step ? ", step by step" : ""));
        check_padding(cell, [&](const Tensor& x, const Tensor& lengths) {
          nn::UnrollOptions<typename Cell::State> options{
              .lengths = lengths, .time_major = time_major, .reverse = reverse};
          if (by_step) options.on_step = [](std::int64_t, const Tensor&, const typename Cell::State&) {};
          const auto result = nn::unroll(cell, time_major ? transpose(x, 0, 1) : x, options);
          return with_state(result.first, result.second);
        });
      }
}

}  // namespace

TEST_CASE("padding reaches nothing through a cell of one's own", "[nn][unroll]") {
  check_cell(plain_cell(3, 1), "a cell of one's own");
}

TEST_CASE("padding reaches nothing through the library's cells", "[nn][unroll]") {
  Rng rng(10);
  check_cell(nn::RnnCell(3, 2, {.dtype = DType::float64}, rng), "RnnCell");
  check_cell(nn::GruCell(3, 2, {.dtype = DType::float64}, rng), "GruCell");
  check_cell(nn::LstmCell(3, 2, {.dtype = DType::float64}, rng), "LstmCell");
  check_cell(nn::LstmCell(3, 2, {.peepholes = true, .dtype = DType::float64}, rng), "LstmCell with peepholes");
}

TEST_CASE("padding reaches nothing through two directions, nor through layers of them", "[nn][unroll]") {
  struct Both {
    PlainCell ahead = plain_cell(3, 1);
    nn::LstmCell back;
  };
  Rng rng(11);
  Both both{.back = nn::LstmCell(3, 2, {.dtype = DType::float64}, rng)};
  struct Layers {
    std::vector<PlainCell> ahead = {plain_cell(3, 2), plain_cell(4, 3)}, back = {plain_cell(3, 4), plain_cell(4, 5)};
  } layers;
  for (const bool time_major : {false, true}) {
    INFO((time_major ? "time-major" : "batch-first"));
    check_padding(both, [&](const Tensor& x, const Tensor& lengths) {
      const auto result = nn::unroll_bidirectional(both.ahead, both.back, time_major ? transpose(x, 0, 1) : x,
                                                   {.lengths = lengths, .time_major = time_major});
      return with_state(result.outputs, result.state);
    });
    check_padding(layers, [&](const Tensor& x, const Tensor& lengths) {
      const auto result =
          nn::unroll_stacked_bidirectional(layers.ahead, layers.back, time_major ? transpose(x, 0, 1) : x,
                                           {.lengths = lengths, .time_major = time_major});
      return with_state(result.outputs, result.states);
    });
  }
}

TEST_CASE("fresh memory full of NaN does not show where no row has a step", "[nn][unroll]") {
  const PoisonedBuffers poisoned(kNaN);
  PlainCell cell = plain_cell(3, 1);
  const auto [outputs, state] = nn::unroll(cell, random({3, 6, 3}, 42), {.lengths = Tensor{0, 2, 1}});
  CHECK(same(outputs.index({all, from(2)}), zeros({3, 4, 2}, kDouble)));
  CHECK(same(state.a[0], zeros({2}, kDouble)));
  const auto [none, start] = nn::unroll(cell, full({2, 3, 3}, kNaN, kDouble), {.lengths = Tensor{0, 0}});
  CHECK(same(none, zeros({2, 3, 2}, kDouble)));
  CHECK(same(start.b, zeros({2, 2}, kDouble)));
}
