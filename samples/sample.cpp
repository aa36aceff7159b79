#include "samples/sample.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <exception>

namespace sample {

void CommandLine::add(const char* name, bool& to, const char* what) { app_.add_flag(name, to, what); }

void CommandLine::add(const char* name, double& to, const char* what) {
  app_.add_option(name, to, what)->capture_default_str();
}

void CommandLine::add(const char* name, std::int64_t& to, const char* what, std::int64_t least, std::int64_t most) {
  CLI::Option* const option = app_.add_option(name, to, what)->capture_default_str();
  if (most < kUnlimited) {
    option->check(CLI::Range(least, most));
    return;
  }
  const std::string rule = "at least " + std::to_string(least);
  option->check(
      [least, rule](const std::string& text) {
        return std::strtoll(text.c_str(), nullptr, 0) < least ? text + " is not " + rule : std::string();
      },
      rule);
}

void CommandLine::add(const char* name, std::string& to, const char* what, const std::vector<std::string>& choices) {
  CLI::Option* const option = app_.add_option(name, to, what);
  if (!to.empty()) option->capture_default_str();
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void CommandLine::add_picture(const char* file) {
  add_picture("--picture", flags_.picture, file, "where the picture goes; none if empty");
}

void CommandLine::add_picture(const char* name, std::string& to, const char* file, const char* what) {
  to = file;
  pictures_.push_back(&to);
  const std::string ending = std::filesystem::path(file).extension();
  app_.add_option(name, to, what)
      ->capture_default_str()
      ->check(
          [ending](const std::string& path) {
            const bool fits = path.empty() || std::filesystem::path(path).extension() == ending;
            return fits ? std::string() : path + " does not end in " + ending;
          },
          "a file " + ending);
}

namespace {

/// Before anything is computed: a training of minutes is not to end with a picture that cannot be written.
void require_place(const std::string& picture) {
  if (picture.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(picture).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return;
  throw std::runtime_error("the picture " + picture + " cannot be written: " + std::strerror(errno) +
                           "; name another place, or none, as in --picture ''");
}

}  // namespace

int run(int argc, char** argv, const char* what, Flags& flags, const std::function<void(CommandLine&)>& add,
        const std::function<int()>& body) {
  CLI::App app{what};
  CommandLine line(app, flags);
  line.add("--quick", flags.quick, "a run of seconds, with weaker checks");
  app.add_option("--seed", flags.seed, "of everything that is random")->capture_default_str();
  app.add_option("--threads", flags.threads, "0: the library's default")->capture_default_str();
  line.add("--log", flags.log, "folder for TensorBoard's events");
  add(line);
  CLI11_PARSE(app, argc, argv);
  try {
    if (flags.threads > 0) capstan::set_threads(flags.threads);
    capstan::seed(flags.seed);
    for (const std::string* picture : line.pictures()) require_place(*picture);
    return body();
  } catch (const NoData& missing) {
    std::fprintf(stderr, "skipped: %s\n", missing.what());
    return kSkipped;
  } catch (const capstan::MissingLibraryError& missing) {
    std::fprintf(stderr, "skipped: %s\n", missing.what());
    return kSkipped;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kError;
  }
}

}  // namespace sample
