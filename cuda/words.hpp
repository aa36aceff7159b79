#pragma once
// Elements that are only moved: by their size.
#include <cstdint>

#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {

/// Calls `f(core::Type<Word>{})` with the unsigned integer of as many bytes.
template <class F>
void visit_unsigned(std::int64_t bytes, F&& f) {
  if (bytes == 4) f(core::Type<std::uint32_t>{});
  else if (bytes == 8) f(core::Type<std::uint64_t>{});
  else if (bytes == 2) f(core::Type<std::uint16_t>{});
  else f(core::Type<std::uint8_t>{});
}

}  // namespace capstan::on_cuda
