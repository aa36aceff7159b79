// Activations: published values and slopes, far tails, both sides of every kink, parameters, channels.
#include "tests/rules.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

struct Golden {
  const char* op;
  double x, value, slope;
};

// Computed with mpmath at 60 digits and rounded once to float64.
const Golden golden_rows[] = {
    {"gelu", 1.0, 0.8413447460685429, 1.0833154705876864},
    {"gelu", -1.0, -0.15865525393145705, -0.0833154705876863},
    {"gelu", -5.0, -1.4332578593959695e-06, -7.146946001792295e-06},
    {"gelu", -20.0, -5.507248237212468e-88, -1.1014360483133464e-86},
    {"gelu", 0.1, 0.053982783727702904, 0.5795230920247302},
    {"gelu_tanh", 1.0, 0.8411919906082767, 1.0829640838457826},
    {"gelu_tanh", -1.0, -0.1588080093917233, -0.08296408384578255},
    {"gelu_tanh", -5.0, -2.291796196629506e-07, -1.5463619875325946e-06},
    {"gelu_tanh", 0.1, 0.053982751045435165, 0.5795217892717567},
    {"hard_sigmoid", 1.0, 0.6666666666666666, 0.16666666666666666},
    {"hard_sigmoid", -2.0, 0.16666666666666666, 0.16666666666666666},
    {"hard_swish", 1.0, 0.6666666666666666, 0.8333333333333334},
    {"hard_swish", -2.0, -0.3333333333333333, -0.16666666666666666},
    {"log_sigmoid", 0.0, -0.6931471805599453, 0.5},
    {"log_sigmoid", -30.0, -30.000000000000092, 0.9999999999999064},
    {"log_sigmoid", 30.0, -9.357622968839737e-14, 9.357622968839299e-14},
    {"log_sigmoid", 1.0, -0.3132616875182228, 0.2689414213699951},
    {"mish", 1.0, 0.8650983882673103, 1.0490362200997922},
    {"mish", -2.0, -0.2525014826957089, -0.10835509242039394},
    {"mish", -30.0, -2.807286890651921e-12, -2.713710660963392e-12},
    {"selu", 1.0, 1.0507009873554805, 1.0507009873554805},
    {"selu", -1.0, -1.1113307378125628, 0.6467686030348141},
    {"selu", -1e-10, -1.7580993407594719e-10, 1.758099340671567},
    {"silu", 1.0, 0.7310585786300049, 0.9276705118714867},
    {"silu", -2.0, -0.23840584404423512, -0.09078424878489548},
    {"silu", -40.0, -1.6993417021166355e-16, -1.6568581595637197e-16},
    {"softsign", 1.0, 0.5, 0.25},
    {"softsign", -3.0, -0.75, 0.0625},
    {"tanh_shrink", 0.001, 3.33333200000054e-10, 9.999993333337113e-07},
    {"tanh_shrink", 0.5, 0.03788284273999024, 0.2135522670340726},
    {"tanh_shrink", -2.0, -1.035972419924183, 0.9293491751468356},
};

/// d sum(f(x)) / dx.
template <class F>
Tensor slope(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

}  // namespace

TEST_CASE("activations and their slopes have the published values, tails included", "[activation]") {
  for (const Golden& row : golden_rows) {
    INFO(row.op << " at " << row.x);
    const UnaryFunction op = unary_functions().at(row.op);
    const std::vector<double> results = op(from_vector(std::vector<double>(19, row.x))).to_vector<double>();
    for (const double result : results) CHECK(ulps_between(result, row.value) <= tolerance::elementwise_ulps);
    const double found = number(slope(op, Tensor(row.x)));
    CHECK(std::fabs(found - row.slope) <= tolerance::roundings64 * std::fabs(row.slope) + tolerance::slope_near_one);
  }
}

