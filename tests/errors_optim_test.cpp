// Misuse of optimizers: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_optim_test.cpp";
using List = std::vector<Tensor>;

}  // namespace

TEST_CASE("optimizers refuse gradients that do not fit, and change nothing", "[errors][optim]") {
  const Tensor a = {1.0f, 2.0f}, b = {3.0f};
  const Tensor good_a = {1.0f, 1.0f}, good_b = {1.0f}, fine = {1.0, 1.0};
  optim::Sgd sgd({a, b});
  optim::Adam adam({a, b});
  optim::Lbfgs lbfgs({a, b});
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { sgd.apply(List{good_a}); },
       "Sgd: there are 1 gradients and 2 parameters; give one for each, in their order."},
      {__LINE__, message_of<ShapeError>, [&] { sgd.apply(List{good_a, good_a}); },
       "Sgd: gradient 1 is [2] and its parameter [1]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { sgd.apply(List{fine, good_b}); },
       "Sgd: gradient 0 is float64 and its parameter float32; the types must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { adam.apply(List{good_a}); },
       "Adam: there are 1 gradients and 2 parameters; give one for each, in their order."},
      {__LINE__, message_of<ShapeError>, [&] { adam.apply(List{good_a, good_a}); },
       "Adam: gradient 1 is [2] and its parameter [1]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { adam.apply(List{fine, good_b}); },
       "Adam: gradient 0 is float64 and its parameter float32; the types must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { lbfgs.apply(List{good_a, good_a}); },
       "Lbfgs: gradient 1 is [2] and its parameter [1]; the shapes must be equal."},
  }, file);
  CHECK(same(a, {1.0f, 2.0f}));
  CHECK(same(b, {3.0f}));
  CHECK(sgd.steps() == 0);
  CHECK(adam.steps() == 0);
  CHECK(lbfgs.steps() == 0);
}

TEST_CASE("optimizers refuse parameters that cannot be trained, and those given twice", "[errors][optim]") {
  const Tensor a = {1.0f, 2.0f}, b = {3.0f}, integers = {1, 2}, turned = transpose(ones({2, 3})), none = zeros({0, 2});
  using AdamGroup = optim::Group<optim::AdamOptions>;
  check_errors({
      {__LINE__, message_of<Error>, [&] { optim::Sgd({a, Tensor()}); },
       "Sgd: parameter 1 is undefined; give it a value first."},
      {__LINE__, message_of<DTypeError>, [&] { optim::AdamW({integers}); },
       "AdamW: parameter 0 is int32; it must be a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { optim::RmsProp({a, turned}); },
       "RmsProp: parameter 1 is not contiguous; it must be."},
      {__LINE__, message_of<Error>, [&] { optim::Lion({a, b, a}); },
       "Lion: parameters 0 and 2 are the same tensor; each must be given once, in one group."},
      {__LINE__, message_of<Error>, [&] { optim::Adam({AdamGroup{{a, b}, {}}, AdamGroup{{b}, {}}}); },
       "Adam: parameters 1 and 2 are the same tensor; each must be given once, in one group."},
      {__LINE__, message_of<Error>, [&] { optim::Lbfgs({a, a}); },
       "Lbfgs: parameters 0 and 1 are the same tensor; each must be given once, in one group."},
      {__LINE__, message_of<Error>, [&] { optim::Adam({a, none, none}); },
       "Adam: parameters 1 and 2 are the same tensor; each must be given once, in one group."},
      {__LINE__, message_of<Error>, [&] { optim::Sgd({b, narrow(a, 0, 1, 1), a}); },
       "Sgd: parameters 1 and 2 share elements; each element must be given once, in one group."},
      {__LINE__, message_of<Error>, [&] { optim::Lbfgs(List{}); },
       "Lbfgs: there are no parameters; give at least one."},
  }, file);
  CHECK_NOTHROW(optim::Sgd({narrow(a, 0, 1, 1), none, b, narrow(a, 0, 0, 1), zeros({0, 2})}));  // side by side
}

