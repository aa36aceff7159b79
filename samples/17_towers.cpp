// 17_towers: a step on many devices: each has a copy of the model and a part of the batch, and gradients are averaged.
// Shows: a thread for each tower with its own device, stream and tape; what parts of different sizes weigh; one update
//        by one optimizer; the same loop without towers beside it, which has to end with the same weights.
// Prints: the devices, the time of both runs, how far apart their weights are, and the share of fresh points that are
//        right. Draws the losses of both and their difference.
// Fails:  if the weights of the two runs differ by more than rounding, or if the model has not learned.
//
// Towers stand on all GPUs there are. Where there is none they are threads that share the CPU, which is one device: a
// rehearsal of the same program. It gains little there, as operations divide their work among the cores by themselves.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <numbers>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;

/// Tells points of three spirals apart.
struct Net {
  cs::nn::Linear fc1{2, 256}, fc2{256, 256}, fc3{256, 3};

  cs::Tensor operator()(const cs::Tensor& points) const {  // [batch, 2] -> [batch, 3]
    return fc3(cs::tanh(fc2(cs::tanh(fc1(points)))));
  }
};

/// Points in the plane, [count, 2], and the spirals that they belong to, int64 [count].
struct Points {
  cs::Tensor at, arms;
};

namespace {

struct Options : sample::Flags {
  std::int64_t steps = 500, batch = 1001, towers = 0;  // an odd batch, of which towers get parts of different sizes
};

struct Run {
  tools::Series loss;
  double seconds = 0;
};

Points spirals(std::int64_t count, cs::Rng& rng) {
  const cs::Tensor arms = cs::randint(0, 3, {count}, rng), radius = cs::uniform({count}, 0.05, 1, rng);
  const cs::Tensor noise = cs::normal({count}, 0, 0.15, rng);
  const cs::Tensor angle = cs::cast(arms, cs::DType::float32) * (2 * std::numbers::pi / 3) + radius * 4 + noise;
  return {cs::stack({radius * cs::cos(angle), radius * cs::sin(angle)}, 1), arms};
}

/// Batch i depends on the seed and i alone: both runs see the same ones.
data::Pipeline<Points> batches_of(const Options& options) {
  return data::generate(options.steps, [batch = options.batch, seed = options.seed](std::int64_t i) {
    cs::Rng rng = cs::Rng(seed).stream(static_cast<std::uint64_t>(i) + 1);
    return spirals(batch, rng);
  });
}

cs::optim::Sgd optimizer_of(Net& net) {
  return cs::optim::Sgd(cs::nn::parameters(net), {.learning_rate = 0.2, .momentum = 0.9});
}

cs::Tensor loss_of(const Net& net, const cs::Tensor& points, const cs::Tensor& arms) {
  return cs::mean(cs::sparse_softmax_cross_entropy(net(points), arms));
}

// --- without towers: what it has to agree with -------------------------------------------------------------------

Run train_alone(Net& net, const Options& options) {
  Run run{{"one device", {}, {}}};
  cs::optim::Sgd sgd = optimizer_of(net);
  auto progress = cs::progress(batches_of(options), "one device");
  for (const auto& [points, arms] : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = loss_of(net, points, arms);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
    run.loss.add(static_cast<double>(sgd.steps()), loss.item<float>());
    progress.set("loss", run.loss.y.back());
  }
  run.seconds = progress.seconds();
  return run;
}

// --- with towers -------------------------------------------------------------------------------------------------

/// Threads that do their parts of a job side by side, again and again. Tapes, streams and the default device belong to
/// a thread, so each tower keeps its own.
class Crew {
 public:
  explicit Crew(const std::vector<cs::Device>& devices)
      : gate_(static_cast<std::ptrdiff_t>(devices.size()) + 1), errors_(devices.size()) {
    std::vector<cs::Stream> streams;  // all of them before the first thread, which would wait for the others
    for (const cs::Device& device : devices) streams.push_back(cs::Stream::create(device));
    for (std::size_t i = 0; i < devices.size(); ++i)
      threads_.emplace_back([this, i, stream = streams[i]] { work(i, stream); });
  }
  ~Crew() {
    job_ = nullptr;
    gate_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Calls job(i) on thread i, for all i at once, and waits. Throws what one of them has thrown.
  void run(const std::function<void(std::size_t)>& job) {
    job_ = &job;
    gate_.arrive_and_wait();  // they begin
    gate_.arrive_and_wait();  // they are done
    for (std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  void work(std::size_t i, const cs::Stream& stream) {
    const cs::DeviceScope here(stream.device());
    const cs::StreamScope on(stream);
    for (;;) {
      gate_.arrive_and_wait();
      if (job_ == nullptr) return;
      try {
        (*job_)(i);
      } catch (...) { errors_[i] = std::current_exception(); }
      gate_.arrive_and_wait();
    }
  }

  std::barrier<> gate_;
  const std::function<void(std::size_t)>* job_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

/// A device's copy of the model, its part of the batch, and what came of it.
struct Tower {
  cs::Device device;
  Net net;
  cs::Tensor points = {}, arms = {}, loss = {};
  std::vector<cs::Tensor> gradients = {};

  void work() {
    cs::GradientTape tape;
    loss = loss_of(net, points.to(device), arms.to(device));
    gradients = tape.gradient(loss, cs::nn::parameters(net));
  }
  /// A loss is the mean over its part: parts count by their sizes.
  double share(std::int64_t batch) const { return static_cast<double>(points.size(0)) / static_cast<double>(batch); }
};

/// On the device of the model that they are for.
std::vector<cs::Tensor> average_gradients(const std::vector<Tower>& towers, std::int64_t batch, cs::Device device) {
  std::vector<cs::Tensor> average;
  for (const Tower& tower : towers) {
    for (std::size_t p = 0; p < tower.gradients.size(); ++p) {
      const cs::Tensor part = tower.gradients[p].to(device) * tower.share(batch);
      if (p < average.size()) average[p] += part;
      else average.push_back(part);
    }
  }
  return average;
}

Run train_in_towers(Net& net, const std::vector<cs::Device>& devices, const Options& options) {
  Run run{{std::to_string(devices.size()) + " towers", {}, {}}};
  std::vector<Tower> towers;
  for (const cs::Device device : devices) {
    towers.push_back({device, net});
    cs::nn::move_to(towers.back().net, device);
  }
  cs::optim::Sgd sgd = optimizer_of(net);
  Crew crew(devices);

  auto progress = cs::progress(batches_of(options), run.loss.name);
  for (const auto& [points, arms] : progress) {
    const auto parts = static_cast<std::int64_t>(towers.size());
    const std::vector<cs::Tensor> some_points = cs::array_split(points, parts),
                                  some_arms = cs::array_split(arms, parts);
    for (std::size_t i = 0; i < towers.size(); ++i) {
      towers[i].points = some_points[i];
      towers[i].arms = some_arms[i];
    }
    crew.run([&](std::size_t i) { towers[i].work(); });

    sgd.apply(average_gradients(towers, options.batch, cs::cpu()));
    for (Tower& tower : towers) cs::nn::copy_parameters(net, tower.net);

    double loss = 0;
    for (const Tower& tower : towers) loss += tower.share(options.batch) * tower.loss.item<float>();
    run.loss.add(static_cast<double>(sgd.steps()), loss);
    progress.set("loss", loss);
  }
  run.seconds = progress.seconds();
  return run;
}

// --- do they agree? ----------------------------------------------------------------------------------------------

/// The largest difference between weights of the same name.
double distance(Net& a, Net& b) {
  const std::vector<cs::Tensor> ours = cs::nn::parameters(a), theirs = cs::nn::parameters(b);
  double largest = 0;
  for (std::size_t p = 0; p < ours.size(); ++p) {
    const double difference = cs::max(cs::abs(ours[p] - theirs[p])).item<float>();
    if (!(difference <= largest)) largest = difference;  // NaN, too
  }
  return largest;
}

double accuracy_of(const Net& net, std::uint64_t seed) {
  cs::Rng rng(seed);
  const Points fresh = spirals(5000, rng);
  cs::metrics::Accuracy accuracy;
  accuracy.update(net(fresh.at), fresh.arms);
  return accuracy.result();
}

void draw(const std::string& path, const Run& alone, const Run& towers) {
  tools::Series difference{"difference", {}, {}};
  for (std::size_t i = 0; i < alone.loss.x.size(); ++i)
    difference.add(alone.loss.x[i], std::abs(alone.loss.y[i] - towers.loss.y[i]));
  tools::Chart chart{"Three spirals: one device, and " + towers.loss.name + " with averaged gradients", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {alone.loss, towers.loss}});
  chart.panels.push_back({.label = "difference of the losses", .log_scale = true, .series = {std::move(difference)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

std::vector<cs::Device> devices_of(const Options& options) {
  const int gpus = cs::cuda::count(),
            towers = options.towers > 0 ? static_cast<int>(options.towers) : std::max(gpus, 2);
  std::vector<cs::Device> devices;
  for (int i = 0; i < towers; ++i) devices.push_back(gpus > 0 ? cs::Device(cs::cuda(i % gpus)) : cs::cpu());
  return devices;
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 200);
  const std::vector<cs::Device> devices = devices_of(options);
  if (options.batch < static_cast<std::int64_t>(devices.size()))
    throw std::runtime_error("--batch must have a point for each tower");
  Net alone_net, towers_net = alone_net;  // a copy: the same weights

  const int threads = cs::threads();
  const Run alone = train_alone(alone_net, options);
  if (devices[0] == cs::cpu()) {
    std::printf("no GPU: %d towers share the CPU\n", static_cast<int>(devices.size()));
    cs::set_threads(std::max(1, threads / static_cast<int>(devices.size())));  // together no more than before
  }
  const Run towers = train_in_towers(towers_net, devices, options);
  cs::set_threads(threads);

  sample::Log log(options);
  for (std::size_t i = 0; i < alone.loss.x.size(); ++i) {
    log.scalar("loss/one device", alone.loss.y[i], static_cast<std::int64_t>(i) + 1);
    log.scalar("loss/towers", towers.loss.y[i], static_cast<std::int64_t>(i) + 1);
  }
  if (!options.picture.empty()) draw(options.picture, alone, towers);

  const double apart = distance(alone_net, towers_net), first = std::abs(alone.loss.y[0] - towers.loss.y[0]);
  const double accuracy = accuracy_of(alone_net, options.seed + 1);
  const double towers_accuracy = accuracy_of(towers_net, options.seed + 1);
  sample::Checks checks;
  checks.expect(first < 1e-6, "the first losses are the same but for rounding");
  checks.expect(apart < 1e-3, "so are the weights in the end");
  checks.expect(accuracy >= (options.quick ? 0.8 : 0.98), "the model has learned");
  checks.expect(std::abs(towers_accuracy - accuracy) <= 0.005, "both answer alike");
  std::printf(
      "result: weights at most %.1e apart; right %.2f %% and %.2f %%; %.2f s on one device, %.2f s in %d towers\n",
      apart, 100 * accuracy, 100 * towers_accuracy, alone.seconds, towers.seconds, static_cast<int>(devices.size()));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Trains one model in towers on several devices, with averaged gradients.", options,
      [&](sample::CommandLine& line) {
        line.add("--towers", options.towers, "0: one for each GPU, else 2", 0, 32);
        line.add("--steps", options.steps, "training steps", 1);
        line.add("--batch", options.batch, "points a step, of all towers together", 1);
        line.add_picture("towers.svg");
      },
      [&] { return run(options); });
}
