// tensorflow/core/util/event.proto and framework/summary.proto; fields that nobody shows are passed over:
//
//   Event            wall_time = 1, step = 2, and one of file_version = 3, graph_def = 4, summary = 5, session_log = 7
//   SessionLog       status = 1, of which START is 1
//   Summary          repeated Value = 1
//   Value            tag = 1, metadata = 9, and one of simple_value = 2, image = 4, histo = 5, audio = 6, tensor = 8
//   SummaryMetadata  plugin_data = 1 {plugin_name = 1, content = 2}
//   Image            height = 1, width = 2, encoded_image_string = 4
//   Audio            encoded_audio_string = 4
//   HistogramProto   min = 1, max = 2, repeated bucket_limit = 6 and bucket = 7
#include "io/event_values.hpp"

#include "lib/base/text.hpp"

#if CAPSTAN_HAS_PROTOZERO
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "io/event_tensor.hpp"
#include "io/protobuf.hpp"
#include "io/quoted.hpp"

namespace capstan::io {
namespace {

using Message = ProtobufMessage;

constexpr std::int64_t kSessionStart = 1;
constexpr std::size_t kLongestHandedOn = 64;  // plugins' names are short; else a few bytes could ask for a copy of many
constexpr std::size_t kLeastValue = 10;       // of several, bytes: a tag of one letter, and a scalar

/// The field of `Value` that holds the value.
enum class Form : std::uint32_t { none = 0, simple = 2, image = 4, histogram = 5, audio = 6, tensor = 8 };

void parse_image(Message message, SummaryValue& value) {
  value.kind = SummaryKind::image;
  value.bytes.emplace_back();
  while (message.next()) {
    if (message.number() == 1) value.height = message.integer();
    else if (message.number() == 2) value.width = message.integer();
    else if (message.number() == 4) value.bytes.front() = message.bytes();
    else message.skip();
  }
}

void parse_audio(Message message, SummaryValue& value) {
  value.kind = SummaryKind::audio;
  value.bytes.emplace_back();
  while (message.next()) {
    if (message.number() == 4) value.bytes.front() = message.bytes();
    else message.skip();
  }
}

/// Empty bins at both ends are left out, which then reach from the smallest value to the largest: their own ends can be
/// +-DBL_MAX. As TensorBoard shows them.
void parse_histogram(Message message, SummaryValue& value) {
  value.kind = SummaryKind::histogram;
  double least = 0, most = 0;
  std::vector<double> limits, counts;
  while (message.next()) {
    if (message.number() == 1) least = message.real();
    else if (message.number() == 2) most = message.real();
    else if (message.number() == 6) message.read_doubles(limits);
    else if (message.number() == 7) message.read_doubles(counts);
    else message.skip();
  }
  const ProtobufSource& source = message.source();
  if (limits.size() != counts.size())
    source.fail("histogram ", quoted(value.tag), " has ", limits.size(), " limits and ", counts.size(),
                " counts in the message at offset ", source.offset(), "; there must be as many.");
  std::size_t first = 0, last = counts.size();
  while (first < last && !(counts[first] > 0)) ++first;
  while (first < last && !(counts[last - 1] > 0)) --last;
  value.histogram.reserve(last - first);
  for (std::size_t i = first; i < last; ++i)
    value.histogram.push_back({i == first ? least : limits[i - 1], i + 1 == last ? most : limits[i], counts[i]});
}

std::int64_t parse_size(const std::string& text, const SummaryValue& value, const ProtobufSource& source) {
  constexpr std::size_t kMostDigits = 18;
  std::int64_t size = 0;
  bool good = !text.empty() && text.size() <= kMostDigits;
  for (const char c : text) {
    good = good && c >= '0' && c <= '9';
    if (!good) break;
    size = 10 * size + (c - '0');
  }
  if (!good)
    source.fail("images ", quoted(value.tag), " have the size ", quoted(text), " in the message at offset ",
                source.offset(), "; it must be a number.");
  return size;
}

/// Texts: width, height, and then a file for each image.
void take_images(const TensorMessage& tensor, const ProtobufSource& source, SummaryValue& value) {
  value.kind = SummaryKind::image;
  std::vector<std::string> texts = tensor.texts();
  if (texts.size() < 2)
    source.fail("images ", quoted(value.tag), " have ", texts.size(), " texts in the message at offset ",
                source.offset(), "; the first two must be width and height.");
  value.width = parse_size(texts[0], value, source);
  value.height = parse_size(texts[1], value, source);
  texts.erase(texts.begin(), texts.begin() + 2);
  value.bytes = std::move(texts);
}

/// Texts: files, or pairs of a file and what is said about it.
void take_sounds(const TensorMessage& tensor, SummaryValue& value) {
  value.kind = SummaryKind::audio;
  const bool pairs = tensor.sizes().size() == 2 && tensor.sizes()[1] == 2;
  std::vector<std::string> texts = tensor.texts();
  if (pairs) {
    for (std::size_t i = 1; i < texts.size() / 2; ++i) texts[i] = std::move(texts[2 * i]);
    texts.resize(texts.size() / 2);
  }
  value.bytes = std::move(texts);
}

void take_histogram(const TensorMessage& tensor, const ProtobufSource& source, SummaryValue& value) {
  value.kind = SummaryKind::histogram;
  if (tensor.sizes().size() != 2 || tensor.sizes()[1] != 3)
    source.fail("histogram ", quoted(value.tag), " is ", tensor.description(), " in the message at offset ",
                source.offset(), "; it must be [bins, 3]: left, right, count.");
  const std::vector<double> reals = tensor.reals();
  value.histogram.reserve(reals.size() / 3);
  for (std::size_t i = 0; i < reals.size(); i += 3) value.histogram.push_back({reals[i], reals[i + 1], reals[i + 2]});
}

void take_scalar(const TensorMessage& tensor, const ProtobufSource& source, SummaryValue& value) {
  value.kind = SummaryKind::scalar;
  if (tensor.count() != 1)
    source.fail("scalar ", quoted(value.tag), " is ", tensor.description(), " in the message at offset ",
                source.offset(), "; it must be a single number.");
  value.scalar = tensor.reals().front();
}

/// What the plugin's name says that it is; otherwise as it stands.
void parse_tensor(ProtobufSource& source, std::string_view bytes, SummaryValue& value) {
  const TensorMessage tensor(source, bytes);
  const bool numbers = value.plugin == "scalars" || value.plugin == "histograms";
  const bool texts = value.plugin == "images" || value.plugin == "audio" || value.plugin == "text";
  if ((numbers && tensor.number() == nullptr) || (texts && !tensor.is_text()))
    source.fail("a value of plugin ", quoted(value.plugin), " under ", quoted(value.tag), " is ", tensor.description(),
                " in the message at offset ", source.offset(), "; it must hold ", numbers ? "numbers." : "texts.");
  if (value.plugin == "scalars") {
    take_scalar(tensor, source, value);
  } else if (value.plugin == "histograms") {
    take_histogram(tensor, source, value);
  } else if (value.plugin == "images") {
    take_images(tensor, source, value);
  } else if (value.plugin == "audio") {
    take_sounds(tensor, value);
  } else if (tensor.is_text()) {
    value.kind = texts ? SummaryKind::text : SummaryKind::tensor;
    value.bytes = tensor.texts();
  } else if (tensor.number() != nullptr) {
    value.kind = SummaryKind::tensor;
    value.tensor = tensor.tensor();
  }
}

void parse_metadata(Message message, SummaryValue& value) {
  while (message.next()) {
    if (message.number() != 1) {
      message.skip();
      continue;
    }
    for (Message plugin = message.message(); plugin.next();) {
      if (plugin.number() == 1) value.plugin = plugin.bytes();
      else if (plugin.number() == 2) value.content = plugin.bytes();
      else plugin.skip();
    }
  }
}

/// Takes what the first value of the tag has said, or keeps it for those that follow.
void settle_plugin(SummaryValue& value, TagPlugins& plugins) {
  if (!value.plugin.empty()) {
    if (value.plugin.size() <= kLongestHandedOn) plugins.try_emplace(value.tag, value.plugin);
  } else if (const auto known = plugins.find(value.tag); known != plugins.end()) {
    value.plugin = known->second;
  }
}

SummaryValue parse_value(Message message, TagPlugins& plugins) {
  SummaryValue value;
  Form form = Form::none;
  std::string_view bytes;
  while (message.next()) {
    switch (message.number()) {
      case 1: value.tag = message.bytes(); break;
      case 2:
        value.scalar = static_cast<double>(message.single());
        form = Form::simple;
        break;
      case 4:
      case 5:
      case 6:
      case 8:
        bytes = message.bytes();
        form = static_cast<Form>(message.number());
        break;
      case 9: parse_metadata(message.message(), value); break;
      default: message.skip();
    }
  }
  settle_plugin(value, plugins);
  ProtobufSource& source = message.source();
  if (form != Form::simple) value.scalar = 0;  // the last form stays
  switch (form) {
    case Form::none: break;
    case Form::simple: value.kind = SummaryKind::scalar; break;
    case Form::image: parse_image(Message(source, bytes), value); break;
    case Form::histogram: parse_histogram(Message(source, bytes), value); break;
    case Form::audio: parse_audio(Message(source, bytes), value); break;
    case Form::tensor: parse_tensor(source, bytes, value); break;
  }
  return value;
}

/// Makes room for the values of an event, which are many times larger than the fewest bytes of one.
void make_room(ProtobufSource& source, std::string_view bytes, std::vector<SummaryValue>& values) {
  const char* const field = source.field;
  std::size_t count = 0, taken = 0;
  for (Message event(source, bytes); event.next();) {
    if (event.number() != 5) {
      event.skip();
      continue;
    }
    for (Message summary = event.message(); summary.next();) {
      if (summary.number() == 1) {
        taken += summary.bytes().size() + 2;
        ++count;
      } else {
        summary.skip();
      }
    }
  }
  if (count > 1 && taken / count < kLeastValue)
    source.fail(count, " values stand in the event at offset ", source.start, ", in ", taken,
                " bytes; they must be tags with something under them.");
  source.field = field;
  values.reserve(count);
}

void parse_summary(Message message, TagPlugins& plugins, std::vector<SummaryValue>& values) {
  while (message.next()) {
    if (message.number() == 1) values.push_back(parse_value(message.message(), plugins));
    else message.skip();
  }
}

bool is_session_start(Message message) {
  std::int64_t status = 0;
  while (message.next()) {
    if (message.number() == 1) status = message.integer();
    else message.skip();
  }
  return status == kSessionStart;
}

}  // namespace

Event parse_event(std::string_view op, std::string_view bytes, std::int64_t offset, TagPlugins& plugins, Where where) {
  Event event;
  bool has_room = false;
  parse_protobuf({op, bytes.data(), offset, where}, bytes, [&](Message& message) {
    if (message.number() == 5 && !std::exchange(has_room, true)) make_room(message.source(), bytes, event.values);
    switch (message.number()) {
      case 1: event.wall_time = message.real(); break;
      case 2: event.step = message.integer(); break;
      case 3: event.file_version = message.bytes(); break;
      case 4: event.graph = message.bytes(); break;
      case 5: parse_summary(message.message(), plugins, event.values); break;
      case 7: event.session_start = is_session_start(message.message()); break;
      default: message.skip();
    }
  });
  return event;
}

}  // namespace capstan::io

#else

namespace capstan::io {

Event parse_event(std::string_view op, std::string_view, std::int64_t, TagPlugins&, Where where) {
  base::fail<MissingLibraryError>(
      where, op, ": this build has no protozero; install libprotozero-dev (Debian, Ubuntu) and build again.");
}

}  // namespace capstan::io

#endif
