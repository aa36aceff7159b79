// hello: adds two tensors and prints the sum. Its time from start to end and its memory are measured from outside.
#include <capstan/capstan.hpp>
#include <iostream>

int main() {
  const capstan::Tensor a = {1.0f, 2.0f, 3.0f}, b = {10.0f, 20.0f, 30.0f};
  std::cout << a + b << '\n';
}
