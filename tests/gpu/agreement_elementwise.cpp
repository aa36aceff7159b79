// Every row of lib/kernels on a GPU and on the CPU: all types, ragged and empty shapes, views, and values from the
// row's domain among which NaN, infinities, zeros of both signs and subnormal numbers stand.
#include <algorithm>
#include <map>
#include <set>

#include "lib/kernels/op_list.hpp"
#include "tests/gpu/agreement.hpp"
#include "tests/rules.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Names = std::set<std::string>;
using View = Tensor (*)(const Tensor&);

struct Interval {
  double low = -4, high = 4;
};

/// Where rows are defined, or where their gradients do not amplify what their values may differ by.
const std::map<std::string, Interval> kDomains = {
    {"acos", {-1, 1}}, {"acosh", {1, 5}},       {"asin", {-1, 1}},       {"atanh", {-1, 1}}, {"digamma", {0.1, 6}},
    {"log", {0, 4}},   {"erfinv", {-0.9, 0.9}}, {"lgamma", {0.1, 6}},    {"log10", {0, 4}},  {"log1p", {-0.9, 4}},
    {"log2", {0, 4}},  {"logit", {0.01, 0.99}}, {"rsqrt", {0.1, 4}},     {"sqrt", {0.1, 4}}, {"tan", {-1.4, 1.4}},
    {"pow", {0.1, 4}}, {"polygamma", {0.1, 6}}, {"reciprocal", {0.1, 4}}};
const std::map<std::string, Interval> kRightDomains = {{"xlogy", {0.1, 4}}, {"div", {0.2, 4}}, {"pow", {-3, 3}}};

/// One correctly rounded operation, or none at all: equal bit by bit.
const Names kExact = {"abs",         "add",        "ceil", "copysign", "div",         "floor",     "floor_divide",
                      "fmax",        "fmin",       "fmod", "maximum",  "minimum",     "mul",       "neg",
                      "nextafter",   "reciprocal", "relu", "relu6",    "remainder",   "round",     "sign",
                      "sqrt",        "square",     "sub",  "trunc",    "hard_shrink", "hard_tanh", "leaky_relu",
                      "soft_shrink", "threshold",  "clip"};
/// Rows whose values cross zero: near it errors count in units of 1, as their contracts say.
const Names kFromOne = {"digamma", "lgamma", "logaddexp"};
const Names kNumbers = {"abs",     "ceil",    "floor", "neg",          "relu",      "relu6", "round",
                        "sign",    "square",  "trunc", "add",          "fmax",      "fmin",  "fmod",
                        "maximum", "minimum", "mul",   "floor_divide", "remainder", "sub"};

Interval domain_of(const std::map<std::string, Interval>& domains, const std::string& row) {
  const auto found = domains.find(row);
  return found == domains.end() ? Interval{} : found->second;
}

// --- values ---

std::vector<double> special_values(DType dtype) {
  const double subnormal = dtype == DType::float64 ? 1e-309 : dtype == DType::float16 ? 3e-5 : 1e-39;
  if (is_floating(dtype))
    return {kNaN, kInfinity, -kInfinity, 0.0, -0.0, subnormal, -subnormal, 1.0, -1.0, 0.5, -2.5, 1e30, -1e30};
  if (dtype == DType::uint8) return {0, 1, 2, 127, 128, 255};
  const double largest = std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)) - 2);
  return {0, 1, -1, 2, -3, largest, -largest, -2 * largest};
}
Interval interval_for(DType dtype, const Interval& domain) {
  if (is_floating(dtype)) return domain;
  return dtype == DType::uint8 ? Interval{0, 200} : Interval{-100, 100};
}

/// Numbers of the domain, with a special one in every fifth place.
Tensor mixed_values(const Shape& shape, DType dtype, const Interval& domain, std::uint64_t seed) {
  const Interval within = interval_for(dtype, domain);
  std::vector<double> list = values(random_in(within.low, within.high, shape, DType::float64, seed));
  const std::vector<double> specials = special_values(dtype);
  for (std::size_t i = 3; i < list.size(); i += 5) list[i] = specials[i / 5 % specials.size()];
  return from_doubles(list, shape, dtype);
}

/// The same for two operands: in large tensors every special number meets every other, and ordinary ones.
Tensors mixed_pairs(const Shape& left, const Shape& right, DType dtype, const std::string& row) {
  Tensor a = mixed_values(left, dtype, domain_of(kDomains, row), 71);
  Tensor b = mixed_values(right, dtype, domain_of(kRightDomains, row), 72);
  const std::vector<double> specials = special_values(dtype);
  const std::size_t count = specials.size();
  if (left != right || left.numel() < static_cast<std::int64_t>(count * count)) return {a, b};
  std::vector<double> as = values(a), bs = values(b);
  for (std::size_t i = 0; i < count * count; ++i) as[i] = specials[i / count], bs[i] = specials[i % count];
  return {from_doubles(as, left, dtype), from_doubles(bs, right, dtype)};
}

