// peers write|read FOLDER PART...: one side of scripts/check-peers. PART is one of kParts.
#include "tests/peers/peers.hpp"

#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

namespace peers {

void say(const std::string& file, const std::string& what) { std::cout << "  " << file << ": " << what << '\n'; }

void require(bool same, const std::string& file, const std::string& what) {
  if (!same) throw std::runtime_error(file + ": " + what);
}

}  // namespace peers

namespace {

struct Part {
  const char* name;
  void (*write)(const std::string& folder);
  void (*read)(const std::string& folder);
};

constexpr Part kParts[] = {
    {"npy", &peers::write_npy_files, &peers::read_npy_files},
    {"safetensors", &peers::write_safetensors_files, &peers::read_safetensors_files},
    {"state_dict", &peers::write_state_dict_files, &peers::read_state_dict_files},
    {"tensorboard", &peers::write_tensorboard_files, &peers::read_tensorboard_files},
    {"tfrecord", &peers::write_tfrecord_files, &peers::read_tfrecord_files},
};

/// False if there is no part of that name.
bool run(const char* name, bool write, const std::string& folder) {
  for (const Part& part : kParts) {
    if (std::strcmp(part.name, name) != 0) continue;
    (write ? part.write : part.read)(folder);
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool write = argc > 1 && std::strcmp(argv[1], "write") == 0;
  if (argc < 4 || (!write && std::strcmp(argv[1], "read") != 0)) {
    std::cerr << "usage: peers write|read FOLDER PART...\n";
    return 2;
  }
  try {
    for (int i = 3; i < argc; ++i)
      if (!run(argv[i], write, argv[2])) {
        std::cerr << "peers: there is no part " << argv[i] << '\n';
        return 2;
      }
  } catch (const std::exception& error) {
    std::cerr << "peers: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
