// Checkpoints where something goes wrong: damaged files, parts that do not fit, files that cannot be written. Disks
// that are full and folders that nobody may write to: checkpoint_run.cpp.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/address_limit.hpp"
#include "tests/files.hpp"
#include "tests/safetensors_files.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

namespace fs = std::filesystem;
using io::CheckpointManager;

std::string name_of(int number, int step) {
  return "checkpoint-00000" + std::to_string(number) + "-step-" + std::to_string(step) + ".safetensors";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A model, its optimizer and a number.
struct Run {
  explicit Run(double value = 1) : number(value) { model.weight.fill(value); }
  io::CheckpointParts parts() { return {.model = model, .optimizer = sgd, .more = {{"number", number}}}; }
  bool is(double value) const {
    return number == value && model.weight.at<float>(0, 0) == static_cast<float>(value) && sgd.learning_rate() == value;
  }
  void become(double value) {
    number = value;
    model.weight.fill(value);
    sgd.set_learning_rate(value);
  }

  nn::Linear model{4, 3};
  optim::Sgd sgd{nn::parameters(model), {.learning_rate = 1}};
  double number;
};

/// A part that has a state and fails when that is asked for, or given back.
struct Failing {
  bool at_save = false, at_load = false;
  std::vector<NamedTensor> state(Where) const {
    if (at_save) throw Error("Failing::state: it fails.");
    return {{"large", zeros({1000})}};
  }
  void load_state(std::span<const NamedTensor>, Where) const {
    if (at_load) throw DTypeError("Failing::load_state: it fails. (checkpoint_failures_test.cpp:1)");
  }
};

/// A part that throws errors of one type when its state is given back.
template <class Thrown>
struct Throwing {
  std::vector<NamedTensor> state(Where) const { return {{"x", zeros({1})}}; }
  void load_state(std::span<const NamedTensor>, Where) const { throw Thrown("it fails."); }
};

/// What restoring such a part throws.
template <class Thrown>
std::string error_of_restore() {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path(""));
  Throwing<Thrown> part;
  checkpoints.save(1, {.more = {{"part", part}}});
  return message_of<Thrown>([&] { checkpoints.restore_latest({.more = {{"part", part}}}); });
}

/// Two checkpoints of a run: of step 1 with the value 1, and of step 2 with the value 2.
void save_two(const std::string& folder) {
  CheckpointManager checkpoints(folder);
  Run run;
  for (const int step : {1, 2}) {
    run.become(step);
    checkpoints.save(step, run.parts());
  }
  checkpoints.wait();
}