// --- layouts ---

Tensor plain(const Tensor& x) { return x; }

/// What a row is given: views of tensors of these shapes.
struct Layout {
  const char* text;
  Shape shape;
  View view = &plain;
};
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> list = {
      {"[]", Shape{}},
      {"[1]", Shape{1}},
      {"[1023]", Shape{1023}},
      {"[4, 257]", Shape{4, 257}},
      {"[0, 3]", Shape{0, 3}},
      {"[3, 1, 5]", Shape{3, 1, 5}},
      {"transposed", Shape{33, 20}, [](const Tensor& x) { return transpose(x); }},
      {"every second column", Shape{6, 50},
       [](const Tensor& x) {
         return x.index({all, from(0, 2)});
       }},
      {"backwards", Shape{130}, [](const Tensor& x) { return flip(x); }},
      {"behind an offset", Shape{131}, [](const Tensor& x) { return narrow(x, 0, 1, 130); }},
      {"a row for all", Shape{1, 40},
       [](const Tensor& x) {
         return broadcast_to(x, {7, 40});
       }},
      {"a column for all", Shape{7, 1}, [](const Tensor& x) {
         return broadcast_to(x, {7, 40});
       }}};
  return list;
}

struct PairLayout {
  const char* text;
  Shape left, right;
  View left_view = &plain, right_view = &plain;
};
const std::vector<PairLayout>& pair_layouts() {
  static const std::vector<PairLayout> list = {
      {"[]", Shape{}, Shape{}},
      {"[1]", Shape{1}, Shape{1}},
      {"[1023]", Shape{1023}, Shape{1023}},
      {"[4, 257]", Shape{4, 257}, Shape{4, 257}},
      {"[0, 3]", Shape{0, 3}, Shape{0, 3}},
      {"[3, 1, 5]", Shape{3, 1, 5}, Shape{3, 1, 5}},
      {"[4, 257] and []", Shape{4, 257}, Shape{}},
      {"[] and [130]", Shape{}, Shape{130}},
      {"[4, 257] and [257]", Shape{4, 257}, Shape{257}},
      {"[4, 1] and [4, 257]", Shape{4, 1}, Shape{4, 257}},
      {"[1, 40] and [7, 1]", Shape{1, 40}, Shape{7, 1}},
      {"[0, 3] and [3]", Shape{0, 3}, Shape{3}},
      {"[3, 1, 5] and [4, 1]", Shape{3, 1, 5}, Shape{4, 1}},
      {"one transposed", Shape{33, 20}, Shape{20, 33}, [](const Tensor& x) { return transpose(x); }},
      {"both transposed", Shape{33, 20}, Shape{33, 20}, [](const Tensor& x) { return transpose(x); },
       [](const Tensor& x) { return transpose(x); }},
      {"backwards and every second", Shape{25}, Shape{50}, [](const Tensor& x) { return flip(x); },
       [](const Tensor& x) { return x.index({from(0, 2)}); }},
      {"behind an offset", Shape{131}, Shape{130}, [](const Tensor& x) { return narrow(x, 0, 1, 130); }}};
  return list;
}

// --- how near ---

/// The spacing of numbers of a type around a value.
double spacing(DType dtype, double value) {
  const int digits = dtype == DType::float64 ? 53 : dtype == DType::float32 ? 24 : dtype == DType::float16 ? 11 : 8;
  const int lowest = dtype == DType::float64 ? -1022 : dtype == DType::float16 ? -14 : -126;
  const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
  return std::ldexp(1.0, exponent - (digits - 1));
}
/// Of values: units in the last place, of at least `floor`.
Allowed allowed_ulps(DType dtype, double floor) {
  const double ulps = is_half(dtype) ? tolerance::agreement_ulps16 : tolerance::agreement_ulps;
  return [=](double expected) { return ulps * spacing(dtype, std::max(std::fabs(expected), floor)); };
}
/// Of gradients, and of losses, whose terms are of the order of 1 and may cancel.
Allowed allowed_roundings(DType dtype) {
  const double roundings = dtype == DType::float64   ? tolerance::roundings64
                           : dtype == DType::float32 ? tolerance::roundings32
                           : dtype == DType::float16 ? tolerance::agreement_float16
                                                     : tolerance::agreement_bfloat16;
  return [=](double expected) { return roundings * std::max(std::fabs(expected), 1.0); };
}

struct Row {
  std::string name;
  Use use;
  bool exact = false;
  Allowed allowed;
};

