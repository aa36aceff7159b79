#pragma once
// Shared libraries that are loaded while a program runs.
#include <string>

#include <capstan/error.hpp>

namespace capstan::base {

/// A library of the system, which stays until the process ends.
class SharedLibrary {
 public:
  /// What the process has by that name, or what the system finds by it, as it does for linked ones; or else the one in
  /// `folder`. MissingLibraryError if there is none: `whose` it is, why it is not there, and a remedy.
  SharedLibrary(const std::string& folder, const char* name, const char* whose, const char* remedy, Where where);

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
