// Checkpoints: what parts come back as, runs that go on from every step, and which files a folder keeps.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/checkpoint_training.hpp"
#include "tests/files.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

namespace fs = std::filesystem;
using io::CheckpointManager;
using Steps = std::vector<std::int64_t>;

/// Keeps tensors of its own.
struct OwnTensors {
  std::vector<float> values;
  std::vector<NamedTensor> state(Where where) const {
    return {{"b", from_vector(values, where)}, {"a", Tensor(static_cast<std::int64_t>(values.size()))}};
  }
  void load_state(std::span<const NamedTensor> tensors, Where where) {
    REQUIRE(tensors.size() == 2);
    for (const NamedTensor& tensor : tensors)
      if (tensor.name == "b") values = tensor.value.to_vector<float>(where);
  }
};
/// Keeps a text of its own.
struct OwnText {
  std::string text;
  std::string state() const { return "<" + text + ">"; }
  void restore(std::string_view state, Where) { text = std::string(state.substr(1, state.size() - 2)); }
};

static_assert(io::detail::HasTensors<optim::Adam> && io::detail::HasTensors<optim::Lbfgs>);
static_assert(io::detail::HasTensors<optim::Ema> && io::detail::HasTensors<optim::ReduceOnPlateau>);
static_assert(io::detail::HasTensors<optim::LossScaler> && io::detail::HasTensors<optim::GradientAccumulator>);
static_assert(io::detail::HasTensors<metrics::Mean> && !io::detail::HasText<metrics::Mean>);
static_assert(io::detail::HasText<data::Pipeline<Tensor>> && !io::detail::HasTensors<data::Pipeline<Tensor>>);
static_assert(!io::detail::HasText<TrainingNet> && !io::detail::HasTensors<TrainingNet> &&
              !io::detail::kIsText<Tensor>);
static_assert(!io::detail::HasText<Rng> && io::detail::kIsText<Rng> && io::detail::kIsText<bool>);

Steps steps_in(const CheckpointManager& checkpoints) {
  Steps steps;
  for (const io::Checkpoint& checkpoint : checkpoints.checkpoints()) steps.push_back(checkpoint.step);
  return steps;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Saves the step itself as the only part, with metrics, and tells which steps are left.
Steps left_after(const std::vector<std::optional<double>>& metrics, io::CheckpointOptions options) {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"), options);
  std::int64_t step = 0;
  for (const std::optional<double>& metric : metrics) {
    ++step;
    checkpoints.save(step, {.more = {{"step", step}}}, {.metric = metric});
  }
  checkpoints.wait();
  return steps_in(checkpoints);
}

}  // namespace

// --- parts -----------------------------------------------------------------------------------------------------

TEST_CASE("numbers and texts come back to the last bit", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  const auto nan_bits = std::uint64_t{0xFFF8000000000123};
  double nan = std::bit_cast<double>(nan_bits), zero = -0.0, tiny = 0x1p-1074, third = 1.0 / 3;
  float single = 0.1f;
  bool yes = true;
  signed char small = -128;
  std::uint8_t byte = 255;
  std::int64_t least = INT64_MIN;
  std::uint64_t most = UINT64_MAX;
  std::string text = std::string("a \"quoted\"\n\\text\xC3\xA4 with ") + '\0' + " zero", empty;
  Rng random(42);
  random.take(17);
  const io::CheckpointParts parts = {.random = random,
                                     .more = {{"nan", nan},
                                              {"zero", zero},
                                              {"tiny", tiny},
                                              {"third", third},
                                              {"single", single},
                                              {"yes", yes},
                                              {"small", small},
                                              {"byte", byte},
                                              {"least", least},
                                              {"most", most},
                                              {"text", text},
                                              {"empty", empty}}};
  const std::string expected_text = text;
  const RngState expected_random = random.state();
  checkpoints.save(3, parts);
  nan = zero = tiny = third = 7;
  single = 7;
  yes = false;
  small = 7, byte = 7, least = 7, most = 7;
  text = "other", empty = "other";
  random = Rng(1);
  CHECK(checkpoints.restore_latest(parts) == 3);
  CHECK(std::bit_cast<std::uint64_t>(nan) == nan_bits);
  CHECK(std::bit_cast<std::uint64_t>(zero) == std::uint64_t{1} << 63);
  CHECK(tiny == 0x1p-1074);
  CHECK(third == 1.0 / 3);
  CHECK(single == 0.1f);
  CHECK(yes);
  CHECK(small == -128);
  CHECK(byte == 255);
  CHECK(least == INT64_MIN);
  CHECK(most == UINT64_MAX);
  CHECK(text == expected_text);
  CHECK(empty == "");
  CHECK(random.state() == expected_random);
}

