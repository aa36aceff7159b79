// Tensors as text: NumPy's layout, word for word. The expected texts are what numpy 2.4 prints (str(array)).
#include "tests/support.hpp"

#include <sstream>

using namespace capstan;
using namespace tests;

namespace {

struct Printed {
  const char* what;
  Tensor tensor;
  const char* layout;
};

/// Capstan puts shape, type and device on a line of their own behind the values.
std::string with_trailer(const Tensor& x, const std::string& layout) {
  return layout + "\n" + to_string(x.shape()) + " " + name(x.dtype()) + " " + to_string(x.device());
}

void check(const std::vector<Printed>& rows) {
  for (const Printed& row : rows) {
    INFO(row.what);
    CHECK(to_string(row.tensor) == with_trailer(row.tensor, row.layout));
  }
}

}  // namespace

TEST_CASE("values are laid out as NumPy does", "[print]") {
  check({
      {"a matrix of floats", Tensor{{6.0f, 12.0f}, {12.0f, 26.0f}},
       R"([[ 6. 12.]
 [12. 26.]])"},
      {"integers of unequal width", Tensor{{1, -20, 300}, {4, 5, 6}},
       R"([[  1 -20 300]
 [  4   5   6]])"},
      {"fractions of unequal length", Tensor{0.1, 0.25, 2.0, -3.5}, "[ 0.1   0.25  2.   -3.5 ]"},
      {"thirds in float64", Tensor{1 / 3.0, 2 / 3.0, 1.0}, "[0.33333333 0.66666667 1.        ]"},
      {"thirds in float32", Tensor{1 / 3.0f, 2 / 3.0f, 1.0f}, "[0.33333334 0.6666667  1.        ]"},
      {"a tenth in float32", Tensor{0.1f, 0.2f}, "[0.1 0.2]"},
      {"ten to the eighth", Tensor{1e8, 2e8}, "[1.e+08 2.e+08]"},
      {"just below ten to the eighth", Tensor{99999999.0, 50000000.0}, "[99999999. 50000000.]"},
      {"one ten-thousandth", Tensor{0.0001, 0.0002}, "[0.0001 0.0002]"},
      {"below one ten-thousandth", Tensor{0.00009, 0.0002}, "[9.e-05 2.e-04]"},
      {"a ratio of a thousand", Tensor{0.001, 1.0}, "[0.001 1.   ]"},
      {"a ratio of more than a thousand", Tensor{0.001, 1.5}, "[1.0e-03 1.5e+00]"},
      {"a wide range", Tensor{1e-10, -1.0, 1.23456789012e10}, "[ 1.00000000e-10 -1.00000000e+00  1.23456789e+10]"},
      {"three digits of exponent", Tensor{1e-100, 1.5, 1e100}, "[1.0e-100 1.5e+000 1.0e+100]"},
      {"a tenth in float32 beside nine digits", Tensor{0.1f, 1.02831965e-08f}, "[1.00000001e-01 1.02831965e-08]"},
      {"large and fractional", Tensor{123456.0, 1234.5}, "[123456.    1234.5]"},
      {"nan and infinities", Tensor{kNaN, kInfinity, -kInfinity, 1.5}, "[ nan  inf -inf  1.5]"},
      {"nan alone", Tensor{kNaN, 1.0}, "[nan  1.]"},
      {"nothing but infinities", Tensor{kInfinity, -kInfinity}, "[ inf -inf]"},
      {"negative zero", Tensor{-0.0, 0.0}, "[-0.  0.]"},
      {"zeros", zeros({2, 2}),
       R"([[0. 0.]
 [0. 0.]])"},
      {"bools", Tensor{{true, false}, {false, false}},
       R"([[ True False]
 [False False]])"},
      {"bytes", Tensor{1, 20, 255}.to(DType::uint8), "[  1  20 255]"},
      {"a negative column", Tensor{{-1.0}, {10.5}},
       R"([[-1. ]
 [10.5]])"},
      {"three axes", reshape(arange(12), {2, 3, 2}),
       R"([[[ 0  1]
  [ 2  3]
  [ 4  5]]

 [[ 6  7]
  [ 8  9]
  [10 11]]])"},
      {"four axes", reshape(arange(8), {2, 2, 2, 1}),
       R"([[[[0]
   [1]]

  [[2]
   [3]]]


 [[[4]
   [5]]

  [[6]
   [7]]]])"},
      {"a transposed view", transpose(Tensor{{1, 2, 3}, {4, 5, 6}}),
       R"([[1 4]
 [2 5]
 [3 6]])"},
      {"a single float", Tensor(3.0), "3.0"},
      {"a single fraction", Tensor(2.5f), "2.5"},
      {"a single integer", Tensor(7), "7"},
      {"a single bool", Tensor(true), "True"},
      {"a single nan", Tensor(kNaN), "nan"},
      {"no elements", zeros({0}), "[]"},
      {"no rows", zeros({0, 3}), "[]"},
      {"no columns", zeros({2, 0}), "[]"},
  });
}

