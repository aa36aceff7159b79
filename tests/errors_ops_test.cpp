// Bad input to operations: the right exception, word for word, the operands as they were, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_ops_test.cpp";
const std::string mixed = "; integers go with numeric tensors, floating numbers with floating ones, true and false with bool.";
const std::string no_common = "; the Array API table has no common type for them. Convert one with x.to(dtype).";
const std::string floating = "; it must be a floating type.";
const std::string a_number = "; it must be a number type, not bool.";
const std::string nothing = ": shape [0, 3] has no elements to reduce; each reduced axis must have size 1 or more.";
const std::string once = " is named twice for shape [2, 3]; name each once.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor bytes = integers.to(DType::uint8);
  Tensor flags = {{true, false, true}, {false, false, true}};
  Tensor four = zeros({4});

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(same(integers, {{1, 2, 3}, {4, 5, 6}}));
    CHECK(x.version() == 0);
    CHECK(integers.version() == 0);
  }
};

}  // namespace

TEST_CASE("elementwise operations refuse shapes and types that do not fit", "[errors]") {
  const Operands o;
  const std::string broadcast =
      ": shapes do not broadcast: a is [2, 3] and b is [4]; sizes 3 and 4 of axis -1 must be equal or 1.";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { add(o.x, o.four); }, "add" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { o.x - o.four; }, "sub" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { o.x * o.four; }, "mul" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { o.x / o.four; }, "div" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { pow(o.x, o.four); }, "pow" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { maximum(o.x, o.four); }, "maximum" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { less(o.x, o.four); }, "less" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { greater(o.x, o.four); }, "greater" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { add(zeros({2, 3}), zeros({3, 3})); },
       "add: shapes do not broadcast: a is [2, 3] and b is [3, 3]; sizes 2 and 3 of axis -2 must be equal or 1."},
      {__LINE__, message_of<DTypeError>, [&] { o.x + o.integers; }, "add: types do not mix: a is float32 and b is int32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { static_cast<void>(o.integers < o.x); }, "less: types do not mix: a is int32 and b is float32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { o.flags + o.integers; }, "add: types do not mix: a is bool and b is int32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { o.flags + o.flags; }, "add: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { less(o.flags, o.flags); }, "less: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { -o.flags; }, "neg: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { o.integers / o.integers; }, "div: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { pow(o.integers, 2); }, "pow: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { exp(o.integers); }, "exp: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { log(o.bytes); }, "log: the tensor is uint8" + floating},
      {__LINE__, message_of<DTypeError>, [&] { sqrt(o.integers); }, "sqrt: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { tanh(o.flags); }, "tanh: the tensor is bool" + floating},
      {__LINE__, message_of<DTypeError>, [&] { sigmoid(o.integers); }, "sigmoid: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { reciprocal(o.integers); }, "reciprocal: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { o.integers + 1.5; },
       "add: the number 1.5 does not go with int32" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { 1.5 * o.integers; },
       "mul: the number 1.5 does not go with int32" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { o.bytes + 300; }, "add: the number 300 is out of range for uint8."},
      {__LINE__, message_of<DTypeError>, [&] { o.x + true; }, "add: the number true does not go with float32" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { clip(o.x, false, true); },
       "clip: the number false does not go with float32" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { equal(o.flags, 1); }, "equal: the number 1 does not go with bool" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { logical_and(o.x, o.x); },
       "logical_and: the tensor is float32; it must be bool."},
      {__LINE__, message_of<DTypeError>, [&] { logical_not(o.integers); },
       "logical_not: the tensor is int32; it must be bool."},
      {__LINE__, message_of<DTypeError>, [&] { where(o.x, o.x, o.x); }, "where: the condition is float32; it must be bool."},
      {__LINE__, message_of<Error>, [&] { clip(o.x, 2, 1); }, "clip: the limits are 2 and 1; low must not exceed high."},
      {__LINE__, message_of<Error>, [&] { clip(o.x, kNaN, 1); }, "clip: the limits are nan and 1; low must not exceed high."},
  }, file);
}