TEST_CASE("a bool comes back from 0 and 1 alone", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  int number = 2;
  bool yes = false;
  checkpoints.save(1, {.more = {{"yes", number}}});
  const std::string text = message_of<Error>([&] { checkpoints.restore_latest({.more = {{"yes", yes}}}); });
  CHECK(text.find("'2' is no integer from 0 to 1.") != std::string::npos);
  CHECK(!yes);
  number = 1;
  checkpoints.save(2, {.more = {{"yes", number}}});
  checkpoints.restore_latest({.more = {{"yes", yes}}});
  CHECK(yes);
}

TEST_CASE("tensors come back to the last bit, in all types", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  const std::vector<DType> types = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                                    DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};
  std::vector<Tensor> tensors;
  for (const DType dtype : types) tensors.push_back(random_in(0, 2, {2, 3}, dtype, 81));
  tensors.push_back(strided(random_in(-1, 1, {4, 5}, DType::float32, 82)));
  tensors.push_back(zeros({0, 3}));
  tensors.push_back(Tensor(2.5f));
  tensors.push_back(Tensor());
  std::vector<Tensor> expected;
  for (const Tensor& x : tensors) expected.push_back(x.defined() ? x.copy() : Tensor());
  io::CheckpointParts parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) parts.more.emplace_back("t" + std::to_string(i), tensors[i]);
  checkpoints.save(1, parts);
  for (Tensor& x : tensors) x = zeros({1});
  checkpoints.restore_latest(parts);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    INFO("tensor " << i);
    REQUIRE(tensors[i].defined() == expected[i].defined());
    if (expected[i].defined()) CHECK(same(tensors[i], expected[i]));
  }
}

TEST_CASE("models come back in place, so that optimizers stay connected", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  nn::Linear model(3, 2);
  optim::Sgd sgd(nn::parameters(model), {.learning_rate = 0.5, .momentum = 0.9});
  const std::vector<Tensor> gradients = {ones({3, 2}), ones({2})};
  sgd.apply(gradients);
  const Tensor weight = model.weight.copy(), bias = model.bias.copy(), handle = model.weight;
  const io::CheckpointParts parts = {.model = model, .optimizer = sgd};
  checkpoints.save(1, parts);
  sgd.apply(gradients);
  const Tensor second = model.weight.copy();
  CHECK(checkpoints.restore_latest(parts) == 1);
  CHECK(same(model.weight, weight));
  CHECK(same(model.bias, bias));
  CHECK(model.weight.is_same(handle));
  CHECK(sgd.steps() == 1);
  sgd.apply(gradients);
  CHECK(same(model.weight, second));
}

TEST_CASE("a checkpoint has the values of the moment of its save", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  for (const bool background : {true, false}) {
    CheckpointManager checkpoints(folder.path(background ? "a" : "b"), {.background = background});
    nn::Linear model(300, 300);
    const Tensor weight = model.weight.copy();
    checkpoints.save(1, {.model = model});
    model.weight.fill(0);  // while it is written
    CHECK(checkpoints.restore_latest({.model = model}) == 1);
    CHECK(same(model.weight, weight));
  }
}