TEST_CASE("long rows are broken as NumPy does", "[print]") {
  check({
      {"a long row of integers", arange(40),
       R"([ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39])"},
      {"long rows of integers", reshape(arange(60) * 1000, {2, 30}),
       R"([[    0  1000  2000  3000  4000  5000  6000  7000  8000  9000 10000 11000
  12000 13000 14000 15000 16000 17000 18000 19000 20000 21000 22000 23000
  24000 25000 26000 27000 28000 29000]
 [30000 31000 32000 33000 34000 35000 36000 37000 38000 39000 40000 41000
  42000 43000 44000 45000 46000 47000 48000 49000 50000 51000 52000 53000
  54000 55000 56000 57000 58000 59000]])"},
      {"a long row of floats", linspace(0, 1, 12, {.dtype = DType::float64}),
       R"([0.         0.09090909 0.18181818 0.27272727 0.36363636 0.45454545
 0.54545455 0.63636364 0.72727273 0.81818182 0.90909091 1.        ])"},
      {"long rows of floats", reshape(arange(-8, 13).to(DType::float64) / 4, {1, 21}),
       R"([[-2.   -1.75 -1.5  -1.25 -1.   -0.75 -0.5  -0.25  0.    0.25  0.5   0.75
   1.    1.25  1.5   1.75  2.    2.25  2.5   2.75  3.  ]])"},
      {"a long row of bools", less(arange(20), 3),
       R"([ True  True  True False False False False False False False False False
 False False False False False False False False])"},
  });
}

TEST_CASE("more than a thousand values are summarised as NumPy does", "[print]") {
  check({
      {"a thousand and one numbers", arange(1001), "[   0    1    2 ...  998  999 1000]"},
      {"a thousand and one floats", arange(0, 1001).to(DType::float64) / 8,
       "[  0.      0.125   0.25  ... 124.75  124.875 125.   ]"},
      {"many rows and columns", reshape(arange(1400), {7, 200}),
       R"([[   0    1    2 ...  197  198  199]
 [ 200  201  202 ...  397  398  399]
 [ 400  401  402 ...  597  598  599]
 ...
 [ 800  801  802 ...  997  998  999]
 [1000 1001 1002 ... 1197 1198 1199]
 [1200 1201 1202 ... 1397 1398 1399]])"},
      {"six rows of many columns", reshape(arange(1200), {6, 200}),
       R"([[   0    1    2 ...  197  198  199]
 [ 200  201  202 ...  397  398  399]
 [ 400  401  402 ...  597  598  599]
 [ 600  601  602 ...  797  798  799]
 [ 800  801  802 ...  997  998  999]
 [1000 1001 1002 ... 1197 1198 1199]])"},
      {"many rows of two columns", reshape(arange(1200), {600, 2}),
       R"([[   0    1]
 [   2    3]
 [   4    5]
 ...
 [1194 1195]
 [1196 1197]
 [1198 1199]])"},
      {"a leading axis of one", reshape(arange(1002), {1, 1002}), "[[   0    1    2 ...  999 1000 1001]]"},
      {"summarised floats of which some are not shown", concat({zeros({500}), full({1}, 1e10f), zeros({600})}),
       "[0. 0. 0. ... 0. 0. 0.]"},
  });
  const std::string thousand = to_string(arange(1000));
  CHECK(thousand.find("...") == std::string::npos);  // a thousand are still shown in full
  CHECK(thousand.find("500") != std::string::npos);
}

