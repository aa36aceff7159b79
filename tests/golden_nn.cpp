// Recurrent networks against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

Tensor backwards(const Tensor& x) { return x.index({all, from(-1, -1)}); }

/// torch.nn.RNN of any depth and direction, out of single `rnn` operations. Inputs: x, h0 if there are two, then for each
/// layer and direction the weights [hidden, in] and [hidden, hidden] and two biases.
Tensors torch_rnn(const GoldenCall& c) {
  const Json& config = c.field("config");
  const int layers = config.value("num_layers", 1), directions = config.value("bidirectional", false) ? 2 : 1;
  const bool batch_first = config.value("batch_first", false), has_bias = config.value("bias", true);
  const auto hidden = config.at("hidden_size").get<std::int64_t>();
  const auto inputs = c.field("nin").get<std::size_t>();
  const Activation activation =
      config.at("nonlinearity").get<std::string>() == "relu" ? Activation::relu : Activation::tanh;

  Tensor lengths;  // of the sequences, if they differ: what lies behind is 0
  if (config.contains("lengths")) lengths = from_vector(config.at("lengths").get<std::vector<std::int64_t>>());
  const auto turned = [&](const Tensor& sequences) {
    return lengths.defined() ? reverse_sequence(sequences, lengths) : backwards(sequences);
  };

  Tensor x = batch_first ? c.tensor(0) : transpose(c.tensor(0), 0, 1);
  std::size_t next = inputs;
  Tensors last;
  for (int layer = 0; layer < layers; ++layer) {
    Tensors results;
    for (int direction = 0; direction < directions; ++direction) {
      const Tensor wx = transpose(c.tensor(next)), wh = transpose(c.tensor(next + 1));
      const Tensor b = has_bias ? c.tensor(next + 2) + c.tensor(next + 3) : zeros({hidden}, {.dtype = x.dtype()});
      next += has_bias ? 4 : 2;
      const Tensor h0 = inputs == 2 ? c.tensor(1)[static_cast<std::int64_t>(last.size())]
                                    : zeros({x.size(0), hidden}, {.dtype = x.dtype()});
      const RnnResult h = rnn(direction == 0 ? x : turned(x), h0, wx, wh, b, activation);
      last.push_back(lengths.defined() ? h.outputs.index({arange(x.size(0)), lengths - 1}) : h.last);
      results.push_back(direction == 0 ? h.outputs : turned(h.outputs));
    }
    x = concat(results, -1);
    if (lengths.defined()) x = where(expand_dims(sequence_mask(lengths, x.size(1)), -1), x, 0);
  }
  return {batch_first ? x : transpose(x, 0, 1), stack(last)};
}

Tensors rnn_cell(const GoldenCall& c) {
  const Tensor from_input = linear(c.tensor(0), transpose(c.tensor(2)), c.tensor(4));
  const Tensor from_state = linear(c.tensor(1), transpose(c.tensor(3)), c.tensor(5));
  return {tanh(from_input + from_state)};
}

const GoldenOps recurrent_ops = {{"rnn_tanh", torch_rnn}, {"rnn_relu", torch_rnn}, {"rnn_cell", rnn_cell}};

}  // namespace

TEST_CASE("recurrent networks give PyTorch's values and gradients", "[golden]") {
  const std::string gates = "gated cells come later";
  run_goldens("recurrent networks", {"rnn_tanh", "rnn_relu", "cells"}, recurrent_ops,
              {{"gru_cell", gates}, {"lstm_cell", gates}});
}
