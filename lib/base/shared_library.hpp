#pragma once
// Shared libraries that are loaded while a program runs.
#include <capstan/error.hpp>

namespace capstan::base {

/// A library of the system, which stays until the process ends.
class SharedLibrary {
 public:
  /// The one of that name that the process has, or else that in `path`, or else what the system finds by the name, as it
  /// does for linked ones. MissingLibraryError, which says whose it is and what to do, if there is none.
  SharedLibrary(const char* path, const char* name, const char* whose, const char* remedy, Where where);

  bool was_there() const noexcept { return was_there_; }
  bool has(const char* name) const noexcept;

  /// A function of a C name. MissingLibraryError if the library has none.
  template <class Pointer>
  Pointer function(const char* name, Where where) const {
    return reinterpret_cast<Pointer>(find(name, where));
  }

 private:
  void* find(const char* name, Where where) const;

  const char* name_;
  void* handle_;
  bool was_there_;
};

}  // namespace capstan::base
