// Trajectories of optimizers and of whole training runs against PyTorch.
#include <cmath>
#include <map>
#include <set>

#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// Tensor `key` of a case that keeps its tensors by name.
Tensor kept(const GoldenFile& file, const Json& spec, const std::string& key, DType dtype) {
  return file.tensor(spec.at("tensors").at(key).get<std::string>(), dtype);
}

/// p0, p1, ... or g0, g1, ... after that many steps.
Tensors all_of_step(const GoldenFile& file, const Json& spec, const std::string& letter, int step, DType dtype) {
  Tensors list;
  for (int i = 0;; ++i) {
    const std::string key = letter + std::to_string(i) + "." + std::to_string(step);
    if (!spec.at("tensors").contains(key)) return list;
    list.push_back(kept(file, spec, key, dtype));
  }
}

// --- trajectories ----------------------------------------------------------------------------------------------

/// A case, and the type to run it in.
struct Run {
  const GoldenFile& file;
  const Json& spec;
  DType dtype;

  const Json& config() const { return spec.at("config"); }
  double real(const char* key, double otherwise) const { return config().value(key, otherwise); }
  bool flag(const char* key) const { return config().value(key, false); }
  double rate() const { return config().at("lr").get<double>(); }
  double beta(std::size_t i) const { return config().value("betas", std::vector<double>{0.9, 0.999}).at(i); }
  double decay(double otherwise = 0) const { return real("weight_decay", otherwise); }

  void require_only(const std::set<std::string>& known) const {
    for (const auto& [key, unused] : config().items())
      if (known.count(key) == 0) throw LeftOut{"the option " + key + " is not known"};
  }
};

/// Whether every step ends where PyTorch's does; if not, the test fails.
bool follow(const Run& run, optim::Optimizer& optimizer, double allowed64 = tolerance::golden64) {
  INFO(run.spec.at("op").get<std::string>() << " " << run.config().dump() << " in " << name(run.dtype));
  const int steps = run.spec.at("steps").get<int>();
  bool passed = true;
  for (int step = 0; step < steps; ++step) {
    INFO("step " << step);
    optimizer.apply(all_of_step(run.file, run.spec, "g", step, run.dtype));
    const Tensors expected = all_of_step(run.file, run.spec, "p", step + 1, run.dtype);
    REQUIRE(expected.size() == optimizer.parameters().size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double allowed = run.dtype == DType::float64 ? allowed64 : tolerance::trajectory32;
      const bool near = close(optimizer.parameters()[i], expected[i], allowed);
      CHECK(near);
      passed = passed && near;
    }
  }
  CHECK(optimizer.steps() == steps);
  return passed;
}

Tensors start_of(const Run& run) {
  const Tensors parameters = all_of_step(run.file, run.spec, "p", 0, run.dtype);
  REQUIRE_FALSE(parameters.empty());
  return parameters;
}

bool run_sgd(const Run& run) {
  run.require_only({"lr", "momentum", "dampening", "nesterov", "weight_decay", "maximize"});
  optim::Sgd sgd(start_of(run), {.learning_rate = run.rate(),
                                 .momentum = run.real("momentum", 0),
                                 .dampening = run.real("dampening", 0),
                                 .nesterov = run.flag("nesterov"),
                                 .weight_decay = run.decay(),
                                 .maximize = run.flag("maximize")});
  return follow(run, sgd);
}

bool run_adam(const Run& run) {
  run.require_only({"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize"});
  optim::Adam adam(start_of(run), {.learning_rate = run.rate(),
                                   .beta1 = run.beta(0),
                                   .beta2 = run.beta(1),
                                   .epsilon = run.real("eps", 1e-8),
                                   .weight_decay = run.decay(),
                                   .amsgrad = run.flag("amsgrad"),
                                   .maximize = run.flag("maximize")});
  return follow(run, adam);
}

bool run_adamw(const Run& run) {
  run.require_only({"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize"});
  optim::AdamW adamw(start_of(run), {.learning_rate = run.rate(),
                                     .beta1 = run.beta(0),
                                     .beta2 = run.beta(1),
                                     .epsilon = run.real("eps", 1e-8),
                                     .weight_decay = run.decay(0.01),
                                     .amsgrad = run.flag("amsgrad"),
                                     .maximize = run.flag("maximize")});
  return follow(run, adamw);
}

bool run_adamax(const Run& run) {
  run.require_only({"lr", "betas", "eps", "weight_decay", "maximize"});
  optim::Adamax adamax(start_of(run), {.learning_rate = run.rate(),
                                       .beta1 = run.beta(0),
                                       .beta2 = run.beta(1),
                                       .epsilon = run.real("eps", 1e-8),
                                       .weight_decay = run.decay(),
                                       .maximize = run.flag("maximize")});
  return follow(run, adamax);
}