TEST_CASE("activations reach their limits", "[activation]") {
  const Tensor far = {-1000.0, 1000.0};
  CHECK(same(log_sigmoid(far), {-1000.0, 0.0}));
  CHECK(same(softplus(far), {0.0, 1000.0}));
  CHECK(same(silu(far), {0.0, 1000.0}));
  CHECK(same(mish(far), {0.0, 1000.0}));
  CHECK(same(gelu(far), {0.0, 1000.0}));
  CHECK(same(gelu(far, GeluForm::tanh), {0.0, 1000.0}));
  CHECK(same(elu(far, 2), {-2.0, 1000.0}));
  CHECK(same(celu(far, 2), {-2.0, 1000.0}));
  CHECK(same(hard_swish(far), {0.0, 1000.0}));
  CHECK(same(tanh_shrink(far), {-999.0, 999.0}));
  const Tensor ends = {-kInfinity, kInfinity};
  CHECK(same(log_sigmoid(ends), {-kInfinity, 0.0}));
  CHECK(same(softplus(ends), {0.0, kInfinity}));
  CHECK(same(elu(ends), {-1.0, kInfinity}));
  CHECK(same(relu6(ends), {0.0, 6.0}));
  CHECK(same(hard_sigmoid(ends), {0.0, 1.0}));
  CHECK(same(silu(ends), {kNaN, kInfinity}));  // documented
  // the gradients too
  CHECK(same(slope([](const Tensor& x) { return softplus(x); }, far), {0.0, 1.0}));
  CHECK(same(slope([](const Tensor& x) { return elu(x); }, far), {0.0, 1.0}));
  CHECK(same(slope([](const Tensor& x) { return selu(x); }, ends).index({range(0, 1)}), {0.0}));
  CHECK(same(slope([](const Tensor& x) { return gelu(x); }, far), {0.0, 1.0}));
  CHECK(same(slope([](const Tensor& x) { return gelu(x, GeluForm::tanh); }, ends), {0.0, 1.0}));
}

TEST_CASE("the gradient of a gradient is finite where the branch that is not taken would overflow", "[activation]") {
  const Tensor x = {1000.0, -2.0};
  for (const char* name : {"elu", "celu"}) {
    INFO(name);
    GradientTape outer;
    outer.watch(x);
    const Tensor first = slope(parametric_functions().at(name), x);
    const std::vector<double> second = outer.gradient(first, x).to_vector<double>();
    CHECK(second[0] == 0);
    CHECK(std::fabs(second[1] - 0.1353352832366127) <= tolerance::roundings64);  // exp(-2)
  }
}

TEST_CASE("the gradient of the gradient of gelu is finite where squares overflow", "[activation]") {
  const Tensor x = Tensor{300.0, -300.0}.to(DType::float16);  // whose largest number is 65504
  GradientTape outer;
  outer.watch(x);
  const Tensor first = slope([](const Tensor& t) { return gelu(t, GeluForm::tanh); }, x);
  CHECK(same(first, Tensor{1.0, 0.0}.to(DType::float16)));
  CHECK(same(outer.gradient(first, x), Tensor{0.0, 0.0}.to(DType::float16)));
}

TEST_CASE("kinked activations have the documented values and gradients at their kinks", "[activation]") {
  struct Kink {
    const char* what;
    UnaryFunction function;
    Tensor x, value, gradient;
  };
  const double lambda_alpha = 1.7580993408473768599;  // 1.0507... times 1.6732...
  const Kink kinks[] = {
      {"hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); }, {-3.0, 3.0}, {0.0, 1.0}, {0.0, 0.0}},
      {"hard_swish", [](const Tensor& x) { return hard_swish(x); }, {-3.0, 3.0}, {0.0, 3.0}, {0.0, 1.0}},
      {"hard_tanh", [](const Tensor& x) { return hard_tanh(x); }, {-1.0, 0.5, 1.0}, {-1.0, 0.5, 1.0}, {0.0, 1.0, 0.0}},
      {"relu6", [](const Tensor& x) { return relu6(x); }, {0.0, 2.0, 6.0}, {0.0, 2.0, 6.0}, {0.0, 1.0, 0.0}},
      {"hard_shrink", parametric_functions().at("hard_shrink"), {-0.5, 0.5, 2.0}, {0.0, 0.0, 2.0}, {0.0, 0.0, 1.0}},
      {"soft_shrink", parametric_functions().at("soft_shrink"), {-0.5, 0.5, 2.0}, {0.0, 0.0, 1.5}, {0.0, 0.0, 1.0}},
      {"threshold", [](const Tensor& x) { return threshold(x, 0.5, -2); }, {0.5, 0.75}, {-2.0, 0.75}, {0.0, 1.0}},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.25); }, {0.0, -2.0}, {0.0, -0.5}, {0.25, 0.25}},
      {"elu", [](const Tensor& x) { return elu(x, 0.5); }, {0.0}, {0.0}, {0.5}},
      {"celu", [](const Tensor& x) { return celu(x, 0.5); }, {0.0}, {0.0}, {1.0}},
      {"selu", [](const Tensor& x) { return selu(x); }, {0.0}, {0.0}, {lambda_alpha}},
      {"softplus", [](const Tensor& x) { return softplus(x, {.threshold = 1}); }, {1.5, 9.0}, {1.5, 9.0}, {1.0, 1.0}},
  };
  for (const Kink& kink : kinks) {
    INFO(kink.what);
    CHECK(same(kink.function(kink.x), kink.value));
    CHECK(same(slope(kink.function, kink.x), kink.gradient));
  }
}

