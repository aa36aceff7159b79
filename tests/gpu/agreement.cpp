#include "tests/gpu/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "lib/core/dispatch.hpp"

namespace tests {

using namespace capstan;

namespace {

constexpr DType kFloating[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr DType kIntegers[] = {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8};

double tolerance_for(Nearness nearness, DType dtype) {
  const bool chained = nearness == Nearness::chained;
  if (dtype == DType::float16) return chained ? tolerance::recurrent16 : tolerance::agreement_float16;
  if (dtype == DType::bfloat16) return chained ? tolerance::agreement_chained_bfloat16 : tolerance::agreement_bfloat16;
  const bool single = dtype == DType::float32;
  switch (nearness) {
    case Nearness::summed: return single ? tolerance::blocked_sum32 : tolerance::chained64;
    case Nearness::decomposed: return single ? tolerance::decomposition32 : tolerance::decomposition64;
    case Nearness::chained: return single ? tolerance::sequence32 : tolerance::sequence64;
    default: return single ? tolerance::roundings32 : tolerance::roundings64;
  }
}

/// Of the finite ones; 0 if there are none.
double largest_of(const Tensor& x) {
  double largest = 0;
  for (const double value : values(x))
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

/// As near as the case asks, relative to the largest value.
std::string difference_within(const Tensor& actual, const Tensor& expected, Nearness nearness) {
  if (!expected.defined() || !is_floating(expected.dtype()) || nearness == Nearness::exact)
    return difference_of_bits(actual, expected);
  const double largest = largest_of(expected), scale = largest > 0 ? largest : 1;
  const double allowed = scale * tolerance_for(nearness, expected.dtype());
  return difference(actual, expected, [allowed](double) { return allowed; });
}

void check_lists(const Tensors& actual, const Tensors& expected, Nearness nearness, const char* what) {
  CHECK(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size() && i < expected.size(); ++i) {
    INFO(what << " " << i << " of " << expected.size());
    CHECK(difference_within(actual[i], expected[i], nearness) == "");
  }
}

Tensors converted(const Tensors& inputs, DType dtype) {
  Tensors list;
  for (const Tensor& x : inputs) list.push_back(x.defined() && x.dtype() == DType::float64 ? x.to(dtype) : x);
  return list;
}

void check_case(const AgreementCase& c, const Tensors& inputs) {
  check_on([&] {
    const Outcome expected = outcome_on(cpu(), inputs, c.use), actual = outcome_on(kGpu, inputs, c.use);
    check_lists(actual.results, expected.results, c.nearness, "result");
    check_lists(actual.gradients, expected.gradients, std::max(c.nearness, Nearness::rounded), "gradient");
  });
}

/// What both checks begin with.
std::string difference_of_kind(const Tensor& actual, const Tensor& expected) {
  if (actual.defined() != expected.defined()) return actual.defined() ? "is defined" : "is undefined";
  if (!expected.defined()) return "";
  if (actual.dtype() != expected.dtype()) return std::string("is ") + name(actual.dtype());
  if (actual.shape() != expected.shape())
    return "is " + to_string(actual.shape()) + " instead of " + to_string(expected.shape());
  if (actual.device() != kGpu) return "is on " + to_string(actual.device());
  return "";
}

/// "element 3 of 17: 0.5 instead of 0.25; 2 such elements"
std::string report(std::size_t first, std::size_t count, std::size_t wrong, double actual, double expected) {
  std::ostringstream text;
  text.precision(17);
  text << "element " << first << " of " << count << ": " << actual << " instead of " << expected << "; " << wrong
       << " such elements";
  return text.str();
}

}  // namespace

std::vector<DType> types_of(Types types) {
  std::vector<DType> list;
  const bool all_of_them = types == Types::every || types == Types::numbers;
  if (types == Types::floating || all_of_them) list.assign(std::begin(kFloating), std::end(kFloating));
  if (types == Types::wide) list = {DType::float32, DType::float64};
  if (types == Types::integers || all_of_them) list.insert(list.end(), std::begin(kIntegers), std::end(kIntegers));
  if (types == Types::every) list.push_back(DType::bool8);
  return list;
}

Outcome outcome_on(Device device, const Tensors& inputs, const Use& use, const Use& views) {
  Tensors in;
  for (const Tensor& x : inputs) in.push_back(x.defined() ? x.to(device) : x);
  if (views) in = views(in);
  GradientTape tape;
  Tensors sources, targets, weights;
  for (const Tensor& x : in) {
    if (!x.defined() || !is_floating(x.dtype())) continue;
    tape.watch(x);
    sources.push_back(x);
  }
  Outcome outcome{use(in), {}};
  for (const Tensor& y : outcome.results) {
    if (!y.defined() || !is_floating(y.dtype()) || !tape.follows(y)) continue;
    targets.push_back(y);
    weights.push_back(random_in(-1, 1, y.shape(), y.dtype(), 900 + weights.size()).to(device));
  }
  if (!targets.empty()) outcome.gradients = tape.gradient(targets, sources, weights, Unconnected::undefined);
  return outcome;
}

std::string difference(const Tensor& actual, const Tensor& expected, const Allowed& allowed) {
  const std::string kind = difference_of_kind(actual, expected);
  if (!kind.empty() || !expected.defined()) return kind;
  const std::vector<double> as = values(actual.to(cpu())), es = values(expected);
  std::size_t worst = 0, wrong = 0;
  double farthest = 0;
  for (std::size_t i = 0; i < es.size(); ++i) {
    const double a = as[i], e = es[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const bool finite = std::isfinite(a) && std::isfinite(e);
    if (finite && std::fabs(a - e) <= allowed(e)) continue;
    ++wrong;
    const double excess = finite ? std::fabs(a - e) / allowed(e) : kInfinity;
    if (wrong == 1 || excess > farthest) worst = i, farthest = excess;
  }
  return wrong == 0 ? "" : report(worst, es.size(), wrong, as[worst], es[worst]);
}

std::string difference_of_bits(const Tensor& actual, const Tensor& expected) {
  const std::string kind = difference_of_kind(actual, expected);
  if (!kind.empty() || !expected.defined()) return kind;
  const Tensor a = actual.to(cpu()).contiguous(), e = expected.contiguous();
  std::string text;
  core::visit(e.dtype(), [&]<class T>(core::Type<T>) {
    const auto count = static_cast<std::size_t>(e.numel());
    const T *const as = a.data<T>(), *const es = e.data<T>();
    std::size_t first = 0, wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      bool same_element = std::memcmp(as + i, es + i, sizeof(T)) == 0;
      if constexpr (core::kIsReal<T>) same_element = same_element || (as[i] != as[i] && es[i] != es[i]);
      if (!same_element && wrong++ == 0) first = i;
    }
    if (wrong > 0) text = report(first, count, wrong, static_cast<double>(as[first]), static_cast<double>(es[first]));
  });
  return text;
}

void check_on(const std::function<void()>& check) {
  try {
    check();
  } catch (const std::exception& error) { FAIL_CHECK("an exception came: " << error.what()); }
}

void check_agreement(AgreementCases (*cases)()) {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  for (const AgreementCase& c : cases()) {
    if (c.types == Types::given) {
      INFO(c.name);
      check_case(c, c.inputs);
    }
    for (const DType dtype : types_of(c.types)) {
      INFO(c.name << ", " << name(dtype));
      check_case(c, converted(c.inputs, dtype));
    }
  }
}

Tensor with_specials(const Shape& shape, std::uint64_t seed) {
  const double specials[] = {kNaN, kInfinity, -kInfinity};
  std::vector<double> list = values(noise(shape, seed));
  for (std::size_t i = 0; i < list.size(); ++i)
    if (i % 7 == 3) list[i] = specials[i / 7 % 3];
  return from_vector(list, shape);
}

}  // namespace tests