/// A checkpoint of step 2 and metric 0.5 whose elements take 1 GiB, none of which is on the disk.
void write_large(const TemporaryFolder& folder) {
  const std::uintmax_t size = std::uintmax_t{1} << 30;
  const std::string count = std::to_string(size);
  const Bytes head = safetensors_file(
      R"({"__metadata__":{"capstan.checkpoint":"1","capstan.checksum":"00000000","capstan.number":"2",)"
      R"("capstan.step":"2","capstan.metric":"0.5"},"x":)" +
      safetensors_entry("\"U8\"", "[" + count + "]", "[0," + count + "]") + "}");
  fs::resize_file(folder.write(name_of(2, 2), head), head.size() + size);
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// --- damaged files ---------------------------------------------------------------------------------------------

TEST_CASE("a damaged checkpoint is passed over, and the one before is restored", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  save_two(folder.path(""));
  const std::string newest = folder.path(name_of(2, 2));
  const Bytes good = file_bytes(newest);
  std::vector<std::pair<std::string, Bytes>> damaged = {
      {"empty", {}}, {"of one byte", {'{'}}, {"with a byte behind its end", joined(good, {0})}};
  for (std::size_t cut = 1; cut < good.size(); cut += good.size() / 7)
    damaged.emplace_back("cut at " + std::to_string(cut), first_bytes(good, cut));
  for (std::size_t at = 0; at < good.size(); at += 97) {
    Bytes bytes = good;
    bytes[at] ^= 0x10;
    damaged.emplace_back("changed at " + std::to_string(at), bytes);
  }
  damaged.emplace_back("an archive", joined(bytes_of("PK\x03\x04"), good));
  for (const auto& [what, bytes] : damaged) {
    INFO(what);
    folder.write(name_of(2, 2), bytes);
    CheckpointManager checkpoints(folder.path(""));
    Run run(7);
    CHECK(checkpoints.restore_latest(run.parts()) == 1);
    CHECK(run.is(1));
    REQUIRE(checkpoints.skipped().size() == 1);
    const Message said = split_message(checkpoints.skipped()[0]);
    CHECK(said.text.rfind("CheckpointManager::restore_latest: " + newest + ": ", 0) == 0);
    CHECK(has(said.text, "offset "));
    CHECK(said.file == "checkpoint_failures_test.cpp");
  }
  folder.write(name_of(2, 2), good);
  CheckpointManager checkpoints(folder.path(""));
  Run run(7);
  CHECK(checkpoints.restore_latest(run.parts()) == 2);
  CHECK(checkpoints.skipped().empty());
}

TEST_CASE("a checkpoint for which there is no memory is not taken for a damaged one",
          "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  save_two(folder.path(""));
  const std::string newest = folder.path(name_of(2, 2));
  const Bytes good = file_bytes(newest);
  write_large(folder);
  CheckpointManager checkpoints(folder.path(""), {.keep = 1, .background = false});
  Run run(7);
  run.become(7);
  std::string latest, best;
  std::optional<double> metric;
  {
    const tests::AddressLimit few(rlim_t{256} << 20);
    metric = checkpoints.checkpoints().at(1).metric;  // for which the header is read alone
    latest = message_of<IoError>([&] { checkpoints.restore_latest(run.parts()); });
    best = message_of<IoError>([&] { checkpoints.restore_best(run.parts()); });
    CHECK(run.is(7));
    checkpoints.save(3, run.parts());
  }
  CHECK(latest.rfind("CheckpointManager::restore_latest: " + newest + ": cannot be mapped into memory: ", 0) == 0);
  CHECK(best.rfind("CheckpointManager::restore_best: " + newest + ": cannot be mapped into memory: ", 0) == 0);
  CHECK(metric == 0.5);
  CHECK(checkpoints.skipped().empty());
  CHECK(files_in(folder.path("")) == std::vector<std::string>{name_of(2, 2), name_of(3, 3)});
  folder.write(name_of(2, 2), good);
  fs::remove(folder.path(name_of(3, 3)));
  CHECK(checkpoints.restore_latest(run.parts()) == 2);
  CHECK(run.is(2));
}

TEST_CASE("damaged checkpoints are neither counted nor removed", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  save_two(folder.path(""));
  folder.write(name_of(2, 2), {});
  CheckpointManager checkpoints(folder.path(""), {.keep = 2});
  Run run;
  CHECK(checkpoints.restore_latest(run.parts()) == 1);
  checkpoints.save(2, run.parts());
  checkpoints.wait();
  CHECK(files_in(folder.path("")) == std::vector<std::string>{name_of(1, 1), name_of(2, 2), name_of(3, 2)});
  CHECK(checkpoints.restore_latest(run.parts()) == 2);
}

TEST_CASE("what was passed over can be looked at while the next is written", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  save_two(folder.path(""));
  folder.write(name_of(2, 2), {});
  CheckpointManager checkpoints(folder.path(""));
  Run run;
  CHECK(checkpoints.restore_latest(run.parts()) == 1);
  REQUIRE(checkpoints.skipped().size() == 1);
  const std::vector<std::string>& skipped = checkpoints.skipped();
  const std::string said = skipped[0];
  bool steady = true;
  for (int step = 2; step < 6; ++step) {  // each finds the damaged file again
    checkpoints.save(step, run.parts());
    for (int i = 0; i < 1000; ++i) steady = steady && skipped.size() == 1 && skipped[0] == said;
  }
  checkpoints.wait();
  CHECK(steady);
}

TEST_CASE("a file in the place of a damaged one that was removed counts", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  save_two(folder.path(""));
  folder.write(name_of(2, 2), {});
  CheckpointManager checkpoints(folder.path(""), {.keep = 1});
  Run run;
  CHECK(checkpoints.restore_latest(run.parts()) == 1);
  fs::remove(folder.path(name_of(2, 2)));
  for (const int step : {2, 3}) checkpoints.save(step, run.parts());
  checkpoints.wait();
  CHECK(files_in(folder.path("")) == std::vector<std::string>{name_of(3, 3)});
}

TEST_CASE("a run whose checkpoints are all damaged does not begin anew", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  save_two(folder.path(""));
  folder.write(name_of(1, 1), {});
  folder.write(name_of(2, 2), {1, 2, 3});
  CheckpointManager checkpoints(folder.path(""));
  Run run(7);
  run.become(7);
  const std::string text = message_of<IoError>([&] { checkpoints.restore_latest(run.parts()); });
  CHECK(has(text,
            "CheckpointManager::restore_latest: " + folder.path("") + ": no checkpoint that is intact was found: "));
  CHECK(has(text, folder.path(name_of(1, 1)) + ": the file ends at offset 0"));
  CHECK(has(text, folder.path(name_of(2, 2)) + ": the file ends at offset 3"));
  CHECK(checkpoints.skipped().size() == 2);
  CHECK(run.is(7));
  CHECK(checkpoints.checkpoints().size() == 2);
}

TEST_CASE("the next best is restored if the best is damaged", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path(""), {.keep = 9});
  Run run;
  for (const int step : {1, 2, 3, 4}) {
    run.become(step);
    checkpoints.save(step, run.parts(), {.metric = step == 4 ? kNaN : 10.0 - step});
  }
  CHECK(checkpoints.restore_best(run.parts()) == 3);
  Bytes bytes = file_bytes(folder.path(name_of(3, 3)));
  bytes.back() ^= 1;  // its metric can still be read
  folder.write(name_of(3, 3), bytes);
  CHECK(checkpoints.restore_best(run.parts()) == 2);
  CHECK(checkpoints.skipped().size() == 1);
  folder.write(name_of(3, 3), {});
  CheckpointManager other(folder.path(""));  // for which it cannot
  CHECK(other.restore_best(run.parts()) == 2);
  CHECK(other.skipped().size() == 1);
  CHECK(run.is(2));
}

