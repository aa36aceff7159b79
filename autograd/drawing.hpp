#pragma once
// How operations draw from a generator: it moves on only if they succeed.
#include <capstan/random.hpp>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/rng_rollback.hpp"

namespace capstan::autograd {

/// The numbers that `rng` would give next, for the device's kernels. They are taken from it, by take_numbers, when the
/// operation has succeeded. Throws Error on the host of a captured step.
inline core::RandomTask next_of(const char* op, Rng& rng, core::RandomKind kind, Device device, Where where) {
  const RngState state = rng.state();
  core::Capturing* step = core::capturing();
  if (step != nullptr && device.kind == DeviceKind::cpu)
    base::fail<Error>(
        where, op, ": a captured step draws on the host, which a replay would not repeat; move the tensor to the GPU.");
  return {kind, state.seed, state.position, 0, 0, 0, 0, state.stream, step != nullptr ? step->follow(rng) : nullptr};
}

inline void take_numbers(Rng& rng, core::RandomKind kind, std::int64_t count) noexcept {
  rng.take(static_cast<std::uint64_t>(core::random_blocks(kind, count)));
}

using core::RngRollback;  // around operations that are made of others

}  // namespace capstan::autograd
