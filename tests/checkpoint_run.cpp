// A training that saves a checkpoint behind every step, and goes on from the last one when it is started again:
//
//   checkpoint_run train FOLDER STEPS [THREADS] [background|foreground]
//
// tells on the standard output where it goes on, every save, and every loss with all of its bits, until somebody kills
// it. Or, in a process of its own, what happens where nothing can be written; 77 where that cannot be set up:
//
//   checkpoint_run full FOLDER          on a file system of 8 MiB that only this process sees
//   checkpoint_run read-only FOLDER     as a user who may not write there
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/checkpoint_training.hpp"

namespace cs = capstan;
namespace fs = std::filesystem;

namespace {

using cs::io::CheckpointManager;
using tests::Training;

constexpr int kCannotBeSetUp = 77;

/// So that a file takes its time.
cs::Tensor ballast() { return cs::full({1 << 19}, 0.5); }  // 2 MiB

void say(const char* what, std::int64_t step) {
  std::printf("%s %lld\n", what, static_cast<long long>(step));
  std::fflush(stdout);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("this does not hold: " + what);
}

/// What saving throws.
std::string error_of_save(CheckpointManager& checkpoints, std::int64_t step, const cs::io::CheckpointParts& parts) {
  try {
    checkpoints.save(step, parts);
    checkpoints.wait();
  } catch (const cs::IoError& error) { return error.what(); }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int train(const std::string& folder, std::int64_t steps, bool background) {
  Training training(7);
  cs::Tensor weight = ballast();
  cs::io::CheckpointParts parts = training.parts();
  parts.more.emplace_back("ballast", weight);
  CheckpointManager checkpoints(folder, {.keep = 3, .background = background});
  say("start", checkpoints.restore_latest(parts));
  say("skipped", static_cast<std::int64_t>(checkpoints.skipped().size()));
  training.run(steps, [&](std::int64_t step, float loss) {
    std::printf("loss %lld %08x\n", static_cast<long long>(step), std::bit_cast<std::uint32_t>(loss));
    say("save", step);
    checkpoints.save(step, parts, {.metric = loss});
    say("saved", background ? step - 1 : step);  // that one is on the disk
  });
  checkpoints.wait();
  std::printf("done %08x\n", training.fingerprint());
  return 0;
}

/// That nothing has changed but that a save was tried, and that the checkpoint of step 1 is still there.
void check_failure(const std::string& folder, Training& training, const std::string& reason) {
  CheckpointManager checkpoints(folder, {.keep = 1});
  const std::uint32_t before = training.fingerprint();
  const std::string text = error_of_save(checkpoints, 2, training.parts());
  require(has(text, "CheckpointManager::save: " + folder) && has(text, reason) && has(text, "(checkpoint_run.cpp:"),
          "the error says '" + reason + "': " + text);
  require(training.fingerprint() == before, "the training is as it was");
  for (const auto& file : fs::directory_iterator(folder))
    require(!has(file.path().string(), ".part"), "nothing half written is left: " + file.path().string());
  Training other(8);
  require(checkpoints.restore_latest(other.parts()) == 1, "the checkpoint before is there");
  require(checkpoints.skipped().empty(), "no file is damaged");
}

bool write_text(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file.good();
}

/// A small file system that goes away with this process.
bool mount_small(const std::string& folder) {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_text("/proc/self/setgroups", "deny");
    if (!write_text("/proc/self/uid_map", "0 " + user + " 1") || !write_text("/proc/self/gid_map", "0 " + group + " 1"))
      return false;
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=8m") == 0;
}

int full_disk(const std::string& folder) {
  if (!mount_small(folder)) return kCannotBeSetUp;
  Training training(7);
  training.run(1, [](std::int64_t, float) {});
  CheckpointManager checkpoints(folder);
  checkpoints.save(1, training.parts());
  checkpoints.wait();
  const std::string filler = folder + "/filler";
  {
    std::ofstream file(filler, std::ios::binary);
    const std::string piece(1 << 12, 'x');
    while (file.write(piece.data(), static_cast<std::streamsize>(piece.size())) && file.flush()) {}
  }
  check_failure(folder, training, "cannot be written: No space left on device");
  fs::remove(filler);
  checkpoints.save(2, training.parts());
  checkpoints.wait();
  Training other(8);
  require(checkpoints.restore_latest(other.parts()) == 2, "where there is room again, saving goes on");
  require(other.fingerprint() == training.fingerprint(), "what is restored is what was saved");
  return 0;
}

int read_only(const std::string& folder) {
  Training training(7);
  training.run(1, [](std::int64_t, float) {});
  umask(022);  // nobody is to read what root has written
  {
    CheckpointManager checkpoints(folder);
    checkpoints.save(1, training.parts());
    checkpoints.wait();
  }
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                              fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec);
  constexpr unsigned nobody = 65534;
  if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) return kCannotBeSetUp;
  if (access(folder.c_str(), W_OK) == 0 || access(folder.c_str(), R_OK | X_OK) != 0) return kCannotBeSetUp;
  check_failure(folder, training, "cannot be made: Permission denied");
  return 0;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "", folder = argc > 2 ? argv[2] : "";
  if (mode == "full" && argc == 3) return full_disk(folder);
  if (mode == "read-only" && argc == 3) return read_only(folder);
  if (mode != "train" || argc < 4) {
    std::fprintf(stderr,
                 "usage: checkpoint_run train FOLDER STEPS [THREADS] [background|foreground]\n"
                 "       checkpoint_run full|read-only FOLDER\n");
    return 2;
  }
  if (argc > 4) cs::set_threads(std::atoi(argv[4]));
  return train(folder, std::atoll(argv[3]), argc <= 5 || std::strcmp(argv[5], "foreground") != 0);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_run: %s\n", error.what());
    return 1;
  }
}
