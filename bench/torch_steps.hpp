#pragma once
// Training steps in LibTorch, in every way that a user might write them for speed.
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "bench/rows.hpp"
#include "bench/torch_values.hpp"

namespace bench {

/// What becomes of the gradients of the step before: filled with zeros, or let go.
enum class Before { zeroed, released };

inline void clear(const Tensors& parameters, Before before) {
  for (const torch::Tensor& parameter : parameters) {
    torch::Tensor& grad = parameter.mutable_grad();
    if (before == Before::released) grad = torch::Tensor();
    else if (grad.defined()) grad.detach_().zero_();
  }
}

inline Tensors gradients_of(const Tensors& parameters) {
  Tensors gradients;
  for (const torch::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

inline Tensors zeros_like_all(const Tensors& parameters) {
  Tensors zeros;
  for (const torch::Tensor& parameter : parameters) zeros.push_back(torch::zeros_like(parameter.detach()));
  return zeros;
}

/// torch::optim::Adam of fewer passes over memory: no temporaries, the corrections of bias in the rate and in epsilon.
class AdamByHand {
 public:
  AdamByHand(const Tensors& parameters, double rate)
      : parameters_(parameters),
        means_(zeros_like_all(parameters)),
        squares_(zeros_like_all(parameters)),
        roots_(zeros_like_all(parameters)),
        rate_(rate) {}

  void step() {
    const torch::NoGradGuard off;
    ++steps_;
    const double root_of_bias = std::sqrt(1 - std::pow(0.999, steps_));
    const double rate = rate_ * root_of_bias / (1 - std::pow(0.9, steps_));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& grad = parameters_[i].grad();
      means_[i].lerp_(grad, 0.1);
      squares_[i].mul_(0.999).addcmul_(grad, grad, 0.001);
      at::sqrt_out(roots_[i], squares_[i]).add_(1e-8 * root_of_bias);
      parameters_[i].addcdiv_(means_[i], roots_[i], -rate);
    }
  }

 private:
  Tensors parameters_, means_, squares_, roots_;
  double rate_;
  std::int64_t steps_ = 0;
};

#if TORCH_VERSION_MAJOR >= 2
/// One pass for each parameter, as torch.optim.Adam(fused=True) in Python. LibTorch 1.13 has it for GPUs alone.
class FusedAdam {
 public:
  FusedAdam(const Tensors& parameters, double rate)
      : parameters_(parameters), means_(zeros_like_all(parameters)), squares_(zeros_like_all(parameters)), rate_(rate) {
    for (std::size_t i = 0; i < parameters.size(); ++i) steps_.push_back(torch::zeros({}));
  }

  void step() {
    const torch::NoGradGuard off;
    at::_foreach_add_(steps_, 1);
    at::_fused_adam_(parameters_, gradients_of(parameters_), means_, squares_, {}, steps_, rate_, 0.9, 0.999,
                     /*weight_decay=*/0.0, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }

 private:
  Tensors parameters_, means_, squares_, steps_;
  double rate_;
};
#endif

/// A step of an Adam on a fixed batch. A Model is made of sizes, has the network as `net`, and gives its loss.
template <class Model, class Adam>
struct AdamStep {
  Model model;
  Tensors parameters = model.net.parameters();
  Adam adam;
  Before before;

  AdamStep(const Sizes& sizes, double rate, Before gradients)
      : model(sizes), adam(parameters, rate), before(gradients) {}
  void operator()() {
    clear(parameters, before);
    model.loss().backward();
    adam.step();
  }
};

/// each(suffix of the variant, `prepare`) for every Adam and every way of clearing gradients.
template <class Model, class Each>
void each_adam(double rate, Each each) {
  each("_zeroed", shared<AdamStep<Model, torch::optim::Adam>>(rate, Before::zeroed));
  each("", shared<AdamStep<Model, torch::optim::Adam>>(rate, Before::released));
  each("_by_hand", shared<AdamStep<Model, AdamByHand>>(rate, Before::released));
#if TORCH_VERSION_MAJOR >= 2
  each("_fused", shared<AdamStep<Model, FusedAdam>>(rate, Before::released));
#endif
}

/// `name` ends in a variant.
template <class Model>
void adam_row(const std::string& name, const Growing& workload, double rate = 1e-3) {
  each_adam<Model>(rate, [&](const char* suffix, auto prepare) { growing_row(name + suffix, workload, prepare); });
}
template <class Model>
void adam_rows(const std::string& name, const Growing& workload, double rate = 1e-3) {
  each_adam<Model>(rate, [&](const char* suffix, auto prepare) { growing_rows(name + suffix, workload, prepare); });
}

/// clip_grad_norm_ for gradients that may be sparse: the factor by which all are to be multiplied.
inline double clip_factor(const Tensors& parameters, double limit) {
  Tensors norms;
  for (const torch::Tensor& parameter : parameters) {
    torch::Tensor& grad = parameter.mutable_grad();
    if (grad.is_sparse()) grad = grad.coalesce();
    norms.push_back(grad.is_sparse() ? grad._values().norm() : grad.norm());
  }
  return std::min(1.0, limit / (torch::stack(norms).norm().item<double>() + 1e-6));
}

/// How a step of clipped gradient descent ends: by LibTorch's functions, with gradients zeroed or released before the
/// next; or by hand, the factor of clipping in the rate, which saves a pass over the gradients.
enum class Descent { zeroed, released, by_hand };

/// Numbers of letters or words, or vectors with a one there.
enum class Inputs { numbers, one_hot };

/// A step of gradient descent on a fixed batch, the gradients clipped by their common norm. A Net is made of sizes and
/// says with `kSparse` whether a gradient is sparse. Inputs and labels are below `high`.
template <class Net>
struct ClippedStep {
  static constexpr double kRate = 0.1;
  Net net;
  torch::optim::SGD sgd{net.parameters(), torch::optim::SGDOptions(kRate)};
  Tensors parameters = net.parameters();
  torch::Tensor inputs, labels;
  double limit;
  Descent descent;

  ClippedStep(const Sizes& sizes, std::int64_t high, Inputs kind, double norm, Descent way)
      : net(sizes), limit(norm), descent(way) {
    inputs = indices({sizes.steps, sizes.batch}, high);
    if (kind == Inputs::one_hot) inputs = torch::one_hot(inputs, high).to(torch::kFloat);
    labels = indices({sizes.steps, sizes.batch}, high, 2).flatten();
  }

  void operator()() {
    clear(parameters, descent == Descent::zeroed ? Before::zeroed : Before::released);
    torch::cross_entropy_loss(net(inputs), labels).backward();
    if (descent == Descent::by_hand) return descend();
    if (Net::kSparse) clip_sparse();
    else torch::nn::utils::clip_grad_norm_(parameters, limit);
    sgd.step();
  }

 private:
  void descend() {
    const torch::NoGradGuard off;
    const double factor = clip_factor(parameters, limit);
    for (torch::Tensor& parameter : parameters) parameter.add_(parameter.grad(), -kRate * factor);
  }
  void clip_sparse() {
    const torch::NoGradGuard off;
    const double factor = clip_factor(parameters, limit);
    for (const torch::Tensor& parameter : parameters) {
      torch::Tensor grad = parameter.grad();
      (grad.is_sparse() ? grad._values() : grad).mul_(factor);
    }
  }
};

/// The rows of all ways; zeroed gradients are no sparse ones.
template <class Net>
void clipped_rows(const std::string& name, const Growing& workload, std::int64_t high, Inputs kind, double norm) {
  using Step = ClippedStep<Net>;
  if (!Net::kSparse) growing_row(name + "_zeroed", workload, shared<Step>(high, kind, norm, Descent::zeroed));
  growing_row(name, workload, shared<Step>(high, kind, norm, Descent::released));
  growing_row(name + "_by_hand", workload, shared<Step>(high, kind, norm, Descent::by_hand));
}

/// Of torch_letters.cpp; recurrent_rows registers them.
void letter_rows();

}  // namespace bench
