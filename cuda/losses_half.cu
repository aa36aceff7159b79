// Losses of each element by itself in float16 and bfloat16.
#include "cuda/loss_rows.cuh"

namespace capstan::on_cuda {

template const LossRow<float16>& loss_row<float16>(int op);
template const LossGradientRow<float16>& loss_gradient_row<float16>(int op, bool right);
template const LossRow<bfloat16>& loss_row<bfloat16>(int op);
template const LossGradientRow<bfloat16>& loss_gradient_row<bfloat16>(int op, bool right);

}  // namespace capstan::on_cuda