// --- parts that do not fit -------------------------------------------------------------------------------------

TEST_CASE("what does not fit is an error, and all parts stay as they were", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path(""));
  Run saved;
  saved.sgd.apply(std::vector<Tensor>{zeros({4, 3}), zeros({3})});
  saved.become(3);
  std::string text = "text";
  float half = 0.5f;
  int large = 1000;
  Failing failing;
  io::CheckpointParts all = saved.parts();
  all.more.insert(all.more.end(), {{"text", text}, {"half", half}, {"large", large}, {"failing", failing}});
  checkpoints.save(3, all);
  checkpoints.wait();

  Run run;
  run.become(7);
  nn::Linear wide(5, 3);
  seed(11);
  const RngState random = default_rng().state();
  const auto restore = [&](const io::CheckpointParts& parts) { checkpoints.restore_latest(parts); };
  const std::string start = "CheckpointManager::restore_latest: " + folder.path(name_of(1, 3)) + ": ";
  const auto check = [&](const std::string& what, const std::string& reason) {
    INFO(what);
    CHECK(what.rfind(start, 0) == 0);
    CHECK(has(what, reason));
    CHECK(has(what, "(checkpoint_failures_test.cpp:"));
    CHECK(run.is(7));
    CHECK(default_rng().state() == random);
    CHECK(checkpoints.skipped().empty());
  };
  const auto parts_with = [&](const std::string& name, io::CheckpointPart part) {
    io::CheckpointParts parts = run.parts();
    parts.more.emplace_back(name, part);
    return parts;
  };

  Rng rng(1);
  io::CheckpointParts missing = parts_with("critic", rng);
  missing.random = rng;
  check(message_of<Error>([&] { restore(missing); }),
        "parts are missing: 'random', 'critic'; the file has 'failing', 'half', 'large', 'model', 'number', "
        "'optimizer', 'text', and there were asked for 'model', 'optimizer', 'random', 'number', 'critic'.");

  io::CheckpointParts other_shape = run.parts();
  other_shape.model = wide;
  check(message_of<ShapeError>([&] { restore(other_shape); }), "part 'model' is not restored: load_state: ");
  io::CheckpointParts other_optimizer = run.parts();
  optim::Adam adam(nn::parameters(run.model));
  other_optimizer.optimizer = adam;
  check(message_of<Error>([&] { restore(other_optimizer); }), "part 'optimizer' is not restored: Adam::load_state: ");

  signed char small = 1;
  check(message_of<Error>([&] { restore(parts_with("large", small)); }),
        "part 'large' is not restored: CheckpointPart: '1000' is no integer from -128 to 127.");
  CHECK(small == 1);
  double number = 1;
  check(message_of<Error>([&] { restore(parts_with("text", number)); }), "'text' is no number of a checkpoint");
  check(message_of<Error>([&] { restore(parts_with("text", wide)); }),
        "part 'text' is a text in the file, and tensors");
  check(message_of<Error>([&] { restore(parts_with("failing", text)); }),
        "part 'failing' is tensors in the file, and a text");
  failing.at_load = true;
  // it is the largest and goes last: all others were restored, and are put back
  io::CheckpointParts with_failing = parts_with("failing", failing);
  check(message_of<DTypeError>([&] { restore(with_failing); }),
        "part 'failing' is not restored: Failing::load_state: it fails.");
  failing.at_load = false;
  restore(with_failing);
  CHECK(run.is(3));
}

