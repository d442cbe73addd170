// Measurement of this machine, for `tranship calibrate` and for engines that have no profile yet.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/config.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// What is measured, and how thoroughly.
struct CalibrationOptions {
  Config config;
  std::string folder;  ///< folder in which the disk is measured; empty: no disk is measured
  /// Bytes moved for each sample. More bytes give steadier rates on a noisy machine.
  std::int64_t sample_bytes = std::int64_t{48} << 20;
  bool processes = true;  ///< whether channels to other processes are measured, too
  /// Called with the finished share, from 0 to 1, and the name of the next measurement.
  std::function<void(double share, const std::string& what)> progress;
};

/// Returns the host name of this machine; "machine" if it has none.
std::string machine_name();

/// Measures this machine in one or two seconds, with up to 4 x sample_bytes of memory and of disk.
/// @error the operating system's errors
Result<Profile> calibrate(const CalibrationOptions& options);

}  // namespace tranship
