#pragma once
// Coefficients of one step of the fused optimizers.

namespace capstan::kernels {

struct AdamStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double mean_scale, square_scale;  // 1 / (1 - beta^t)
};
struct SgdStep {
  double learning_rate, momentum, weight_decay;
  bool nesterov;
};

}  // namespace capstan::kernels
