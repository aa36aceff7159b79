#pragma once
// How operations draw from a generator: it moves on only if they succeed.
#include <exception>

#include <capstan/random.hpp>

#include "lib/core/backend.hpp"

namespace capstan::autograd {

/// The numbers that `rng` would give next. They are taken from it, by take_numbers, when the operation has succeeded.
inline core::RandomTask next_of(const Rng& rng, core::RandomKind kind) {
  const RngState state = rng.state();
  return {kind, state.seed, state.position, 0, 0, 0, 0, state.stream};
}

inline void take_numbers(Rng& rng, core::RandomKind kind, std::int64_t count) noexcept {
  rng.take(static_cast<std::uint64_t>(core::random_blocks(kind, count)));
}

/// Around operations that are made of others: a generator that goes back if an exception leaves the scope.
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

}  // namespace capstan::autograd
