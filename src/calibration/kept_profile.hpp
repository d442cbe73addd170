// The cached profile of this machine: measured once, and read by every engine after that.
#pragma once

#include <functional>
#include <string>

#include "base/config.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// Returns the path of this machine's cached profile, which depends on the GPUs that the settings
/// allow. Empty if there is no cache folder.
std::string profile_path(const Config& config);

/// Writes a profile atomically, and creates the folders above it.
/// @error io: the folder cannot be written
Status save_profile(const std::string& json, const std::string& path);

/// Returns the cached profile, or measures one (some four seconds) and caches it if possible. A
/// damaged profile, or one of another version, is measured again. `progress` may be empty.
/// @error as calibrate()
Result<Profile> profile_of_this_machine(
    const Config& config,
    const std::function<void(double share, const std::string& what)>& progress);

}  // namespace tranship
