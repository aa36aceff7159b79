// Whole training runs of twenty steps against PyTorch: starts, first gradients, losses, and where they end.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// A training run of the file: what it should arrive at, and whether it does.
struct Training {
  const GoldenFile& file;
  const Json& spec;
  bool passed = true;

  Tensor stored(const std::string& key) const {
    return file.tensor(spec.at("tensors").at(key).get<std::string>(), DType::float64);
  }
  void expect(bool near) {
    CHECK(near);
    passed = passed && near;
  }
  /// `scale`: what sizes near that are, for values that may be zero but for rounding.
  void expect(const Tensor& actual, const std::string& key, bool turned, double scale = 0) {
    INFO(key);
    const Tensor expected = turned ? transpose(stored(key)) : stored(key);
    const bool tiny =
        actual.shape() == expected.shape() && number(max(abs(actual - expected))) <= tolerance::golden64 * scale;
    expect(tiny || close(actual, expected, tolerance::golden64));
  }
};

/// A layer's parameters under PyTorch's name; `turned` if it keeps the weight as [out, in].
struct Layer {
  const char* id;
  Parameter *weight, *bias;
  bool turned;
};

/// As many steps as there are losses, from PyTorch's start to its end.
template <class Net>
void train(Training& run, Net& net, const std::vector<Layer>& layers, optim::Optimizer& optimizer) {
  for (const Layer& layer : layers) {
    const Tensor weight = run.stored("init." + std::string(layer.id) + ".weight");
    layer.weight->assign(layer.turned ? transpose(weight) : weight);
    layer.bias->assign(run.stored("init." + std::string(layer.id) + ".bias"));
  }
  const Tensor x = run.stored("x0"), labels = run.stored("y");
  const std::vector<double> losses = values(run.stored("loss"));
  for (std::size_t step = 0; step < losses.size(); ++step) {
    INFO("step " << step);
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(net(x), labels));
    run.expect(std::fabs(number(loss) - losses[step]) <= tolerance::golden64 * losses[step]);
    const Tensors gradients = tape.gradient(loss, optimizer.parameters());
    double scale = 0;  // in front of a batch norm the gradient for a bias is zero
    for (const Tensor& gradient : gradients) scale = std::fmax(scale, number(max(abs(gradient))));
    for (std::size_t i = 0; step == 0 && i < layers.size(); ++i) {
      const std::string id = "grad0." + std::string(layers[i].id);
      run.expect(gradients.at(2 * i), id + ".weight", layers[i].turned, scale);
      run.expect(gradients.at(2 * i + 1), id + ".bias", false, scale);
    }
    optimizer.apply(gradients);
  }
  for (const Layer& layer : layers) {
    run.expect(*layer.weight, "final." + std::string(layer.id) + ".weight", layer.turned);
    run.expect(*layer.bias, "final." + std::string(layer.id) + ".bias", false);
  }
}

struct Mlp {
  nn::Linear fc0{6, 16, {.dtype = DType::float64}}, fc2{16, 16, {.dtype = DType::float64}},
      fc4{16, 4, {.dtype = DType::float64}};
  Tensor operator()(const Tensor& x) { return fc4(relu(fc2(tanh(fc0(x))))); }
};

void run_mlp(Training& run) {
  Mlp net;
  optim::Adam adam(nn::parameters(net), {.learning_rate = run.spec.at("config").at("lr").get<double>()});
  train(run, net,
        {{"0", &net.fc0.weight, &net.fc0.bias, true},
         {"2", &net.fc2.weight, &net.fc2.bias, true},
         {"4", &net.fc4.weight, &net.fc4.bias, true}},
        adam);
}

struct Cnn {
  nn::Conv2d conv0{{.in = 2, .out = 4, .kernel = 3, .padding = 1, .dtype = DType::float64}};
  nn::BatchNorm2d norm1{{.channels = 4, .dtype = DType::float64}};
  nn::Conv2d conv4{{.in = 4, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .dtype = DType::float64}};
  nn::Linear fc8{6, 3, {.dtype = DType::float64}};
  Tensor operator()(const Tensor& x) {
    const Tensor h = max_pool2d(relu(norm1(conv0(x))), 2);
    return fc8(mean(gelu(conv4(h)), {2, 3}));  // the mean of each channel: an adaptive pool to one place
  }
};

void run_cnn(Training& run) {
  Cnn net;
  const Json& config = run.spec.at("config");
  optim::Sgd sgd(nn::parameters(net), {.learning_rate = config.at("lr").get<double>(),
                                       .momentum = config.at("momentum").get<double>(),
                                       .nesterov = config.at("nesterov").get<bool>()});
  net.norm1.running_mean.assign(run.stored("buf0.1.running_mean"));
  net.norm1.running_var.assign(run.stored("buf0.1.running_var"));
  train(run, net,
        {{"0", &net.conv0.weight, &net.conv0.bias, false},
         {"1", &net.norm1.weight, &net.norm1.bias, false},
         {"4", &net.conv4.weight, &net.conv4.bias, false},
         {"8", &net.fc8.weight, &net.fc8.bias, true}},
        sgd);
  run.expect(net.norm1.running_mean, "buf.1.running_mean", false);
  run.expect(net.norm1.running_var, "buf.1.running_var", false);
}

