// The encoding of Example and SequenceExample, taken apart and put together by protozero.
//
//   Example          features = 1               SequenceExample  context = 1, feature_lists = 2
//   Features         map of Feature = 1         FeatureLists     map of FeatureList = 1
//   FeatureList      repeated Feature = 1       an entry of a map: name = 1, value = 2
//   Feature          one of BytesList = 1, FloatList = 2, Int64List = 3; each repeated = 1
#include <capstan/io/example.hpp>

#include "lib/base/text.hpp"

#if CAPSTAN_HAS_PROTOZERO
#include <protozero/pbf_writer.hpp>

#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "io/protobuf.hpp"
#include "io/quoted.hpp"
#include "io/utf8.hpp"

namespace capstan::io {
namespace {

static_assert(static_cast<int>(Feature::Kind::bytes) == 1 && static_cast<int>(Feature::Kind::floats) == 2 &&
              static_cast<int>(Feature::Kind::integers) == 3);  // the fields of Feature

// --- reading -------------------------------------------------------------------------------------------------------

using Message = ProtobufMessage;

void read_list(Message list, Feature& feature) {
  while (list.next()) {
    if (list.number() != 1) list.skip();
    else if (feature.kind == Feature::Kind::bytes) feature.bytes.emplace_back(list.bytes());
    else if (feature.kind == Feature::Kind::floats) list.read_floats(feature.floats);
    else list.read_integers(feature.integers);
  }
}

void read_value(Message message, Feature& feature) {
  while (message.next()) {
    if (message.number() > 3) {
      message.skip();
      continue;
    }
    const auto kind = static_cast<Feature::Kind>(message.number());
    if (feature.kind != kind) feature = Feature();  // the last kind stays
    feature.kind = kind;
    read_list(message.message(), feature);
  }
}

void read_value(Message message, std::vector<Feature>& list) {
  while (message.next()) {
    if (message.number() != 1) message.skip();
    else read_value(message.message(), list.emplace_back());
  }
}

void make_room(const Message&, const Feature&) {}

/// For the list of an entry, all its parts together. A feature takes 40 times as much as the two bytes of an empty one,
/// which a step without values has, so that there is room for no more than come.
void make_room(Message entry, std::vector<Feature>& list) {
  std::size_t count = 0;
  while (entry.next()) {
    if (entry.number() != 2) {
      entry.skip();
      continue;
    }
    for (Message part = entry.message(); part.next(); part.skip()) count += part.number() == 1 ? 1 : 0;
  }
  list.reserve(count);
}

/// The last entry of a name stays. They are kept as a map meanwhile, so that many of one name take no memory.
template <class Value>
void read_map(Message message, std::map<std::string, Value>& entries) {
  while (message.next()) {
    if (message.number() != 1) {
      message.skip();
      continue;
    }
    Message entry = message.message();
    std::string name;
    Value value;
    make_room(entry, value);
    while (entry.next()) {
      if (entry.number() == 1) name = entry.bytes();
      else if (entry.number() == 2) read_value(entry.message(), value);
      else entry.skip();
    }
    entries.insert_or_assign(std::move(name), std::move(value));
  }
}

template <class Value>
std::vector<std::pair<std::string, Value>> listed(std::map<std::string, Value>& entries) {
  std::vector<std::pair<std::string, Value>> list;
  list.reserve(entries.size());
  for (auto& [name, value] : entries) list.emplace_back(name, std::move(value));
  return list;
}

/// `read` takes the fields of the outermost message.
template <class Read>
void parse(const char* op, std::string_view bytes, Where where, const Read& read) {
  parse_protobuf({op, bytes.data(), 0, where}, bytes, read);
}

// --- writing -------------------------------------------------------------------------------------------------------

constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();  // of a message, says protobuf

void check_size(std::size_t bytes, Where where) {
  if (bytes > kMostBytes)
    base::fail<Error>(where, "serialize: a part of the message has ", bytes, " bytes; protobuf's limit is ", kMostBytes,
                      ".");
}

/// Adds what is written even if it is empty: a list without values is not the same as none.
void add(std::string& out, std::uint32_t number, std::string_view bytes, Where where) {
  check_size(bytes.size(), where);
  protozero::pbf_writer(out).add_bytes(number, bytes.data(), bytes.size());
  check_size(out.size(), where);
}

std::string encoded(const Feature& feature, Where where) {
  std::string list;
  protozero::pbf_writer writer(list);
  switch (feature.kind) {
    case Feature::Kind::bytes:
      for (const std::string& value : feature.bytes) add(list, 1, value, where);
      break;
    case Feature::Kind::floats:
      check_size(feature.floats.size() * sizeof(float), where);
      writer.add_packed_float(1, feature.floats.begin(), feature.floats.end());
      break;
    case Feature::Kind::integers:
      check_size(feature.integers.size(), where);
      writer.add_packed_int64(1, feature.integers.begin(), feature.integers.end());
      break;
    case Feature::Kind::none: return list;
  }
  std::string out;
  add(out, static_cast<std::uint32_t>(feature.kind), list, where);
  return out;
}

std::string encoded(const std::vector<Feature>& list, Where where) {
  std::string out;
  for (const Feature& feature : list) add(out, 1, encoded(feature, where), where);
  return out;
}

template <class Value>
std::string encoded_map(const std::vector<std::pair<std::string, Value>>& entries, Where where) {
  std::string out, entry;
  for (const auto& [name, value] : entries) {
    if (const std::size_t good = utf8_bytes(name); good < name.size())  // protobuf's parsers refuse it
      base::fail<Error>(where, "serialize: the name of feature ", quoted(name), " is no UTF-8 from byte ", good,
                        " on; it must be.");
    entry.clear();
    add(entry, 1, name, where);
    add(entry, 2, encoded(value, where), where);
    add(out, 1, entry, where);
  }
  return out;
}

}  // namespace

Example parse_example(std::string_view bytes, Where where) {
  std::map<std::string, Feature> features;
  parse("parse_example", bytes, where, [&](Message& message) {
    if (message.number() == 1) read_map(message.message(), features);
    else message.skip();
  });
  return {listed(features)};
}

SequenceExample parse_sequence_example(std::string_view bytes, Where where) {
  std::map<std::string, Feature> context;
  std::map<std::string, std::vector<Feature>> lists;
  parse("parse_sequence_example", bytes, where, [&](Message& message) {
    if (message.number() == 1) read_map(message.message(), context);
    else if (message.number() == 2) read_map(message.message(), lists);
    else message.skip();
  });
  return {{listed(context)}, listed(lists)};
}

std::string serialize(const Example& example, Where where) {
  std::string out;
  if (!example.features.empty()) add(out, 1, encoded_map(example.features, where), where);
  return out;
}

std::string serialize(const SequenceExample& example, Where where) {
  std::string out;
  if (!example.context.features.empty()) add(out, 1, encoded_map(example.context.features, where), where);
  if (!example.feature_lists.empty()) add(out, 2, encoded_map(example.feature_lists, where), where);
  return out;
}

}  // namespace capstan::io

#else

namespace capstan::io {
namespace {

[[noreturn]] void fail_for_protozero(const char* op, Where where) {
  base::fail<MissingLibraryError>(
      where, op, ": this build has no protozero; install libprotozero-dev (Debian, Ubuntu) and build again.");
}

}  // namespace

Example parse_example(std::string_view, Where where) { fail_for_protozero("parse_example", where); }
SequenceExample parse_sequence_example(std::string_view, Where where) {
  fail_for_protozero("parse_sequence_example", where);
}
std::string serialize(const Example&, Where where) { fail_for_protozero("serialize", where); }
std::string serialize(const SequenceExample&, Where where) { fail_for_protozero("serialize", where); }

}  // namespace capstan::io

#endif
