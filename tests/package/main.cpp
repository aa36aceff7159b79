// A program outside of this repository: it sees the installed headers and the installed library alone.
#include <cmath>

#include <capstan/capstan.hpp>

int main() {
  namespace cs = capstan;
  const cs::Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  const cs::Tensor y = cs::matmul(x, cs::transpose(x)) + 1;
  const cs::Tensor z = cs::solve(x, cs::Tensor{{5.0f}, {11.0f}});  // by OpenBLAS, which a static library loads now
  const bool solved = std::fabs(z.at<float>(0, 0) - 1) < 1e-5f && std::fabs(z.at<float>(1, 0) - 2) < 1e-5f;
  return y.at<float>(0, 1) == 12 && solved ? 0 : 1;  // 1*3 + 2*4 + 1
}