TEST_CASE("the error of a part keeps its type", "[io][checkpoint][host][errors]") {
  for (const std::string& text :
       {error_of_restore<IoError>(), error_of_restore<IndexError>(), error_of_restore<NumericError>(),
        error_of_restore<TapeError>(), error_of_restore<BackendError>(), error_of_restore<DeviceError>()})
    CHECK(has(text, "part 'part' is not restored: it fails."));
}

TEST_CASE("arguments that cannot be are errors, and nothing is saved", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  using Options = io::CheckpointOptions;
  const auto made = [&](const std::string& path, Options options) {
    return split_message(message_of<Error>([&] { CheckpointManager manager(path, options); })).text;
  };
  CHECK(made("", {}) == "CheckpointManager: the name of the folder is ''; it must not be empty or hold a zero byte.");
  CHECK(made(std::string("a\0b", 3), {}) ==
        "CheckpointManager: the name of the folder is 'a\\x00b'; it must not be empty or hold a zero byte.");
  CHECK(made("x", {.keep = 0}) == "CheckpointManager: keep is 0; it must be >= 1.");
  CHECK(made("x", {.keep_best = -1}) == "CheckpointManager: keep_best is -1; it must be >= 0.");

  CheckpointManager checkpoints(folder.path("run"));
  Run run;
  const auto save = [&](std::int64_t step, const io::CheckpointParts& parts) {
    const Message said = split_message(message_of<Error>([&] { checkpoints.save(step, parts); }));
    CHECK(said.file == "checkpoint_failures_test.cpp");
    return said.text;
  };
  const auto save_named = [&](const std::string& name) { return save(1, {.more = {{name, run.number}}}); };
  const std::string rule = "; each must have a name of its own, without dots.";
  CHECK(save(-1, run.parts()) == "CheckpointManager::save: the step is -1; it must be from 0 to 999999999999999999.");
  CHECK(save_named("") == "CheckpointManager::save: the name '' of a part is empty" + rule);
  CHECK(save_named("a.b") == "CheckpointManager::save: the name 'a.b' of a part has a dot" + rule);
  for (const char* name : {"model", "optimizer", "schedule", "ema", "scaler", "data", "random", "default_random"})
    CHECK(save_named(name) ==
          "CheckpointManager::save: the name '" + std::string(name) + "' of a part is the name of a field" + rule);
  CHECK(save(1, {.more = {{"a", run.number}, {"b", run.number}, {"a", run.model}}}) ==
        "CheckpointManager::save: the name 'a' of a part is there twice" + rule);
  CHECK(save(1, {.more = {{"none", io::CheckpointPart()}}}) ==
        "CheckpointManager::save: part 'none' is undefined; give it an object.");
  nn::Dropout drop;
  CHECK(save(1, {.model = drop}) ==
        "CheckpointManager::save: part 'model' has no parameters and no buffers; there must be something to keep.");
  std::string bytes = "\xFF";
  CHECK(has(save(1, {.more = {{"bytes", bytes}}}), "is no UTF-8 from byte 0 on"));
  CHECK(has(save_named("\xC3"), "is no UTF-8"));
  Failing failing;
  failing.at_save = true;
  CHECK(message_of<Error>([&] {
          checkpoints.save(1, {.more = {{"failing", failing}}});
        }) == "Failing::state: it fails.");
  CHECK(checkpoints.checkpoints().empty());
  CHECK(checkpoints.restore_latest({}) == 0);

  CHECK(split_message(message_of<Error>([&] { checkpoints.restore_best({}); })).text ==
        "CheckpointManager::restore_best: " + folder.path("run") +
            " has no checkpoint with a metric; one must be saved with `.metric`, and not be NaN.");
  CheckpointManager other = std::move(checkpoints);
  CHECK(split_message(message_of<Error>([&] { checkpoints.wait(); })).text ==
        "CheckpointManager::wait: this manager was moved from; it must have a folder.");
  CHECK(checkpoints.skipped().empty());
}

