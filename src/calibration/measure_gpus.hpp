// What the GPUs of this machine can: a part of its calibration.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// The shorter side of a nearly square matrix of so many elements: a power of two.
std::int64_t square_side(std::int64_t elements);

/// Measures the GPUs' channels of `profile`, as `engine` drives them: requests one behind another
/// in a stream, as many as the sample's bytes hold. `report` is told what is measured.
/// @error what the driver refused; out_of_memory
Status measure_gpus(Engine& engine, Profile& profile, std::int64_t sample_bytes,
                    const std::function<void(const std::string&)>& report);

/// Each direction of a GPU's link to the host, and of its links to other GPUs, is one resource.
void add_gpu_links(Profile& profile);

}  // namespace tranship
