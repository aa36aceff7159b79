// libFuzzer: Example and SequenceExample. What is parsed must come back from its own bytes, and those be the same
// again; as tensors it is what specs say, or an error.
#include <capstan/io/example.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "io/utf8.hpp"

namespace {

using namespace capstan::io;

bool has_foreign_name(const Example& example) {
  for (const auto& entry : example.features)
    if (!is_utf8(entry.first)) return true;
  return false;
}
bool has_foreign_name(const SequenceExample& example) {
  for (const auto& entry : example.feature_lists)
    if (!is_utf8(entry.first)) return true;
  return has_foreign_name(example.context);
}

/// By bytes, since a NaN is not equal to itself. Names that are no UTF-8 are read, and not written.
template <class Message>
void come_back(const Message& message, Message (*parse)(std::string_view, capstan::Where)) {
  if (has_foreign_name(message)) return;
  const std::string bytes = serialize(message);
  if (serialize(parse(bytes, capstan::Where::current())) != bytes) std::abort();
}

void make_tensors(std::string_view bytes) {
  static const std::vector<FeatureSpec> specs = {
      {.name = "a"},
      {.name = "b", .dtype = capstan::DType::int64, .shape = capstan::Shape{2}, .default_value = 7},
      {.name = "c", .dtype = capstan::DType::uint8},
      {.name = "", .dtype = capstan::DType::int64},
  };
  if (parse_example(bytes, specs).size() != specs.size()) std::abort();
}

template <class Call>
void try_to(const Call& call) {
  try {
    call();
  } catch (const capstan::IoError&) {}
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try_to([&] { come_back<Example>(parse_example(bytes), &parse_example); });
  try_to([&] { come_back<SequenceExample>(parse_sequence_example(bytes), &parse_sequence_example); });
  try_to([&] { make_tensors(bytes); });
  return 0;
}
