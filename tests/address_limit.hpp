#pragma once
// Memory that runs out soon.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/catch.hpp"

namespace tests {

/// While one lives, the process gets no more than so many bytes of addresses beside those that it has.
class AddressLimit {
 public:
  explicit AddressLimit(rlim_t bytes) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    REQUIRE(pages > 0);
    REQUIRE(getrlimit(RLIMIT_AS, &before_) == 0);
    struct rlimit less = before_;
    less.rlim_cur = std::min(less.rlim_cur, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes);
    REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  struct rlimit before_ {};
};

}  // namespace tests
