// A program outside of this repository: it sees the installed headers and the installed library alone.
#include <capstan/capstan.hpp>

int main() {
  namespace cs = capstan;
  const cs::Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  const cs::Tensor y = cs::matmul(x, cs::transpose(x)) + 1;
  return y.at<float>(0, 1) == 12 ? 0 : 1;  // 1*3 + 2*4 + 1
}
