#pragma once
// The kernels of losses by number; those of the 16-bit types are compiled in a file of their own.
#include "cuda/map.cuh"

namespace capstan::on_cuda {

template <class T>
using LossRow = MapRow<Compute<T>, T, T, T>;
template <class T>
using LossGradientRow = MapRow<Compute<T>, T, T, T, T>;

template <class T>
const LossRow<T>& loss_row(int op);
template <class T>
const LossGradientRow<T>& loss_gradient_row(int op, bool right);

}  // namespace capstan::on_cuda
