#pragma once
// What the tensors of .npy, safetensors and state_dict files hold. elements.py beside it knows the same.
#include <capstan/capstan.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/peers/peers.hpp"

namespace peers {

/// A type of the other software's and what it is here.
struct Type {
  std::string name;
  capstan::DType dtype;
  bool is_signed = true, complex = false, written = true;  // by Capstan
};

/// Element i, row-major; types of 8 bits hold them, too.
inline double element(const Type& type, std::int64_t i) {
  const std::int64_t value = i * 7 % 17;
  if (type.dtype == capstan::DType::bool8) return static_cast<double>(value % 2);
  return static_cast<double>(type.is_signed ? value - 8 : value);
}

/// Pairs of complex numbers are elements i and i+1.
inline capstan::Tensor tensor_of(const Type& type, const capstan::Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    values.push_back(element(type, i));
    if (type.complex) values.push_back(element(type, i + 1));
  }
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  if (type.complex) sizes.push_back(2);
  return capstan::from_vector(values, capstan::Shape(sizes)).to(type.dtype);
}

/// Throws std::runtime_error naming `what` if type, shape or elements differ.
inline void check(const capstan::Tensor& x, const capstan::Tensor& expected, const std::string& what) {
  using capstan::DType;
  require(x.dtype() == expected.dtype(), what, std::string("the type is ") + capstan::name(x.dtype()));
  require(x.shape() == expected.shape(), what, "the shape is " + capstan::to_string(x.shape()));
  require(x.to(DType::float64).to_vector<double>() == expected.to(DType::float64).to_vector<double>(), what,
          "the elements differ");
}

}  // namespace peers
