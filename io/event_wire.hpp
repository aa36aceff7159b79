#pragma once
// Messages `tensorflow.Event`, put together by protozero. What an `append_*` was adding when it threw may be there in
// part.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/io/summary.hpp>

namespace capstan::io {

/// MissingLibraryError in a build without protozero, where nothing else of this header may be called.
void require_event_wire(const char* op, Where where);

struct EventHead {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
};

struct HistogramSummary {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits = {}, counts = {};  // upper ends of bins
};

struct ImageSummary {
  std::int64_t height = 0, width = 0, channels = 0;
  std::string png = {};
};

struct AudioSummary {
  std::int64_t rate = 0, channels = 0, frames = 0;
  std::string wav = {};
};

/// A node of a graph. Inputs are "node" or "node:2", the second output but one.
struct GraphNode {
  std::string name, op, where;
  std::vector<std::string> inputs;
  std::vector<std::optional<Shape>> shapes;  // of its outputs
};

enum class RunStatus { success = 1, failure = 2 };

/// The first record of a file.
void append_version_event(std::string& out, double wall_time);
void append_scalar_event(std::string& out, EventHead head, std::string_view tag, float value);
void append_histogram_event(std::string& out, EventHead head, std::string_view tag, const HistogramSummary& histogram);
void append_image_event(std::string& out, EventHead head, std::string_view tag, const ImageSummary& image);
void append_audio_event(std::string& out, EventHead head, std::string_view tag, const AudioSummary& audio);
void append_text_event(std::string& out, EventHead head, std::string_view tag, std::string_view text);
/// `graph` is what encode_graph makes.
void append_graph_event(std::string& out, double wall_time, std::string_view graph);
/// `content` is what one of the next three makes.
void append_hparams_event(std::string& out, double wall_time, std::string_view tag, std::string_view content);

std::string encode_graph(std::span<const GraphNode> nodes);
std::string encode_experiment(std::span<const HyperParameter> values, std::span<const std::string> metrics,
                              double time);
std::string encode_session_start(std::span<const HyperParameter> values, double time);
std::string encode_session_end(RunStatus status, double time);

}  // namespace capstan::io
