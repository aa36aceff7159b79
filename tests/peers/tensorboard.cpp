// The event files of scripts/check-peers. tensorboard.py beside it knows the same content.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/peers/peers.hpp"

namespace peers {
namespace {

using capstan::DType;
using capstan::Tensor;
using capstan::io::SummaryKind;
using capstan::io::SummaryValue;
using capstan::io::SummaryWriter;

// --- the content ---------------------------------------------------------------------------------------------------

constexpr int kScalars = 300;
const char* const kText =
    "# Gr\xC3\xB6\xC3\x9F"
    "en\n\n| a | b |\n|---|---|\n| 1 | 2 |";

double scalar(int i) { return i * 0.25 - 10; }
double number(std::int64_t i) { return static_cast<double>(i * 7 % 23 - 11); }

/// Between -11 and 11 times the scale.
Tensor numbers(std::int64_t count, double scale) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(number(i) * scale);
  return capstan::from_vector(values);
}

Tensor pixels(const capstan::Shape& shape) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<std::uint8_t>(i * 7 % 256));
  return capstan::from_span<std::uint8_t>(values, shape);
}

// --- writing -------------------------------------------------------------------------------------------------------

void write_scalars(SummaryWriter& log) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < kScalars; ++i) log.scalar("train/loss", scalar(i), 10 * i);
  std::int64_t step = 0;
  for (const double special : {nan, infinity, -infinity, -0.0}) log.scalar("special", special, step++);
  log.scalar("tensor", capstan::full({1}, 7, {.dtype = DType::int64}), 5);
}

void write_media(SummaryWriter& log) {
  for (std::int64_t step = 0; step < 3; ++step)
    log.histogram("h", numbers(1000, 0.25) + static_cast<double>(step), step, {.bins = 10});
  log.histogram("constant", capstan::full({4}, 2.5), 0);
  log.histogram("nothing", capstan::zeros({0}), 0);
  log.image("grey", pixels({5, 7}), 0);
  log.image("rgb", pixels({3, 4, 6}), 0);
  log.image("rgba", pixels({4, 4, 6}), 0);
  log.image("grid", pixels({5, 1, 2, 3}), 0);
  log.audio("mono", numbers(200, 1.0 / 16), 0, {.rate = 8000});
  log.audio("stereo", capstan::reshape(numbers(200, 1.0 / 16), {2, 100}), 0);
  log.text("notes", kText, 3);
}

void write_graph(SummaryWriter& log) {
  const capstan::Parameter weight(capstan::ones({3, 2})), bias(capstan::zeros({2}));
  const Tensor x = capstan::ones({5, 3});
  capstan::GradientTape tape;
  tape.watch(x);
  const Tensor h = capstan::matmul(x, weight);
  const Tensor y = capstan::tanh(h + bias);
  const Tensor loss = capstan::sum(y);
  const std::vector<capstan::NamedTensor> names = {{"body.fc.weight", weight}, {"body.fc.bias", bias}};
  log.graph(tape, names);
}

void write_hparams(SummaryWriter& log) {
  log.hparams({{"learning_rate", 1e-3}, {"optimizer", "adam"}, {"bias", true}, {"layers", 3}}, {"loss", "accuracy"});
  log.scalar("loss", 0.5, 1);
  log.scalar("accuracy", 0.75, 1);
}

// --- reading -------------------------------------------------------------------------------------------------------

/// All values under a tag, and their steps.
struct Series {
  std::vector<SummaryValue> values;
  std::vector<std::int64_t> steps;
};
using Run = std::map<std::string, Series>;

Run read_run(const std::string& folder) {
  Run run;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths)
    for (const capstan::io::Event& event : capstan::io::read_events(path))
      for (const SummaryValue& value : event.values) {
        run[value.tag].values.push_back(value);
        run[value.tag].steps.push_back(event.step);
      }
  return run;
}

