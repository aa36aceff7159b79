// Bad input to mathematical functions and activations: the right exception, word for word, and the operands as they were.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_math_test.cpp";
const std::string no_common = "; the Array API table has no common type for them. Convert one with x.to(dtype).";
const std::string floating = "; it must be a floating type.";
const std::string a_number = "; it must be a number type, not bool.";
const std::string whole = "; it must be an integer type.";
const std::string whole_or_bool = "; it must be an integer type or bool.";
const std::string broadcast =
    ": shapes do not broadcast: a is [2, 3] and b is [4]; sizes 3 and 4 of axis -1 must be equal or 1.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor flags = {{true, false, true}, {false, false, true}};
  Tensor four = zeros({4});
  Tensor undefined;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(same(integers, {{1, 2, 3}, {4, 5, 6}}));
    CHECK(x.version() == 0);
    CHECK(integers.version() == 0);
  }
};

}  // namespace

TEST_CASE("mathematical functions refuse types and shapes that do not fit", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { sin(o.integers); }, "sin: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { erf(o.flags); }, "erf: the tensor is bool" + floating},
      {__LINE__, message_of<DTypeError>, [&] { digamma(o.integers); }, "digamma: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { floor(o.flags); }, "floor: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { sign(o.flags); }, "sign: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { polygamma(1, o.integers); }, "polygamma: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { logit(o.integers, 0.1); }, "logit: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { polygamma(-1, o.x); }, "polygamma: the order is -1; it must be in [0, 100]."},
      {__LINE__, message_of<Error>, [&] { polygamma(101, o.x); }, "polygamma: the order is 101; it must be in [0, 100]."},
      {__LINE__, message_of<Error>, [&] { logit(o.x, 0.75); }, "logit: epsilon is 0.75; it must be in [0, 0.5]."},
      {__LINE__, message_of<Error>, [&] { logit(o.x, kNaN); }, "logit: epsilon is nan; it must be in [0, 0.5]."},
      {__LINE__, message_of<ShapeError>, [&] { atan2(o.x, o.four); }, "atan2" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { o.x % o.four; }, "remainder" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { nextafter(o.x, o.four); }, "nextafter" + broadcast},
      {__LINE__, message_of<ShapeError>, [&] { is_close(o.x, o.four); }, "is_close" + broadcast},
      {__LINE__, message_of<DTypeError>, [&] { fmod(o.x, o.integers); }, "fmod: types do not mix: a is float32 and b is int32" + no_common},
      {__LINE__, message_of<DTypeError>, [&] { hypot(o.integers, o.integers); }, "hypot: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { floor_divide(o.flags, o.flags); }, "floor_divide: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { is_close(o.flags, o.flags); }, "is_close: the tensor is bool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { nextafter(o.x.to(DType::float16), o.x.to(DType::float16)); },
       "nextafter: the tensor is float16; it must be float32 or float64."},
  }, file);
}

TEST_CASE("operations on bits refuse floating types, and shifts bool", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { o.x & o.x; }, "bitwise_and: the tensor is float32" + whole_or_bool},
      {__LINE__, message_of<DTypeError>, [&] { o.x | 1; }, "bitwise_or: the tensor is float32" + whole_or_bool},
      {__LINE__, message_of<DTypeError>, [&] { 1 ^ o.x; }, "bitwise_xor: the tensor is float32" + whole_or_bool},
      {__LINE__, message_of<DTypeError>, [&] { ~o.x; }, "bitwise_not: the tensor is float32" + whole_or_bool},
      {__LINE__, message_of<DTypeError>, [&] { o.flags << o.flags; }, "bitwise_left_shift: the tensor is bool" + whole},
      {__LINE__, message_of<DTypeError>, [&] { o.x >> 2; }, "bitwise_right_shift: the tensor is float32" + whole},
      {__LINE__, message_of<DTypeError>, [&] { o.flags & o.integers; }, "bitwise_and: types do not mix: a is bool and b is int32" + no_common},
      {__LINE__, message_of<ShapeError>, [&] { o.integers & Tensor{1, 2, 3, 4}; }, "bitwise_and" + broadcast},
      {__LINE__, message_of<DTypeError>, [&] { logical_xor(o.x, o.x); },
       "logical_xor: the tensor is float32; it must be bool."},
  }, file);
}

TEST_CASE("activations refuse parameters and shapes that make no sense", "[errors]") {
  const Operands o;
  const std::string weights = "; the weight must be [] or [1], or have one slope for each place along axis 1 of x.";
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { gelu(o.integers); }, "gelu: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { elu(o.integers); }, "elu: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { relu6(o.flags); }, "relu6: the tensor is bool" + a_number},
      {__LINE__, message_of<Error>, [&] { celu(o.x, 0); }, "celu: alpha is 0; it must be above 0."},
      {__LINE__, message_of<Error>, [&] { softplus(o.x, {.beta = -1}); }, "softplus: beta is -1; it must be above 0."},
      {__LINE__, message_of<Error>, [&] { hard_shrink(o.x, -0.5); }, "hard_shrink: the bound is -0.5; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { soft_shrink(o.x, kNaN); }, "soft_shrink: the bound is nan; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { hard_tanh(o.x, 2, 1); },
       "hard_tanh: the limits are 2 and 1; low must not exceed high."},
      {__LINE__, message_of<ShapeError>, [&] { glu(o.x); }, "glu: axis -1 of shape [2, 3] has size 3; it must be even."},
      {__LINE__, message_of<IndexError>, [&] { glu(o.x, 2); }, "glu: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<DTypeError>, [&] { glu(o.integers, 0); }, "glu: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { prelu(o.x, o.four); }, "prelu: x is [2, 3] and the weight [4]" + weights},
      {__LINE__, message_of<ShapeError>, [&] { prelu(o.x, o.x); }, "prelu: x is [2, 3] and the weight [2, 3]" + weights},
      {__LINE__, message_of<DTypeError>, [&] { prelu(o.x, o.integers); }, "prelu: the tensor is int32" + floating},
  }, file);
}

TEST_CASE("a question between two floating types that is refused leaves nothing on the tape", "[errors]") {
  const Tensor a = {1.0f, 2.0f}, b = {1.0, 2.0};
  GradientTape tape;
  tape.watch({a, b});
  message_of<DTypeError>([&] { logical_and(a, b); });
  message_of<DTypeError>([&] { a | b; });
  CHECK(tape.size() == 0);  // not even the conversion of a to float64
}

TEST_CASE("an undefined tensor is named by the function that got it", "[errors]") {
  const Operands o;
  const std::string plain = message_of<Error>([&] { neg(o.undefined); });
  for (const auto& [name, call] : std::vector<std::pair<std::string, Call>>{
           {"sin", [&] { sin(o.undefined); }},
           {"polygamma", [&] { polygamma(1, o.undefined); }},
           {"logit", [&] { logit(o.undefined, 0.1); }},
           {"isnan", [&] { isnan(o.undefined); }},
           {"bitwise_not", [&] { bitwise_not(o.undefined); }},
           {"is_close", [&] { is_close(o.x, o.undefined); }},
           {"elu", [&] { elu(o.undefined); }},
           {"glu", [&] { glu(o.undefined); }},
           {"prelu", [&] { prelu(o.x, o.undefined); }}}) {
    const std::string text = split_message(message_of<Error>(call)).text;
    CHECK(text == name + split_message(plain).text.substr(3));  // behind "neg"
  }
}
