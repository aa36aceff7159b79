// Bad input to shapes, types, single values and indices: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_test.cpp";
const std::string mixed = "; integers go with numeric tensors, floating numbers with floating ones, true and false with bool.";
const std::string other_type = "; ask for the type it holds, or convert it with x.to(dtype).";

/// Remembers a tensor, to see later that it is as it was.
struct Unchanged {
  explicit Unchanged(const Tensor& t) : tensor(t), elements(values(t)), version(t.version()) {}
  void check() const {
    CHECK(values(tensor) == elements);
    CHECK(tensor.version() == version);
  }
  Tensor tensor;
  std::vector<double> elements;
  std::uint32_t version;
};

}  // namespace

TEST_CASE("shapes that cannot be are refused, each with its reason", "[errors]") {
  const Shape shape = {2, 3};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { Shape({2, -1}); },
       "Shape: size -1 of axis 1 is negative; sizes must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { zeros({2, -1}); },
       "Shape: size -1 of axis 1 is negative; sizes must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { Shape({3037000500, 3037000500}); },  // 2^31.5 rounded up
       "Shape: [3037000500, 3037000500] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); },
       "Shape: 9 sizes were given; a tensor has at most 8 axes."},
      {__LINE__, message_of<IndexError>, [&] { shape.size(2); },
       "Shape::size: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { shape.size(-3); },
       "Shape::size: axis -3 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { empty({std::int64_t{1} << 62}); },
       "allocate: [4611686018427387904] of float32 would take more than 2^63 bytes."},
  }, file);
}

TEST_CASE("the largest shapes that can be are accepted", "[errors]") {
  CHECK(Shape({3037000499, 3037000499}).numel() == std::int64_t{3037000499} * 3037000499);  // just below 2^63
  CHECK(Shape({INT64_MAX}).numel() == INT64_MAX);
  CHECK(Shape({INT64_MAX, 1, 0}).numel() == 0);
  CHECK(Shape({1, 1, 1, 1, 1, 1, 1, 1}).rank() == kMaxRank);
}

TEST_CASE("tensors that cannot be made say why", "[errors]") {
  const std::vector<float> three = {1, 2, 3};
  const TensorOptions int32{.dtype = DType::int32}, uint8{.dtype = DType::uint8};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { Tensor({{1, 2}, {3}}); },
       "Tensor: rows of axis 1 have 2 and 1 items; all must have the same number."},
      {__LINE__, message_of<ShapeError>, [&] { Tensor({{1, 2}, 3}); },
       "Tensor: braces nest 1 deep at one value and 2 deep at another; all values must stand equally deep."},
      {__LINE__, message_of<ShapeError>, [&] { Tensor({{{{{{{{{1}}}}}}}}}); },
       "Tensor: braces nest deeper than 8; a tensor has at most 8 axes."},
      {__LINE__, message_of<DTypeError>, [&] { Tensor({true, 2}); },
       "Tensor: types do not mix: bool and int32 stand in one list; the Array API table has no common type for them."},
      {__LINE__, message_of<DTypeError>, [&] { promote(DType::int64, DType::float32); },
       "promote: int64 and float32 have no common type in the Array API table; convert one with x.to(dtype)."},
      {__LINE__, message_of<ShapeError>, [&] { from_vector(three, {2, 2}); },
       "from_span: 3 values do not fill shape [2, 2]; it needs 4."},
      {__LINE__, message_of<DTypeError>, [&] { full({2}, 1.5, int32); },
       "full: the number 1.5 does not go with int32" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { Tensor{std::numeric_limits<std::uint64_t>::max()}; },
       "Tensor: the number 1.84467441e+19 is out of range for int64."},
      {__LINE__, message_of<Error>, [&] { bernoulli({2}, 1 + 1e-12); },
       "bernoulli: the probability is 1.000000000001; it must be in [0, 1]."},
      {__LINE__, message_of<DTypeError>, [&] { full({2}, 300, uint8); },
       "full: the number 300 is out of range for uint8."},
      {__LINE__, message_of<DTypeError>, [&] { full({2}, -1, uint8); },
       "full: the number -1 is out of range for uint8."},
      {__LINE__, message_of<DTypeError>, [&] { full({2}, true); },
       "full: the number true does not go with float32" + mixed},
      {__LINE__, message_of<ShapeError>, [&] { arange(0, 5, 0); },
       "arange: from 0 to 5 in steps of 0 does not end; the step must not be 0 and all three must be finite."},
      {__LINE__, message_of<DTypeError>, [&] { linspace(0, 1, 3, int32); },
       "linspace: the type is int32; it must be a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { linspace(0, 1, -1); },
       "Shape: size -1 of axis 0 is negative; sizes must be >= 0."},
      {__LINE__, message_of<DTypeError>, [&] { uniform({2}, 0, 1, default_rng(), int32); },
       "uniform: the type is int32; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { uniform({2}, 1, 0); },
       "uniform: the range is [1, 0); low must not exceed high."},
      {__LINE__, message_of<Error>, [&] { normal({2}, 0, -1); },
       "normal: the standard deviation is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { truncated_normal({2}, 0, -1); },
       "truncated_normal: the standard deviation is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { bernoulli({2}, 1.5); },
       "bernoulli: the probability is 1.5; it must be in [0, 1]."},
      {__LINE__, message_of<ShapeError>, [&] { randint(3, 3, {2}); },
       "randint: the range [3, 3) is empty; low must be below high."},
  }, file);
}