const Series& series(const Run& run, const std::string& tag, const std::string& file, std::size_t count,
                     SummaryKind kind) {
  const auto found = run.find(tag);
  require(found != run.end(), file, "there is no " + tag);
  require(found->second.values.size() == count, file,
          tag + " has " + std::to_string(found->second.values.size()) + " values");
  for (const SummaryValue& value : found->second.values) require(value.kind == kind, file, tag + " is of another kind");
  return found->second;
}

void check_scalars(const Run& run, const std::string& file) {
  const Series& loss = series(run, "train/loss", file, kScalars, SummaryKind::scalar);
  for (int i = 0; i < kScalars; ++i) {
    const auto place = static_cast<std::size_t>(i);
    require(loss.values[place].scalar == scalar(i) && loss.steps[place] == 10 * i, file,
            "train/loss differs at " + std::to_string(i));
  }
  const Series& special = series(run, "special", file, 4, SummaryKind::scalar);
  const double infinity = std::numeric_limits<double>::infinity();
  require(std::isnan(special.values[0].scalar) && special.values[1].scalar == infinity &&
              special.values[2].scalar == -infinity && special.values[3].scalar == 0,  // TensorFlow drops the sign
          file, "special values differ");
}

/// Bins may be cut in any way, but they must count all elements between the smallest and the largest.
void check_histogram(const Run& run, const std::string& file) {
  const Series& histograms = series(run, "h", file, 3, SummaryKind::histogram);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<std::array<double, 3>>& bins = histograms.values[i].histogram;
    double count = 0;
    for (const std::array<double, 3>& bin : bins) count += bin[2];
    const double shift = static_cast<double>(i);
    require(count == 1000 && !bins.empty() && bins.front()[0] == -2.75 + shift && bins.back()[1] == 2.75 + shift, file,
            "the histogram differs at " + std::to_string(i));
  }
}

void check_media(const Run& run, const std::string& file, const std::string& text_tag) {
  const SummaryValue& image = series(run, "rgb", file, 1, SummaryKind::image).values[0];
  require(image.width == 6 && image.height == 4 && image.bytes.size() == 1, file, "the picture's size differs");
  const std::vector<std::uint8_t> png(image.bytes[0].begin(), image.bytes[0].end());
  const Tensor decoded = capstan::io::decode_image(png), expected = pixels({3, 4, 6});
  require(
      decoded.shape() == expected.shape() && decoded.to_vector<std::uint8_t>() == expected.to_vector<std::uint8_t>(),
      file, "the picture differs");
  const SummaryValue& text = series(run, text_tag, file, 1, SummaryKind::text).values[0];
  require(text.bytes.size() == 1 && text.bytes[0] == kText, file, "the text differs");
}

void read_theirs(const std::string& folder, const std::string& name, const std::string& text_tag, bool audio) {
  const std::string file = "tensorboard/" + name;
  if (!std::filesystem::exists(folder + "/" + file)) {
    say(file, "is not there");
    return;
  }
  const Run run = read_run(folder + "/" + file);
  check_scalars(run, file);
  check_histogram(run, file);
  check_media(run, file, text_tag);
  if (audio)
    require(series(run, "mono", file, 1, SummaryKind::audio).values[0].bytes.at(0).rfind("RIFF", 0) == 0, file,
            "the sound differs");
  say(file, "scalars, histograms, pictures and texts are equal");
}

}  // namespace

void write_tensorboard_files(const std::string& folder) {
  const std::pair<const char*, void (*)(SummaryWriter&)> runs[] = {
      {"scalars", &write_scalars}, {"media", &write_media}, {"graph", &write_graph}, {"hparams", &write_hparams}};
  for (const auto& [name, write] : runs) {
    SummaryWriter log(folder + "/tensorboard/" + name);
    write(log);
    log.close();
    say(std::string("tensorboard/") + name, "is written");
  }
}

void read_tensorboard_files(const std::string& folder) {
  read_theirs(folder, "torch", "notes/text_summary", false);
  read_theirs(folder, "tensorflow", "notes", true);
}

}  // namespace peers
