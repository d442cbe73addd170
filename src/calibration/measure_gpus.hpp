// Measurement of the channels of this machine's GPUs, as a part of the calibration.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine.hpp"
#include "machine/profile.hpp"

namespace tranship {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;

/// Returns the shorter side of a nearly square matrix of `elements` elements: a power of two.
std::int64_t square_side(std::int64_t elements);

/// Measures the GPUs' channels of `profile`, as `engine` drives them: consecutive requests in a
/// stream, as many as the sample's bytes hold. Calls `report` with the name of each channel.
/// @error the driver's errors; out_of_memory
Status measure_gpus(Engine& engine, Profile& profile, std::int64_t sample_bytes,
                    const std::function<void(const std::string&)>& report);

/// Adds one resource for each direction of a GPU's link to the host and of its links to other GPUs.
void add_gpu_links(Profile& profile);

}  // namespace tranship