bool run_nadam(const Run& run) {
  run.require_only({"lr", "betas", "eps", "weight_decay", "momentum_decay"});
  optim::Nadam nadam(start_of(run), {.learning_rate = run.rate(),
                                     .beta1 = run.beta(0),
                                     .beta2 = run.beta(1),
                                     .epsilon = run.real("eps", 1e-8),
                                     .weight_decay = run.decay(),
                                     .momentum_decay = run.real("momentum_decay", 4e-3),
                                     .pytorch_1 = true});
  return follow(run, nadam, tolerance::constant_in_float32);  // PyTorch keeps the momentum's product in float32
}

bool run_radam(const Run& run) {
  run.require_only({"lr", "betas", "eps", "weight_decay"});
  optim::RAdam radam(start_of(run), {.learning_rate = run.rate(),
                                     .beta1 = run.beta(0),
                                     .beta2 = run.beta(1),
                                     .epsilon = run.real("eps", 1e-8),
                                     .weight_decay = run.decay()});
  return follow(run, radam);
}

bool run_rmsprop(const Run& run) {
  run.require_only({"lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize"});
  optim::RmsProp rms(start_of(run), {.learning_rate = run.rate(),
                                     .alpha = run.real("alpha", 0.99),
                                     .epsilon = run.real("eps", 1e-8),
                                     .momentum = run.real("momentum", 0),
                                     .centered = run.flag("centered"),
                                     .weight_decay = run.decay(),
                                     .maximize = run.flag("maximize")});
  return follow(run, rms);
}

bool run_adagrad(const Run& run) {
  run.require_only({"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize"});
  optim::Adagrad adagrad(start_of(run), {.learning_rate = run.rate(),
                                         .learning_rate_decay = run.real("lr_decay", 0),
                                         .initial_accumulator = run.real("initial_accumulator_value", 0),
                                         .epsilon = run.real("eps", 1e-10),
                                         .weight_decay = run.decay(),
                                         .maximize = run.flag("maximize")});
  return follow(run, adagrad);
}

bool run_adadelta(const Run& run) {
  run.require_only({"lr", "rho", "eps", "weight_decay", "maximize"});
  optim::Adadelta adadelta(start_of(run), {.learning_rate = run.rate(),
                                           .rho = run.real("rho", 0.9),
                                           .epsilon = run.real("eps", 1e-6),
                                           .weight_decay = run.decay(),
                                           .maximize = run.flag("maximize")});
  return follow(run, adadelta);
}

bool run_rprop(const Run& run) {
  run.require_only({"lr", "etas", "step_sizes", "maximize"});
  const auto etas = run.config().value("etas", std::vector<double>{0.5, 1.2});
  const auto sizes = run.config().value("step_sizes", std::vector<double>{1e-6, 50});
  optim::Rprop rprop(start_of(run), {.learning_rate = run.rate(),
                                     .shrink = etas.at(0),
                                     .grow = etas.at(1),
                                     .smallest = sizes.at(0),
                                     .largest = sizes.at(1),
                                     .maximize = run.flag("maximize")});
  return follow(run, rprop);
}

bool run_asgd(const Run& run) {
  run.require_only({"lr", "lambd", "alpha", "t0", "weight_decay", "maximize"});
  optim::Asgd asgd(start_of(run), {.learning_rate = run.rate(),
                                   .lambda = run.real("lambd", 1e-4),
                                   .alpha = run.real("alpha", 0.75),
                                   .start = run.real("t0", 1e6),
                                   .weight_decay = run.decay(),
                                   .maximize = run.flag("maximize")});
  return follow(run, asgd, tolerance::constant_in_float32);  // PyTorch keeps the step size in float32
}

const std::map<std::string, bool (*)(const Run&)> optimizers = {
    {"optim.SGD", run_sgd},         {"optim.Adam", run_adam},       {"optim.AdamW", run_adamw},
    {"optim.Adamax", run_adamax},   {"optim.NAdam", run_nadam},     {"optim.RAdam", run_radam},
    {"optim.RMSprop", run_rmsprop}, {"optim.Adagrad", run_adagrad}, {"optim.Adadelta", run_adadelta},
    {"optim.Rprop", run_rprop},     {"optim.ASGD", run_asgd},
};

}  // namespace

TEST_CASE("optimizers follow PyTorch's trajectories", "[golden][optim]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("optimizers");
  GoldenCount count;
  for (const Json& spec : file.cases()) {
    const std::string op = spec.at("op").get<std::string>();
    INFO(op);
    REQUIRE(optimizers.count(op) == 1u);
    try {
      const bool passed = optimizers.at(op)({file, spec, DType::float64});
      count.add(optimizers.at(op)({file, spec, DType::float32}) && passed);
    } catch (const LeftOut& out) { count.leave(spec, out.reason); }
  }
  count.print("optimizers");
  REQUIRE(count.ran() >= 22);
}
