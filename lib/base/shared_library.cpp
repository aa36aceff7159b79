#include "lib/base/shared_library.hpp"

#include <dlfcn.h>

#include "lib/base/text.hpp"

namespace capstan::base {

SharedLibrary::SharedLibrary(const std::string& folder, const char* name, const char* whose, const char* remedy,
                             Where where)
    : name_(name), handle_(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)), was_there_(handle_ != nullptr) {
  if (handle_ == nullptr) handle_ = dlopen(name, RTLD_LAZY);
  if (handle_ != nullptr) return;
  const std::string reason = dlerror();
  handle_ = dlopen((folder + '/' + name).c_str(), RTLD_LAZY);
  if (handle_ == nullptr) fail<MissingLibraryError>(where, whose, ": ", reason, "; ", remedy, ".");
}

bool SharedLibrary::has(const char* name) const noexcept { return dlsym(handle_, name) != nullptr; }

void* SharedLibrary::find(const char* name, Where where) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) fail<MissingLibraryError>(where, name_, " has no ", name, ".");
  return address;
}

}  // namespace capstan::base
