#pragma once
// Looking for NaN and infinity without waiting: a flag in the device's memory, 0 at first, becomes 1 if a result holds
// one, and 2 if an operand did before. Whoever waits next hears of a flag that stayed 1.
#include "cuda/mailbox.hpp"

namespace capstan::on_cuda {

/// Sets the flag to 1 if x, contiguous, holds NaN, or with `infinite` also infinity. Only floating types do.
void check_numbers(const TensorImpl& x, bool infinite, unsigned* flag);
/// If the flag is 1: sets it to 2 if the input, contiguous too, holds one. Else reads nothing but the flag.
void confirm_numbers(const TensorImpl& input, bool infinite, unsigned* flag);
/// Sends the report, with position 0, if the flag is 1.
void report_numbers(const unsigned* flag, const Report& report);

}  // namespace capstan::on_cuda
