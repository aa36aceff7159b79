// Tensors as text, in NumPy's layout (numpy/core/arrayprint.py states the rules; the code is ours).
#include <charconv>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <capstan/tensor.hpp>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/core/recording.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan {
namespace {

constexpr std::int64_t kThreshold = 1000;  // more elements than this are summarised
constexpr std::int64_t kEdge = 3;          // items at each end of a summarised axis
constexpr int kPrecision = 8;
constexpr std::size_t kLineWidth = 75;

/// The fewest digits that name a number among those of its type.
template <class T>
std::string shortest_digits(T x, std::chars_format format) {
  char text[512];
  if constexpr (!core::kIsHalf<T>) return {text, std::to_chars(text, text + sizeof text, x, format).ptr};
  else {
    const auto value = static_cast<float>(x);
    for (int precision = 0;; ++precision) {  // six digits are enough for 16 bits
      char* end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, precision).ptr;
      float back = 0;
      std::from_chars(text, end, back);
      if (T(back).bits() == x.bits() || precision == 8)
        return {text, std::to_chars(text, text + sizeof text, back, format).ptr};
    }
  }
}

/// That many digits behind the point.
template <class T>
std::string rounded_digits(T x, std::chars_format format, int count) {
  if constexpr (core::kIsHalf<T>) {
    return rounded_digits(static_cast<float>(x), format, count);
  } else {
    char text[512];
    return {text, std::to_chars(text, text + sizeof text, x, format, count).ptr};
  }
}

template <class T>
std::string digits(T x, std::chars_format format) {
  std::string shortest = shortest_digits(x, format);
  const std::size_t point = shortest.find('.'), exponent = shortest.find('e');
  const std::size_t stop = exponent == std::string::npos ? shortest.size() : exponent;
  if (point != std::string::npos && stop - point - 1 > kPrecision) {
    shortest = rounded_digits(x, format, kPrecision);
    std::size_t tail = shortest.find('e');
    if (tail == std::string::npos) tail = shortest.size();
    std::size_t keep = tail;
    while (keep > 0 && shortest[keep - 1] == '0') --keep;
    shortest.erase(keep, tail - keep);
  } else if (point == std::string::npos) {
    shortest.insert(stop, ".");
  }
  return shortest;
}

/// Formats floating values so that their points line up: one format for all that are shown.
template <class T>
class FloatFormat {
 public:
  explicit FloatFormat(const std::vector<T>& shown) {
    double largest = 0, smallest = HUGE_VAL;
    for (const T x : shown) {
      if (!std::isfinite(static_cast<double>(x)) || x == T(0)) continue;
      largest = std::fmax(largest, std::fabs(static_cast<double>(x)));
      smallest = std::fmin(smallest, std::fabs(static_cast<double>(x)));
    }
    exponent_ = largest >= 1e8 || (largest > 0 && (smallest < 1e-4 || largest / smallest > 1000));
    for (const T x : shown) {
      if (!std::isfinite(static_cast<double>(x))) continue;
      const std::string text = one(x);
      const std::size_t point = text.find('.'), tail = exponent_ ? text.find('e') : text.size();
      left_ = std::max(left_, point);
      right_ = std::max(right_, tail - point - 1);
      if (exponent_) exponent_digits_ = std::max(exponent_digits_, text.size() - tail - 2);  // behind "e+"
    }
    for (const T x : shown) {
      if (std::isnan(static_cast<double>(x))) special_ = std::max<std::size_t>(special_, 3);
      else if (std::isinf(static_cast<double>(x))) special_ = std::max<std::size_t>(special_, x < T(0) ? 4 : 3);
    }
    width_ = left_ == 0 ? 0 : left_ + 1 + right_ + (exponent_ ? 2 + exponent_digits_ : 0);
    width_ = std::max(width_, special_);
  }

  std::string operator()(T x) const {
    std::string text = std::isnan(static_cast<double>(x))   ? "nan"
                       : std::isinf(static_cast<double>(x)) ? (x < T(0) ? "-inf" : "inf")
                                                            : padded(x);
    if (text.size() < width_) text.insert(0, width_ - text.size(), ' ');
    return text;
  }