TEST_CASE("whatever has state functions is a part", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  OwnTensors tensors{{1, 2, 3}};
  OwnText text{"where it stands"};
  metrics::Mean mean;
  mean.update(3);
  auto numbers = data::range(5) | data::shuffle(5);
  const io::CheckpointParts parts = {.data = numbers,
                                     .more = {{"tensors", tensors}, {"own text", text}, {"mean", mean}}};
  const std::string place = numbers.state();
  checkpoints.save(1, parts);
  tensors.values = {9};
  text.text = "elsewhere";
  mean.update(5);
  for ([[maybe_unused]] const std::int64_t number : numbers) {}
  checkpoints.restore_latest(parts);
  CHECK(tensors.values == std::vector<float>{1, 2, 3});
  CHECK(text.text == "where it stands");
  CHECK(mean.result() == 3);
  CHECK(numbers.state() == place);
}

TEST_CASE("the default generator always comes back", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  seed(5);
  default_rng().take(3);
  const RngState before = default_rng().state();
  checkpoints.save(1, {});
  CHECK(default_rng().state() == before);  // saving draws nothing
  seed(6);
  CHECK(checkpoints.restore_latest({}) == 1);
  CHECK(default_rng().state() == before);
}

TEST_CASE("tapes see nothing of a save and a restore", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  nn::Linear model(2, 2);
  GradientTape tape;
  tape.watch(model.weight);
  checkpoints.save(1, {.model = model});
  checkpoints.restore_latest({.model = model});
  CHECK(tape.size() == 0);
}

TEST_CASE("parts that are not asked for are left alone", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  std::int64_t a = 1, b = 2;
  checkpoints.save(1, {.more = {{"a", a}, {"b", b}}});
  a = b = 0;
  CHECK(checkpoints.restore_latest({.more = {{"b", b}}}) == 1);
  CHECK(a == 0);
  CHECK(b == 2);
}

TEST_CASE("a checkpoint is a safetensors file with the names that it promises", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  nn::Linear model(3, 2);
  Tensor carried = ones({4});
  std::string note = "good";
  checkpoints.save(1200, {.model = model, .more = {{"carried", carried}, {"note", note}}}, {.metric = 0.25});
  checkpoints.wait();
  const std::string path = folder.path("run/checkpoint-000001-step-1200.safetensors");
  const io::Weights file = io::read_safetensors(path);
  std::map<std::string, Tensor> tensors;
  for (const NamedTensor& tensor : file.tensors) tensors[tensor.name] = tensor.value;
  CHECK(tensors.size() == 3);
  CHECK(same(tensors["model.weight"], model.weight));
  CHECK(same(tensors["model.bias"], model.bias));
  CHECK(same(tensors["carried"], carried));
  std::map<std::string, std::string> metadata(file.metadata.begin(), file.metadata.end());
  CHECK(metadata.at("capstan.checksum").size() == 8);
  metadata.erase("capstan.checksum");
  CHECK(metadata == std::map<std::string, std::string>{{"capstan.checkpoint", "1"},
                                                       {"capstan.number", "1"},
                                                       {"capstan.step", "1200"},
                                                       {"capstan.metric", "0.25"},
                                                       {"tensors.model", "2"},
                                                       {"tensors.carried", "1"},
                                                       {"text.note", "good"},
                                                       {"text.default_random", to_string(default_rng().state())}});
  note = "";
  CHECK(io::restore_checkpoint(path, {.more = {{"note", note}}}) == 1200);
  CHECK(note == "good");
}

// --- runs ------------------------------------------------------------------------------------------------------

