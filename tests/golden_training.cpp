// Schedules and clipping against PyTorch.
#include <set>

#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;
using optim::Schedule;

/// The options of a scheduler, each of which somebody must ask for.
class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}

  bool has(const std::string& key) {
    asked_.insert(key);
    return json_.contains(key) && !json_.at(key).is_null();
  }
  template <class T>
  T get(const std::string& key, T otherwise) {
    return has(key) ? json_.at(key).get<T>() : otherwise;
  }
  template <class T>
  T get(const std::string& key) {
    asked_.insert(key);
    return json_.at(key).get<T>();
  }
  /// Options that change nothing here.
  void pass_over(std::initializer_list<const char*> keys) {
    for (const char* key : keys) asked_.insert(key);
  }
  /// Throws LeftOut if an option is left that nobody asked for.
  void finish() const {
    for (const auto& [key, unused] : json_.items())
      if (asked_.count(key) == 0) throw LeftOut{"the option " + key + " is not known"};
  }

 private:
  const Json& json_;
  std::set<std::string> asked_;
};

using MakeSchedule = Schedule (*)(double rate, Config& config);

Schedule one_cycle(double, Config& c) {
  c.pass_over({"cycle_momentum", "base_momentum", "max_momentum"});
  const bool has_steps = c.has("total_steps");
  const auto epochs = c.get<std::int64_t>("epochs", 1), in_epoch = c.get<std::int64_t>("steps_per_epoch", 1);
  return optim::one_cycle(c.get<double>("max_lr"),
                          {.steps = has_steps ? c.get<std::int64_t>("total_steps") : epochs * in_epoch,
                           .rise = c.get("pct_start", 0.3),
                           .start_divisor = c.get("div_factor", 25.0),
                           .end_divisor = c.get("final_div_factor", 1e4),
                           .linear = c.get<std::string>("anneal_strategy", "cos") == "linear",
                           .three_phase = c.get("three_phase", false)});
}

Schedule cyclic(double, Config& c) {
  c.pass_over({"cycle_momentum", "base_momentum", "max_momentum", "scale_mode"});
  const std::string mode = c.get<std::string>("mode", "triangular");
  const auto shape = mode == "exp_range"     ? optim::CycleShape::exp_range
                     : mode == "triangular2" ? optim::CycleShape::triangular2
                                             : optim::CycleShape::triangular;
  return optim::cyclic(c.get<double>("base_lr"), c.get<double>("max_lr"),
                       {.up = static_cast<std::int64_t>(c.get("step_size_up", 2000.0)),
                        .down = static_cast<std::int64_t>(c.get("step_size_down", -1.0)),
                        .shape = shape,
                        .factor = c.get("gamma", 1.0)});
}

const std::map<std::string, MakeSchedule> schedules = {
    {"sched.ConstantLR",
     [](double rate, Config& c) {
       return optim::constant_factor(rate, c.get("factor", 1.0 / 3), c.get<std::int64_t>("total_iters", 5));
     }},
    {"sched.CosineAnnealingLR",
     [](double rate, Config& c) {
       return optim::cosine_decay(rate, {.steps = c.get<std::int64_t>("T_max"), .end = c.get("eta_min", 0.0)});
     }},
    {"sched.CosineAnnealingWarmRestarts",
     [](double rate, Config& c) {
       return optim::cosine_restarts(
           rate, {.steps = c.get<std::int64_t>("T_0"), .growth = c.get("T_mult", 1.0), .end = c.get("eta_min", 0.0)});
     }},
    {"sched.CyclicLR", &cyclic},
    {"sched.ExponentialLR", [](double rate, Config& c) { return optim::exponential(rate, c.get<double>("gamma")); }},
    {"sched.LinearLR",
     [](double rate, Config& c) {
       return optim::linear(rate, {.start = c.get("start_factor", 1.0 / 3),
                                   .end = c.get("end_factor", 1.0),
                                   .steps = c.get<std::int64_t>("total_iters", 5)});
     }},
    {"sched.MultiStepLR",
     [](double rate, Config& c) {
       return optim::multi_step(rate, c.get<std::vector<std::int64_t>>("milestones"), c.get("gamma", 0.1));
     }},
    {"sched.OneCycleLR", &one_cycle},
    {"sched.PolynomialLR",
     [](double rate, Config& c) {
       return optim::polynomial_decay(rate,
                                      {.steps = c.get<std::int64_t>("total_iters", 5), .power = c.get("power", 1.0)});
     }},
    {"sched.StepLR",
     [](double rate, Config& c) {
       return optim::step_decay(rate, c.get<std::int64_t>("step_size"), c.get("gamma", 0.1));
     }},
};

optim::ReduceOnPlateau plateau(double rate, Config& c) {
  return optim::ReduceOnPlateau(rate, {.maximize = c.get<std::string>("mode", "min") == "max",
                                       .factor = c.get("factor", 0.1),
                                       .patience = c.get<std::int64_t>("patience", 10),
                                       .threshold = c.get("threshold", 1e-4),
                                       .absolute = c.get<std::string>("threshold_mode", "rel") == "abs",
                                       .cooldown = c.get<std::int64_t>("cooldown", 0),
                                       .least = c.get("min_lr", 0.0),
                                       .epsilon = c.get("eps", 1e-8)});
}

