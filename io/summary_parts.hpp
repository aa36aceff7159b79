#pragma once
// What values become on their way into events. `op` is the public function.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <capstan/io/summary.hpp>

#include "io/event_wire.hpp"

namespace capstan::io {

HistogramSummary summarize_histogram(const char* op, const Tensor& values, std::int64_t bins, Where where);
ImageSummary summarize_image(const char* op, const Tensor& pixels, Where where);
AudioSummary summarize_audio(const char* op, const Tensor& samples, std::int64_t rate, Where where);
std::vector<GraphNode> graph_nodes(const char* op, const GradientTape& tape, std::span<const NamedTensor> names,
                                   Where where);

/// Throws Error for an undefined tensor.
void check_defined(const char* op, const Tensor& x, Where where);

}  // namespace capstan::io
