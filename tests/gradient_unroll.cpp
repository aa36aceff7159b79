// Uses of unroll and its bidirectional forms whose gradients are checked: for inputs, initial states and parameters.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/plain_cell.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// Squares of all results, as one tensor.
template <class State>
Tensor joined(const Tensor& outputs, const State& state) {
  Tensors parts = {flatten(square(outputs))};
  for (const Tensor* tensor : nn::detail::state_tensors(state)) parts.push_back(flatten(square(*tensor)));
  return concat(parts, 0);
}

/// `run(model, inputs)` as a function of the inputs and, behind them, all parameters of the model.
template <class Model, class Run>
GradientCase model_case(const std::string& op, const std::string& usage, const Model& model, Tensors inputs, Run run) {
  const auto own = std::make_shared<Model>(model);
  const std::size_t first = inputs.size();
  for (const Tensor& p : nn::parameters(*own)) inputs.push_back(p.copy());
  return {op, usage,
          [own, first, run](const Tensors& in) {
            put_all(*own, in, first);
            return run(*own, in);
          },
          inputs};
}

/// A cell over x [2, 3, 2] in both directions, with lengths and without, from a state that is differentiated too, at
/// once where the cell can and step by step.
template <class Cell>
void add_cell(std::vector<GradientCase>& cases, const std::string& name, const Cell& cell) {
  for (const bool reverse : {false, true})
    for (const bool by_step : {false, true})
      for (const Tensor& lengths : {Tensor(), Tensor{2, 3}}) {
        Tensors inputs = {random({2, 3, 2}, 301)};
        auto start = cell.zero_state(2);
        for (const Tensor* tensor : nn::detail::state_tensors(start)) inputs.push_back(random(tensor->shape(), 302));
        cases.push_back(model_case(
            "unroll",
            name + (reverse ? ", reverse" : "") + (by_step ? ", by step" : "") + (lengths.defined() ? ", lengths" : ""),
            cell, inputs, [=](Cell& own, const Tensors& in) {
              nn::UnrollOptions<typename Cell::State> options{
                  .lengths = lengths, .initial_state = start, .reverse = reverse};
              std::size_t next = 1;
              for (Tensor* tensor : nn::detail::state_tensors(*options.initial_state)) *tensor = in[next++];
              if (by_step) options.on_step = [](std::int64_t, const Tensor&, const typename Cell::State&) {};
              const auto result = nn::unroll(own, in[0], options);
              return joined(result.first, result.second);
            }));
      }
}

struct Both {
  PlainCell ahead;
  nn::GruCell back;
};
struct Layers {
  std::vector<PlainCell> ahead, back;
};

void add_directions(std::vector<GradientCase>& cases) {
  Rng rng(12);
  const Both both{plain_cell(2, 1), nn::GruCell(2, 2, {.dtype = DType::float64}, rng)};
  const Layers layers{{plain_cell(2, 2), plain_cell(4, 3)}, {plain_cell(2, 4), plain_cell(4, 5)}};
  for (const Tensor& lengths : {Tensor(), Tensor{1, 3, 0}}) {
    const std::string usage = lengths.defined() ? "lengths, one of them 0" : "all steps, time-major";
    const bool time_major = !lengths.defined();
    const Tensor x = random(time_major ? Shape{3, 3, 2} : Shape{3, 4, 2}, 303);
    cases.push_back(
        model_case("unroll_bidirectional", usage, both, {x, random({3, 2}, 304)}, [=](Both& own, const Tensors& in) {
          const auto result = nn::unroll_bidirectional(
              own.ahead, own.back, in[0],
              {.lengths = lengths, .backward_state = nn::GruCell::State{in[1]}, .time_major = time_major});
          return joined(result.outputs, result.state);
        }));
    cases.push_back(model_case("unroll_stacked_bidirectional", usage, layers, {x}, [=](Layers& own, const Tensors& in) {
      const auto result =
          nn::unroll_stacked_bidirectional(own.ahead, own.back, in[0], {.lengths = lengths, .time_major = time_major});
      return joined(result.outputs, result.states);
    }));
  }
}

/// States that are carried from window to window, gathered and repeated.
void add_states(std::vector<GradientCase>& cases) {
  cases.push_back(model_case(
      "unroll", "two windows", plain_cell(2, 6), {random({2, 4, 2}, 305)}, [](PlainCell& cell, const Tensors& in) {
        const auto [first, middle] = nn::unroll(cell, narrow(in[0], 1, 0, 2));
        const auto [second, last] = nn::unroll(cell, narrow(in[0], 1, 2, 2), {.initial_state = middle});
        return joined(concat({first, second}, 1), last);
      }));
  cases.push_back(model_case("unroll", "from a state gathered and repeated", plain_cell(2, 7),
                             {random({4, 2, 2}, 306), random({2, 2}, 307)}, [](PlainCell& cell, const Tensors& in) {
                               const PlainCell::State pair{in[1], square(in[1])};
                               const PlainCell::State start = nn::repeat_state(nn::gather_state(pair, Tensor{1, 1}), 2);
                               const auto [outputs, state] = nn::unroll(cell, in[0], {.initial_state = start});
                               return joined(outputs, state);
                             }));
}

}  // namespace

std::vector<GradientCase> unroll_gradient_cases() {
  Rng rng(13);
  std::vector<GradientCase> cases;
  add_cell(cases, "a cell of one's own", plain_cell(2, 8));
  add_cell(cases, "RnnCell", nn::RnnCell(2, 2, {.dtype = DType::float64}, rng));
  add_cell(cases, "LstmCell", nn::LstmCell(2, 2, {.dtype = DType::float64}, rng));
  add_directions(cases);
  add_states(cases);
  return cases;
}

}  // namespace tests