TEST_CASE("NaN stays NaN in every activation", "[activation]") {
  const Tensor x = full({5}, kNaN, {.dtype = DType::float32});
  for (const auto& [name, function] : parametric_functions()) {
    INFO(name);
    for (const float y : function(x).to_vector<float>()) CHECK(std::isnan(y));
  }
}

TEST_CASE("parameters reach every element, at every size and in every layout", "[activation]") {
  for (const DType type : {DType::float32, DType::float64}) {
    const Tensor base = random_in(-3, 3, {5, 7, 3}, type, 6);
    for (const auto& [name, function] : parametric_functions()) {
      INFO(name << " in " << capstan::name(type));
      const Tensor whole = function(base);
      for (const Tensor& view : {transpose(base), base.index({from(-1, -1), all, from(0, 2)}), base.index({all, 3, 1}),
                                 broadcast_to(base.index({all, range(2, 3)}), {2, 5, 4, 3})})
        CHECK(same(function(view), function(view.copy())));
      for (std::int64_t n = 1; n <= 40; ++n) {
        const Tensor line = reshape(base, {-1});
        CHECK(same(function(line.index({range(1, 1 + n)})), reshape(whole, {-1}).index({range(1, 1 + n)})));
      }
      CHECK(function(zeros({0, 3}, {.dtype = type})).shape() == Shape{0, 3});
    }
  }
  CHECK(same(leaky_relu(Tensor{-2.0, 2.0}, 0.5), {-1.0, 2.0}));
  CHECK(same(hard_tanh(Tensor{-5.0, 0.5, 5.0}, -2, 3), {-2.0, 0.5, 3.0}));
  CHECK(same(hard_shrink(Tensor{-1.0, 0.5, 2.0}, 1.5), {0.0, 0.0, 2.0}));
  CHECK(same(soft_shrink(Tensor{-1.0, 0.5, 2.0}, 0.75), {-0.25, 0.0, 1.25}));
  CHECK(same(threshold(Tensor{-1.0, 0.5, 2.0}, 0.0, 9), {9.0, 0.5, 2.0}));
}

TEST_CASE("glu multiplies one half of an axis with the sigmoid of the other", "[activation]") {
  const Tensor x = {{1.0, 2.0, 0.0, 0.0}, {3.0, 4.0, 1000.0, -1000.0}};
  CHECK(same(glu(x), {{0.5, 1.0}, {3.0, 0.0}}));  // sigmoid(0) = 1/2
  CHECK(same(glu(Tensor{{2.0, 4.0}, {0.0, 1000.0}}, 0), {{1.0, 4.0}}));
  CHECK(glu(zeros({3, 0})).shape() == Shape{3, 0});
}

TEST_CASE("prelu has one slope, or one for each channel", "[activation]") {
  const Tensor x = {{-1.0, -1.0, 2.0}, {-4.0, 3.0, -1.0}};
  CHECK(same(prelu(x, Tensor(0.5)), {{-0.5, -0.5, 2.0}, {-2.0, 3.0, -0.5}}));
  CHECK(same(prelu(x, Tensor{0.5}), prelu(x, Tensor(0.5))));
  CHECK(same(prelu(x, Tensor{1.0, 10.0, 100.0}), {{-1.0, -10.0, 2.0}, {-4.0, 3.0, -100.0}}));
  CHECK(same(prelu(Tensor{-1.0, -1.0}, Tensor{2.0, 3.0}), {-2.0, -3.0}));
  CHECK(same(prelu(Tensor(-2.0), Tensor(0.25)), Tensor(-0.5)));
  // nothing below 0 in the second channel
  const Tensor images = reshape(arange(-6.0, 6.0), {1, 2, 3, 2}).to(DType::float64);
  CHECK(same(prelu(images, Tensor{0.5, 7.0}), where(images > 0, images, images * 0.5)));
  // what is above 0 has no part in the weight's gradient
  const Tensor tall = {kInfinity, -2.0};
  CHECK(same(slope([&](const Tensor& weight) { return prelu(tall, weight); }, Tensor{0.5}), {-2.0}));
  const Tensor weight = {0.5}, steep = {kInfinity, 3.0};
  GradientTape tape;
  tape.watch(weight);
  const Tensor result = prelu(Tensor{1.0, -2.0}, weight);
  CHECK(same(tape.gradient(result, weight, {.output_gradient = steep}), {-6.0}));
}