TEST_CASE("a run goes on from every step as if nothing had happened", "[io][checkpoint][host]") {
  constexpr std::int64_t kSteps = 9;  // overflows of the scale, half accumulated gradients and new passes among them
  const TemporaryFolder folder;
  std::vector<std::uint32_t> losses;
  std::uint32_t end = 0;
  CheckpointManager checkpoints(folder.path("run"), {.keep = kSteps});
  {
    Training whole(7);
    const io::CheckpointParts parts = whole.parts();
    whole.run(kSteps, [&](std::int64_t step, float loss) {
      losses.push_back(std::bit_cast<std::uint32_t>(loss));
      checkpoints.save(step, parts);
    });
    end = whole.fingerprint();
    CHECK(whole.scaler.skipped() > 0);
    CHECK(whole.adam.steps() > 1);
  }
  for (const io::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    INFO("from step " << checkpoint.step);
    Training other(1000 + static_cast<std::uint64_t>(checkpoint.step), static_cast<int>(checkpoint.step % 3));
    REQUIRE(io::restore_checkpoint(checkpoint.path, other.parts()) == checkpoint.step);
    CHECK(other.steps == checkpoint.step);
    other.run(kSteps, [&](std::int64_t step, float loss) {
      CHECK(std::bit_cast<std::uint32_t>(loss) == losses[static_cast<std::size_t>(step - 1)]);
    });
    CHECK(other.fingerprint() == end);
  }
}

TEST_CASE("saving does not change a run", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path("run"));
  std::uint32_t expected = 0;
  {
    Training quiet(7);
    quiet.run(5, [](std::int64_t, float) {});
    expected = quiet.fingerprint();
  }
  Training saved(7);
  const io::CheckpointParts parts = saved.parts();
  saved.run(5, [&](std::int64_t step, float) { checkpoints.save(step, parts); });
  CHECK(saved.fingerprint() == expected);
}

TEST_CASE("several texts of a pipeline's state can name one place", "[io][checkpoint][host]") {
  auto batches = training_batches(0);
  int given = 0;
  for ([[maybe_unused]] const auto& batch : batches)
    if (++given == 9) break;
  // 9 batches and 72 examples, 0 of them behind the place that follows: round 1, of which 72 - 37 = 35 are given
  const std::string here = "at 9 72 0 1 1 35 0;";
  const std::string place = batches.state();
  REQUIRE(place.find(here) != std::string::npos);
  for (const char* text : {"at 9 72 25 1 1 10 0;", "at 9 72 1 1 1 34 0;"}) {  // 10 + 25 and 34 + 1
    INFO(text);
    auto expected = training_batches(0), other = training_batches(2);
    expected.restore(place);
    other.restore(std::string(place).replace(place.find(here), here.size(), text));
    auto a = expected.begin(), b = other.begin();
    for (int i = 0; i < 6; ++i, ++a, ++b) {  // into the next round
      CHECK(same((*a).first, (*b).first));
      CHECK(same((*a).second, (*b).second));
    }
  }
}

// --- folders ---------------------------------------------------------------------------------------------------

TEST_CASE("a folder without checkpoints starts at step 0 and stays as it is", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  std::int64_t n = 5;
  CheckpointManager missing(folder.path("none/yet"));
  CHECK(missing.restore_latest({.more = {{"n", n}}}) == 0);
  CHECK(missing.checkpoints().empty());
  CHECK(n == 5);
  CHECK(!fs::exists(folder.path("none")));
  missing.save(1, {.more = {{"n", n}}});
  missing.wait();
  CHECK(steps_in(missing) == Steps{1});
}

TEST_CASE("the last ones and the best are kept", "[io][checkpoint][host]") {
  const auto none = std::nullopt;
  CHECK(left_after({none, none, none, none}, {.keep = 2}) == Steps{3, 4});
  CHECK(left_after({none, none, none, none}, {.keep = 9}) == Steps{1, 2, 3, 4});
  CHECK(left_after({3.0, 1.0, 2.0, 5.0, 4.0}, {.keep = 1}) == Steps{2, 5});
  CHECK(left_after({3.0, 1.0, 2.0, 5.0, 4.0}, {.keep = 1, .keep_best = 2}) == Steps{2, 3, 5});
  CHECK(left_after({3.0, 1.0, 2.0, 5.0, 4.0}, {.keep = 1, .keep_best = 0}) == Steps{5});
  CHECK(left_after({3.0, 1.0, 2.0, 5.0, 4.0}, {.keep = 1, .maximize = true}) == Steps{4, 5});
  CHECK(left_after({3.0, 2.0, 1.0}, {.keep = 1}) == Steps{3});                   // the last is the best
  CHECK(left_after({1.0, 1.0, 2.0, 2.0}, {.keep = 1}) == Steps{2, 4});           // of equals the later
  CHECK(left_after({none, kNaN, 7.0, kNaN, none}, {.keep = 1}) == Steps{3, 5});  // NaN and none are never best
  CHECK(left_after({kInfinity, -kInfinity, 0.0, 0.0}, {.keep = 1}) == Steps{2, 4});
  CHECK(left_after({2.0, 1.0, 3.0, 4.0}, {.keep = 2, .background = false}) == Steps{2, 3, 4});
}

