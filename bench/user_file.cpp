// What a user's file costs to compile: the umbrella header, a model and its training loop. Compiled, never run.
#include <capstan/capstan.hpp>
#include <iostream>

namespace cs = capstan;

struct Net {
  cs::nn::Linear hidden{784, 128}, out{128, 10};

  cs::Tensor operator()(const cs::Tensor& images) const { return out(cs::relu(hidden(images))); }
};

int main() {
  Net net;
  cs::optim::Adam adam(cs::nn::parameters(net), {.learning_rate = 1e-3});
  const cs::Tensor images = cs::uniform({100, 784}, 0, 1);
  const cs::Tensor labels = cs::randint(0, 10, {100});
  for (int step = 1; step <= 1000; ++step) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(images), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
    if (step % 100 == 0) std::cout << step << ' ' << loss.item<float>() << '\n';
  }
}
