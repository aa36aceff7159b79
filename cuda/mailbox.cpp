#include "cuda/mailbox.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "cuda/capture.hpp"
#include "cuda/devices.hpp"

namespace capstan::on_cuda {
namespace {

/// What a ticket stands for.
struct Ticket {
  std::uint64_t number = 0;
  const char* op = nullptr;
  Where where{};
  ReportKind kind{};
  std::int64_t low = 0, high = 0;
};

/// Those of the last many operations that check something; older ones can only be told by their number. A captured
/// step keeps its own for as long as it lives.
class Tickets {
 public:
  std::uint64_t give(const Ticket& ticket, bool keep) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = ++last_;
    Ticket& place = keep ? kept_[number] : recent_[number % kRecent];
    place = ticket;
    place.number = number;
    return number;
  }
  Ticket find(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (const auto kept = kept_.find(number); kept != kept_.end()) return kept->second;
    const Ticket& place = recent_[number % kRecent];
    return place.number == number ? place : Ticket{};
  }
  void forget(std::span<const std::uint64_t> numbers) noexcept {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t number : numbers) kept_.erase(number);
  }

 private:
  static constexpr std::uint64_t kRecent = 1 << 16;
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::vector<Ticket> recent_ = std::vector<Ticket>(kRecent);
  std::unordered_map<std::uint64_t, Ticket> kept_;
};

Tickets& tickets() {
  static auto* const instance = new Tickets;
  return *instance;
}

/// The report that has come in, if any; the next one may come then.
bool collect(Mailbox& box, Mailbox& report) {
  const std::atomic_ref<unsigned> state(box.state);
  if (state.load(std::memory_order_acquire) != Mailbox::kWritten) return false;
  static std::mutex mutex;  // of several threads that wait one gets it
  const std::lock_guard lock(mutex);
  if (state.load(std::memory_order_acquire) != Mailbox::kWritten) return false;
  report.ticket = box.ticket;
  report.position = box.position;
  report.value = box.value;
  state.store(Mailbox::kFree, std::memory_order_release);
  return true;
}

[[noreturn]] void fail_with(const Ticket& ticket, const Mailbox& report, int device) {
  if (ticket.op == nullptr)
    base::fail<BackendError>(call().where, "an earlier operation on cuda:", device,
                             " met a value that it must not have; CAPSTAN_CUDA_SYNC=1 tells which.");
  switch (ticket.kind) {
    case ReportKind::matrix:
      base::fail<NumericError>(ticket.where, ticket.op, ": matrix ", report.position, " cannot be worked on (info ",
                               report.value, "); found on cuda:", device, " after the call had returned.");
    case ReportKind::numbers:
      throw NumericError(base::join(ticket.op, " at ", base::to_string(ticket.where),
                                    " made values that are not finite; found on cuda:", device,
                                    " after the call had returned."));
    default:
      base::fail<IndexError>(ticket.where, ticket.op, ": index ", report.value, " at position ", report.position,
                             " is out of range; it must be in [", ticket.low, ", ", ticket.high,
                             "); found on cuda:", device, " after the call had returned.");
  }
}

}  // namespace

Report start_report(ReportKind kind, std::int64_t low, std::int64_t high) {
  const Call& now = call();
  Capture* capture = capture_on(now.device);
  const std::uint64_t number = tickets().give({0, now.op, now.where, kind, low, high}, capture != nullptr);
  if (capture != nullptr) capture->keep_ticket(number);
  return {device(now.device).mailbox(), number};
}

core::BadIndex finish_report(const Report& report) {
  if (!waits_always() || capture_on(call().device) != nullptr) return {};
  check(cudaStreamSynchronize(call().stream), "waiting for the stream");
  Mailbox found;
  if (!collect(*report.box, found)) return {};
  if (found.ticket != report.ticket) fail_with(tickets().find(found.ticket), found, call().device);
  return {found.position, found.value};
}

void throw_reports(int index) {
  Mailbox found;
  if (collect(*device(index).mailbox(), found)) fail_with(tickets().find(found.ticket), found, index);
}

void forget_tickets(std::span<const std::uint64_t> numbers) noexcept { tickets().forget(numbers); }

}  // namespace capstan::on_cuda
