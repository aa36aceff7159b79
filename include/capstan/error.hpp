#pragma once
// Errors and source locations. Every exception that Capstan throws derives from capstan::Error.
#include <exception>
#include <source_location>
#include <string>

#include <capstan/visibility.hpp>

#if !defined(__cpp_lib_source_location)
#error "Capstan needs std::source_location, with -std=c++20: g++ 11 or clang 15 and newer have it"
#endif

namespace capstan CAPSTAN_PUBLIC {

/// Where the caller stands. Public functions take it as a defaulted last argument; do not pass it yourself.
using Where = std::source_location;

/// Base of all errors. A message reads `op: what is wrong: the values; what must hold. (file.cpp:12)`.
/// After an exception every object is as it was before the call, unless the function says otherwise.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Ranks, sizes or axes do not fit.
class ShapeError : public Error {
 public:
  using Error::Error;
};
/// Element types do not fit, or an operation is not defined for them.
class DTypeError : public Error {
 public:
  using Error::Error;
};
/// Arguments on different devices, or a device that this build or machine does not have.
class DeviceError : public Error {
 public:
  using Error::Error;
};
/// An index is out of range.
class IndexError : public Error {
 public:
  using Error::Error;
};
/// A gradient tape was used against its rules.
class TapeError : public Error {
 public:
  using Error::Error;
};
/// A value is NaN, infinite or outside an operation's domain where that was asked to be an error.
class NumericError : public Error {
 public:
  using Error::Error;
};
/// A file is missing, truncated or malformed.
class IoError : public Error {
 public:
  using Error::Error;
};
/// Memory ran out or a limit set with `memory::set_limit` was reached.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};
/// A library below Capstan (LAPACK, CUDA) reported a failure, or the system gives no thread.
class BackendError : public Error {
 public:
  using Error::Error;
};
/// The library that the call needs (libpng, minizip, LAPACK, ...) is not in this build, or not on this system.
class MissingLibraryError : public BackendError {
 public:
  using BackendError::BackendError;
};

}  // namespace capstan
