// hello in LibTorch.
#include <torch/torch.h>
#include <iostream>

int main() {
  const torch::Tensor a = torch::tensor({1.0f, 2.0f, 3.0f}), b = torch::tensor({10.0f, 20.0f, 30.0f});
  std::cout << a + b << '\n';
}
