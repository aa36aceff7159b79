// 18_saving: what a model has learned goes into files and comes back, into the same model and into others.
// Shows: safetensors files, loading into a model with other names, taking over only a part of a file and reading the
//        report, files for PyTorch, a run that is interrupted and goes on from its last checkpoint.
// Prints: what is in the files, the report of what was left out, the checkpoints in the folder.
// Fails:  unless each model that was loaded answers bit for bit as the one that was saved, and the interrupted run ends
//         with the very weights of the one that was not; or if the network tells the rings apart for less than 95 %.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "samples/sample.hpp"

namespace cs = capstan;
namespace io = capstan::io;
namespace nn = capstan::nn;

/// What of the model is worth taking elsewhere.
struct Encoder {
  nn::Linear first{2, 32}, second{32, 32};
  nn::Dropout drop{{.keep = 0.9}};

  cs::Tensor operator()(const cs::Tensor& x) {  // [batch, 2] -> [batch, 32]
    return drop(cs::tanh(second(cs::tanh(first(x)))));
  }
};

struct Net {
  Encoder encoder;
  nn::Linear head{32, 2};
  cs::Tensor operator()(const cs::Tensor& x) { return head(encoder(x)); }
};

/// The same network by somebody who prefers other names.
struct Renamed {
  Encoder body;
  nn::Linear classifier{32, 2};
  cs::Tensor operator()(const cs::Tensor& x) { return classifier(body(x)); }
};

/// For another task: the same encoder below a head of five classes.
struct FiveClasses {
  Encoder encoder;
  nn::Linear head{32, 5};
};

/// Points of a plane; those far from its middle are of class 1.
struct Points {
  cs::Tensor x, labels;  // [count, 2], [count]
};

namespace {

constexpr std::int64_t kSteps = 400, kBatch = 50, kSaveEvery = 50, kKilledAt = 270;

Points make_points(std::int64_t count, cs::Rng& rng) {
  const cs::Tensor x = cs::normal({count, 2}, rng);
  return {x, cs::cast(cs::sum(cs::square(x), 1) > 1.386, cs::DType::int64)};  // half of them: the median is 2 log(2)
}

auto batches_of(const Points& points) {
  return cs::data::from(points) | cs::data::shuffle(1000) | cs::data::repeat() | cs::data::batch(kBatch);
}
using Batches = decltype(batches_of(Points()));

/// All that a run of training consists of.
struct Run {
  Net net;
  cs::optim::Adam adam{nn::parameters(net), {.learning_rate = 0.01}};
  Batches batches;

  explicit Run(const Points& points) : batches(batches_of(points)) {}
};

/// Trains up to step `end`, from where the last checkpoint in the folder was, if there is one. Returns where it began.
std::int64_t train(Run& run, const std::string& folder, std::int64_t end, sample::Log* log = nullptr) {
  io::CheckpointManager checkpoints(folder, {.keep = 3});
  const io::CheckpointParts parts = {.model = run.net, .optimizer = run.adam, .data = run.batches};
  const std::int64_t begin = checkpoints.restore_latest(parts);
  std::int64_t step = begin;
  cs::Progress progress(end, "training", {.start = begin});
  for (const auto& [x, labels] : run.batches) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::cross_entropy(run.net(x), labels);
    run.adam.apply(tape.gradient(loss, run.adam.parameters()));
    progress.advance();
    if (++step % kSaveEvery == 0) {
      const double loss_value = loss.item<float>();
      checkpoints.save(step, parts, {.metric = loss_value});
      if (log != nullptr) log->scalar("loss", loss_value, step);
    }
    if (step == end) break;
  }
  checkpoints.wait();
  return begin;
}

/// What a model says when it is not training.
template <class Model>
cs::Tensor answers(Model& model, const Points& points) {
  nn::set_training(model, false);
  cs::Tensor logits = model(points.x);
  nn::set_training(model, true);
  return logits;
}

bool same_weights(Net& a, Net& b) {
  const std::vector<cs::NamedTensor> left = nn::named_state(a), right = nn::named_state(b);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!cs::array_equal(left[i].value, right[i].value)) return false;
  return true;
}

// 1. A file, and a fresh model that gets everything from it.
void save_and_load(Net& net, const Points& points, const std::string& path, sample::Checks& checks) {
  io::save_safetensors(path, nn::named_state(net), {{"trained on", "rings"}});
  const io::Weights file = io::read_safetensors(path);
  std::printf("1. the file, %s %s:\n", file.metadata[0].first.c_str(), file.metadata[0].second.c_str());
  for (const cs::NamedTensor& tensor : file.tensors)
    std::printf("   %s %s\n", tensor.name.c_str(), to_string(tensor.value.shape()).c_str());

  Net fresh;
  const cs::Tensor right = answers(net, points);
  checks.expect(!cs::array_equal(answers(fresh, points), right), "a fresh model answers otherwise");
  io::load_safetensors(path, fresh);
  checks.expect(cs::array_equal(answers(fresh, points), right), "with the file's weights it answers as the saved one");
}

// 2. A model whose fields have other names: beginnings of names, the model's first.
void with_other_names(Net& net, const Points& points, const std::string& path, sample::Checks& checks) {
  Renamed renamed;
  io::load_safetensors(path, renamed, {.rename = {{"body.", "encoder."}, {"classifier.", "head."}}});
  checks.expect(cs::array_equal(answers(renamed, points), answers(net, points)), "names may be others");
  std::printf("2. in a model of other names: encoder.first.weight went into body.first.weight, and so on\n");
}