TEST_CASE("optimizers refuse options out of range when they are made", "[errors][optim]") {
  const Tensor a = {1.0f};
  using namespace optim;
  const std::string amount = "; it must be finite and >= 0.", share = "; it must be in [0, 1).";
  check_errors({
      {__LINE__, message_of<Error>, [&] { Sgd({a}, {.learning_rate = -1}); },
       "Sgd: the option learning_rate is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Sgd({a}, {.learning_rate = kNaN}); },
       "Sgd: the option learning_rate is nan" + amount},
      {__LINE__, message_of<Error>, [&] { Sgd({a}, {.momentum = -0.5}); }, "Sgd: the option momentum is -0.5" + amount},
      {__LINE__, message_of<Error>, [&] { Sgd({a}, {.dampening = kInfinity}); },
       "Sgd: the option dampening is inf; it must be finite."},
      {__LINE__, message_of<Error>, [&] { Sgd({a}, {.weight_decay = -1}); },
       "Sgd: the option weight_decay is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Sgd({a}, {.nesterov = true}); },
       "Sgd: nesterov was asked for with momentum 0 and dampening 0; it needs momentum above 0, and no dampening."},
      {__LINE__, message_of<Error>, [&] { Asgd({a}, {.lambda = -1}); }, "Asgd: the option lambda is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Asgd({a}, {.alpha = -1}); }, "Asgd: the option alpha is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Asgd({a}, {.start = -1}); }, "Asgd: the option start is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Lion({a}, {.beta1 = 1}); }, "Lion: the option beta1 is 1" + share},
      {__LINE__, message_of<Error>, [&] { Rprop({a}, {.shrink = 1}); },
       "Rprop: the option shrink is 1; it must be in (0, 1)."},
      {__LINE__, message_of<Error>, [&] { Rprop({a}, {.grow = 1}); },
       "Rprop: the option grow is 1; it must be finite and > 1."},
      {__LINE__, message_of<Error>, [&] { Rprop({a}, {.smallest = 2, .largest = 1}); },
       "Rprop: the option largest is 1; it must be finite and at least the smallest."},
      {__LINE__, message_of<Error>, [&] { Adam({a}, {.beta1 = 1}); }, "Adam: the option beta1 is 1" + share},
      {__LINE__, message_of<Error>, [&] { Adam({a}, {.beta2 = -0.1}); }, "Adam: the option beta2 is -0.1" + share},
      {__LINE__, message_of<Error>, [&] { AdamW({a}, {.epsilon = -1}); }, "AdamW: the option epsilon is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Adamax({a}, {.beta2 = 1}); }, "Adamax: the option beta2 is 1" + share},
      {__LINE__, message_of<Error>, [&] { Nadam({a}, {.momentum_decay = -1}); },
       "Nadam: the option momentum_decay is -1" + amount},
      {__LINE__, message_of<Error>, [&] { RAdam({a}, {.weight_decay = -1}); },
       "RAdam: the option weight_decay is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Lamb({a}, {.learning_rate = -1}); },
       "Lamb: the option learning_rate is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Adagrad({a}, {.learning_rate_decay = -1}); },
       "Adagrad: the option learning_rate_decay is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Adagrad({a}, {.initial_accumulator = -1}); },
       "Adagrad: the option initial_accumulator is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Adadelta({a}, {.rho = 1.5}); },
       "Adadelta: the option rho is 1.5; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { RmsProp({a}, {.alpha = -0.5}); },
       "RmsProp: the option alpha is -0.5; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { RmsProp({a}, {.momentum = -1}); },
       "RmsProp: the option momentum is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Lbfgs({a}, {.max_iterations = 0}); },
       "Lbfgs: the option max_iterations is 0; it must be >= 1."},
      {__LINE__, message_of<Error>, [&] { Lbfgs({a}, {.max_evaluations = -1}); },
       "Lbfgs: the option max_evaluations is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { Lbfgs({a}, {.gradient_tolerance = -1}); },
       "Lbfgs: the option gradient_tolerance is -1" + amount},
      {__LINE__, message_of<Error>, [&] { Lbfgs({a}, {.history = 0}); },
       "Lbfgs: the option history is 0; it must be >= 1."},
  }, file);
}

TEST_CASE("optimizers refuse what goes wrong between steps, and change nothing", "[errors][optim]") {
  const Tensor a = {1.0f}, b = {1.0f}, g = {0.5f};
  using AdamGroup = optim::Group<optim::AdamOptions>;
  optim::Adam adam({AdamGroup{{a}, {.learning_rate = 0.5}}, AdamGroup{{b}, {.learning_rate = 0.25}}});
  optim::Adam scheduled({a}), changed({a});
  scheduled.attach([](std::int64_t) { return -1.0; });
  changed.options().beta2 = 2;
  optim::Lbfgs searching({a}, {.line_search = optim::LineSearch::strong_wolfe}), lbfgs({a});
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { adam.options(2); },
       "Adam: group 2 was asked for; there are 2, counted from 0."},
      {__LINE__, message_of<IndexError>, [&] { adam.learning_rate(-1); },
       "Adam: group -1 was asked for; there are 2, counted from 0."},
      {__LINE__, message_of<IndexError>, [&] { adam.set_learning_rate(1, 2); },
       "Adam: group 2 was asked for; there are 2, counted from 0."},
      {__LINE__, message_of<IndexError>, [&] { adam.attach(optim::Schedule(), 2); },
       "Adam: group 2 was asked for; there are 2, counted from 0."},
      {__LINE__, message_of<Error>, [&] { adam.set_learning_rate(-1); },
       "Adam: a learning rate of -1 was given; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { adam.set_learning_rate(kInfinity, 1); },
       "Adam: a learning rate of inf was given; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { scheduled.apply(List{g}); },
       "Adam: the schedule of group 0 gives -1 at step 0; a learning rate must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { changed.apply(List{g}); },
       "Adam: the option beta2 is 2; it must be in [0, 1)."},
      {__LINE__, message_of<Error>, [&] { searching.apply(List{g}); },
       "Lbfgs: a line search has to evaluate the loss; call minimize with a function."},
      {__LINE__, message_of<Error>, [&] { lbfgs.minimize(optim::Lbfgs::Function()); },
       "Lbfgs: the function to be minimized is empty; give one."},
      {__LINE__, message_of<ShapeError>, [&] { lbfgs.minimize([&] { return optim::Evaluation{ones({2}), {g}}; }); },
       "Lbfgs: the loss is [2]; it must be one number."},
      {__LINE__, message_of<ShapeError>, [&] { lbfgs.minimize([&] { return optim::Evaluation{ones({}), {}}; }); },
       "Lbfgs: there are 0 gradients and 1 parameters; give one for each, in their order."},
  }, file);
  CHECK(same(a, {1.0f}));
  CHECK(adam.learning_rate(0) == 0.5);
  CHECK(adam.learning_rate(1) == 0.25);
  CHECK(scheduled.learning_rate() == 1e-3);
  for (const optim::Optimizer* optimizer : std::initializer_list<const optim::Optimizer*>{&scheduled, &changed, &lbfgs})
    CHECK(optimizer->steps() == 0);
}

