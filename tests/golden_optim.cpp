// Trajectories of optimizers and of a whole training run against PyTorch.
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

/// Whether every step ends where PyTorch's does; if not, the test fails.
template <class Optimizer, class Options>
bool follow(const GoldenFile& file, const Json& spec, const Options& options, DType dtype) {
  INFO(spec.at("op").get<std::string>() << " " << spec.at("config").dump() << " in " << name(dtype));
  const Tensors parameters = all_of_step(file, spec, "p", 0, dtype);
  REQUIRE_FALSE(parameters.empty());
  Optimizer optimizer(parameters, options);
  const int steps = spec.at("steps").get<int>();
  bool passed = true;
  for (int step = 0; step < steps; ++step) {
    INFO("step " << step);
    optimizer.apply(all_of_step(file, spec, "g", step, dtype));
    const Tensors expected = all_of_step(file, spec, "p", step + 1, dtype);
    REQUIRE(expected.size() == parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double allowed = dtype == DType::float64 ? tolerance::golden64 : tolerance::trajectory32;
      const bool near = close(parameters[i], expected[i], allowed);
      CHECK(near);
      passed = passed && near;
    }
  }
  CHECK(optimizer.steps() == steps);
  return passed;
}

void require_only(const Json& config, const std::set<std::string>& known) {
  for (const auto& [key, unused] : config.items())
    if (known.count(key) == 0) throw LeftOut{"the option " + key + " comes later"};
}

/// Whether it passes. Throws LeftOut.
bool run_optimizer(const GoldenFile& file, const Json& spec, DType dtype) {
  const Json& config = spec.at("config");
  const std::string op = spec.at("op").get<std::string>();
  if (op == "optim.SGD") {
    require_only(config, {"lr", "momentum", "nesterov", "weight_decay"});
    const optim::SgdOptions options{.learning_rate = config.at("lr").get<double>(),
                                    .momentum = config.value("momentum", 0.0),
                                    .nesterov = config.value("nesterov", false),
                                    .weight_decay = config.value("weight_decay", 0.0)};
    return follow<optim::Sgd>(file, spec, options, dtype);
  }
  if (op == "optim.Adam") {
    require_only(config, {"lr", "betas", "eps", "weight_decay"});
    const auto betas = config.value("betas", std::vector<double>{0.9, 0.999});
    const optim::AdamOptions options{.learning_rate = config.at("lr").get<double>(),
                                     .beta1 = betas.at(0),
                                     .beta2 = betas.at(1),
                                     .epsilon = config.value("eps", 1e-8),
                                     .weight_decay = config.value("weight_decay", 0.0)};
    return follow<optim::Adam>(file, spec, options, dtype);
  }
  throw LeftOut{"optimizers but SGD and Adam come later"};
}

struct Mlp {
  nn::Linear fc0{6, 16, {.dtype = DType::float64}}, fc2{16, 16, {.dtype = DType::float64}},
      fc4{16, 4, {.dtype = DType::float64}};
  Tensor operator()(const Tensor& x) { return fc4(relu(fc2(tanh(fc0(x))))); }
};

}  // namespace

TEST_CASE("optimizers follow PyTorch's trajectories", "[golden][optim]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("optimizers");
  GoldenCount count;
  for (const Json& spec : file.cases()) {
    try {
      const bool passed = run_optimizer(file, spec, DType::float64);
      count.add(run_optimizer(file, spec, DType::float32) && passed);
    } catch (const LeftOut& out) { count.leave(spec, out.reason); }
  }
  count.print("optimizers");
  REQUIRE(count.ran() >= 6);  // SGD plain, momentum, Nesterov, Nesterov with decay; Adam plain, with decay
}

TEST_CASE("twenty steps of Adam on a three-layer network end where PyTorch ends", "[golden][optim]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("training_runs");
  const Json& spec = file.cases().at(0);
  REQUIRE(spec.at("op").get<std::string>() == "train.mlp");
  const auto stored = [&](const std::string& key) { return kept(file, spec, key, DType::float64); };
  bool passed = true;
  const auto expect = [&](bool near) {
    CHECK(near);
    passed = passed && near;
  };

  Mlp net;
  const std::vector<std::pair<std::string, nn::Linear*>> layers = {{"0", &net.fc0}, {"2", &net.fc2}, {"4", &net.fc4}};
  for (const auto& [id, layer] : layers) {
    layer->weight.assign(transpose(stored("init." + id + ".weight")));  // torch keeps weights as [out, in]
    layer->bias.assign(stored("init." + id + ".bias"));
  }
  optim::Adam adam(nn::parameters(net), {.learning_rate = spec.at("config").at("lr").get<double>()});
  const Tensor x = stored("x0"), labels = stored("y");
  const std::vector<double> losses = values(stored("loss"));
  for (std::size_t step = 0; step < losses.size(); ++step) {
    INFO("step " << step);
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(net(x), labels));
    expect(std::fabs(number(loss) - losses[step]) <= tolerance::golden64 * losses[step]);
    const Tensors gradients = tape.gradient(loss, adam.parameters());
    if (step == 0)
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::string id = "grad0." + layers[i].first;
        expect(close(gradients.at(2 * i), transpose(stored(id + ".weight")), tolerance::golden64));
        expect(close(gradients.at(2 * i + 1), stored(id + ".bias"), tolerance::golden64));
      }
    adam.apply(gradients);
  }
  for (const auto& [id, layer] : layers) {
    expect(close(layer->weight, transpose(stored("final." + id + ".weight")), tolerance::golden64));
    expect(close(layer->bias, stored("final." + id + ".bias"), tolerance::golden64));
  }
  GoldenCount count;
  count.add(passed);
  for (std::size_t i = 1; i < file.cases().size(); ++i)
    count.leave(file.cases().at(i), "convolutions and gated cells come later");
  count.print("training runs");
}
