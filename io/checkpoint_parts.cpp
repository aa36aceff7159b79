#include "io/checkpoint_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include <capstan/device.hpp>
#include <capstan/random.hpp>
#include <capstan/tape.hpp>

#include "io/numbers.hpp"
#include "io/quoted.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

using detail::PartState;
using Kind = PartState::Kind;

// Metadata: "text.data" is the state of a pipeline, "tensors.model" the number of a model's tensors.
constexpr std::string_view kText = "text.", kTensors = "tensors.", kDefaultRandom = "default_random";

constexpr struct {
  const char* name;
  CheckpointPart CheckpointParts::*part;
} kFields[] = {
    {"model", &CheckpointParts::model},       {"optimizer", &CheckpointParts::optimizer},
    {"schedule", &CheckpointParts::schedule}, {"ema", &CheckpointParts::ema},
    {"scaler", &CheckpointParts::scaler},     {"data", &CheckpointParts::data},
    {"random", &CheckpointParts::random},
};

bool is_reserved(std::string_view name) {
  if (name == kDefaultRandom) return true;
  return std::any_of(std::begin(kFields), std::end(kFields), [&](const auto& field) { return name == field.name; });
}

// --- to a file -----------------------------------------------------------------------------------------------------

/// Elements that nobody changes.
Tensor on_host(const Tensor& value, Kind kind, Where where) {
  if (!value.defined()) return value;  // told by whoever lays out the file
  if (kind == Kind::handles && value.device(where) == cpu()) return value.copy(where);
  return value.to(cpu(), where).contiguous(where);
}

void append(PartContents& contents, const char* op, const NamedPart& part, Where where) {
  PartState state = part.part.save(where);
  if (state.kind == Kind::text) {
    contents.entries.emplace_back(std::string(kText) + part.name, std::move(state.text));
    return;
  }
  if (state.kind == Kind::handles && state.tensors.empty())
    base::fail<Error>(where, op, ": part ", quoted(part.name),
                      " has no parameters and no buffers; there must be something to keep.");
  contents.entries.emplace_back(std::string(kTensors) + part.name, std::to_string(state.tensors.size()));
  for (const NamedTensor& tensor : state.tensors)
    contents.tensors.push_back(
        {tensor.name.empty() ? part.name : part.name + '.' + tensor.name, on_host(tensor.value, state.kind, where)});
}

// --- from a file ---------------------------------------------------------------------------------------------------

/// The name of the part, and what follows behind the dot.
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

/// How many tensors each part says that it has.
using Counts = std::map<std::string, std::int64_t, std::less<>>;

void read_entries(const SafetensorsSource& source, const Metadata& metadata, PartStates& states, Counts& counts) {
  for (const auto& [key, value] : metadata) {
    const bool text = key.starts_with(kText);
    if (!text && !key.starts_with(kTensors)) continue;
    const std::string name = key.substr(text ? kText.size() : kTensors.size());
    if (name.empty() || name.find('.') != std::string::npos)
      source.fail("the header at offset 8 has an entry ", quoted(key), "; what follows its dot must be a part's name.");
    const auto [at, added] = states.emplace(name, PartState{});
    if (!added)
      source.fail("the header at offset 8 says that part ", quoted(name), " is a text, and that it is tensors; it ",
                  "must be one of them.");
    if (text) {
      at->second = {Kind::text, {}, value};
      continue;
    }
    std::int64_t count = -1;
    if (!parse_integer(value, count) || count < 0)
      source.fail("the header at offset 8 says that part ", quoted(name), " has ", quoted(value),
                  " tensors; it must be a whole number >= 0.");
    counts[name] = count;
  }
}

void check_default_random(const SafetensorsSource& source, const PartStates& states) {
  const auto random = states.find(kDefaultRandom);
  if (random == states.end() || random->second.kind != Kind::text)
    source.fail("the header at offset 8 has no 'text.default_random'; every checkpoint has it.");
  try {
    parse_rng_state(random->second.text);
  } catch (const Error&) {
    source.fail("'text.default_random' in the header at offset 8 is ", quoted(random->second.text),
                "; it must be the state of a generator.");
  }
}

// --- restoring -----------------------------------------------------------------------------------------------------

std::string names_in(const PartStates& states) {
  std::vector<std::string> names;
  for (const auto& [name, state] : states)
    if (name != kDefaultRandom) names.push_back(name);
  return names.empty() ? "none" : listed(names);
}

void check_fit(const char* op, const std::string& path, const PartStates& states, std::span<const NamedPart> parts,
               Where where) {
  std::vector<std::string> asked, missing;
  for (const NamedPart& part : parts) {
    asked.push_back(part.name);
    if (states.find(part.name) == states.end()) missing.push_back(part.name);
  }
  if (!missing.empty())
    base::fail<Error>(where, op, ": ", path, ": parts are missing: ", listed(missing), "; the file has ",
                      names_in(states), ", and there were asked for ", listed(asked), ".");
  for (const NamedPart& part : parts) {
    const bool text = states.find(part.name)->second.kind == Kind::text;
    if (text != part.part.is_text())
      base::fail<Error>(where, op, ": ", path, ": part ", quoted(part.name), " is ", text ? "a text" : "tensors",
                        " in the file, and ", text ? "tensors" : "a text",
                        " is what the object is kept as; both must be of the same kind.");
  }
}

