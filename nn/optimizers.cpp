#include <capstan/optim/optimizers.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/update.hpp>

namespace capstan::optim {
namespace {

std::vector<Tensor> zeros_for(const std::vector<Tensor>& parameters, Where where) {
  std::vector<Tensor> states;
  states.reserve(parameters.size());
  for (const Tensor& p : parameters) states.push_back(zeros_like(p, where));
  return states;
}

}  // namespace

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions options, Where where)
    : parameters_(std::move(parameters)), options_(options) {
  if (options.momentum != 0) velocity_ = zeros_for(parameters_, where);
}

void Sgd::apply(std::span<const Tensor> gradients, Where where) {
  if (options_.momentum != 0 && velocity_.empty()) velocity_ = zeros_for(parameters_, where);
  // a velocity of zero makes the first step the gradient itself, also for parameters that get theirs later
  sgd_update(parameters_, gradients, velocity_,
             {.learning_rate = options_.learning_rate,
              .momentum = options_.momentum,
              .weight_decay = options_.weight_decay,
              .nesterov = options_.nesterov,
              .lazy = options_.lazy},
             where);
  ++steps_;
}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options, Where where)
    : parameters_(std::move(parameters)),
      mean_(zeros_for(parameters_, where)),
      square_(zeros_for(parameters_, where)),
      options_(options) {}

void Adam::apply(std::span<const Tensor> gradients, Where where) {
  adam_update(parameters_, gradients, mean_, square_,
              {.learning_rate = options_.learning_rate,
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .epsilon = options_.epsilon,
               .weight_decay = options_.weight_decay,
               .step = steps_ + 1,
               .lazy = options_.lazy},
              where);
  ++steps_;
}

}  // namespace capstan::optim
