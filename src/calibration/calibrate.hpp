// Measures this machine: what `tranship calibrate` runs, and an engine without a profile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/config.hpp"
#include "machine/profile.hpp"

namespace tranship {

struct CalibrationOptions {
  Config config;
  std::string folder;  ///< where the disk is measured; empty: the disk is left out
  /// Bytes moved for each sample. Larger is steadier on a noisy machine.
  std::int64_t sample_bytes = std::int64_t{48} << 20;
  bool processes = true;  ///< measure the ways to other processes too
  /// Told the share done so far, from 0 to 1, and what comes next.
  std::function<void(double share, const std::string& what)> progress;
};

/// What the system calls this machine; "machine" if it has no name.
std::string machine_name();

/// Takes a second or two, and up to 4 x sample_bytes of memory and of disk for that time.
/// @error what the operating system refused
Result<Profile> calibrate(const CalibrationOptions& options);

}  // namespace tranship