// Recurrent networks, whose two biases PyTorch trains by themselves: parameters in its layouts, around our operations.

/// Parameters under PyTorch's names and in its layouts.
struct Named {
  std::vector<std::pair<std::string, Parameter>> list;

  explicit Named(const Training& run) {
    const std::string front = "init.";
    for (const auto& [key, unused] : run.spec.at("tensors").items())
      if (key.rfind(front, 0) == 0) list.emplace_back(key.substr(front.size()), Parameter(run.stored(key)));
  }
  const Tensor& operator[](const std::string& name) const {
    for (const auto& [own, parameter] : list)
      if (own == name) return parameter;
    throw std::runtime_error("no parameter " + name);
  }
  Tensors parameters() const {
    Tensors all;
    for (const auto& entry : list) all.push_back(entry.second);
    return all;
  }
  Tensor linear_of(const Tensor& x, const std::string& weight, const std::string& bias) const {
    return linear(x, transpose((*this)[weight]), (*this)[bias]);
  }
};

/// One layer and direction of torch.nn.LSTM: x [batch, time, in] to [batch, time, hidden].
Tensor lstm_layer(const Named& net, const Tensor& x, const std::string& suffix, bool reverse) {
  const Tensor& wh = net["rnn.weight_hh" + suffix];
  const Tensor start = zeros({x.size(0), wh.size(1)}, {DType::float64});
  const Tensor b = net["rnn.bias_ih" + suffix] + net["rnn.bias_hh" + suffix];
  return lstm(x, start, start, {transpose(net["rnn.weight_ih" + suffix]), transpose(wh), b}, {.reverse = reverse})
      .outputs;
}

/// The last state of torch.nn.GRU with one layer.
Tensor gru_end(const Named& net, const Tensor& x) {
  const Tensor& wh = net["rnn.weight_hh_l0"];
  const Tensor start = zeros({x.size(0), wh.size(1)}, {DType::float64});
  const Tensors of_x = split(net["rnn.bias_ih_l0"], 3), of_h = split(net["rnn.bias_hh_l0"], 3);
  const Tensor b = concat({of_x[0] + of_h[0], of_x[1] + of_h[1], of_x[2]});
  return gru(x, start, {transpose(net["rnn.weight_ih_l0"]), transpose(wh), b, of_h[2]}).last;
}

/// `loss` of the parameters, step by step.
template <class Loss>
void train_named(Training& run, Named& net, optim::Optimizer& optimizer, Loss loss_of) {
  const std::vector<double> losses = values(run.stored("loss"));
  for (std::size_t step = 0; step < losses.size(); ++step) {
    INFO("step " << step);
    GradientTape tape;
    const Tensor loss = loss_of();
    run.expect(std::fabs(number(loss) - losses[step]) <= tolerance::golden64 * losses[step]);
    const Tensors gradients = tape.gradient(loss, optimizer.parameters());
    for (std::size_t i = 0; step == 0 && i < gradients.size(); ++i)
      run.expect(gradients[i], "grad0." + net.list[i].first, false);
    optimizer.apply(gradients);
  }
  for (const auto& [name, parameter] : net.list) run.expect(parameter, "final." + name, false);
}

void run_language_model(Training& run) {
  Named net(run);
  optim::AdamW adam(net.parameters(), {.learning_rate = run.spec.at("config").at("lr").get<double>()});
  const Tensor words = run.stored("x0"), next = run.stored("y");
  train_named(run, net, adam, [&] {
    Tensor h = embedding(words, net["emb.weight"]);
    for (const std::string layer : {"_l0", "_l1"})
      h = concat({lstm_layer(net, h, layer, false), lstm_layer(net, h, layer + "_reverse", true)}, -1);
    return mean(sparse_softmax_cross_entropy(net.linear_of(h, "out.weight", "out.bias"), next));
  });
}

void run_regression(Training& run) {
  Named net(run);
  optim::RmsProp rms(net.parameters(), {.learning_rate = run.spec.at("config").at("lr").get<double>()});
  const Tensor x = run.stored("x0"), y = run.stored("y");
  train_named(run, net, rms, [&] {
    const Tensor last = gru_end(net, x);
    return mse_loss(net.linear_of(layer_norm(last, 1, net["ln.weight"], net["ln.bias"]), "out.weight", "out.bias"), y);
  });
}

}  // namespace

TEST_CASE("twenty steps of a network end where PyTorch ends", "[golden][optim]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("training_runs");
  const std::map<std::string, void (*)(Training&)> runs = {{"train.mlp", run_mlp},
                                                           {"train.cnn", run_cnn},
                                                           {"train.lstm_lm", run_language_model},
                                                           {"train.gru_reg", run_regression}};
  GoldenCount count;
  for (const Json& spec : file.cases()) {
    const std::string op = spec.at("op").get<std::string>();
    INFO(op);
    REQUIRE(runs.count(op) == 1u);
    Training run{file, spec};
    runs.at(op)(run);
    count.add(run.passed);
  }
  count.print("training runs");
  REQUIRE(count.ran() >= 4);
}
