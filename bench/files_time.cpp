// capstan_files FOLDER MEGABYTES ROUNDS: times weights, checkpoints and TensorBoard's scalars, each by turns with what it
// is held against. The first round does not count. Prints one line of JSON: milliseconds, medians of the rounds.
#include <capstan/capstan.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace cs = capstan;

namespace {

struct Model {
  std::vector<cs::Parameter> layers;
};

/// 32 layers of equal size.
Model model_of(std::int64_t megabytes) {
  Model model;
  for (int i = 0; i < 32; ++i) model.layers.emplace_back(cs::ones({megabytes * 1'000'000 / 4 / 32}));
  return model;
}

template <class F>
double milliseconds(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// What a program without any library does: a buffer, read and written.
void copy_file(const std::string& from, const std::string& to) {
  std::vector<char> buffer(1 << 20);
  std::FILE* const in = std::fopen(from.c_str(), "rb");
  std::FILE* const out = std::fopen(to.c_str(), "wb");
  if (in == nullptr || out == nullptr) throw cs::IoError("copy_file: " + from + " or " + to + " cannot be opened.");
  for (std::size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), in)) > 0;)
    if (std::fwrite(buffer.data(), 1, count, out) != count) throw cs::IoError("copy_file: " + to + " is not written.");
  std::fclose(in);
  if (std::fclose(out) != 0) throw cs::IoError("copy_file: " + to + " is not written.");
}

class Figures {
 public:
  template <class F>
  void time(const std::string& name, int round, F&& work) {
    if (to_disk_) sync();  // what others have left for the disk is none of its business
    const double took = milliseconds(work);
    if (round == 0) return;
    for (auto& [known, times] : figures_)
      if (known == name) return times.push_back(took);
    figures_.push_back({name, {took}});
  }
  /// Whether what follows writes large files.
  void set_to_disk(bool to_disk) { to_disk_ = to_disk; }
  void print() {
    std::string text;
    for (auto& [name, times] : figures_) {
      std::sort(times.begin(), times.end());
      text += (text.empty() ? "{\"" : ", \"") + name + "\": " + std::to_string(times[times.size() / 2]);
    }
    std::printf("%s}\n", text.c_str());
  }

 private:
  std::vector<std::pair<std::string, std::vector<double>>> figures_;
  bool to_disk_ = false;
};

void weights(Figures& figures, const std::string& folder, std::int64_t megabytes, int rounds) {
  Model model = model_of(megabytes), other = model_of(megabytes);
  const std::string path = folder + "/weights.safetensors", copy = folder + "/copy.safetensors",
                    saved = folder + "/saved.safetensors";
  cs::io::save_safetensors(path, cs::nn::named_parameters(model));
  figures.set_to_disk(true);
  // Both make a new file, and take turns in being first: memory that nobody has used for a while costs more.
  for (int round = 0; round <= 2 * rounds; ++round) {
    std::filesystem::remove(copy);
    std::filesystem::remove(saved);
    const auto plain = [&] { figures.time("file_copy", round, [&] { copy_file(path, copy); }); };
    if (round % 2 == 0) plain();
    figures.time("save", round, [&] { cs::io::save_safetensors(saved, cs::nn::named_parameters(model)); });
    if (round % 2 == 1) plain();
    figures.time("load", round, [&] { cs::io::load_safetensors(path, other); });
  }
  figures.set_to_disk(false);
  std::filesystem::remove(path);
  std::filesystem::remove(copy);
  std::filesystem::remove(saved);
}

void checkpoints(Figures& figures, const std::string& folder, std::int64_t megabytes, int rounds) {
  Model model = model_of(megabytes / 4);
  cs::io::CheckpointManager manager(folder + "/checkpoints", {.keep = 1});
  for (int round = 0; round <= rounds; ++round) {
    std::vector<cs::Tensor> copies;
    figures.time("copy_of_state", round, [&] {
      for (const cs::Parameter& layer : model.layers) copies.push_back(layer.copy());
    });
    copies.clear();
    figures.time("checkpoint_stall", round, [&] { manager.save(round, {.model = model}); });
    manager.wait();
  }
  std::filesystem::remove_all(folder + "/checkpoints");
}

/// A loop of about 10,000 steps a second, with a scalar in each step and without.
void scalars(Figures& figures, const std::string& folder, int rounds) {
  constexpr int kSteps = 1000;
  const cs::Tensor a = cs::ones({64, 64}), x = cs::ones({64, 64});
  int repeats = 1;
  const auto step = [&] {
    cs::Tensor y = x;
    for (int i = 0; i < repeats; ++i) y = cs::tanh(cs::matmul(a, y));
    return y;
  };
  while (milliseconds([&] {
           for (int i = 0; i < 100; ++i) step();
         }) < 10)
    ++repeats;
  cs::io::SummaryWriter log(folder + "/run");
  std::int64_t count = 0;
  for (int round = 0; round <= 10 * rounds; ++round) {
    figures.time("thousand_steps", round, [&] {
      for (int i = 0; i < kSteps; ++i) step();
    });
    figures.time("thousand_steps_with_scalars", round, [&] {
      for (int i = 0; i < kSteps; ++i) {
        step();
        log.scalar("training/loss", 0.5 * i, count++);
      }
    });
    figures.time("thousand_scalars", round, [&] {
      for (int i = 0; i < kSteps; ++i) log.scalar("training/loss", 0.5 * i, count++);
    });
  }
  log.close();
  std::filesystem::remove_all(folder + "/run");
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t megabytes = argc == 4 ? std::atoll(argv[2]) : 0;
  const int rounds = argc == 4 ? std::atoi(argv[3]) : 0;
  if (megabytes < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: capstan_files FOLDER MEGABYTES ROUNDS\n");
    return 2;
  }
  try {
    Figures figures;
    std::filesystem::create_directories(argv[1]);
    weights(figures, argv[1], megabytes, rounds);
    checkpoints(figures, argv[1], megabytes, rounds);
    scalars(figures, argv[1], rounds);
    figures.print();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "capstan_files: %s\n", error.what());
    return 1;
  }
}
