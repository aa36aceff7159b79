// The encoding of events. Fields have the numbers of tensorflow/core/util/event.proto, framework/{summary,histogram,
// tensor,tensor_shape,graph,node_def,attr_value}.proto, and tensorboard/plugins/hparams/{plugin_data,api}.proto:
//
//   Event                wall_time = 1, step = 2, file_version = 3, graph_def = 4, summary = 5
//   Summary              value = 1
//   Summary.Value        tag = 1, simple_value = 2, image = 4, histo = 5, audio = 6, tensor = 8, metadata = 9
//   SummaryMetadata      plugin_data = 1 {plugin_name = 1, content = 2}, data_class = 4
//   TensorProto          dtype = 1, tensor_shape = 2 {dim = 2 {size = 1}}, string_val = 8
//   GraphDef             node = 1, versions = 4 {producer = 1}
//   NodeDef              name = 1, op = 2, input = 3, attr = 5, a map {key = 1, value = 2}
//   AttrValue            list = 1 {shape = 7}, s = 2
//   HParamsPluginData    experiment = 2, session_start_info = 3, session_end_info = 4
#include "io/event_wire.hpp"

#include "lib/base/text.hpp"

#if CAPSTAN_HAS_PROTOZERO
#include <protozero/pbf_writer.hpp>

namespace capstan::io {
namespace {

using Writer = protozero::pbf_writer;

constexpr std::int32_t kFloatType = 1, kStringType = 7;  // tensorflow.DataType
constexpr std::int32_t kTensorClass = 2;                 // tensorflow.DataClass

void add(Writer& to, std::uint32_t field, std::string_view bytes) { to.add_bytes(field, bytes.data(), bytes.size()); }

Writer begun(std::string& out, EventHead head) {
  Writer event(out);
  event.add_double(1, head.wall_time);
  event.add_int64(2, head.step);
  return event;
}

/// An event with one value under a tag. What it holds is added to value(); its destructor sets the lengths.
class ValueEvent {
 public:
  ValueEvent(std::string& out, EventHead head, std::string_view tag)
      : event_(begun(out, head)), summary_(event_, 5), value_(summary_, 1) {
    add(value_, 1, tag);
  }
  ValueEvent(const ValueEvent&) = delete;
  ValueEvent& operator=(const ValueEvent&) = delete;
  Writer& value() noexcept { return value_; }

