#include "io/progress_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>

namespace capstan::io {
namespace {

constexpr int kLeastBar = 8, kMostBar = 30;  // cells

// --- text ------------------------------------------------------------------------------------------------------------

struct Glyph {
  std::size_t bytes = 1;
  char32_t code = 0;
};

/// The first character; a byte that begins none as one of its own.
Glyph first_glyph(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return {1, lead};
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < bytes) return {1, lead};
  char32_t code = lead & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {1, lead};
    code = (code << 6) | (byte(i) & 0x3F);
  }
  return {bytes, code};
}

struct CodeRange {
  char32_t first, last;
};
// Unicode Standard Annex 11, the classes W and F in broad strokes.
constexpr std::array<CodeRange, 10> kWide = {{{0x1100, 0x115F},
                                              {0x2E80, 0xA4CF},
                                              {0xAC00, 0xD7A3},
                                              {0xF900, 0xFAFF},
                                              {0xFE30, 0xFE6F},
                                              {0xFF00, 0xFF60},
                                              {0xFFE0, 0xFFE6},
                                              {0x1F300, 0x1F64F},
                                              {0x1F680, 0x1FAFF},
                                              {0x20000, 0x3FFFD}}};
constexpr std::array<CodeRange, 4> kMarks = {{{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

template <std::size_t N>
bool is_in(const std::array<CodeRange, N>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [=](CodeRange range) { return range.first <= code && code <= range.last; });
}

int width_of(const Glyph& glyph) {
  if (glyph.bytes == 1) return 1;
  return is_in(kMarks, glyph.code) ? 0 : is_in(kWide, glyph.code) ? 2 : 1;
}

bool is_control(const Glyph& glyph) { return glyph.code < 0x20 || (glyph.code >= 0x7F && glyph.code < 0xA0); }

/// As printf writes it, but with a point in every locale.
std::string decimal(double value, std::chars_format format, int digits) {
  std::array<char, 330> text;  // the largest numbers have 309 digits
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, digits).ptr;
  return std::string(text.data(), end);
}
std::string fixed(double value, int digits) { return decimal(value, std::chars_format::fixed, digits); }
std::string general(double value, int digits) { return decimal(value, std::chars_format::general, digits); }

/// Whole numbers: others are written with the locale's point.
template <std::integral... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  char text[64];
  std::snprintf(text, sizeof text, format, numbers...);
  return text;
}

// --- lines -----------------------------------------------------------------------------------------------------------

bool is_known(std::int64_t total) { return total >= 0; }

/// Rounded down: 100 is said of nothing that is not done.
int percent(std::int64_t done, std::int64_t total) {
  if (done >= total) return 100;
  const double share = 100.0 * static_cast<double>(done) / static_cast<double>(total);
  return static_cast<int>(std::clamp(share, 0.0, 99.0));
}

/// "training  37%".
std::string head_of(const ProgressFacts& facts, const LineStyle& style) {
  std::string head(2 * static_cast<std::size_t>(facts.depth), ' ');
  head += style.columns > 0 ? clipped(facts.title, style.columns / 2) : facts.title;
  if (!is_known(facts.total)) return head;
  if (!facts.title.empty()) head += ' ';
  return head + formatted("%3d%%", percent(facts.done, facts.total));
}

std::string count_of(const ProgressFacts& facts) {
  std::string count = std::to_string(facts.done);
  if (is_known(facts.total)) return count + '/' + std::to_string(facts.total);
  return count + ' ' + std::string(facts.unit);
}

std::string total_time(double seconds) {
  return seconds < 10 ? fixed(std::max(seconds, 0.0), 1) + " s" : time_text(seconds);
}

std::string times_of(const ProgressFacts& facts, bool elapsed_too) {
  if (facts.state == ProgressState::complete) return "in " + total_time(facts.elapsed);
  if (facts.state == ProgressState::stopped) return "stopped after " + total_time(facts.elapsed);
  const std::string left = facts.left >= 0 ? time_text(facts.left) + " left" : std::string();
  if (left.empty()) return time_text(facts.elapsed);
  return elapsed_too ? time_text(facts.elapsed) + ", " + left : left;
}

enum class Detail { least, no_elapsed, all };

/// "7400/20000  1.23k it/s  0:06, 0:10 left  loss 0.1234".
std::string body_of(const ProgressFacts& facts, Detail detail) {
  const std::string rate = detail == Detail::least ? std::string() : rate_text(facts.rate, facts.unit);
  std::string body = count_of(facts);
  for (const std::string& part : {rate, times_of(facts, detail == Detail::all), facts.figures})
    if (!part.empty()) body += "  " + part;
  return body;
}

