#pragma once
// How kernels write a report; see mailbox.hpp.
#include <cuda_runtime.h>

#include "cuda/mailbox.hpp"

namespace capstan::on_cuda {

/// The first report of a device is kept, later ones are dropped until the host has read it.
__device__ inline void send(const Report& report, std::int64_t position, std::int64_t value) {
  // looked at first: threads that all have something to say would change it one after the other, over the bus
  if (*static_cast<volatile unsigned*>(&report.box->state) != Mailbox::kFree) return;
  if (atomicCAS_system(&report.box->state, Mailbox::kFree, Mailbox::kClaimed) != Mailbox::kFree) return;
  report.box->ticket = report.ticket;
  report.box->position = position;
  report.box->value = value;
  __threadfence_system();
  atomicExch_system(&report.box->state, Mailbox::kWritten);  // the host may look while this kernel still runs
}

}  // namespace capstan::on_cuda
