// This machine's profile: measured once, kept in a folder, read by every engine after that.
#pragma once

#include <functional>
#include <string>

#include "base/config.hpp"
#include "machine/profile.hpp"

namespace tranship {

/// The file in which this machine's profile is kept, with the GPUs that the settings allow. Empty
/// if there is no folder to keep it in.
std::string profile_path(const Config& config);

/// Writes a profile whole or not at all, and makes the folders above it.
/// @error io: the folder cannot be written
Status save_profile(const std::string& json, const std::string& path);

/// The kept profile, or one measured now (some four seconds) and kept if that is possible. What is
/// kept but torn, or of another version, is measured again. `progress` may be empty.
/// @error as calibrate()
Result<Profile> profile_of_this_machine(
    const Config& config,
    const std::function<void(double share, const std::string& what)>& progress);

}  // namespace tranship
