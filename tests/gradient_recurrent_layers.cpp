// Uses of recurrent layers whose gradients are checked: with respect to the input, the initial state and every
// parameter, through outputs and last states.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// The tensors of a state, by pointer: h, and c if there is one.
template <class State>
std::vector<Tensor*> slots_of(State& state) {
  if constexpr (requires { state.c; }) return {&state.h, &state.c};
  else return {&state.h};
}

/// Makes tensors from the `next`th on the parameters of a model, in their order.
template <class Model>
void put_parameters(Model& model, const Tensors& in, std::size_t next) {
  const nn::detail::Outline outline = nn::detail::outline_of(model);
  for (const nn::detail::Leaf& leaf : outline.leaves)
    if (leaf.parameter && leaf.value.defined()) *leaf.slot = in[next++];
}

struct Use {
  Tensor lengths = {};
  bool start = true;  // from a state of its own
  bool time_major = false;
};

/// All results of a layer in one vector. What it draws is the same every time.
template <class Layer>
void add_layer(std::vector<GradientCase>& cases, const char* op, const char* usage, Layer layer, const Shape& shape,
               const Use& use = {}) {
  const auto own = std::make_shared<Layer>(std::move(layer));
  Tensors inputs = {random(shape, 301)};
  typename Layer::State start = own->zero_state(shape[use.time_major ? 1 : 0]);
  if (use.start)
    for (Tensor* slot : slots_of(start)) inputs.push_back(random(slot->shape(), 302 + inputs.size()));
  for (const Tensor& parameter : nn::parameters(*own)) inputs.push_back(parameter.copy());
  cases.push_back({op, usage,
                   [own, start, use](const Tensors& in) {
                     nn::RecurrentOptions<typename Layer::State> options{.lengths = use.lengths,
                                                                         .time_major = use.time_major};
                     std::size_t next = 1;
                     if (use.start) {
                       options.initial_state = start;
                       for (Tensor* slot : slots_of(*options.initial_state)) *slot = in[next++];
                     }
                     put_parameters(*own, in, next);
                     default_rng().set_position(0);
                     auto result = (*own)(in[0], options);
                     Tensors parts = {reshape(square(result.outputs), {-1})};
                     for (Tensor* slot : slots_of(result.state)) parts.push_back(reshape(tanh(*slot), {-1}));
                     return concat(parts);
                   },
                   std::move(inputs)});
}

constexpr DType f64 = DType::float64;
const nn::Initializer noise = nn::init::uniform(-1, 1);

void add_rnn(std::vector<GradientCase>& cases) {
  Rng rng(1);
  const nn::RnnOptions base{.inputs = 2, .hidden = 2, .bias_init = noise, .dtype = f64};
  add_layer(cases, "rnn", "nn::Rnn", nn::Rnn(base, rng), {2, 3, 2});
  nn::RnnOptions options = base;
  options.activation = Activation::relu;
  add_layer(cases, "rnn", "nn::Rnn of relu, lengths", nn::Rnn(options, rng), {3, 2, 2}, {.lengths = Tensor{2, 0, 1}});
  options = base;
  options.bidirectional = true;
  add_layer(cases, "rnn", "nn::Rnn in both directions, lengths, time major", nn::Rnn(options, rng), {3, 2, 2},
            {.lengths = Tensor{3, 1}, .time_major = true});
  options = base;
  options.layers = 2;
  options.dropout = 0.4;
  options.use_bias = false;
  add_layer(cases, "rnn", "nn::Rnn of two layers with dropout, no bias, from zeros", nn::Rnn(options, rng), {2, 2, 2},
            {.start = false});
}

void add_gru(std::vector<GradientCase>& cases) {
  Rng rng(2);
  const nn::GruOptions base{.inputs = 2, .hidden = 2, .bias_init = noise, .dtype = f64};
  for (const bool reset_after : {true, false}) {
    nn::GruOptions options = base;
    options.reset_after = reset_after;
    add_layer(cases, "gru", reset_after ? "nn::Gru" : "nn::Gru that resets before the product", nn::Gru(options, rng),
              {2, 3, 2});
    options.bidirectional = true;
    add_layer(cases, "gru",
              reset_after ? "nn::Gru in both directions, lengths"
                          : "nn::Gru in both directions, lengths, resets before the product",
              nn::Gru(options, rng), {3, 2, 2}, {.lengths = Tensor{1, 2, 0}});
  }
  nn::GruOptions options = base;
  options.layers = 2;
  options.dropout = 0.4;
  options.use_bias = false;
  add_layer(cases, "gru", "nn::Gru of two layers with dropout, no bias, time major, from zeros", nn::Gru(options, rng),
            {2, 2, 2}, {.start = false, .time_major = true});
}

void add_lstm(std::vector<GradientCase>& cases) {
  Rng rng(3);
  const nn::LstmOptions base{.inputs = 2, .hidden = 2, .bias_init = noise, .dtype = f64};
  add_layer(cases, "lstm", "nn::Lstm", nn::Lstm(base, rng), {2, 3, 2});
  nn::LstmOptions options = base;
  options.projection = 1;
  add_layer(cases, "lstm", "nn::Lstm with a projection, lengths", nn::Lstm(options, rng), {3, 3, 2},
            {.lengths = Tensor{3, 0, 2}});
  options = base;
  options.bidirectional = true;
  add_layer(cases, "lstm", "nn::Lstm in both directions, lengths, time major", nn::Lstm(options, rng), {3, 2, 2},
            {.lengths = Tensor{1, 3}, .time_major = true});
  options = base;
  options.layers = 2;
  options.dropout = 0.4;
  options.use_bias = false;
  add_layer(cases, "lstm", "nn::Lstm of two layers with dropout, no bias, from zeros", nn::Lstm(options, rng),
            {2, 2, 2}, {.start = false});
}

}  // namespace

std::vector<GradientCase> recurrent_layer_gradient_cases() {
  std::vector<GradientCase> cases;
  add_rnn(cases);
  add_gru(cases);
  add_lstm(cases);
  return cases;
}

}  // namespace tests
