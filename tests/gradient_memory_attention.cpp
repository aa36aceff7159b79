// Uses of attention over a memory, and of cells that attend, whose gradients are checked: for the memory, for queries
// or inputs, and for all parameters.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// The smallest cell there is.
struct SmallCell {
  struct State {
    Tensor h;
  };
  Parameter w;  // [inputs + hidden, hidden]

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before) const {
    const Tensor h = tanh(matmul(concat({x, before.h}, -1), w));
    return {h, State{h}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch, w.size(1)}, {.dtype = DType::float64})}; }
};

/// The inputs, and values for all parameters; away from 0 for those that are divided by their length.
template <class Model>
Tensors with_parameters(Tensors inputs, Model model) {
  std::uint64_t seed = 611;
  for (const NamedTensor& p : nn::named_parameters(model)) {
    const std::string last = p.name.substr(p.name.rfind('.') + 1);
    const double low = last == "v" || last == "g" ? 0.5 : -1;
    inputs.push_back(random_in(low, low + 1.5, p.value.shape(), DType::float64, seed++));
  }
  return inputs;
}

/// What an attention reads, context and weights side by side. in[0] is the memory, in[1] the queries.
template <class Attention>
Tensor read_by(Attention attention, const Tensors& in, const Tensor& lengths) {
  put_all(attention, in, 2);
  const std::int64_t rows = in[1].size(0), count = rows / in[0].size(0);
  const AttentionResult result = attention(in[1], nn::repeated(attention.prepare(in[0], lengths), count));
  return square(concat({result.output, reshape(result.weights, {rows, -1})}, 1));
}

void add_additive(std::vector<GradientCase>& cases) {
  struct Variant {
    const char* usage;
    std::int64_t heads, queries;
    bool normed;
    Tensor lengths;
    bool bias = false;
  };
  const Variant variants[] = {{"nn::BahdanauAttention", 1, 2, false, {}},
                              {"nn::BahdanauAttention, lengths, one of them 0", 1, 2, false, Tensor{0, 2}},
                              {"nn::BahdanauAttention, normed, lengths", 1, 2, true, Tensor{3, 1}},
                              {"nn::BahdanauAttention, normed, two heads, lengths", 2, 2, true, Tensor{2, 3}},
                              {"nn::BahdanauAttention, two heads, two queries of each row", 2, 4, false, Tensor{2, 3}},
                              {"nn::BahdanauAttention, bias, two heads", 2, 2, false, {}, true}};
  for (const Variant& v : variants) {
    const nn::BahdanauAttentionOptions options{.query = 2,
                                               .memory = 2,
                                               .units = 2,
                                               .heads = v.heads,
                                               .normed = v.normed,
                                               .bias = v.bias,
                                               .dtype = DType::float64};
    cases.push_back(
        {"tanh", v.usage,
         [options, lengths = v.lengths](const Tensors& in) {
           return read_by(nn::BahdanauAttention(options), in, lengths);
         },
         with_parameters({random({2, 3, 2}, 601), random({v.queries, 2}, 602)}, nn::BahdanauAttention(options))});
  }
}

void add_multiplicative(std::vector<GradientCase>& cases) {
  struct Variant {
    const char* usage;
    nn::LuongScore score;
    std::int64_t heads, queries;
    bool scaled;
    Tensor lengths;
  };
  constexpr auto general = nn::LuongScore::general, dot = nn::LuongScore::dot;
  const Variant variants[] = {{"nn::LuongAttention", general, 1, 2, false, {}},
                              {"nn::LuongAttention, scaled, lengths, one of them 0", general, 1, 2, true, Tensor{2, 0}},
                              {"nn::LuongAttention, scaled, two heads, lengths", general, 2, 2, true, Tensor{3, 1}},
                              {"nn::LuongAttention, two heads, two queries of each row", general, 2, 4, false, {}},
                              {"nn::LuongAttention, dot", dot, 1, 2, false, Tensor{1, 3}},
                              {"nn::LuongAttention, dot, scaled, two queries of each row", dot, 1, 4, true, {}}};
  for (const Variant& v : variants) {
    const nn::LuongAttentionOptions options{.query = 2,
                                            .memory = v.score == dot ? 2 : 3,
                                            .score = v.score,
                                            .heads = v.heads,
                                            .scaled = v.scaled,
                                            .dtype = DType::float64};
    cases.push_back({"matmul", v.usage,
                     [options, lengths = v.lengths](const Tensors& in) {
                       return read_by(nn::LuongAttention(options), in, lengths);
                     },
                     with_parameters({random({2, 3, options.memory}, 603), random({v.queries, 2}, 604)},
                                     nn::LuongAttention(options))});
  }
}

/// Two steps of a cell, outputs and state side by side. in[0] is the memory, in[1] the inputs.
template <class Model>
Tensor run(Model& model, const Tensors& in, const Tensor& places, const Tensor& steps) {
  put_all(model, in, 2);
  model.attend(in[0], places);
  const auto [outputs, state] = nn::unroll(model, in[1], {.lengths = steps});
  return square(concat({reshape(outputs, {in[1].size(0), -1}), state.attention, state.alignments}, 1));
}

/// One object for all calls: a copy would copy its parameters.
template <class Model>
std::shared_ptr<Model> shared(Model model) {
  return std::make_shared<Model>(std::move(model));
}

void add_cells(std::vector<GradientCase>& cases) {
  constexpr DType f64 = DType::float64;
  const std::pair<const char*, nn::AttentionCellOptions> variants[] = {
      {"nn::AttentionCell", {.attention_size = 2, .dtype = f64}},
      {"nn::AttentionCell, tanh and a bias",
       {.attention_size = 2, .activation = Activation::tanh, .bias = true, .dtype = f64}},
      {"nn::AttentionCell without a layer", {.dtype = f64}},
      {"nn::AttentionCell, not fed, gives its own output",
       {.attention_size = 1, .input_feeding = false, .output_attention = false, .dtype = f64}},
      {"nn::AttentionCell, fed the context, asking by its state",
       {.attention_size = 1, .bias = true, .feed_context = true, .query_state = true, .output_size = 2, .dtype = f64}}};
  const Tensor places = {3, 1}, steps = {1, 2};
  for (const auto& [usage, options] : variants) {
    const std::int64_t fed = options.input_feeding ? 2 : 0;  // a context has two features as well
    const SmallCell cell{Parameter(random({2 + fed + 2, 2}, 605))};
    const auto additive = shared(nn::AttentionCell(
        cell, nn::BahdanauAttention{{.query = 2, .memory = 2, .units = 2, .normed = true, .dtype = f64}}, options));
    const auto multiplicative = shared(
        nn::AttentionCell(cell, nn::LuongAttention{{.query = 2, .memory = 2, .scaled = true, .dtype = f64}}, options));
    const Tensors inputs = {random({2, 3, 2}, 606), random({2, 2, 2}, 607)};
    const std::string name = usage;
    cases.push_back({"tanh", name + ", additive",
                     [additive, places, steps](const Tensors& in) { return run(*additive, in, places, steps); },
                     with_parameters(inputs, *additive)});
    cases.push_back(
        {"matmul", name + ", multiplicative",
         [multiplicative, places, steps](const Tensors& in) { return run(*multiplicative, in, places, steps); },
         with_parameters(inputs, *multiplicative)});
  }
}

}  // namespace

std::vector<GradientCase> memory_attention_gradient_cases() {
  std::vector<GradientCase> cases;
  add_additive(cases);
  add_multiplicative(cases);
  add_cells(cases);
  return cases;
}

}  // namespace tests