std::int64_t bytes_in(const PartState& state) {
  std::int64_t bytes = 0;
  for (const NamedTensor& tensor : state.tensors) bytes += tensor.value.numel() * size_of(tensor.value.dtype());
  return bytes;
}

/// A state that stays as it is.
PartState kept(const CheckpointPart& part, Where where) {
  PartState state = part.save(where);
  if (state.kind == Kind::handles)
    for (NamedTensor& tensor : state.tensors) tensor.value = tensor.value.copy(where);
  return state;
}

/// The state is one that the part has just given.
void put_back(const CheckpointPart& part, const PartState& before, Where where) noexcept {
  try {
    part.load(before, where);
  } catch (...) {}
}

/// Throws the error that is being handled with the file and the part before it, of the same type.
[[noreturn]] void fail_part(const std::string& start) {
  try {
    throw;
  } catch (const OutOfMemoryError&) { throw; } catch (const ShapeError& error) {
    throw ShapeError(start + error.what());
  } catch (const DTypeError& error) { throw DTypeError(start + error.what()); } catch (const DeviceError& error) {
    throw DeviceError(start + error.what());
  } catch (const IndexError& error) { throw IndexError(start + error.what()); } catch (const IoError& error) {
    throw IoError(start + error.what());
  } catch (const NumericError& error) { throw NumericError(start + error.what()); } catch (const TapeError& error) {
    throw TapeError(start + error.what());
  } catch (const MissingLibraryError& error) {
    throw MissingLibraryError(start + error.what());
  } catch (const BackendError& error) { throw BackendError(start + error.what()); } catch (const Error& error) {
    throw Error(start + error.what());
  }
}

}  // namespace

std::vector<NamedPart> named_parts(const char* op, const CheckpointParts& parts, Where where) {
  std::vector<NamedPart> named;
  for (const auto& field : kFields)
    if (const CheckpointPart& part = parts.*field.part; part.defined()) named.push_back({field.name, part});
  std::set<std::string_view> names;
  for (const auto& [name, part] : parts.more) {
    const char* fault = name.empty()                          ? "is empty"
                        : name.find('.') != std::string::npos ? "has a dot"
                        : is_reserved(name)                   ? "is the name of a field"
                        : !names.insert(name).second          ? "is there twice"
                                                              : nullptr;
    if (fault != nullptr)
      base::fail<Error>(where, op, ": the name ", quoted(name), " of a part ", fault,
                        "; each must have a name of its own, without dots.");
    if (!part.defined()) base::fail<Error>(where, op, ": part ", quoted(name), " is undefined; give it an object.");
    named.push_back({name, part});
  }
  return named;
}

PartContents contents_of(const char* op, std::span<const NamedPart> parts, Where where) {
  PartContents contents;
  for (const NamedPart& part : parts) append(contents, op, part, where);
  contents.entries.emplace_back(std::string(kText) + std::string(kDefaultRandom), to_string(default_rng().state()));
  return contents;
}

PartStates parts_in(const SafetensorsSource& source, const Metadata& metadata, std::vector<NamedTensor> tensors) {
  PartStates states;
  Counts counts;
  read_entries(source, metadata, states, counts);
  for (NamedTensor& tensor : tensors) {
    const auto [part, name] = split(tensor.name);
    const auto state = states.find(part);
    if (state == states.end() || state->second.kind == Kind::text)
      source.fail("the header at offset 8 has a tensor ", quoted(tensor.name),
                  " and no entry for the tensors of its part; there must be one.");
    state->second.tensors.push_back({std::string(name), std::move(tensor.value)});
  }
  for (const auto& [name, count] : counts)
    if (const std::size_t found = states.find(name)->second.tensors.size(); static_cast<std::int64_t>(found) != count)
      source.fail("the header at offset 8 says that part ", quoted(name), " has ", count, " tensors, and has ", found,
                  "; both must be equal.");
  check_default_random(source, states);
  return states;
}

void restore_parts(const char* op, const std::string& path, const PartStates& states, std::span<const NamedPart> parts,
                   Where where) {
  check_fit(op, path, states, parts, where);
  const NoGrad off;
  const RngState random = parse_rng_state(states.find(kDefaultRandom)->second.text, where);
  const auto state_of = [&](std::size_t i) -> const PartState& { return states.find(parts[i].name)->second; };
  // The largest goes last: nothing fails after it, and so no copy is needed of what it was.
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes_in(state_of(a)) < bytes_in(state_of(b)); });
  std::vector<PartState> before;
  for (std::size_t k = 0; k + 1 < order.size(); ++k) before.push_back(kept(parts[order[k]].part, where));
  std::size_t done = 0;
  try {
    for (; done < order.size(); ++done) parts[order[done]].part.load(state_of(order[done]), where);
  } catch (...) {
    const std::string& failed = parts[order[done]].name;
    for (std::size_t k = done; k-- > 0;) put_back(parts[order[k]].part, before[k], where);
    fail_part(std::string(op) + ": " + path + ": part " + quoted(failed) + " is not restored: ");
  }
  default_rng().restore(random);
}

}  // namespace capstan::io