TEST_CASE("a second manager knows the metrics of files that are there", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  std::int64_t n = 0;
  {
    CheckpointManager first(folder.path("run"), {.keep = 9});
    for (const double metric : {0.3, 0.1, 0.2, kNaN}) {
      ++n;
      first.save(n, {.more = {{"n", n}}}, {.metric = metric});
    }
  }
  CheckpointManager second(folder.path("run"), {.keep = 1, .keep_best = 1});
  const std::vector<io::Checkpoint> listed = second.checkpoints();
  REQUIRE(listed.size() == 4);
  CHECK(listed[1].metric == 0.1);
  CHECK(listed[1].number == 2);
  CHECK(std::isnan(listed[3].metric.value()));
  CHECK(second.restore_best({.more = {{"n", n}}}) == 2);
  CHECK(n == 2);
  second.save(9, {.more = {{"n", n}}});
  second.wait();
  CHECK(steps_in(second) == Steps{2, 9});
}

TEST_CASE("a run that went back goes on from what it saved last", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  std::int64_t n = 0;
  CheckpointManager checkpoints(folder.path("run"), {.keep = 3});
  for (const std::int64_t step : {100, 200, 300, 150}) {
    n = step;
    checkpoints.save(step, {.more = {{"n", n}}});
  }
  CHECK(checkpoints.restore_latest({.more = {{"n", n}}}) == 150);
  CHECK(steps_in(checkpoints) == Steps{200, 300, 150});
}

