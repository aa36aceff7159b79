// 01_values: tensors hold values, and operations on them run at once.
// Shows: making a tensor, a product, printing, reading one value, views, assignment through an index.
// Prints: [[6, 12], [12, 26]], a one-line description of it, and [7, 7, 12, 26] after the first row was overwritten
#include <capstan/capstan.hpp>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace cs = capstan;

namespace {

bool expect(bool right, const char* what) {
  if (!right) std::printf("wrong: %s\n", what);
  return right;
}

}  // namespace

int main() {
  cs::Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  cs::Tensor y = cs::matmul(x, cs::transpose(x)) + 1;
  std::cout << y << '\n';
  std::cout << y.describe() << '\n';

  bool right = expect(cs::array_equal(y, {{6.0f, 12.0f}, {12.0f, 26.0f}}), "x times its transpose, plus 1");
  right &= expect(y.describe() == "[2, 2] float32 cpu  min 6  max 26  mean 14  std 7.35  nan 0  inf 0", "description");
  right &= expect(y.at<float>(0, 1) == 12, "one value");

  cs::Tensor row = y[0];  // a view: no copy
  right &= expect(row.shares_storage(y), "a row shares the elements");
  cs::Tensor part = y.index({cs::all, cs::range(0, 1)});
  right &= expect(cs::array_equal(part, {{6.0f}, {12.0f}}), "the first column");

  y.index_put({0, cs::all}, 7);
  right &= expect(cs::array_equal(row, {7.0f, 7.0f}), "a view sees what is written to its base");

  const std::vector<float> host = y.to_vector<float>();
  for (const float value : host) std::cout << value << ' ';
  std::cout << '\n';
  right &= expect(host == std::vector<float>{7, 7, 12, 26}, "all values");
  return right ? 0 : 1;
}