/// "[=====>    ]", or the same in eighths of blocks.
std::string bar_of(const ProgressFacts& facts, int cells, bool blocks) {
  const int parts = blocks ? 8 : 1;
  int filled = parts * cells;
  if (facts.done < facts.total) {
    const double share = static_cast<double>(facts.done) / static_cast<double>(facts.total);
    filled = std::min(static_cast<int>(std::max(share, 0.0) * filled), filled - 1);
  }
  std::string bar = blocks ? "|" : "[";
  int cell = 0;
  for (; cell < filled / parts; ++cell) bar += blocks ? "\xE2\x96\x88" : "=";
  if (cell < cells && blocks && filled % parts > 0) {  // U+2589, seven eighths, to U+258F, one eighth
    bar += "\xE2\x96";
    bar += static_cast<char>(0x90 - filled % parts);
    ++cell;
  } else if (cell < cells && !blocks) {
    bar += '>';
    ++cell;
  }
  bar.append(static_cast<std::size_t>(cells - cell), ' ');
  return bar + (blocks ? '|' : ']');
}

std::string joined(const std::string& head, const std::string& body) {
  return head.empty() ? body : head + "  " + body;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    if (is_control(glyph)) result += ' ';
    else result += text.substr(0, glyph.bytes);
    text.remove_prefix(glyph.bytes);
  }
  return result;
}

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    columns += width_of(glyph);
    text.remove_prefix(glyph.bytes);
  }
  return columns;
}

std::string_view clipped(std::string_view text, int columns) {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const Glyph glyph = first_glyph(text.substr(bytes));
    columns -= width_of(glyph);
    if (columns < 0) break;
    bytes += glyph.bytes;
  }
  return text.substr(0, bytes);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return general(value, 6);
  const std::array<const char*, 6> units = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  double size = std::fabs(value);
  for (; size >= 999.5 && unit + 1 < units.size(); ++unit) size /= 1000;  // 999.5 would be written as 1000
  const int digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fixed(std::copysign(size, value), digits) + units[unit];
}

std::string figure_text(double value) {
  if (value == std::trunc(value) && std::fabs(value) < 1e9) return fixed(value, 0);
  return general(value, 4);
}

std::string time_text(double seconds) {
  if (!(seconds < 1e15)) return "?";
  const long long whole = std::max(std::llround(seconds), 0LL);
  const long long minutes = whole / 60, hours = minutes / 60;
  if (hours >= 24) return formatted("%lldd %02lld:%02lld", hours / 24, hours % 24, minutes % 60);
  if (hours > 0) return formatted("%lld:%02lld:%02lld", hours, minutes % 60, whole % 60);
  return formatted("%lld:%02lld", minutes, whole % 60);
}

std::string rate_text(double per_second, std::string_view unit) {
  if (!(per_second > 0)) return {};
  if (per_second >= 1) return short_number(per_second) + ' ' + std::string(unit) + "/s";
  return short_number(1 / per_second) + " s/" + std::string(unit);
}

void RateMeter::start(std::int64_t done, double now) {
  *this = RateMeter();
  began_ = at_ = now;
  done_ = done;
}

void RateMeter::sample(std::int64_t done, double now) {
  if (done == done_ || now <= at_) return;
  if (done > done_) {
    const double memory = std::max(10.0, (now - began_) / 10);
    const double fade = std::exp((at_ - now) / memory);
    steps_ = steps_ * fade + static_cast<double>(done) - static_cast<double>(done_);
    seconds_ = seconds_ * fade + (now - at_);
  }
  done_ = done;  // taken back: the count goes on from there
  at_ = now;
}

double RateMeter::left(double steps, double now) const {
  if (rate() <= 0 || steps < 0) return -1;
  if (steps == 0) return 0;
  const double since = std::clamp(now - at_, 0.0, 1 / rate());
  const double seconds = steps / rate() - since;
  return seconds < 1e9 ? seconds : -1;  // more than 30 years: nobody waits for it
}

std::string progress_line(const ProgressFacts& facts, const LineStyle& style) {
  const std::string head = head_of(facts, style);
  if (style.columns == 0) return joined(head, body_of(facts, Detail::all));
  const int room = std::max(style.columns - 1, 1);
  if (is_known(facts.total)) {
    for (const Detail detail : {Detail::all, Detail::no_elapsed}) {
      const std::string body = body_of(facts, detail);
      const int cells = room - columns_of(head) - columns_of(body) - 4;  // two blanks, and the ends of the bar
      if (cells < kLeastBar) continue;
      return head + ' ' + bar_of(facts, std::min(cells, kMostBar), style.blocks) + ' ' + body;
    }
  }
  for (const Detail detail : {Detail::all, Detail::no_elapsed}) {
    const std::string line = joined(head, body_of(facts, detail));
    if (columns_of(line) <= room) return line;
  }
  return std::string(clipped(joined(head, body_of(facts, Detail::least)), room));
}

}  // namespace capstan::io
