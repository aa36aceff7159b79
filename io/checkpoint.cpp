// Checkpoints: the manager, and how numbers and models are kept.
#include <capstan/io/checkpoint.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <capstan/random.hpp>
#include <capstan/tape.hpp>

#include "io/checkpoint_folder.hpp"
#include "io/io_error.hpp"
#include "io/numbers.hpp"
#include "io/quoted.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace detail {

std::span<const NamedTensor> tensors_in(const PartState& state) { return state.tensors; }
std::string text_of(const Rng& rng) { return to_string(rng.state()); }
std::string text_of(std::int64_t value) { return std::to_string(value); }

/// "0.5 3fe0000000000000": for people, and the bits.
std::string text_of(double value) {
  std::array<char, 64> text{};
  char* const end = text.data() + text.size();
  char* at = std::to_chars(text.data(), end, value).ptr;
  *at++ = ' ';
  at = std::to_chars(at, end, std::bit_cast<std::uint64_t>(value), 16).ptr;
  return std::string(text.data(), at);
}

void restore_text(Rng& rng, std::string_view text, Where where) { rng.restore(parse_rng_state(text, where)); }

double read_real(std::string_view text, Where where) {
  const std::size_t space = text.find(' ');
  const std::string_view digits = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    base::fail<Error>(where, "CheckpointPart: ", io::quoted(text),
                      " is no number of a checkpoint; it must read like '0.5 3fe0000000000000'.");
  return std::bit_cast<double>(bits);
}

std::int64_t read_integer(std::string_view text, std::size_t bytes, bool with_sign, Where where) {
  const int bits = bytes == 0 ? 1 : static_cast<int>(8 * std::min(bytes, sizeof(std::int64_t)));
  const bool whole = bits == 64;  // unsigned ones of 64 bits are kept as the signed ones of the same bits
  const std::int64_t most = whole ? INT64_MAX : (std::int64_t{1} << (with_sign ? bits - 1 : bits)) - 1;
  const std::int64_t least = whole ? INT64_MIN : with_sign ? -most - 1 : 0;
  std::int64_t value = 0;
  if (!parse_integer(text, value) || value < least || value > most)
    base::fail<Error>(where, "CheckpointPart: ", io::quoted(text), " is no integer from ", least, " to ", most, ".");
  return value;
}

std::vector<NamedTensor> tensors_of(const Tensor& value) {
  if (!value.defined()) return {};
  return {{"", value}};
}

void restore_tensor(Tensor& value, std::span<const NamedTensor> tensors, Where where) {
  if (tensors.size() > 1 || (!tensors.empty() && !tensors[0].name.empty()))
    base::fail<Error>(where, "CheckpointPart: ", tensors.size(), " tensors, ", io::quoted(tensors[0].name),
                      " among them, do not make one; there must be one without a name.");
  if (tensors.empty()) {
    value = Tensor();
    return;
  }
  const Device device = value.defined() ? value.device(where) : default_device();
  const Tensor& kept = tensors[0].value;
  value = kept.device(where) == device ? kept.copy(where) : kept.to(device, where);
}

void restore_model(const nn::detail::Outline& model, std::span<const NamedTensor> tensors, Where where) {
  nn::detail::load("load_state", model, tensors, {}, where);
}

}  // namespace detail

namespace {

CheckpointFolder& opened(CheckpointFolder* folder, const char* op, Where where) {
  if (folder == nullptr) base::fail<Error>(where, op, ": this manager was moved from; it must have a folder.");
  return *folder;
}

}  // namespace