// --- files that cannot be written ------------------------------------------------------------------------------

TEST_CASE("a folder that cannot be made is told at once", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  folder.write_text("file", "x");
  Run run;
  for (const std::string& path : {folder.path("file"), folder.path("file/run")}) {
    CheckpointManager checkpoints(path);
    const std::string text = message_of<IoError>([&] { checkpoints.save(1, run.parts()); });
    CHECK(text.rfind("CheckpointManager::save: " + path + ": cannot be made: ", 0) == 0);
  }
  CHECK(files_in(folder.path("")) == std::vector<std::string>{"file"});
}

TEST_CASE("what goes wrong in the background is thrown by the next call, once", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path(""));
  Run run;
  run.become(5);
  checkpoints.save(5, run.parts());
  checkpoints.wait();
  // A folder takes the file's place while it is written. If it comes too late, a larger file gets another chance.
  std::string text;
  unsigned line = 0;
  int number = 1;
  for (std::int64_t size = 1 << 20; text.empty() && size <= 1 << 26; size *= 2) {
    Tensor large = zeros({size});
    io::CheckpointParts parts = run.parts();
    parts.more.emplace_back("large", large);
    ++number;
    line = __LINE__ + 1;
    checkpoints.save(6, parts);
    std::error_code taken;
    fs::create_directory(folder.path(name_of(number, 6)), taken);
    try {
      checkpoints.wait();
    } catch (const IoError& error) { text = error.what(); }
  }
  const std::string path = folder.path(name_of(number, 6));
  const Message said = split_message(text);
  CHECK(said.text.rfind("CheckpointManager::save: " + path + ": cannot be written: ", 0) == 0);
  CHECK(said.file == "checkpoint_failures_test.cpp");
  CHECK(said.line == line);  // of the save
  checkpoints.wait();        // once
  for (const std::string& name : files_in(folder.path(""))) CHECK(!has(name, ".part"));
  fs::remove(path);
  run.become(7);
  checkpoints.save(7, run.parts());
  run.become(8);
  CHECK(checkpoints.restore_latest(run.parts()) == 7);
  CHECK(run.is(7));
}

TEST_CASE("a file that took the name of a checkpoint meanwhile stays", "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  CheckpointManager checkpoints(folder.path(""));
  Run run;
  // As where locks do not work. If the file comes too late, a larger checkpoint gives it another chance.
  std::string text, path;
  int number = 0;
  for (std::int64_t size = 1 << 20; text.empty() && size <= 1 << 26; size *= 2) {
    Tensor large = zeros({size});
    path = folder.path(name_of(++number, 6));
    checkpoints.save(6, {.model = run.model, .more = {{"large", large}}});
    if (std::FILE* const other = std::fopen(path.c_str(), "wx"); other != nullptr) {
      std::fputs("mine", other);
      std::fclose(other);
    }
    try {
      checkpoints.wait();
    } catch (const IoError& error) { text = error.what(); }
  }
  CHECK(text.rfind("CheckpointManager::save: " + path + ": cannot be written: File exists; ", 0) == 0);
  CHECK(file_bytes(path) == bytes_of("mine"));
  for (const std::string& name : files_in(folder.path(""))) CHECK(!has(name, ".part"));
}

TEST_CASE("a manager that ends says nothing of what went wrong, and leaves nothing behind",
          "[io][checkpoint][host][errors]") {
  const TemporaryFolder folder;
  Run run;
  {
    CheckpointManager checkpoints(folder.path("run"));
    checkpoints.save(1, run.parts());
  }
  CHECK(files_in(folder.path("run")) == std::vector<std::string>{name_of(1, 1)});
}
