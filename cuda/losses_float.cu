// Losses of each element by itself in float32 and float64.
#include "cuda/loss_rows.cuh"

namespace capstan::on_cuda {

template const LossRow<float>& loss_row<float>(int op);
template const LossGradientRow<float>& loss_gradient_row<float>(int op, bool right);
template const LossRow<double>& loss_row<double>(int op);
template const LossGradientRow<double>& loss_gradient_row<double>(int op, bool right);

}  // namespace capstan::on_cuda
