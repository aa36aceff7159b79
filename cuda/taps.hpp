#pragma once
// What the places of a resampled axis read, and who reads a place: what lib/cpu/resample.cpp has in tables, for one
// place at a time. No CUDA headers, so that it is tested on the host.
//
// Each place reads places side by side, and places behind it begin and end no earlier: so those who read a place are
// side by side too.
#include "lib/core/resampling.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

using kernels::rounded_product;  // places are compared, and must be those that the CPU finds

/// Keys' cubic convolution kernel.
CAPSTAN_HD double keys_weight(double x, double a) {
  x = kernels::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// Places begin .. end - 1.
struct TapSpan {
  std::int64_t begin = 0, end = 0;
};

struct TapRule {
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false, antialias = false;
  std::int64_t in = 1, out = 1;
  double step = 1;

  TapRule() = default;
  TapRule(const core::Resample& task, const core::ResampledAxis& axis)
      : mode(task.mode),
        align_corners(task.align_corners),
        antialias(task.antialias),
        in(axis.in),
        out(axis.out),
        step(axis.step) {}

  /// What place `o` of the result reads. Some of it may have weight 0.
  CAPSTAN_HD TapSpan reads(std::int64_t o) const {
    switch (mode) {
      case InterpolateMode::nearest: return one(rounded_product(static_cast<double>(o), step));
      case InterpolateMode::nearest_exact: return one(centre(o));
      case InterpolateMode::area: return {o * in / out, ((o + 1) * in + out - 1) / out};
      case InterpolateMode::linear: {
        if (antialias) return covered(o);
        if (in == out) return {o, o + 1};
        const std::int64_t below = below_linear(o);
        return {below, below + 1 < in ? below + 2 : in};
      }
      case InterpolateMode::cubic: break;
    }
    if (antialias) return covered(o);
    const auto below = static_cast<std::int64_t>(kernels::floor(at(o)));
    return {inside(below - 1), inside(below + 2) + 1};
  }
  /// Who reads place i of the input.
  CAPSTAN_HD TapSpan readers(std::int64_t i) const { return {first_past(i, true), first_past(i, false)}; }

  /// How much of place i is in place o, which reads it; to be divided by `total(o)`.
  CAPSTAN_HD double weight(std::int64_t o, std::int64_t i) const {
    if (antialias) return filter(o, i);
    if (mode == InterpolateMode::linear && in != out) {
      const std::int64_t below = below_linear(o);
      const double part = below + 1 < in ? above_zero(at(o)) - static_cast<double>(below) : 0.0;
      return i == below ? 1 - part : part;
    }
    if (mode != InterpolateMode::cubic) return 1;
    const double low = kernels::floor(at(o)), part = at(o) - low;
    double sum = 0;
    for (int k = -1; k <= 2; ++k)
      if (inside(static_cast<std::int64_t>(low) + k) == i) sum += keys_weight(part - k, -0.75);
    return sum;
  }
  CAPSTAN_HD double total(std::int64_t o) const {
    const TapSpan span = reads(o);
    if (mode == InterpolateMode::area) return static_cast<double>(span.end - span.begin);
    if (!antialias) return 1;
    double sum = 0;
    for (std::int64_t i = span.begin; i < span.end; ++i) sum += filter(o, i);
    return sum;
  }

  /// No place reads more than that; with `adjoint`, none is read by more.
  std::int64_t most(bool adjoint) const {
    const double reach = radius() * stretch();
    if (adjoint) {
      // readers lie less than 2 * reach + 1 places apart; those that a border holds inside, by half a place, lie nearer
      const double apart = mode == InterpolateMode::area ? static_cast<double>(in) / static_cast<double>(out) : step;
      const double readers_at_most = (2 * reach + 1) / apart + 3;
      return readers_at_most < static_cast<double>(out) ? static_cast<std::int64_t>(readers_at_most) : out;
    }
    std::int64_t reads_at_most = static_cast<std::int64_t>(2 * reach) + (antialias ? 2 : 0);
    if (mode == InterpolateMode::area) reads_at_most = (in + out - 1) / out + 1;
    return reads_at_most < in ? reads_at_most : in;
  }

 private:
  CAPSTAN_HD double centre(std::int64_t o) const { return rounded_product(static_cast<double>(o) + 0.5, step); }
  CAPSTAN_HD double at(std::int64_t o) const {
    return align_corners ? rounded_product(static_cast<double>(o), step) : centre(o) - 0.5;
  }
  CAPSTAN_HD std::int64_t inside(std::int64_t place) const { return place < 0 ? 0 : place >= in ? in - 1 : place; }
  CAPSTAN_HD static double above_zero(double x) { return x < 0 ? 0.0 : x; }
  CAPSTAN_HD std::int64_t below_linear(std::int64_t o) const {
    return inside(static_cast<std::int64_t>(above_zero(at(o))));
  }
  /// x >= 0 rounded down, and up if only roundings keep it below.
  CAPSTAN_HD TapSpan one(double x) const {
    const std::int64_t place = inside(static_cast<std::int64_t>(kernels::floor(x + x * 0x1p-50)));
    return {place, place + 1};
  }
  CAPSTAN_HD double radius() const { return mode == InterpolateMode::cubic ? 2.0 : 1.0; }
  CAPSTAN_HD double stretch() const { return antialias && step > 1 ? step : 1.0; }
  CAPSTAN_HD TapSpan covered(std::int64_t o) const {
    const double middle = centre(o), reach = radius() * stretch();
    const auto begin = static_cast<std::int64_t>(middle - reach + 0.5);
    const auto end = static_cast<std::int64_t>(middle + reach + 0.5);
    return {begin < 0 ? 0 : begin, end < in ? end : in};
  }
  CAPSTAN_HD double filter(std::int64_t o, std::int64_t i) const {
    const double x = (static_cast<double>(i) + 0.5 - centre(o)) / stretch();
    return mode == InterpolateMode::cubic ? keys_weight(x, -0.5) : above_zero(1 - kernels::abs(x));
  }
  /// The first place whose span begins, or ends, behind i.
  CAPSTAN_HD std::int64_t first_past(std::int64_t i, bool end) const {
    std::int64_t low = 0, high = out;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const TapSpan span = reads(middle);
      if ((end ? span.end : span.begin) > i) high = middle;
      else low = middle + 1;
    }
    return low;
  }
};

}  // namespace capstan::on_cuda
