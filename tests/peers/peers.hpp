#pragma once
// Files that Capstan and other software exchange. `write_*` writes into a folder what the other software then checks;
// `read_*` reads what the other software wrote there, and throws std::runtime_error at the first difference. Both sides
// know the content by the same formulas; scripts/check-peers lets them meet.
#include <string>

namespace peers {

void write_npy_files(const std::string& folder);
void read_npy_files(const std::string& folder);

void write_safetensors_files(const std::string& folder);
void read_safetensors_files(const std::string& folder);

void write_state_dict_files(const std::string& folder);
void read_state_dict_files(const std::string& folder);

void write_tensorboard_files(const std::string& folder);
void read_tensorboard_files(const std::string& folder);

void write_tfrecord_files(const std::string& folder);
void read_tfrecord_files(const std::string& folder);

/// Prints the line of one file.
void say(const std::string& file, const std::string& what);
/// Throws std::runtime_error naming the file unless `same`.
void require(bool same, const std::string& file, const std::string& what);

}  // namespace peers
