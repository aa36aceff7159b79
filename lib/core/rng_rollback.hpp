#pragma once
#include <exception>

#include <capstan/random.hpp>

namespace capstan::core {

/// A generator that goes back if an exception leaves the scope.
class RngRollback {
 public:
  explicit RngRollback(Rng& rng) noexcept
      : rng_(rng), position_(rng.position()), exceptions_(std::uncaught_exceptions()) {}
  ~RngRollback() {
    if (std::uncaught_exceptions() > exceptions_) rng_.set_position(position_);
  }
  RngRollback(const RngRollback&) = delete;
  RngRollback& operator=(const RngRollback&) = delete;

 private:
  Rng& rng_;
  std::uint64_t position_;
  int exceptions_;
};

}  // namespace capstan::core