 private:
  Writer event_, summary_, value_;
};

/// Says which plugin shows a tensor. `content` is the plugin's own.
void add_metadata(Writer& value, std::string_view plugin, std::string_view content) {
  Writer metadata(value, 9);
  {
    Writer data(metadata, 1);
    add(data, 1, plugin);
    if (!content.empty()) add(data, 2, content);
  }
  metadata.add_enum(4, kTensorClass);
}

}  // namespace

void require_event_wire(const char* /*op*/, Where /*where*/) {}

void append_version_event(std::string& out, double wall_time) {
  Writer event(out);
  event.add_double(1, wall_time);
  add(event, 3, "brain.Event:2");
}

void append_scalar_event(std::string& out, EventHead head, std::string_view tag, float value) {
  ValueEvent event(out, head, tag);
  event.value().add_float(2, value);
}

void append_histogram_event(std::string& out, EventHead head, std::string_view tag, const HistogramSummary& histogram) {
  ValueEvent event(out, head, tag);
  Writer message(event.value(), 5);
  message.add_double(1, histogram.min);
  message.add_double(2, histogram.max);
  message.add_double(3, histogram.count);
  message.add_double(4, histogram.sum);
  message.add_double(5, histogram.sum_squares);
  message.add_packed_double(6, histogram.limits.begin(), histogram.limits.end());
  message.add_packed_double(7, histogram.counts.begin(), histogram.counts.end());
}

void append_image_event(std::string& out, EventHead head, std::string_view tag, const ImageSummary& image) {
  ValueEvent event(out, head, tag);
  Writer message(event.value(), 4);
  message.add_int32(1, static_cast<std::int32_t>(image.height));
  message.add_int32(2, static_cast<std::int32_t>(image.width));
  message.add_int32(3, static_cast<std::int32_t>(image.channels));
  add(message, 4, image.png);
}

void append_audio_event(std::string& out, EventHead head, std::string_view tag, const AudioSummary& audio) {
  ValueEvent event(out, head, tag);
  Writer message(event.value(), 6);
  message.add_float(1, static_cast<float>(audio.rate));
  message.add_int64(2, audio.channels);
  message.add_int64(3, audio.frames);
  add(message, 4, audio.wav);
  add(message, 5, "audio/wav");
}

void append_text_event(std::string& out, EventHead head, std::string_view tag, std::string_view text) {
  ValueEvent event(out, head, tag);
  Writer tensor(event.value(), 8);
  tensor.add_enum(1, kStringType);
  add(tensor, 2, "");  // shape []
  add(tensor, 8, text);
  tensor.commit();
  add_metadata(event.value(), "text", {});
}

void append_graph_event(std::string& out, double wall_time, std::string_view graph) {
  Writer event(out);
  event.add_double(1, wall_time);
  add(event, 4, graph);
}

void append_hparams_event(std::string& out, double wall_time, std::string_view tag, std::string_view content) {
  ValueEvent event(out, {wall_time, 0}, tag);
  add_metadata(event.value(), "hparams", content);
  Writer tensor(event.value(), 8);
  tensor.add_enum(1, kFloatType);
  Writer shape(tensor, 2), dim(shape, 2);
  dim.add_int64(1, 0);  // shape [0]: all is in the content
}

// --- graphs --------------------------------------------------------------------------------------------------------

namespace {

std::string encoded(const std::optional<Shape>& shape) {
  std::string bytes;
  Writer message(bytes);
  if (!shape) {
    message.add_bool(3, true);  // unknown_rank
    return bytes;
  }
  for (const std::int64_t size : *shape) {
    Writer dim(message, 2);
    dim.add_int64(1, size);
  }
  return bytes;
}

void add_shapes(Writer& node, const std::vector<std::optional<Shape>>& shapes) {
  Writer entry(node, 5);
  add(entry, 1, "_output_shapes");
  Writer value(entry, 2), list(value, 1);
  for (const std::optional<Shape>& shape : shapes) add(list, 7, encoded(shape));
}

void add_where(Writer& node, std::string_view where) {
  Writer entry(node, 5);
  add(entry, 1, "where");
  Writer value(entry, 2);
  add(value, 2, where);
}

}  // namespace

std::string encode_graph(std::span<const GraphNode> nodes) {
  std::string bytes;
  Writer graph(bytes);
  for (const GraphNode& node : nodes) {
    Writer message(graph, 1);
    add(message, 1, node.name);
    add(message, 2, node.op);
    for (const std::string& input : node.inputs) add(message, 3, input);
    if (!node.shapes.empty()) add_shapes(message, node.shapes);
    if (!node.where.empty()) add_where(message, node.where);
  }
  Writer versions(graph, 4);
  versions.add_int32(1, 22);  // nodes are as TensorFlow's graphs of that version and later ones have them
  versions.commit();
  return bytes;
}

// --- hyper-parameters ----------------------------------------------------------------------------------------------

namespace {

/// tensorboard.hparams.DataType
std::int32_t data_type_of(HyperParameter::Kind kind) {
  switch (kind) {
    case HyperParameter::Kind::text: return 1;
    case HyperParameter::Kind::boolean: return 2;
    case HyperParameter::Kind::number: break;
  }
  return 3;
}

}  // namespace

std::string encode_experiment(std::span<const HyperParameter> values, std::span<const std::string> metrics,
                              double time) {
  std::string bytes;
  Writer content(bytes);
  Writer experiment(content, 2);
  experiment.add_double(3, time);
  for (const HyperParameter& value : values) {
    Writer info(experiment, 4);
    add(info, 1, value.name);
    info.add_enum(4, data_type_of(value.kind));
  }
  for (const std::string& metric : metrics) {
    Writer info(experiment, 5), name(info, 1);
    add(name, 2, metric);
  }
  experiment.commit();
  return bytes;
}

std::string encode_session_start(std::span<const HyperParameter> values, double time) {
  std::string bytes;
  Writer content(bytes);
  Writer session(content, 3);
  for (const HyperParameter& value : values) {
    Writer entry(session, 1);
    add(entry, 1, value.name);
    Writer message(entry, 2);  // google.protobuf.Value
    if (value.kind == HyperParameter::Kind::number) message.add_double(2, value.number);
    else if (value.kind == HyperParameter::Kind::text) add(message, 3, value.text);
    else message.add_bool(4, value.number != 0);
  }
  session.add_double(5, time);
  session.commit();
  return bytes;
}

std::string encode_session_end(RunStatus status, double time) {
  std::string bytes;
  Writer content(bytes);
  Writer session(content, 4);
  session.add_enum(1, static_cast<std::int32_t>(status));
  session.add_double(2, time);
  session.commit();
  return bytes;
}

}  // namespace capstan::io

#else

namespace capstan::io {

void require_event_wire(const char* op, Where where) {
  base::fail<MissingLibraryError>(
      where, op, ": this build has no protozero; install libprotozero-dev (Debian, Ubuntu) and build again.");
}

void append_version_event(std::string&, double) {}
void append_scalar_event(std::string&, EventHead, std::string_view, float) {}
void append_histogram_event(std::string&, EventHead, std::string_view, const HistogramSummary&) {}
void append_image_event(std::string&, EventHead, std::string_view, const ImageSummary&) {}
void append_audio_event(std::string&, EventHead, std::string_view, const AudioSummary&) {}
void append_text_event(std::string&, EventHead, std::string_view, std::string_view) {}
void append_graph_event(std::string&, double, std::string_view) {}
void append_hparams_event(std::string&, double, std::string_view, std::string_view) {}
std::string encode_graph(std::span<const GraphNode>) { return {}; }
std::string encode_experiment(std::span<const HyperParameter>, std::span<const std::string>, double) { return {}; }
std::string encode_session_start(std::span<const HyperParameter>, double) { return {}; }
std::string encode_session_end(RunStatus, double) { return {}; }

}  // namespace capstan::io

#endif