TEST_CASE("reductions refuse axes that are not there, and reductions of nothing", "[errors]") {
  const Operands o;
  const Tensor none = zeros({0, 3});
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { sum(o.x, 2); },
       "sum: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { mean(o.x, {0, -3}); },
       "mean: axis -3 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { softmax(o.x, 2); },
       "softmax: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { argmax(o.x, -3); },
       "argmax: axis -3 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { sum(o.x, {0, -2}); }, "sum: axis -2" + once},
      {__LINE__, message_of<ShapeError>, [&] { sum(o.x, {0, 1, 2, 3, 4, 5, 6, 7, 8}); },
       "Axes: 9 axes were given; a tensor has at most 8."},
      {__LINE__, message_of<ShapeError>, [&] { mean(none, 0); }, "mean" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { max(none); }, "max" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { min(none, {1, 0}); }, "min" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { argmax(none, 0); }, "argmax" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { argmax(none); }, "argmax" + nothing},
      {__LINE__, message_of<DTypeError>, [&] { mean(o.integers); }, "mean: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { logsumexp(o.integers); }, "logsumexp: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { softmax(o.integers); }, "softmax: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { log_softmax(o.flags); }, "log_softmax: the tensor is bool" + floating},
      {__LINE__, message_of<DTypeError>, [&] { max(o.flags); }, "max: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { all_of(o.x); }, "all_of: the tensor is float32; it must be bool."},
      {__LINE__, message_of<DTypeError>, [&] { any_of(o.integers); }, "any_of: the tensor is int32; it must be bool."},
  }, file);
}

TEST_CASE("products of matrices name both shapes, and offer a transpose only where it fits", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { matmul(zeros({64, 128}), zeros({10, 128})); },
       "matmul: inner sizes differ: a is [64, 128] and b is [10, 128]; "
       "a.size(1) = 128 must equal b.size(0) = 10. transpose(b) would fit."},
      {__LINE__, message_of<ShapeError>, [&] { matmul(zeros({2, 3}), zeros({4, 5})); },
       "matmul: inner sizes differ: a is [2, 3] and b is [4, 5]; a.size(1) = 3 must equal b.size(0) = 4."},
      {__LINE__, message_of<ShapeError>, [&] { matmul(o.x, o.four); },
       "matmul: inner sizes differ: a is [2, 3] and b is [4]; a.size(1) = 3 must equal b.size(0) = 4."},
      {__LINE__, message_of<ShapeError>, [&] { matmul(Tensor(1.0f), o.x); },
       "matmul: a is [] and b is [2, 3]; both must have at least one axis."},
      {__LINE__, message_of<ShapeError>, [] { addmm(zeros({2, 4}), zeros({2, 3}), zeros({2, 3, 4})); },
       "addmm: a is [2, 3] and b is [2, 3, 4]; both must have two axes."},
      {__LINE__, message_of<ShapeError>, [] { addmm(zeros({1, 2, 4}), zeros({2, 3}), zeros({3, 4})); },
       "addmm: c is [1, 2, 4] and the product [2, 4]; c must broadcast to it."},
      {__LINE__, message_of<ShapeError>, [] { addmm(zeros({5, 4}), zeros({1, 3}), zeros({3, 4})); },
       "addmm: c is [5, 4] and the product [1, 4]; c must broadcast to it."},
      {__LINE__, message_of<DTypeError>, [] { addmm(Tensor{1, 2}, zeros({2, 3}), zeros({3, 2})); },
       "addmm: the tensor is int32; it must be a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { matmul(zeros({2, 3, 4}), zeros({3, 4, 5})); },
       "matmul: leading axes do not broadcast: a is [2, 3, 4] and b is [3, 4, 5]; "
       "sizes 2 and 3 must be equal or 1."},
      {__LINE__, message_of<DTypeError>, [&] { matmul(o.integers, o.integers); }, "matmul: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { matmul(o.x, o.integers); }, "matmul: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { linear(o.x, zeros({4, 5}), Tensor{}); },
       "linear: inner sizes differ: a is [2, 3] and b is [4, 5]; a.size(1) = 3 must equal b.size(0) = 4."},
      {__LINE__, message_of<ShapeError>, [&] { linear(o.x, zeros({3, 5}), o.four); },
       "linear: the bias is [4] and the weight [3, 5]; the bias must be [5]."},
      {__LINE__, message_of<ShapeError>, [&] { linear(o.x, zeros({3}), Tensor{}); },
       "linear: the weight is [3]; it must have two axes, [inputs, outputs]."},
  }, file);
}

