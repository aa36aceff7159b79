#include "nn/operations.hpp"

#include <string_view>

namespace capstan::nn::detail {
namespace {

using debug::Operation;

/// An operand, or an undefined tensor.
const Tensor& operand(const Operation& op, std::size_t i) {
  static const Tensor& none = *new const Tensor();  // never destroyed
  return i < op.inputs.size() ? *op.inputs[i] : none;
}
std::int64_t has(const Operation& op, std::size_t i) { return operand(op, i).defined() ? 1 : 0; }
std::int64_t elements(const Tensor& x) { return x.defined() ? x.numel() : 0; }
std::int64_t results(const Operation& op) { return op.outputs.empty() ? 0 : elements(*op.outputs[0]); }
std::int64_t divided(std::int64_t a, std::int64_t b) { return b > 0 ? a / b : 0; }

std::int64_t convolution(const Operation& op) {  // x, weight [out, in/groups, kernel...], bias
  const Tensor& weight = operand(op, 1);
  return results(op) * (2 * divided(weight.numel(), weight.size(0)) + has(op, 2));
}

std::int64_t transposed_convolution(const Operation& op) {  // x, weight [in, out/groups, kernel...], bias
  const Tensor& weight = operand(op, 1);
  return 2 * elements(operand(op, 0)) * divided(weight.numel(), weight.size(0)) + has(op, 2) * results(op);
}

std::int64_t product(const Operation& op) { return 2 * results(op) * operand(op, 0).size(-1); }

std::int64_t linear(const Operation& op) { return product(op) + has(op, 2) * results(op); }

std::int64_t attention(const Operation& op) {  // query, key, value, floating mask
  const Tensor &query = operand(op, 0), &key = operand(op, 1), &value = operand(op, 2);
  const std::int64_t features = query.size(-1);
  const std::int64_t scores = divided(query.numel(), features) * key.size(-2);
  return scores * (2 * features + 2 * value.size(-1) + 5 + has(op, 3));
}

/// x, h, c, wx [inputs, blocks * hidden], wh [units, blocks * hidden], b, bn, projection [hidden, units].
template <std::int64_t kBlocks, std::int64_t kForUnit>
std::int64_t recurrence(const Operation& op) {
  const std::int64_t inputs = operand(op, 3).size(0), columns = operand(op, 3).size(1), units = operand(op, 4).size(0);
  return divided(elements(operand(op, 0)), inputs) *
         (2 * columns * (inputs + units) + kForUnit * columns / kBlocks + 2 * elements(operand(op, 7)));
}

std::int64_t norm(const Operation& op) { return results(op) * (6 + has(op, 1) + has(op, 2)); }
std::int64_t rms_norm(const Operation& op) { return results(op) * (3 + has(op, 1)); }
std::int64_t given_norm(const Operation& op) { return results(op) * (2 + has(op, 3) + has(op, 4)); }

std::int64_t reduction(const Operation& op) { return elements(operand(op, 0)); }

struct Formula {
  std::string_view name;
  std::int64_t (*count)(const Operation&);
};

constexpr Formula kFormulas[] = {{"all_of", &reduction},
                                 {"any_of", &reduction},
                                 {"argmax", &reduction},
                                 {"argmin", &reduction},
                                 {"batch_norm", &given_norm},
                                 {"batch_norm_training", &norm},
                                 {"conv1d", &convolution},
                                 {"conv2d", &convolution},
                                 {"conv3d", &convolution},
                                 {"conv_transpose1d", &transposed_convolution},
                                 {"conv_transpose2d", &transposed_convolution},
                                 {"conv_transpose3d", &transposed_convolution},
                                 {"count_nonzero", &reduction},
                                 {"group_norm", &norm},
                                 {"gru", &recurrence<3, 15>},
                                 {"gru_cell", &recurrence<3, 15>},
                                 {"instance_norm", &norm},
                                 {"layer_norm", &norm},
                                 {"addmm", &linear},
                                 {"linear", &linear},
                                 {"logsumexp", &reduction},
                                 {"lstm", &recurrence<4, 17>},
                                 {"lstm_cell", &recurrence<4, 17>},
                                 {"matmul", &product},
                                 {"max", &reduction},
                                 {"mean", &reduction},
                                 {"min", &reduction},
                                 {"moments", &reduction},
                                 {"prod", &reduction},
                                 {"rms_norm", &rms_norm},
                                 {"rnn", &recurrence<1, 3>},
                                 {"rnn_cell", &recurrence<1, 3>},
                                 {"scaled_dot_product_attention", &attention},
                                 {"std", &reduction},
                                 {"sum", &reduction},
                                 {"var", &reduction}};

}  // namespace

std::int64_t count_operations(const Operation& op) {
  if (op.reads > 0) return op.reads;
  for (const Formula& formula : kFormulas)
    if (formula.name == op.name) return formula.count(op);
  return results(op);
}

}  // namespace capstan::nn::detail