// 3. A model of which only the encoder is in the file.
void take_a_part(Net& net, const std::string& path, sample::Checks& checks) {
  FiveClasses other;
  try {
    io::load_safetensors(path, other);
    checks.expect(false, "what does not fit is an error");
  } catch (const cs::ShapeError& error) {
    std::printf("3. all or nothing, unless told otherwise:\n   %s\n", error.what());
  }
  const cs::Tensor head_before = other.head.weight.copy();
  const io::WeightsReport report = io::load_safetensors(path, other, {.strict = false});
  std::printf("   what is left out with .strict = false:\n%s\n", to_string(report).c_str());
  checks.expect(report.mismatched.size() == 2 && report.missing.empty() && report.unexpected.empty(),
                "the head's weight and bias do not fit, and all else does");
  checks.expect(cs::array_equal(other.encoder.second.weight, net.encoder.second.weight),
                "the encoder is the saved one");
  checks.expect(cs::array_equal(other.head.weight, head_before), "the head is as it was");

  nn::freeze(other, "encoder");  // and only the head learns from here on
  checks.expect(nn::parameters(other).size() == 2, "weight and bias of the head are left to train");

  Encoder alone;  // or the part by itself: its names have no "encoder." in front
  io::load_safetensors(path, alone, {.rename = {{"", "encoder."}}, .strict = false});
  checks.expect(cs::array_equal(alone.first.weight, net.encoder.first.weight), "an encoder without a head");
}

// 4. A file as PyTorch writes and reads them: torch.load(path) gives a state_dict for a module of such names.
void to_pytorch_and_back(Net& net, const Points& points, const std::string& path, sample::Checks& checks) {
  const io::WeightsOptions pytorch = {.rename = {{"encoder.first.", "encoder.0."}, {"encoder.second.", "encoder.2."}},
                                      .layout = io::Layout::pytorch};
  io::save_state_dict(path, io::weights_of(net, pytorch));
  std::printf("4. the file for PyTorch, whose linear layers have [outputs, inputs]:\n");
  for (const cs::NamedTensor& tensor : io::read_state_dict(path))
    std::printf("   %s %s\n", tensor.name.c_str(), to_string(tensor.value.shape()).c_str());

  Net back;
  io::load_weights(path, back, pytorch);
  checks.expect(cs::array_equal(answers(back, points), answers(net, points)), "nothing is lost on the way and back");
}

// 5. A run that is killed goes on from its last checkpoint: weights, the optimizer's averages, the place in the
//    shuffled data and the random numbers of dropout are all as they were.
std::int64_t interrupt(Net& whole, const Points& points, const std::string& folder, std::uint64_t seed,
                       sample::Checks& checks) {
  {
    cs::seed(seed);  // as the run that is not killed began
    Run killed(points);
    train(killed, folder, kKilledAt);
  }
  std::printf("5. the folder of the run that was killed in step %d:\n", static_cast<int>(kKilledAt));
  for (const io::Checkpoint& checkpoint : io::CheckpointManager(folder).checkpoints())
    std::printf("   %s, loss %.4f\n", std::filesystem::path(checkpoint.path).filename().c_str(),
                checkpoint.metric.value_or(0));

  cs::seed(seed + 1);  // another process, which begins with other numbers
  Run resumed(points);
  const std::int64_t begin = train(resumed, folder, kSteps);
  checks.expect(begin == kKilledAt / kSaveEvery * kSaveEvery, "the run goes on from its last checkpoint");
  checks.expect(same_weights(resumed.net, whole), "it ends with the bits of the run that was not interrupted");
  return begin;
}

int run(const sample::Flags& flags) {
  const sample::TemporaryFolder folder;
  cs::Rng rng(flags.seed);
  const Points points = make_points(2000, rng), fresh = make_points(2000, rng);
  sample::Checks checks;
  sample::Log log(flags);

  cs::seed(flags.seed);
  Run whole(points);
  train(whole, folder.path + "/whole", kSteps, &log);
  const cs::Tensor right = cs::equal(cs::argmax(answers(whole.net, fresh), 1), fresh.labels);
  const double accuracy = cs::mean(cs::cast(right, cs::DType::float64)).item<double>();
  checks.expect(accuracy >= 0.95, "the network tells the rings apart");

  const std::string path = folder.path + "/net.safetensors";
  save_and_load(whole.net, fresh, path, checks);
  with_other_names(whole.net, fresh, path, checks);
  take_a_part(whole.net, path, checks);
  to_pytorch_and_back(whole.net, fresh, folder.path + "/net.pt", checks);
  const std::int64_t begin = interrupt(whole.net, points, folder.path + "/killed", flags.seed, checks);

  std::printf("result: %.2f %% right; loaded models answer %s; the run that went on from step %d ends %s\n",
              100 * accuracy, checks.exit_code() == 0 ? "bit for bit alike" : "otherwise", static_cast<int>(begin),
              checks.exit_code() == 0 ? "with the same bits" : "elsewhere");
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  sample::Flags flags;
  const char* const what = "Saves a model and a run of training, and goes on from the files.";
  return sample::run(argc, argv, what, flags, [&] { return run(flags); });
}