TEST_CASE("an undefined tensor is refused by name", "[errors]") {
  const Tensor none, x = {1.0f};
  const std::string rest = ": the tensor is undefined; give it a value first.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { none.shape(); }, "Tensor::shape" + rest},
      {__LINE__, message_of<Error>, [&] { none.dtype(); }, "Tensor::dtype" + rest},
      {__LINE__, message_of<Error>, [&] { none.size(0); }, "Tensor::size" + rest},
      {__LINE__, message_of<Error>, [&] { none.item<float>(); }, "item" + rest},
      {__LINE__, message_of<Error>, [&] { none.to_vector<float>(); }, "to_vector" + rest},
      {__LINE__, message_of<Error>, [&] { none.copy(); }, "copy" + rest},
      {__LINE__, message_of<Error>, [&] { exp(none); }, "exp" + rest},
      {__LINE__, message_of<Error>, [&] { none + x; }, "add" + rest},
      {__LINE__, message_of<Error>, [&] { add(x, none); }, "add" + rest},
      {__LINE__, message_of<Error>, [&] { sum(none); }, "sum" + rest},
      {__LINE__, message_of<Error>, [&] { matmul(x, none); }, "matmul" + rest},
      {__LINE__, message_of<Error>, [&] { reshape(none, {1}); }, "reshape" + rest},
      {__LINE__, message_of<Error>, [&] { concat({x, none}); }, "concat" + rest},
      {__LINE__, message_of<Error>, [&] { zeros_like(none); }, "zeros_like" + rest},
  }, file);
  CHECK(to_string(none) == "undefined tensor");
}

TEST_CASE("single values and raw memory are given out only as what they are", "[errors][host]") {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  const Tensor one(1.0f), turned = transpose(x);
  const Unchanged before(x);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { x.item<float>(); },
       "item: the tensor of shape [2, 3] has 6 values; item() reads the value of a tensor that has exactly one."},
      {__LINE__, message_of<ShapeError>, [&] { zeros({0}).item<float>(); },
       "item: the tensor of shape [0] has 0 values; item() reads the value of a tensor that has exactly one."},
      {__LINE__, message_of<DTypeError>, [&] { one.item<double>(); },
       "item: the tensor holds float32 and float64 was asked for" + other_type},
      {__LINE__, message_of<DTypeError>, [&] { x.to_vector<std::int32_t>(); },
       "to_vector: the tensor holds float32 and int32 was asked for" + other_type},
      {__LINE__, message_of<DTypeError>, [&] { x.span<double>(); },
       "span: the tensor holds float32 and float64 was asked for" + other_type},
      {__LINE__, message_of<ShapeError>, [&] { turned.span<float>(); },
       "span: the tensor of shape [3, 2] is not contiguous; make it so with x.contiguous()."},
      {__LINE__, message_of<DTypeError>, [&] { x.mutable_span<double>(); },
       "span: the tensor holds float32 and float64 was asked for" + other_type},
      {__LINE__, message_of<DTypeError>, [&] { x.data<double>(); },
       "data: the tensor holds float32 and float64 was asked for" + other_type},
      {__LINE__, message_of<DTypeError>, [&] { x.at<double>(0, 0); },
       "at: the tensor holds float32 and float64 was asked for" + other_type},
      {__LINE__, message_of<IndexError>, [&] { x.at<float>(2, 0); },
       "at: index 2 is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { x.at<float>(0, -4); },
       "at: index -4 is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { x.at<float>(0); },
       "at: 1 indices were given for shape [2, 3]; it needs 2."},
      {__LINE__, message_of<DTypeError>, [&] { x.set(1.0, 0, 0); },
       "set: the tensor holds float32 and float64 was asked for" + other_type},
      {__LINE__, message_of<IndexError>, [&] { x.set(1.0f, 0, 3); },
       "set: index 3 is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { x.size(2); },
       "Tensor::size: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { x.stride(-3); },
       "Tensor::stride: axis -3 is out of range for rank 2; it must be in [-2, 2)."},
  }, file);
  before.check();
}