TEST_CASE("shaping operations refuse sizes that do not fit", "[errors]") {
  const Operands o;
  const std::string outside =
      ": 2 positions from 2 do not lie in axis 1 of shape [2, 3]; begin must be >= 0 and begin + size at most 3.";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { reshape(o.x, {4, 2}); },
       "reshape: [2, 3] has 6 elements and [4, 2] has 8; the counts must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { reshape(o.x, {4, -1}); },
       "reshape: [2, 3] has 6 elements, which do not divide into [4, -1]."},
      {__LINE__, message_of<ShapeError>, [&] { reshape(o.x, {-1, -1}); },
       "reshape: [-1, -1] has more than one -1; at most one size can be left open."},
      {__LINE__, message_of<ShapeError>, [&] { reshape(o.x, {-2, 3}); },
       "reshape: [-2, 3] has a negative size; only -1 means \"what is left\"."},
      {__LINE__, message_of<ShapeError>, [&] { reshape(o.x, {1, 1, 1, 1, 1, 1, 1, 1, 6}); },
       "ShapeRequest: 9 sizes were given; a tensor has at most 8 axes."},
      {__LINE__, message_of<ShapeError>, [&] { flatten(o.x, 1, 0); },
       "flatten: axis 1 comes after axis 0 in shape [2, 3]."},
      {__LINE__, message_of<IndexError>, [&] { flatten(o.x, 2); },
       "flatten: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { transpose(o.x, 0, 2); },
       "transpose: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { permute(o.x, {0, -2}); }, "permute: axis 0" + once},
      {__LINE__, message_of<ShapeError>, [&] { permute(o.x, {0}); },
       "permute: 1 axes were given for shape [2, 3]; it needs 2."},
      {__LINE__, message_of<ShapeError>, [&] { squeeze(o.x, 0); },
       "squeeze: axis 0 of shape [2, 3] has size 2; only axes of size 1 can go."},
      {__LINE__, message_of<IndexError>, [&] { expand_dims(o.x, 3); },
       "expand_dims: axis 3 is out of range for rank 3; it must be in [-3, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { expand_dims(zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0); },
       "expand_dims: shape [1, 1, 1, 1, 1, 1, 1, 1] has 8 axes already; that is the most."},
      {__LINE__, message_of<ShapeError>, [&] { broadcast_to(o.x, {2, 4}); },
       "broadcast_to: [2, 3] does not stretch to [2, 4]; trailing sizes must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { concat({o.x, zeros({3, 3})}, 1); },
       "concat: part 0 is [2, 3] and part 1 is [3, 3]; all sizes but that of axis 1 must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { concat(std::vector<Tensor>{}); },
       "concat: there are no parts; give at least one."},
      {__LINE__, message_of<DTypeError>, [&] { concat({o.x, o.integers}); },
       "concat: types do not mix: part 0 is float32 and part 1 is int32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { stack({o.x, o.integers}); },
       "stack: types do not mix: part 0 is float32 and part 1 is int32" + no_common},
      {__LINE__, message_of<Error>, [&] { clip(Tensor{std::int64_t{1}}, 9007199254740993, 9007199254740992); },
       "clip: the limits are 9007199254740993 and 9007199254740992; low must not exceed high."},
      {__LINE__, message_of<Error>, [&] { from_memory<float>(nullptr, {3, 2}); },
       "from_memory: the pointer is null and shape [3, 2] has 6 elements; it must point to them."},
      {__LINE__, message_of<Error>, [&] { Parameter().set_trainable(false); },
       "Parameter::set_trainable: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { stack({o.x, zeros({3, 2})}); },
       "stack: part 0 is [2, 3] and part 1 is [3, 2]; all must have the same shape."},
      {__LINE__, message_of<IndexError>, [&] { stack({o.x, o.x}, 5); },
       "stack: axis 5 is out of range for rank 3; it must be in [-3, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { stack(std::vector<Tensor>{}); },
       "stack: there are no parts; give at least one."},
      {__LINE__, message_of<ShapeError>, [&] { split(o.x, 2, 1); },
       "split: axis 1 of shape [2, 3] does not divide into 2 equal parts; use split_sizes for unequal ones."},
      {__LINE__, message_of<ShapeError>, [&] { static_cast<void>(unstack<2>(ones({3, 2}))); },
       "unstack: axis 0 of shape [3, 2] has 3 slices; 2 were asked for."},
      {__LINE__, message_of<ShapeError>, [&] { static_cast<void>(unstack<2>(ones({3, 1}), -1)); },
       "unstack: axis -1 of shape [3, 1] has 1 slice; 2 were asked for."},
      {__LINE__, message_of<ShapeError>, [&] { static_cast<void>(split<2>(ones({3, 1}))); },
       "split: axis 0 of shape [3, 1] does not divide into 2 equal parts; use split_sizes for unequal ones."},
      {__LINE__, message_of<ShapeError>, [&] { split(o.x, 0, 1); },
       "split: axis 1 of shape [2, 3] does not divide into 0 equal parts; use split_sizes for unequal ones."},
      {__LINE__, message_of<ShapeError>, [&] { split_sizes(o.x, {1, 1}, 1); },
       "split_sizes: the sizes do not add up to axis 1 of shape [2, 3]; they must be >= 0 and their sum 3."},
      {__LINE__, message_of<IndexError>, [&] { slice(o.x, {0, 2}, {1, 2}); }, "slice" + outside},
      {__LINE__, message_of<ShapeError>, [&] { slice(o.x, {0}, {1}); },
       "slice: 1 begins and 1 sizes were given for shape [2, 3]; it needs 2 of each."},
      {__LINE__, message_of<IndexError>, [&] { narrow(o.x, 1, 2, 2); }, "narrow" + outside},
  }, file);
}