TEST_CASE("a state that does not belong to an optimizer is refused, and changes nothing", "[errors][optim]") {
  const Tensor a = {1.0f, 2.0f};
  optim::Adam adam({a});
  adam.apply(List{ones({2})});
  const std::vector<NamedTensor> good = adam.state();
  const auto changed = [&](const std::string& name, const Tensor& value) {
    std::vector<NamedTensor> state = good;
    for (NamedTensor& entry : state)
      if (entry.name == name) entry.value = value;
    return state;
  };
  std::vector<NamedTensor> without = good, more = good, twice = good;
  without.pop_back();
  more.push_back({"1.mean", ones({2})});
  twice.push_back(good.back());
  const auto number_of = [](double value) { return scalar(value, {DType::float64}); };
  optim::Nadam nadam({a.copy()});
  nadam.apply(List{ones({2})});
  const auto spoiled = [&](double product) {
    std::vector<NamedTensor> state = nadam.state();
    for (NamedTensor& entry : state)
      if (entry.name == "0.momentum_product") entry.value = number_of(product);
    return state;
  };
  const std::string impossible = "Nadam::load_state: \"0.momentum_product\" is ";
  check_errors({
      {__LINE__, message_of<Error>, [&] { adam.load_state(without); },
       "Adam::load_state: the state has no \"0.square\"; it must be one that state() gave."},
      {__LINE__, message_of<Error>, [&] { adam.load_state(more); },
       "Adam::load_state: \"1.mean\" is in the state and not in this optimizer."},
      {__LINE__, message_of<Error>, [&] { adam.load_state(twice); },
       "Adam::load_state: \"0.square\" is in the state and not in this optimizer."},
      {__LINE__, message_of<ShapeError>, [&] { adam.load_state(changed("0.mean", ones({3}))); },
       "Adam::load_state: \"0.mean\" is [3]; it must be [2]."},
      {__LINE__, message_of<DTypeError>, [&] { adam.load_state(changed("0.mean", ones({2}, {DType::float64}))); },
       "Adam::load_state: \"0.mean\" is float64; it must be float32."},
      {__LINE__, message_of<Error>, [&] { adam.load_state(changed("0.mean", Tensor())); },
       "Adam::load_state: \"0.mean\" is undefined; it must have a value."},
      {__LINE__, message_of<DTypeError>, [&] { adam.load_state(changed("step", number_of(1))); },
       "Adam::load_state: \"step\" is float64; it must be int64."},
      {__LINE__, message_of<Error>, [&] { adam.load_state(changed("0.step", scalar(-1, {DType::int64}))); },
       "Adam::load_state: \"0.step\" is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { adam.load_state(changed("group.0.learning_rate", number_of(-1))); },
       "Adam::load_state: \"group.0.learning_rate\" is -1; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { nadam.load_state(spoiled(kNaN)); },
       impossible + "nan; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { nadam.load_state(spoiled(5)); }, impossible + "5; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { nadam.load_state(spoiled(-1)); }, impossible + "-1; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { optim::Sgd({a}).load_state(good); },
       "Sgd::load_state: \"0.mean\" is in the state and not in this optimizer."},
  }, file);
  const std::vector<NamedTensor> after = adam.state();
  REQUIRE(after.size() == good.size());
  for (std::size_t i = 0; i < good.size(); ++i) CHECK(same(after[i].value, good[i].value));
}

