// user_file.cpp in LibTorch.
#include <torch/torch.h>
#include <iostream>

struct Net : torch::nn::Module {
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(784, 128));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(128, 10));

  torch::Tensor forward(const torch::Tensor& images) { return out->forward(torch::relu(hidden->forward(images))); }
};

int main() {
  Net net;
  torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(1e-3));
  const torch::Tensor images = torch::rand({100, 784});
  const torch::Tensor labels = torch::randint(10, {100});
  for (int step = 1; step <= 1000; ++step) {
    adam.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net.forward(images), labels);
    loss.backward();
    adam.step();
    if (step % 100 == 0) std::cout << step << ' ' << loss.item<float>() << '\n';
  }
}
