// Losses and recurrent networks against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// torch keeps the classes on axis 1; here they come last.
Tensor classes_last(const Tensor& logits) {
  std::vector<int> order = {0};
  for (int axis = 2; axis < logits.rank(); ++axis) order.push_back(axis);
  order.push_back(1);
  return permute(logits, order);
}

Tensors cross_entropy(const GoldenCall& c) {
  const Tensor logits = classes_last(c.tensor(0));
  const Tensor& target = c.tensor(1);
  if (is_floating(target.dtype())) return {reduced(softmax_cross_entropy(logits, target), c)};

  const double smoothing = c.option("label_smoothing", 0.0), share = smoothing / static_cast<double>(logits.size(-1));
  const auto smoothed = [&] { return one_hot(target, logits.size(-1), 1 - smoothing + share, share, logits.dtype()); };
  if (c.has("weight")) {  // of classes; the mean is that of the weights
    const Tensor& weight = c.tensor_option("weight");
    const Tensor losses = -sum(smoothed() * weight * log_softmax(logits), -1);
    if (c.option<std::string>("reduction", "mean") == "mean") return {sum(losses) / sum(gather(weight, target))};
    return {reduced(losses, c)};
  }
  if (smoothing > 0) return {reduced(softmax_cross_entropy(logits, smoothed()), c)};
  const Tensor losses = sparse_softmax_cross_entropy(logits, target);
  if (!c.has("ignore_index")) return {reduced(losses, c)};
  const Tensor kept = not_equal(target, c.option<std::int64_t>("ignore_index", 0));
  return {sum(where(kept, losses, 0)) / number(sum(kept))};
}

Tensors nll_loss(const GoldenCall& c) {
  const Tensor losses = -pick(c.tensor(0), c.tensor(1));
  if (!c.has("ignore_index")) return {reduced(losses, c)};
  const Tensor kept = not_equal(c.tensor(1), c.option<std::int64_t>("ignore_index", 0));
  return {sum(where(kept, losses, 0)) / number(sum(kept))};
}

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

const GoldenOps loss_ops = {
    {"mse_loss",
     [](const GoldenCall& c) {
       if (c.option<std::string>("reduction", "mean") == "mean") return Tensors{mse(c.tensor(0), c.tensor(1))};
       return Tensors{reduced(square(c.tensor(0) - c.tensor(1)), c)};
     }},
    {"l1_loss", [](const GoldenCall& c) { return Tensors{reduced(abs(c.tensor(0) - c.tensor(1)), c)}; }},
    {"cross_entropy", cross_entropy},
    {"nll_loss", nll_loss},
};

const GoldenOps recurrent_ops = {{"rnn_tanh", torch_rnn}, {"rnn_relu", torch_rnn}, {"rnn_cell", rnn_cell}};

}  // namespace

TEST_CASE("losses give PyTorch's values and gradients", "[golden]") {
  run_goldens("losses", {"mse_loss", "l1_loss", "cross_entropy", "nll_loss"}, loss_ops);
}

TEST_CASE("recurrent networks give PyTorch's values and gradients", "[golden]") {
  const std::string gates = "gated cells come later";
  run_goldens("recurrent networks", {"rnn_tanh", "rnn_relu", "cells"}, recurrent_ops,
              {{"gru_cell", gates}, {"lstm_cell", gates}});
}
