// Recurrent cells against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// A case: inputs (x, then the states, which may be missing), weights [gates * hidden, in] and [gates * hidden,
/// hidden], and two biases if the cell has any.
class TorchCell {
 public:
  explicit TorchCell(const GoldenCall& call)
      : inputs(call.field("config").at("input_size").get<std::int64_t>()),
        hidden(call.field("config").at("hidden_size").get<std::int64_t>()),
        biased(call.field("config").value("bias", true)),
        dtype(call.tensor(0).dtype()),
        given_(call.field("nin").get<std::size_t>()),
        call_(call) {}

  const Tensor& x() const { return call_.tensor(0); }
  Tensor state(std::size_t i) const {
    return i < given_ ? call_.tensor(i) : zeros({x().size(0), hidden}, {.dtype = dtype});
  }
  Tensor wx() const { return transpose(call_.tensor(given_)); }
  Tensor wh() const { return transpose(call_.tensor(given_ + 1)); }
  const Tensor& bias_ih() const { return call_.tensor(given_ + 2); }
  const Tensor& bias_hh() const { return call_.tensor(given_ + 3); }

  std::int64_t inputs, hidden;
  bool biased;
  DType dtype;

 private:
  std::size_t given_;
  const GoldenCall& call_;
};

/// Makes a parameter of a cell what was computed from the case's tensors, so that gradients reach them.
void put(Parameter& parameter, const Tensor& value) { static_cast<Tensor&>(parameter) = value; }

Tensors rnn_cell_case(const GoldenCall& call) {
  const TorchCell torch(call);
  const bool rectified = call.field("config").value("nonlinearity", "tanh") == "relu";
  nn::RnnCell cell(
      torch.inputs, torch.hidden,
      {.activation = rectified ? Activation::relu : Activation::tanh, .use_bias = torch.biased, .dtype = torch.dtype});
  put(cell.wx, torch.wx());
  put(cell.wh, torch.wh());
  if (torch.biased) put(cell.b, torch.bias_ih() + torch.bias_hh());
  return {cell(torch.x(), {torch.state(1)}).first};
}

Tensors gru_cell_case(const GoldenCall& call) {
  const TorchCell torch(call);
  nn::GruCell cell(torch.inputs, torch.hidden, {.use_bias = torch.biased, .dtype = torch.dtype});
  put(cell.wx, torch.wx());
  put(cell.wh, torch.wh());
  if (torch.biased) {
    const Tensor ih = torch.bias_ih(), hh = torch.bias_hh();
    const std::int64_t gates = 2 * torch.hidden;  // r and z
    put(cell.b, concat({narrow(ih, 0, 0, gates) + narrow(hh, 0, 0, gates), narrow(ih, 0, gates, torch.hidden)}));
    put(cell.bn, narrow(hh, 0, gates, torch.hidden));
  }
  return {cell(torch.x(), {torch.state(1)}).first};
}

Tensors lstm_cell_case(const GoldenCall& call) {
  const TorchCell torch(call);
  nn::LstmCell cell(torch.inputs, torch.hidden, {.use_bias = torch.biased, .dtype = torch.dtype});
  put(cell.wx, torch.wx());
  put(cell.wh, torch.wh());
  if (torch.biased) put(cell.b, torch.bias_ih() + torch.bias_hh());
  const nn::LstmCell::State after = cell(torch.x(), {torch.state(1), torch.state(2)}).second;
  return {after.h, after.c};
}

const GoldenOps cell_ops = {{"rnn_cell", rnn_cell_case}, {"gru_cell", gru_cell_case}, {"lstm_cell", lstm_cell_case}};

}  // namespace

TEST_CASE("recurrent cells give PyTorch's values and gradients", "[golden]") {
  run_goldens("recurrent cells", {"cells"}, cell_ops);
}