TEST_CASE("a summarised cube shows three items at both ends of each axis", "[print]") {
  const Tensor cube = reshape(arange(1331), {11, 11, 11});
  CHECK(to_string(cube) == with_trailer(cube,
                                        R"([[[   0    1    2 ...    8    9   10]
  [  11   12   13 ...   19   20   21]
  [  22   23   24 ...   30   31   32]
  ...
  [  88   89   90 ...   96   97   98]
  [  99  100  101 ...  107  108  109]
  [ 110  111  112 ...  118  119  120]]

 [[ 121  122  123 ...  129  130  131]
  [ 132  133  134 ...  140  141  142]
  [ 143  144  145 ...  151  152  153]
  ...
  [ 209  210  211 ...  217  218  219]
  [ 220  221  222 ...  228  229  230]
  [ 231  232  233 ...  239  240  241]]

 [[ 242  243  244 ...  250  251  252]
  [ 253  254  255 ...  261  262  263]
  [ 264  265  266 ...  272  273  274]
  ...
  [ 330  331  332 ...  338  339  340]
  [ 341  342  343 ...  349  350  351]
  [ 352  353  354 ...  360  361  362]]

 ...

 [[ 968  969  970 ...  976  977  978]
  [ 979  980  981 ...  987  988  989]
  [ 990  991  992 ...  998  999 1000]
  ...
  [1056 1057 1058 ... 1064 1065 1066]
  [1067 1068 1069 ... 1075 1076 1077]
  [1078 1079 1080 ... 1086 1087 1088]]

 [[1089 1090 1091 ... 1097 1098 1099]
  [1100 1101 1102 ... 1108 1109 1110]
  [1111 1112 1113 ... 1119 1120 1121]
  ...
  [1177 1178 1179 ... 1185 1186 1187]
  [1188 1189 1190 ... 1196 1197 1198]
  [1199 1200 1201 ... 1207 1208 1209]]

 [[1210 1211 1212 ... 1218 1219 1220]
  [1221 1222 1223 ... 1229 1230 1231]
  [1232 1233 1234 ... 1240 1241 1242]
  ...
  [1298 1299 1300 ... 1306 1307 1308]
  [1309 1310 1311 ... 1317 1318 1319]
  [1320 1321 1322 ... 1328 1329 1330]]])"));
}

TEST_CASE("the line behind the values names shape, type and device", "[print][host]") {
  CHECK(to_string(Tensor{{6.0f, 12.0f}, {12.0f, 26.0f}}) == "[[ 6. 12.]\n [12. 26.]]\n[2, 2] float32 cpu");
  CHECK(to_string(Tensor(7)) == "7\n[] int32 cpu");
  CHECK(to_string(zeros({2, 0}, {.dtype = DType::bool8})) == "[]\n[2, 0] bool cpu");
}

TEST_CASE("a stream prints what to_string gives", "[print]") {
  const Tensor x = {1.5, 2.5};
  std::ostringstream out;
  out << x << '|' << Tensor();
  CHECK(out.str() == to_string(x) + "|undefined tensor");
}

TEST_CASE("shapes and types and devices print as their names", "[print][host]") {
  std::ostringstream out;
  out << Shape{2, 3} << ' ' << Shape{} << ' ' << DType::bfloat16 << ' ' << DType::bool8 << ' ' << cpu() << ' '
      << cuda(1);
  CHECK(out.str() == "[2, 3] [] bfloat16 bool cpu cuda:1");
  CHECK(to_string(DType::int16) == "int16");
}

TEST_CASE("a parameter prints as the tensor that it is", "[print][host]") {
  const Parameter p(Tensor{1.5f, 2.0f});
  std::ostringstream out;
  out << p;
  CHECK(out.str() == "[1.5 2. ]\n[2] float32 cpu");
}

TEST_CASE("describe sums a tensor up in one line", "[print][host]") {
  const Tensor x = {{6.0f, 12.0f}, {12.0f, 26.0f}};
  // mean 56/4; deviations -8, -2, -2, 12: variance 216/4, and sqrt(54) = 7.348...
  CHECK(x.describe() == "[2, 2] float32 cpu  min 6  max 26  mean 14  std 7.35  nan 0  inf 0");
  CHECK(Tensor{1, 2, 6}.describe() == "[3] int32 cpu  min 1  max 6  mean 3  std 2.16  nan 0  inf 0");  // sqrt(14/3)
}

TEST_CASE("describe counts what is not finite and leaves it out of the figures", "[print][host]") {
  const Tensor x = {kNaN, 1.0, kInfinity, -kInfinity, 3.0};
  CHECK(x.describe() == "[5] float64 cpu  min 1  max 3  mean 2  std 1  nan 1  inf 2");
  CHECK(Tensor{kNaN}.describe() == "[1] float64 cpu  nan 1  inf 0");
  CHECK(zeros({0}).describe() == "[0] float32 cpu  nan 0  inf 0");
  CHECK(Tensor{1e308, -1e308}.describe() ==
        "[2] float64 cpu  min -1e+308  max 1e+308  mean 0  std 1e+308  nan 0  inf 0");
}

TEST_CASE("what is described leaves nothing on a tape", "[print][host]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = transpose(x * 2);
  const std::int64_t size = tape.size();
  CHECK(y.describe() == "[2, 2] float64 cpu  min 2  max 8  mean 5  std 2.24  nan 0  inf 0");
  CHECK(tape.size() == size);
}