void check_row(const Row& row, DType dtype, const Tensors& inputs, const Use& views) {
  check_on([&] {
    const Outcome expected = outcome_on(cpu(), inputs, row.use, views),
                  actual = outcome_on(kGpu, inputs, row.use, views);
    const Tensor &y = actual.results.at(0), &right = expected.results.at(0);
    CHECK((row.exact || !is_floating(dtype) ? difference_of_bits(y, right) : difference(y, right, row.allowed)) == "");
    CHECK(actual.gradients.size() == expected.gradients.size());
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
      INFO("gradient " << i);
      CHECK(difference(actual.gradients.at(i), expected.gradients[i], allowed_roundings(dtype)) == "");
    }
  });
}

Row row_of(const std::string& name, DType dtype, Use use) {
  return {name, std::move(use), kExact.count(name) != 0, allowed_ulps(dtype, kFromOne.count(name) != 0 ? 1.0 : 0.0)};
}

void check_unary(const std::string& name, UnaryFunction function, DType dtype) {
  const Row row = row_of(name, dtype, [function](const Tensors& in) { return Tensors{function(in[0])}; });
  for (const Layout& layout : layouts()) {
    INFO(name << ", " << capstan::name(dtype) << ", " << layout.text);
    check_row(row, dtype, {mixed_values(layout.shape, dtype, domain_of(kDomains, name), 70)},
              [&](const Tensors& in) { return Tensors{layout.view(in[0])}; });
  }
}

void check_binary(const std::string& name, BinaryFunction function, DType dtype) {
  const Row row = row_of(name, dtype, [function](const Tensors& in) { return Tensors{function(in[0], in[1])}; });
  for (const PairLayout& layout : pair_layouts()) {
    INFO(name << ", " << capstan::name(dtype) << ", " << layout.text);
    check_row(row, dtype, mixed_pairs(layout.left, layout.right, dtype, name), [&](const Tensors& in) {
      return Tensors{layout.left_view(in[0]), layout.right_view(in[1])};
    });
  }
}

// --- losses ---

struct LossRow {
  const char* name;
  Tensor (*use)(const Tensor& x, const Tensor& target);
  Interval x = {-2, 2}, target = {-2, 2};
  bool special_x = true, special_target = true;
};
constexpr Reduction kNone = Reduction::none;

/// In the order of kernels::LossOps.
const std::vector<LossRow>& loss_rows() {
  static const std::vector<LossRow> rows = {
      {"l1_loss", [](const Tensor& x, const Tensor& t) { return l1_loss(x, t, {.reduction = kNone}); }},
      {"binary_cross_entropy",
       [](const Tensor& x, const Tensor& t) { return binary_cross_entropy(x, t, {.reduction = kNone}); },
       {0.05, 0.95},
       {0, 1},
       false,
       false},
      {"hinge_loss", [](const Tensor& x, const Tensor& t) { return hinge_loss(x, t, {.reduction = kNone}); }},
      {"hinge_embedding_loss",
       [](const Tensor& x, const Tensor& t) { return hinge_embedding_loss(x, round(t), {.reduction = kNone}); }},
      {"huber_loss",
       [](const Tensor& x, const Tensor& t) { return huber_loss(x, t, {.delta = 0.7, .reduction = kNone}); }},
      {"kl_div", [](const Tensor& x, const Tensor& t) { return kl_div(x, t, {.reduction = kNone}); }, {-2, 2}, {0, 1}},
      {"kl_div",
       [](const Tensor& x, const Tensor& t) { return kl_div(x, t, {.log_target = true, .reduction = kNone}); },
       {-2, 2},
       {-3, 0},
       true,
       false},
      {"log_cosh_loss", [](const Tensor& x, const Tensor& t) { return log_cosh_loss(x, t, {.reduction = kNone}); }},
      {"poisson_nll_loss",
       [](const Tensor& x, const Tensor& t) { return poisson_nll_loss(x, t, {.reduction = kNone}); },
       {-2, 1},
       {0, 3}},
      {"poisson_nll_loss",
       [](const Tensor& x, const Tensor& t) {
         return poisson_nll_loss(x, t, {.log_input = false, .reduction = kNone});
       },
       {0.2, 3},
       {0, 3},
       false,
       true},
      {"sigmoid_cross_entropy",
       [](const Tensor& x, const Tensor& t) { return sigmoid_cross_entropy(x, t); },
       {-4, 4},
       {0, 1}},
      {"smooth_l1_loss",
       [](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, {.beta = 0.5, .reduction = kNone}); }},
      {"soft_margin_loss",
       [](const Tensor& x, const Tensor& t) { return soft_margin_loss(x, t, {.reduction = kNone}); }},
      {"mse_loss", [](const Tensor& x, const Tensor& t) { return mse_loss(x, t, {.reduction = kNone}); }},
      {"squared_hinge_loss",
       [](const Tensor& x, const Tensor& t) { return squared_hinge_loss(x, t, {.reduction = kNone}); }}};
  return rows;
}

