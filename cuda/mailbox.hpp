#pragma once
// What kernels have to say that nobody waits for: an index out of range, a matrix that cannot be decomposed, a NaN.
//
// An operation that checks values takes a ticket, starts its kernel with it and goes on. The first kernel that finds
// something writes ticket, position and value into memory that the host sees; whoever waits next (for a value, a stream,
// a captured step) gets the error of the operation that held the ticket, with its caller's line. With
// CAPSTAN_CUDA_SYNC=1 each operation waits for its own report, and errors come as on the CPU.
#include <cstdint>
#include <span>

#include "cuda/context.hpp"

namespace capstan::on_cuda {

enum class ReportKind : std::uint8_t { index, matrix, numbers };

/// Host memory that kernels write to; one for each device.
struct Mailbox {
  static constexpr unsigned kFree = 0, kClaimed = 1, kWritten = 2;
  unsigned state = kFree;
  std::uint64_t ticket = 0;
  std::int64_t position = 0, value = 0;
};
/// A ticket, passed to kernels by value.
struct Report {
  Mailbox* box = nullptr;
  std::uint64_t ticket = 0;
};

/// A ticket for the current call. [low, high) is the range that an index must lie in.
Report start_report(ReportKind kind, std::int64_t low = 0, std::int64_t high = 0);
/// With CAPSTAN_CUDA_SYNC=1 waits, and says what was reported under this ticket; else, and if nothing was, -1 and 0.
core::BadIndex finish_report(const Report& report);
/// Throws the error of the first report of this device, if there is one that has not been thrown. Does not wait.
void throw_reports(int device);
/// Of a captured step that is gone.
void forget_tickets(std::span<const std::uint64_t> numbers) noexcept;

}  // namespace capstan::on_cuda