CheckpointManager::CheckpointManager(const std::string& folder, CheckpointOptions options, Where where) {
  constexpr const char* op = "CheckpointManager";
  if (folder.empty() || folder.find('\0') != std::string::npos)
    base::fail<Error>(where, op, ": the name of the folder is ", io::quoted(folder),
                      "; it must not be empty or hold a zero byte.");
  if (options.keep < 1) base::fail<Error>(where, op, ": keep is ", options.keep, "; it must be >= 1.");
  if (options.keep_best < 0) base::fail<Error>(where, op, ": keep_best is ", options.keep_best, "; it must be >= 0.");
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(folder, error);  // programs may go elsewhere
  if (error)
    fail_io(op, folder, where, "has no place: " + error.message() + "; the program's own folder must be there.");
  state_ = new CheckpointFolder(absolute.string(), options);
}

CheckpointManager::~CheckpointManager() { delete state_; }

void CheckpointManager::save(std::int64_t step, const CheckpointParts& parts, SaveOptions options, Where where) {
  constexpr const char* op = "CheckpointManager::save";
  CheckpointFolder& folder = opened(state_, op, where);
  if (step < 0 || step > kMostNumber)
    base::fail<Error>(where, op, ": the step is ", step, "; it must be from 0 to ", kMostNumber, ".");
  check_readable(op, where);
  const std::vector<NamedPart> named = named_parts(op, parts, where);
  folder.writer.finish();
  const NoGrad off;
  const auto begun = folder.begin(op, step, options.metric, contents_of(op, named, where), where);
  if (folder.options.background) folder.writer.start([&folder, begun] { folder.write(*begun); });
  else folder.write(*begun);
}

void CheckpointManager::wait(Where where) { opened(state_, "CheckpointManager::wait", where).writer.finish(); }

std::int64_t CheckpointManager::restore_latest(const CheckpointParts& parts, Where where) {
  constexpr const char* op = "CheckpointManager::restore_latest";
  CheckpointFolder& folder = opened(state_, op, where);
  const std::vector<NamedPart> named = named_parts(op, parts, where);
  folder.writer.finish();
  const auto last_first = [&] {
    std::vector<CheckpointName> names = folder.names(op, where);
    if (names.empty()) names = folder.names(op, where);  // a file that is just renamed may be missed once
    std::reverse(names.begin(), names.end());
    return names;
  };
  return folder.restore(op, last_first, named, where).value_or(0);
}

std::int64_t CheckpointManager::restore_best(const CheckpointParts& parts, Where where) {
  constexpr const char* op = "CheckpointManager::restore_best";
  CheckpointFolder& folder = opened(state_, op, where);
  const std::vector<NamedPart> named = named_parts(op, parts, where);
  folder.writer.finish();
  const auto best_first = [&] { return folder.by_metric(op, folder.skipped, nullptr, where); };
  if (const auto step = folder.restore(op, best_first, named, where)) return *step;
  base::fail<Error>(where, op, ": ", folder.path,
                    " has no checkpoint with a metric; one must be saved with `.metric`, and not be NaN.");
}

std::vector<Checkpoint> CheckpointManager::checkpoints(Where where) const {
  constexpr const char* op = "CheckpointManager::checkpoints";
  CheckpointFolder& folder = opened(state_, op, where);
  folder.writer.join();
  std::vector<Checkpoint> all;
  for (const CheckpointName& name : folder.names(op, where)) {
    Checkpoint checkpoint{folder.path_of(name.file), name.number, name.step, std::nullopt};
    try {
      checkpoint.metric = folder.head_of(op, name.file, where).metric;
    } catch (const IoError&) {  // damaged: a `restore_` function says how
    }
    all.push_back(std::move(checkpoint));
  }
  return all;
}

const std::vector<std::string>& CheckpointManager::skipped() const noexcept {
  static const std::vector<std::string> none;
  return state_ != nullptr ? state_->skipped : none;
}

std::int64_t restore_checkpoint(const std::string& path, const CheckpointParts& parts, Where where) {
  constexpr const char* op = "restore_checkpoint";
  const std::vector<NamedPart> named = named_parts(op, parts, where);
  const CheckpointContents contents = read_checkpoint(op, MappedFile::open(op, path, where), where);
  restore_parts(op, path, contents.parts, named, where);
  return contents.head.step;
}

}  // namespace capstan::io