TEST_CASE("indices out of range name the axis and what it holds", "[errors]") {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  const Tensor one(1.0f), four = zeros({4});
  const Unchanged before(x);
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { x[2]; },
       "operator[]: index 2 is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { x[-3]; },
       "operator[]: index -3 is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { one[0]; },
       "operator[]: 1 indices were given for shape []; it has 0 axes."},
      {__LINE__, message_of<IndexError>, [&] { x.index({0, 3}); },
       "index: index 3 is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { x.index({0, all, 0}); },
       "index: 3 indices were given for shape [2, 3]; it has 2 axes."},
      {__LINE__, message_of<IndexError>, [&] { x.index({ellipsis, ellipsis}); },
       "index: 2 ellipses were given; at most one can be."},
      {__LINE__, message_of<IndexError>, [&] { x.index({all, range(0, 2, 0)}); },
       "index: the step of a range for axis 1 is 0; it must not be."},
      {__LINE__, message_of<IndexError>, [&] { x.index_put({5, all}, 1); },
       "index_put: index 5 is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { x.index_put({0, all}, four); },
       "index_put: the value of shape [4] does not broadcast to [3]; trailing sizes must be equal or 1."},
      {__LINE__, message_of<DTypeError>, [&] { x.index_put({0, all}, true); },
       "index_put: the number true does not go with float32" + mixed},
      {__LINE__, message_of<ShapeError>, [&] { x.assign(four); },
       "assign: the value of shape [4] does not broadcast to [2, 3]; trailing sizes must be equal or 1."},
      {__LINE__, message_of<DTypeError>, [&] { x.fill(true); },
       "fill: the number true does not go with float32" + mixed},
      {__LINE__, message_of<ShapeError>, [&] { x += four; },
       "add: shapes do not broadcast: a is [2, 3] and b is [4]; sizes 3 and 4 of axis -1 must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { x *= zeros({2, 2, 3}); },
       "operator*=: the value of shape [2, 2, 3] does not broadcast to [2, 3]; trailing sizes must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { x.assign(zeros({2, 2, 3})); },
       "assign: the value of shape [2, 2, 3] does not broadcast to [2, 3]; trailing sizes must be equal or 1."},
      {__LINE__, message_of<DTypeError>, [&] { x += Tensor{1.0, 2.0, 3.0}; },
       "operator+=: the result would be float64 and the tensor is float32; convert the right side with x.to(dtype)."},
      {__LINE__, message_of<ShapeError>, [&] { broadcast_to(x, {4, 2, 3}).fill(1); },
       "fill: axis 0 of shape [4, 2, 3] is stretched over one element (broadcast_to); write to a copy."},
  }, file);
  before.check();
}

TEST_CASE("a device that this build does not have is refused", "[errors]") {
  if (cuda_available()) {
    WARN("there is a GPU here: this case checked nothing");
    return;
  }
  const Tensor x = {1.0f};
  const bool cuda_build = message_of<DeviceError>([&] { x.to(cuda(0)); }).find("CAPSTAN_CUDA=OFF") == std::string::npos;
  if (cuda_build) return;  // says how many GPUs there are instead
  const std::string rest = ": cuda:0 was asked for, but this build has no CUDA backend (configured with CAPSTAN_CUDA=OFF).";
  const TensorOptions on_gpu{.device = cuda(0)};
  check_errors({
      {__LINE__, message_of<DeviceError>, [&] { empty({2}, on_gpu); }, "empty" + rest},
      {__LINE__, message_of<DeviceError>, [&] { zeros({2}, on_gpu); }, "zeros" + rest},
      {__LINE__, message_of<DeviceError>, [&] { full({2}, 3, on_gpu); }, "full" + rest},
      {__LINE__, message_of<DeviceError>, [&] { scalar(3, on_gpu); }, "scalar" + rest},
      {__LINE__, message_of<DeviceError>, [&] { arange(0, 3, 1, on_gpu); }, "arange" + rest},
      {__LINE__, message_of<DeviceError>, [&] { linspace(0, 3, 4, on_gpu); }, "linspace" + rest},
      {__LINE__, message_of<DeviceError>, [&] { eye(2, 2, on_gpu); }, "eye" + rest},
      {__LINE__, message_of<DeviceError>, [&] { normal({2}, 0, 1, default_rng(), on_gpu); }, "normal" + rest},
      {__LINE__, message_of<DeviceError>, [&] { x.to(cuda(0)); }, "Tensor::to" + rest},
      {__LINE__, message_of<DeviceError>, [&] { memory::stats(cuda(0)); }, "memory::stats" + rest},
      {__LINE__, message_of<DeviceError>, [&] { memory::set_limit(cuda(0), 1); }, "memory::set_limit" + rest},
  }, file);
}
