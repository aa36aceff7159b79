#pragma once
// What the processor and the system let this program use, beyond what compilers ask for themselves.

namespace capstan::base {

/// Whether instructions for tiles of bfloat16 (AMX-TILE, AMX-BF16) may run: the processor has them, and Linux lends
/// this program the memory that they take of every thread. Asks each time. Once it has been lent, signal stacks of
/// less than about 12 KiB, which could not hold it, are refused to the program; where one is in use, nothing is lent.
bool may_use_tiles() noexcept;

/// False in a virtual machine that shows one thread of each core: the other one, if there is one, may be somebody
/// else's, and take its part of the core unseen.
bool has_whole_cores() noexcept;

}  // namespace capstan::base
