// The model of letters of capstan_recurrent.cpp in LibTorch: each in every way that a user might write it for speed.
#include <torch/torch.h>

#include <memory>
#include <string>
#include <tuple>

#include "bench/rows.hpp"
#include "bench/torch_steps.hpp"
#include "bench/torch_values.hpp"

namespace bench {
namespace {

constexpr std::int64_t kAlphabet = 27;

struct LetterNet : torch::nn::Module {
  static constexpr bool kSparse = false;
  Sizes sizes;
  torch::nn::Linear out = register_module("out", torch::nn::Linear(sizes.width, kAlphabet));

  explicit LetterNet(const Sizes& made) : sizes(made) {}
  torch::Tensor zero_state() const { return torch::zeros({sizes.batch, sizes.width}); }
};

struct LetterLayer : LetterNet {
  using LetterNet::LetterNet;
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(kAlphabet, sizes.width));

  torch::Tensor operator()(const torch::Tensor& letters) {  // [steps, batch, letters]
    return out->forward(std::get<0>(lstm->forward(letters)).view({sizes.steps * sizes.batch, sizes.width}));
  }
};

/// LibTorch's cell, step by step.
struct LetterSteps : LetterNet {
  using LetterNet::LetterNet;
  torch::nn::LSTMCell cell = register_module("cell", torch::nn::LSTMCell(kAlphabet, sizes.width));

  torch::Tensor operator()(const torch::Tensor& letters) {
    auto state = std::make_tuple(zero_state(), zero_state());
    Tensors outputs;
    for (const torch::Tensor& x : letters.unbind(0)) {
      state = cell->forward(x, state);
      outputs.push_back(std::get<0>(state));
    }
    return out->forward(torch::cat(outputs));
  }
};

/// The inputs' product for all steps at once, and one product for all gates of a step.
struct LetterHoisted : LetterNet {
  using LetterNet::LetterNet;
  torch::Tensor wx = register_parameter("wx", values({kAlphabet, 4 * sizes.width}, 1) * 0.1);
  torch::Tensor wh = register_parameter("wh", values({sizes.width, 4 * sizes.width}, 2) * 0.1);
  torch::Tensor b = register_parameter("b", torch::zeros({4 * sizes.width}));

  torch::Tensor operator()(const torch::Tensor& letters) {
    const torch::Tensor inputs = torch::addmm(b, letters.view({sizes.steps * sizes.batch, kAlphabet}), wx);
    torch::Tensor h = zero_state(), c = zero_state();
    Tensors outputs;
    for (const torch::Tensor& input : inputs.view({sizes.steps, sizes.batch, 4 * sizes.width}).unbind(0)) {
      const auto gates = torch::addmm(input, h, wh).chunk(4, 1);
      c = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
      h = torch::sigmoid(gates[3]) * torch::tanh(c);
      outputs.push_back(h);
    }
    return out->forward(torch::cat(outputs));
  }
};

/// x @ wx + h @ wh + b, of separate operations or of LibTorch's fused ones.
template <bool kFused>
struct Gate : torch::nn::Module {
  torch::Tensor wx, wh, b;

  explicit Gate(const Sizes& sizes)
      : wx(register_parameter("wx", values({kAlphabet, sizes.width}, 1) * 0.1)),
        wh(register_parameter("wh", values({sizes.width, sizes.width}, 2) * 0.1)),
        b(register_parameter("b", torch::zeros({sizes.width}))) {}
  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& h) const {
    if (kFused) return torch::addmm(torch::addmm(b, x, wx), h, wh);
    return torch::matmul(x, wx) + torch::matmul(h, wh) + b;
  }
};

/// The cell written by hand: eight products a step.
template <bool kFused>
struct LetterCell : LetterNet {
  using LetterNet::LetterNet;
  std::shared_ptr<Gate<kFused>> input = gate("input"), forget = gate("forget"), update = gate("update"),
                                output = gate("output");

  std::shared_ptr<Gate<kFused>> gate(const std::string& name) {
    return register_module(name, std::make_shared<Gate<kFused>>(sizes));
  }
  torch::Tensor operator()(const torch::Tensor& letters) {
    torch::Tensor h = zero_state(), c = zero_state();
    Tensors outputs;
    for (const torch::Tensor& x : letters.unbind(0)) {
      const torch::Tensor i = torch::sigmoid((*input)(x, h)), f = torch::sigmoid((*forget)(x, h));
      c = f * c + i * torch::tanh((*update)(x, h));
      h = torch::sigmoid((*output)(x, h)) * torch::tanh(c);
      outputs.push_back(h);
    }
    return out->forward(torch::cat(outputs));
  }
};

template <class Net>
void letter_row(const std::string& name, const Growing& workload) {
  clipped_rows<Net>(name, workload, kAlphabet, Inputs::one_hot, 1.25);
}

}  // namespace

void letter_rows() {
  letter_row<LetterLayer>("char_lstm_fused/layer", kLetters);
  letter_row<LetterSteps>("char_lstm_fused/cell", kLetters);
  letter_row<LetterHoisted>("char_lstm_fused/hoisted", kLetters);
  letter_row<LetterCell<false>>("char_lstm_cell/separate", kLetterCell);
  letter_row<LetterCell<true>>("char_lstm_cell/addmm", kLetterCell);
}

}  // namespace bench