/// Special numbers meet ordinary ones only: of two large ones a fused multiplication does not overflow, and others do.
Tensors loss_operands(const LossRow& row, const Shape& shape, DType dtype) {
  std::vector<double> xs = values(random_in(row.x.low, row.x.high, shape, DType::float64, 81));
  std::vector<double> ts = values(random_in(row.target.low, row.target.high, shape, DType::float64, 82));
  const std::vector<double> specials = special_values(dtype);
  for (std::size_t i = 3; i < xs.size(); i += 5) {
    if (i % 2 == 0 && row.special_x) xs[i] = specials[i / 5 % specials.size()];
    if (i % 2 != 0 && row.special_target) ts[i] = specials[i / 5 % specials.size()];
  }
  return {from_doubles(xs, shape, dtype), from_doubles(ts, shape, dtype)};
}

void check_loss(const LossRow& loss, DType dtype) {
  const Row row{loss.name, [&](const Tensors& in) { return Tensors{loss.use(in[0], in[1])}; }, false,
                allowed_roundings(dtype)};
  for (const Layout& layout : layouts()) {
    INFO(loss.name << ", " << name(dtype) << ", " << layout.text);
    check_row(row, dtype, loss_operands(loss, layout.shape, dtype), [&](const Tensors& in) {
      return Tensors{layout.view(in[0]), layout.view(in[1])};
    });
  }
}

template <class Function>
Names names_in(const std::map<std::string, Function>& functions) {
  Names names;
  for (const auto& [name, function] : functions) names.insert(name);
  return names;
}
template <class Tuple>
Names names_in() {
  const std::vector<std::string> list = names_of(static_cast<Tuple*>(nullptr));
  return {list.begin(), list.end()};
}

/// Whether rows of that name take a type.
bool takes(const std::string& row, DType dtype) {
  if (row == "nextafter") return dtype == DType::float32 || dtype == DType::float64;
  return is_floating(dtype) || kNumbers.count(row) != 0;
}

}  // namespace

namespace tests {

std::vector<std::pair<std::string, std::string>> elementwise_agreement_slots() {
  const std::string unary = "every row of one operand", pairs = "every row of two operands",
                    parametric = "every row with numbers", losses = "every row of losses";
  return {{"unary", unary},           {"unary_backward", unary},           {"binary", pairs},
          {"parametric", parametric}, {"parametric_backward", parametric}, {"loss", losses},
          {"loss_backward", losses}};
}

}  // namespace tests

TEST_CASE("the lists of agreement have every row of lib/kernels and the types that it takes", "[gpu][agreement]") {
  CHECK(names_in(unary_functions()) == names_in<kernels::UnaryOps>());
  CHECK(names_in(parametric_functions()) == names_in<kernels::ParametricOps>());
  CHECK(names_in(binary_functions()) == names_in<kernels::BinaryOps>());
  std::vector<std::string> losses;
  for (const LossRow& row : loss_rows()) losses.push_back(row.name);
  CHECK(losses == names_of(static_cast<kernels::LossOps*>(nullptr)));

  Names numbers;
  const auto add = [&]<class Op>(const Op&) {
    if (Op::domain == kernels::Domain::numbers) numbers.insert(Op::name);
  };
  std::apply([&](const auto&... op) { (add(op), ...); }, kernels::UnaryOps{});
  std::apply([&](const auto&... op) { (add(op), ...); }, kernels::BinaryOps{});
  CHECK(kNumbers == numbers);
  Names rows = names_in<kernels::UnaryOps>();
  rows.merge(names_in<kernels::BinaryOps>());
  rows.merge(names_in<kernels::ParametricOps>());
  for (const Names* names : {&kExact, &kFromOne})
    for (const std::string& name : *names) CHECK(rows.count(name) == 1u);
}

TEST_CASE("GPU and CPU agree on every row of one operand", "[gpu][agreement]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  for (const auto& [name, function] : unary_functions())
    for (const DType dtype : types_of(Types::numbers))
      if (takes(name, dtype)) check_unary(name, function, dtype);
}

TEST_CASE("GPU and CPU agree on every row with numbers", "[gpu][agreement]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  for (const auto& [name, function] : parametric_functions())
    for (const DType dtype : types_of(Types::floating)) check_unary(name, function, dtype);
}

TEST_CASE("GPU and CPU agree on every row of two operands", "[gpu][agreement]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  for (const auto& [name, function] : binary_functions())
    for (const DType dtype : types_of(Types::numbers))
      if (takes(name, dtype)) check_binary(name, function, dtype);
}

TEST_CASE("GPU and CPU agree on every row of losses", "[gpu][agreement]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  for (const LossRow& row : loss_rows())
    for (const DType dtype : types_of(Types::floating)) check_loss(row, dtype);
}
