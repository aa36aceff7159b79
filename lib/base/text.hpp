#pragma once
// Building error messages: `fail<ShapeError>(where, "matmul: inner sizes differ: a is ", a.shape(), ...)`.
#include <cstdint>
#include <string>
#include <string_view>

#include <capstan/device.hpp>
#include <capstan/dtype.hpp>
#include <capstan/error.hpp>
#include <capstan/scalar.hpp>
#include <capstan/shape.hpp>

namespace capstan::base {

void append(std::string& text, std::string_view part);
void append(std::string& text, std::int64_t part);
void append(std::string& text, double part);
void append(std::string& text, const Scalar& part);
inline void append(std::string& text, const char* part) { append(text, std::string_view(part)); }
inline void append(std::string& text, int part) { append(text, std::int64_t{part}); }
inline void append(std::string& text, std::size_t part) { append(text, static_cast<std::int64_t>(part)); }
inline void append(std::string& text, const Shape& part) { append(text, to_string(part)); }
inline void append(std::string& text, DType part) { append(text, name(part)); }
inline void append(std::string& text, Device part) { append(text, to_string(part)); }

/// "train.cpp:57": the file without its folders.
std::string to_string(Where where);

template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

/// Errors that the calling thread has thrown.
extern constinit thread_local std::uint32_t failures;

/// Throws E with the parts as its message and ` (file.cpp:line)` behind it.
template <class E, class... Parts>
[[noreturn]] __attribute__((noinline, cold)) void fail(Where where, const Parts&... parts) {
  ++failures;
  throw E(join(parts..., " (", to_string(where), ")"));
}

}  // namespace capstan::base
