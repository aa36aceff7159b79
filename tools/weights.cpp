// capstan-weights: shows, compares and converts files of weights: safetensors, .npz, .npy, those of torch.save.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <capstan/error.hpp>

#include "tools/weights.hpp"

namespace cs = capstan;

namespace weights_tool {
namespace {

/// The last part of a file's name, in small letters: ".npz".
std::string ending_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

/// None of a checkpoint's: they say how a run goes on, and what the checksum of that very file is.
cs::io::Metadata metadata_to_keep(const cs::io::Metadata& metadata) {
  const bool checkpoint = std::any_of(metadata.begin(), metadata.end(),
                                      [](const auto& entry) { return entry.first == "capstan.checkpoint"; });
  return checkpoint ? cs::io::Metadata{} : metadata;
}

}  // namespace

void convert(const std::string& from, const std::string& to) {
  const std::string ending = ending_of(to);
  const bool safetensors = ending == ".safetensors", npz = ending == ".npz";
  const bool torch = ending == ".pt" || ending == ".pth";
  if (!safetensors && !npz && !torch)
    throw std::runtime_error(to + ": the name must end in .safetensors, .npz, .pt or .pth; that says the format.");
  cs::io::Weights weights = cs::io::read_weights(from);
  if (weights.tensors.size() == 1 && weights.tensors[0].name.empty())  // a .npy
    weights.tensors[0].name = std::filesystem::path(from).stem().string();
  const cs::io::Metadata metadata = metadata_to_keep(weights.metadata);
  if (safetensors) cs::io::save_safetensors(to, weights.tensors, metadata);
  else if (npz) cs::io::write_npz(to, weights.tensors);
  else cs::io::save_state_dict(to, weights.tensors);
  const std::size_t left_out = weights.metadata.size() - (safetensors ? metadata.size() : 0);
  std::printf("%s: %zu tensors", to.c_str(), weights.tensors.size());
  if (left_out > 0) std::printf("; left out are %zu entries of metadata", left_out);
  std::printf("\n");
}

namespace {

/// A message of the library without the place in this program.
std::string without_place(const std::string& message) {
  const std::size_t open = message.rfind(" (");
  if (open == std::string::npos || message.back() != ')' || message.find(".cpp:", open) == std::string::npos)
    return message;
  return message.substr(0, open);
}

std::pair<std::string, std::string> renaming(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos)
    throw std::runtime_error("--rename " + text + ": there is no '='; it must be FROM=TO, as in conv1.=features.0.");
  return {text.substr(0, sign), text.substr(sign + 1)};
}

std::vector<std::pair<std::string, std::string>> renamings(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const std::string& text : texts) {
    const auto one = renaming(text);
    if (std::any_of(list.begin(), list.end(), [&](const auto& other) { return other.first == one.first; }))
      throw std::runtime_error("--rename " + text + ": another one is of '" + one.first +
                               "', too; each must be of another beginning.");
    list.push_back(one);
  }
  return list;
}

struct Arguments {
  std::string first, second;
  bool values = false;
  CompareOptions compare;
  std::vector<std::string> rename;
};

int run(const CLI::App& app, Arguments& arguments) {
  if (app.got_subcommand("list")) {
    list(arguments.first, arguments.values);
    return 0;
  }
  if (app.got_subcommand("convert")) {
    convert(arguments.first, arguments.second);
    return 0;
  }
  arguments.compare.rename = renamings(arguments.rename);
  return compare(arguments.first, arguments.second, arguments.compare) ? 0 : 1;
}

void describe(CLI::App& app, Arguments& arguments) {
  app.name("capstan-weights");
  app.require_subcommand(1);
  CLI::App* list_files = app.add_subcommand("list", "names, types, shapes and sizes of all tensors; metadata");
  list_files->add_option("FILE", arguments.first)->required();
  list_files->add_flag("--values", arguments.values, "also the smallest, largest and mean value of each");

  CLI::App* compare_files = app.add_subcommand(
      "compare", "what differs; exits with 0 if nothing does, 1 if something does, 2 if a file cannot be read");
  compare_files->add_option("FIRST", arguments.first)->required();
  compare_files->add_option("SECOND", arguments.second)->required();
  compare_files->add_option("--absolute", arguments.compare.absolute, "by how much values may differ")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  compare_files->add_option("--relative", arguments.compare.relative, "by which share of the larger one, besides")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  compare_files->add_flag("--any-type", arguments.compare.any_type, "types may differ: values are compared alone");
  compare_files->add_option("--rename", arguments.rename, "FROM=TO: names that begin so in FIRST, and in SECOND")
      ->allow_extra_args(false);

  CLI::App* convert_files = app.add_subcommand("convert", "writes .safetensors, .npz or .pt, by the name of OUT");
  convert_files->add_option("IN", arguments.first)->required();
  convert_files->add_option("OUT", arguments.second)->required();
}

}  // namespace
}  // namespace weights_tool

int main(int argc, char** argv) {
  weights_tool::Arguments arguments;
  CLI::App app{"Shows, compares and converts files of weights: safetensors, checkpoints, .npz, .npy, torch.save's."};
  try {
    weights_tool::describe(app, arguments);
    app.parse(argc, argv);
    const int result = weights_tool::run(app, arguments);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw std::runtime_error("the output cannot be written; its disk must have room for it.");
    return result;
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 2; } catch (const std::exception& error) {
    std::fprintf(stderr, "capstan-weights: %s\n", weights_tool::without_place(error.what()).c_str());
    return 2;
  }
}