Tensor kept(const GoldenFile& file, const Json& spec, const std::string& key, DType dtype = DType::float64) {
  return file.tensor(spec.at("tensors").at(key).get<std::string>(), dtype);
}

/// The rates of every step. Throws LeftOut.
Numbers rates_of(const GoldenFile& file, const Json& spec, std::size_t count) {
  Config config(spec.at("config"));
  config.pass_over({"last_epoch", "verbose"});
  const auto rate = config.get<double>("base_lr_start");
  const std::string op = spec.at("op").get<std::string>();
  Numbers rates;
  if (op == "sched.ReduceLROnPlateau") {
    optim::ReduceOnPlateau scheduler = plateau(rate, config);
    config.finish();
    for (const double metric : values(kept(file, spec, "metric"))) rates.push_back(scheduler.update(metric));
    return rates;
  }
  const auto make = schedules.find(op);
  if (make == schedules.end()) throw LeftOut{"the scheduler is not known"};
  const Schedule schedule = make->second(rate, config);
  config.finish();
  for (std::size_t n = 0; n < count; ++n) rates.push_back(schedule(static_cast<std::int64_t>(n)));
  return rates;
}

/// In float32: the result is rounded a few times.
double allowed(DType dtype) { return dtype == DType::float64 ? tolerance::golden64 : tolerance::roundings32; }

std::vector<Tensor> all_of(const GoldenFile& file, const Json& spec, const std::string& front, DType dtype) {
  std::vector<Tensor> list;
  while (spec.at("tensors").contains(front + std::to_string(list.size())))
    list.push_back(kept(file, spec, front + std::to_string(list.size()), dtype));
  return list;
}

/// Whether it passes.
bool run_clip_by_norm(const GoldenFile& file, const Json& spec, DType dtype) {
  const Json& config = spec.at("config");
  const Json& type = config.contains("norm_type") ? config.at("norm_type") : Json(2.0);
  const optim::ClipOptions options{.order = type.is_string() ? kInfinity : type.get<double>(), .epsilon = 1e-6};
  const std::vector<Tensor> gradients = all_of(file, spec, "g", dtype), expected = all_of(file, spec, "clipped", dtype);
  REQUIRE_FALSE(gradients.empty());
  const double limit = config.at("max_norm").get<double>();
  const optim::ClippedGradients result = optim::clip_by_global_norm(gradients, limit, options);
  REQUIRE(result.gradients.size() == expected.size());
  bool passed = close(result.norm, kept(file, spec, "total_norm", dtype), allowed(dtype));
  for (std::size_t i = 0; i < expected.size(); ++i)
    passed = close(result.gradients[i], expected[i], allowed(dtype)) && passed;
  CHECK(passed);
  return passed;
}

bool run_clip_by_value(const GoldenFile& file, const Json& spec, DType dtype) {
  const double limit = spec.at("config").at("clip_value").get<double>();
  const std::vector<Tensor> clipped = optim::clip_by_value({kept(file, spec, "g", dtype)}, limit);
  const bool passed = close(clipped[0], kept(file, spec, "clipped", dtype), allowed(dtype));
  CHECK(passed);
  return passed;
}

}  // namespace

TEST_CASE("schedules give PyTorch's learning rates", "[golden][schedule]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("lr_schedulers");
  GoldenCount count;
  for (const Json& spec : file.cases()) {
    INFO(spec.at("op").get<std::string>() << " " << spec.at("config").dump());
    const Numbers expected = values(kept(file, spec, "lr"));
    try {
      const Numbers actual = rates_of(file, spec, expected.size());
      const bool passed = relative_error(actual, expected) <= tolerance::golden64;
      CHECK(passed);
      count.add(passed);
    } catch (const LeftOut& out) { count.leave(spec, out.reason); }
  }
  count.print("schedules");
  CHECK(static_cast<std::size_t>(count.ran()) == file.cases().size());
}

TEST_CASE("gradients are clipped as PyTorch clips them", "[golden][clip]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("clip_grad");
  GoldenCount count;
  for (const Json& spec : file.cases()) {
    const std::string op = spec.at("op").get<std::string>();
    INFO(op << " " << spec.at("config").dump());
    const bool by_norm = op == "clip_grad_norm";
    if (!by_norm && op != "clip_grad_value") {
      count.leave(spec, "the operation is not known");
      continue;
    }
    bool passed = true;
    for (const DType dtype : {DType::float64, DType::float32})
      passed = (by_norm ? run_clip_by_norm(file, spec, dtype) : run_clip_by_value(file, spec, dtype)) && passed;
    count.add(passed);
  }
  count.print("clipping");
  CHECK(static_cast<std::size_t>(count.ran()) == file.cases().size());
}
