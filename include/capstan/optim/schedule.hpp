#pragma once
// Schedules: learning rates as plain functions of the step.
#include <cstdint>

#include <capstan/callback.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

/// The learning rate at a step, counted from 0: any callable `double(std::int64_t)`.
using Schedule = Callback<double(std::int64_t)>;

}  // namespace optim
}  // namespace capstan
