#pragma once
// What the processor and the system let this program use, beyond what compilers ask for themselves.

namespace capstan::base {

/// Whether instructions for tiles of bfloat16 (AMX-TILE, AMX-BF16) may run: the processor has them, and Linux lends
/// this program the memory that they take of every thread. Asks each time.
bool may_use_tiles() noexcept;

}  // namespace capstan::base