TEST_CASE("choosing by index names the index and its place", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { gather(o.x, Tensor{0, 5}); },
       "gather: index 5 at [1] is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { gather(o.x, Tensor{{0, 1}, {-4, 0}}, 1); },
       "gather: index -4 at [1, 0] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<DTypeError>, [&] { gather(o.x, o.x); },
       "gather: the indices are float32; they must be integers."},
      {__LINE__, message_of<IndexError>, [&] { pick(o.x, Tensor{0, 3}); },
       "pick: index 3 at [1] is out of range for axis 1 of shape [2, 3]; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { pick(o.x, Tensor{-1, 0}); },
       "pick: index -1 at [0] is out of range for axis 1 of shape [2, 3]; it must be in [0, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { pick(o.x, Tensor{0, 1, 2}); },
       "pick: the tensor is [2, 3] and the indices are [3]; "
       "the indices must have the tensor's shape without its last axis."},
      {__LINE__, message_of<DTypeError>, [&] { one_hot(o.x, 3); },
       "one_hot: the indices are float32; they must be integers."},
      {__LINE__, message_of<ShapeError>, [&] { one_hot(Tensor{0, 1}, -1); },
       "one_hot: the depth is -1; it must be >= 0."},
  }, file);
}

TEST_CASE("operations of networks refuse what does not fit", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { dropout(o.x, 0); }, "dropout: keep is 0; it must be in (0, 1]."},
      {__LINE__, message_of<Error>, [&] { dropout(o.x, 1.5); }, "dropout: keep is 1.5; it must be in (0, 1]."},
      {__LINE__, message_of<DTypeError>, [&] { dropout(o.integers, 0.5); }, "dropout: the tensor is int32" + floating},
  }, file);
}
