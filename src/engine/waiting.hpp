// Waits for copies, and the error of waits in a fork.
#pragma once

#include <chrono>

#include "base/error.hpp"
#include "channels/gpu/gpu_channel.hpp"

namespace tranship {

/// Waits for a copy that a GPU carries; looks often at first, since most copies are short.
/// @error timeout; else how the copy ended
Status wait_for_flight(const GpuFlight& flight, std::chrono::steady_clock::time_point deadline);

/// What calls in a fork of the process that opened an engine fail with.
Error forked_error();

}  // namespace tranship