TEST_CASE("several managers in one folder overwrite nothing", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  std::int64_t n = 1;
  CheckpointManager a(folder.path("run"), {.keep = 99}), b(folder.path("run"), {.keep = 99});
  for (int i = 0; i < 5; ++i) {
    a.save(7, {.more = {{"n", n}}});
    b.save(7, {.more = {{"n", n}}});
  }
  a.wait();
  b.wait();
  std::vector<std::int64_t> numbers;
  for (const io::Checkpoint& checkpoint : a.checkpoints()) numbers.push_back(checkpoint.number);
  CHECK(numbers == Steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST_CASE("a folder stays the same when the program goes elsewhere", "[io][checkpoint][host]") {
  struct Here {
    ~Here() { fs::current_path(path); }
    fs::path path = fs::current_path();
  };
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) fs::create_directory(folder.path(name));
  const Here here;
  std::int64_t n = 1;
  fs::current_path(folder.path("a"));
  CheckpointManager checkpoints("run");
  fs::current_path(folder.path("b"));
  checkpoints.save(1, {.more = {{"n", n}}});
  checkpoints.wait();
  CHECK(fs::exists(folder.path("a/run/checkpoint-000001-step-1.safetensors")));
  CHECK(!fs::exists(folder.path("b/run")));
  CHECK(checkpoints.restore_latest({.more = {{"n", n}}}) == 1);
}

TEST_CASE("a checkpoint that another manager removes meanwhile is passed over for a newer one",
          "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  std::int64_t saved = 1, n = 0, last = 0;
  CheckpointManager writer(folder.path("run"), {.keep = 1, .background = false}), reader(folder.path("run"));
  writer.save(saved, {.more = {{"n", saved}}});
  std::atomic<bool> done = false;
  std::string writers_error, readers_error;
  std::thread other([&] {
    try {
      while (++saved <= 40) writer.save(saved, {.more = {{"n", saved}}});
    } catch (const std::exception& error) { writers_error = error.what(); }
    done = true;
  });
  bool steady = true;
  try {
    while (!done) {
      const std::int64_t step = reader.restore_latest({.more = {{"n", n}}});
      steady = steady && n == step && step >= last && reader.skipped().empty();
      last = step;
    }
  } catch (const std::exception& error) { readers_error = error.what(); }
  other.join();
  CHECK(writers_error == "");
  CHECK(readers_error == "");
  CHECK(steady);
}

TEST_CASE("files that only look alike are none of its business", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  const std::vector<std::string> others = {"checkpoint-00001-step-1.safetensors",
                                           "checkpoint-000001-step-01.safetensors",
                                           "checkpoint-0000001-step-1.safetensors",
                                           "checkpoint-000001-step--1.safetensors",
                                           "checkpoint-000001-step-1.safetensors.bak",
                                           "my-checkpoint-000001-step-1.safetensors",
                                           "checkpoint-000001-step-1.npz",
                                           "checkpoint-000001.safetensors",
                                           "checkpoint-000001-step-+1.safetensors",
                                           "checkpoint-99999999999999999999-step-1.safetensors",
                                           "checkpoint-000001-step-1 .safetensors",
                                           "notes.txt"};
  for (const std::string& name : others) folder.write_text(name, "x");
  fs::create_directory(folder.path("checkpoint-000008-step-1.safetensors"));
  std::int64_t n = 0;
  CheckpointManager checkpoints(folder.path(""), {.keep = 1});
  CHECK(checkpoints.restore_latest({.more = {{"n", n}}}) == 0);
  for (const std::int64_t step : {1, 2}) checkpoints.save(step, {.more = {{"n", n}}});
  checkpoints.wait();
  CHECK(steps_in(checkpoints) == Steps{2});
  CHECK(files_in(folder.path("")).size() == others.size() + 2);
}

TEST_CASE("what killed runs have left goes, and what is being written stays", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  const std::string left = folder.write_text("checkpoint-000003-step-9.safetensors.part1-0", "half"),
                    written = folder.write_text("checkpoint-000004-step-9.safetensors.part1-0", "half"),
                    other = folder.write_text("net.safetensors.part1-0", "half");
  std::vector<std::string> of_others;  // what browsers, managers of files and the like are about to bring
  for (const char* end : {".part", ".partial", ".part1", ".part1-", ".part1-2x", ".part-1-2", ".part1-2-3"})
    of_others.push_back(folder.write_text(std::string("checkpoint-000002-step-9.safetensors") + end, "half"));
  const int file = open(written.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(flock(file, LOCK_EX) == 0);
  std::int64_t n = 0;
  CheckpointManager checkpoints(folder.path(""));
  CHECK(checkpoints.restore_latest({.more = {{"n", n}}}) == 0);
  checkpoints.save(1, {.more = {{"n", n}}});
  checkpoints.wait();
  close(file);
  CHECK(!fs::exists(left));
  CHECK(fs::exists(written));
  CHECK(fs::exists(other));
  for (const std::string& path : of_others) CHECK(fs::exists(path));
  CHECK(checkpoints.checkpoints().at(0).number == 5);  // 4 is taken
}

TEST_CASE("a manager can be moved while it writes", "[io][checkpoint][host]") {
  const TemporaryFolder folder;
  Tensor x = ones({1 << 16});
  CheckpointManager first(folder.path("run"));
  first.save(1, {.more = {{"x", x}}});
  CheckpointManager second = std::move(first);
  second.save(2, {.more = {{"x", x}}});
  CHECK(second.restore_latest({.more = {{"x", x}}}) == 2);
  first = std::move(second);
  CHECK(steps_in(first) == Steps{1, 2});
}
