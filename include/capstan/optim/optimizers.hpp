#pragma once
// All optimizers.
//
//   optim::AdamW adam(nn::parameters(net), {.learning_rate = 3e-4});
//   adam.attach(optim::cosine_decay(3e-4, {.steps = 10000}));
//   ...
//   adam.apply(tape.gradient(loss, adam.parameters()));
//
// They hold handles to parameters and change them in place, in one pass over each (Lamb in two; Lbfgs is made of
// operations). Defined in nn/sgd.cpp, adam.cpp, adaptive.cpp and lbfgs.cpp, what they have in common in nn/optimizer.cpp, and the steps themselves in
// lib/kernels/optimizer_steps.hpp.
#include <capstan/optim/adam.hpp>
#include <capstan/optim/adaptive.hpp>
#include <capstan/optim/lbfgs.hpp>
#include <capstan/optim/sgd.hpp>