 private:
  std::string one(T x) const { return digits(x, exponent_ ? std::chars_format::scientific : std::chars_format::fixed); }
  std::string padded(T x) const {
    std::string text = one(x);
    const std::size_t point = text.find('.'), tail = exponent_ ? text.find('e') : text.size();
    const std::size_t missing = right_ - (tail - point - 1);
    if (!exponent_) text.append(missing, ' ');
    else if (missing > 0)  // the digits that follow, which are zeros in float64 only
      text = rounded_digits(x, std::chars_format::scientific, static_cast<int>(right_));
    if (exponent_) text.insert(text.find('e') + 2, exponent_digits_ - (text.size() - text.find('e') - 2), '0');
    text.insert(0, left_ - point, ' ');
    return text;
  }
  bool exponent_ = false;
  std::size_t left_ = 0, right_ = 0, exponent_digits_ = 0, special_ = 0, width_ = 0;
};

template <class T>
class WholeFormat {
 public:
  explicit WholeFormat(const std::vector<T>& shown) {
    for (const T x : shown) width_ = std::max(width_, text_of(x).size());
  }
  std::string operator()(T x) const {
    const std::string text = text_of(x);
    return std::string(width_ - text.size(), ' ') + text;
  }

 private:
  static std::string text_of(T x) {
    if constexpr (std::is_same_v<T, bool>) return x ? "True" : "False";
    else return std::to_string(x);
  }
  std::size_t width_ = 0;
};

template <class T>
class Layout {
 public:
  Layout(const TensorImpl& x) : x_(x), summarise_(x.numel() > kThreshold) {}

  std::string text() {
    if (x_.numel() == 0) return "[]";
    std::vector<T> shown;
    collect(0, x_.as<T>(), shown);
    if constexpr (core::kIsReal<T>) {
      const FloatFormat<T> format(shown);
      if (x_.rank() == 0) return scalar_text(format(*x_.as<T>()));
      return rows(0, x_.as<T>(), " ", kLineWidth, format);
    } else {
      const WholeFormat<T> format(shown);
      return x_.rank() == 0 ? format(*x_.as<T>()) : rows(0, x_.as<T>(), " ", kLineWidth, format);
    }
  }

 private:
  static std::string scalar_text(std::string text) {  // "1." stands in arrays, "1.0" alone
    return !text.empty() && text.back() == '.' ? text + "0" : text;
  }

  /// Calls `item(i)` for the shown positions of an axis and `dots()` in place of the others.
  template <class Item, class Dots>
  void positions(int axis, Item item, Dots dots) const {
    const std::int64_t size = x_.shape[axis];
    const bool cut = summarise_ && size > 2 * kEdge;
    for (std::int64_t i = 0; i < size; ++i) {
      if (cut && i == kEdge) {
        dots();
        i = size - kEdge;
      }
      item(i);
    }
  }

  void collect(int axis, const T* at, std::vector<T>& shown) const {
    if (axis == x_.rank()) shown.push_back(*at);
    else
      positions(
          axis, [&](std::int64_t i) { collect(axis + 1, at + i * x_.strides[axis], shown); }, [] {});
  }

  template <class Format>
  std::string rows(int axis, const T* at, const std::string& indent, std::size_t width, const Format& format) const {
    std::string text;
    const std::int64_t last = x_.shape[axis] - 1;
    if (axis == x_.rank() - 1) {
      std::string line = indent;
      const auto extend = [&](const std::string& word) {
        if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
          while (!line.empty() && line.back() == ' ') line.pop_back();
          text += line + "\n";
          line = indent;
        }
        line += word;
      };
      positions(
          axis,
          [&](std::int64_t i) {
            extend(format(at[i * x_.strides[axis]]));
            if (i != last) line += ' ';
          },
          [&] {
            extend("...");
            line += ' ';
          });
      text += line;
    } else {
      const std::string separator(static_cast<std::size_t>(x_.rank() - axis - 1), '\n');
      positions(
          axis,
          [&](std::int64_t i) {
            text += indent + rows(axis + 1, at + i * x_.strides[axis], indent + " ", width - 1, format);
            if (i != last) text += separator;
          },
          [&] { text += indent + "..." + separator; });
    }
    return "[" + text.substr(indent.size()) + "]";
  }

  const TensorImpl& x_;
  bool summarise_;
};

}  // namespace

std::string to_string(const Tensor& tensor, Where where) {
  if (!tensor.defined()) return "undefined tensor";
  const Tensor host = core::whole(tensor, where).to(cpu(), where);
  core::host_access("to_string", *host.impl(), where);
  return core::visit(host.dtype(), [&]<class T>(core::Type<T>) {
    return base::join(Layout<T>(*host.impl()).text(), "\n", tensor.shape(), " ", tensor.dtype(), " ", tensor.device());
  });
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor, core::calling_place());  // a shift has no place of its own
}

}  // namespace capstan