TEST_CASE("fused steps refuse states that do not fit, and change nothing", "[errors][optim]") {
  const Tensor p = {1.0f, 2.0f}, g = {1.0f, 1.0f}, half = p.to(DType::bfloat16);
  const auto step = [&](const Tensor& parameter, const Tensor& state) {
    return ParameterUpdate{.rule = UpdateRule::momentum, .parameter = parameter, .gradient = g.to(parameter.dtype()),
                           .states = {state}, .numbers = {.rate = 1}};
  };
  const std::vector<ParameterUpdate> none = {step(p, zeros({2})), step(p, Tensor())};
  const std::vector<ParameterUpdate> longer = {step(p, zeros({2})), step(p, zeros({3}))};
  const std::vector<ParameterUpdate> narrow = {step(half, zeros({2}, {DType::bfloat16}))};
  const std::vector<ParameterUpdate> spread = {step(p, strided(zeros({2})))};
  check_errors({
      {__LINE__, message_of<Error>, [&] { apply_updates("mine", none); },
       "mine: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { apply_updates("mine", longer); },
       "mine: state 0 of parameter 1 is [3]; it must be [2] as the parameter is."},
      {__LINE__, message_of<DTypeError>, [&] { apply_updates("mine", narrow); },
       "mine: state 0 of parameter 0 is bfloat16; it must be float32."},
      {__LINE__, message_of<ShapeError>, [&] { apply_updates("mine", spread); },
       "mine: state 0 of parameter 0 is not contiguous; it must be."},
  }, file);
  CHECK(same(p, {1.0f, 2.0f}));
}
