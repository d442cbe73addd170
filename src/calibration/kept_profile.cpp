#include "calibration/kept_profile.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "calibration/calibrate.hpp"
#include "os/new_file.hpp"

namespace tranship {
namespace {

/// Bytes moved for each sample when an engine waits for the result.
constexpr std::int64_t quick_sample_bytes = std::int64_t{32} << 20;

/// Returns the number of device files of the driver's GPUs: nvidia0, nvidia1, ….
int gpus_present() {
  int count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename().string();
    const bool numbered = name.size() > 6 && std::all_of(name.begin() + 6, name.end(), [](char c) {
                            return std::isdigit(static_cast<unsigned char>(c)) != 0;
                          });
    if (name.starts_with("nvidia") && numbered) ++count;
  }
  return count;
}

/// Returns the part of the file name that distinguishes profiles with no, real or emulated GPUs.
std::string gpu_suffix(const Config& config) {
  if (!config.gpus) return "";
  const bool storage =
      config.gpu_direct_storage != "automatic" && config.gpu_direct_storage != "off";
  const std::string end = storage ? "-storage" : "";
  if (config.emulated_gpus != 0)
    return "-" + std::to_string(config.emulated_gpus) + "-emulated" + end;
  const int count = gpus_present();
  return count > 0 ? "-" + std::to_string(count) + "-gpus" + end : "";
}

Error not_kept(const std::string& path, const std::string& why) {
  return {ErrorCode::io, "the profile cannot be kept as " + path + ": " + why,
          "set TRANSHIP_CACHE_FOLDER to a folder that can be written"};
}

/// Reads the cached profile.
/// @error if the file does not exist or cannot be used
Result<Profile> kept(const std::string& path) {
  const auto text = read_whole(path);
  return text ? Profile::from_json(*text) : text.error();
}

}  // namespace

std::string profile_path(const Config& config) {
  if (config.cache_folder.empty()) return "";
  return config.cache_folder + "/profile-" + machine_name() + gpu_suffix(config) + ".json";
}

Status save_profile(const std::string& json, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code refused;
  if (!folder.empty()) std::filesystem::create_directories(folder, refused);
  if (refused) return not_kept(path, refused.message());
  Status written = write_whole(path, json);
  return written ? Status{} : not_kept(path, written.error().message);
}

Result<Profile> profile_of_this_machine(
    const Config& config,
    const std::function<void(double share, const std::string& what)>& progress) {
  const std::string path = profile_path(config);
  if (!path.empty()) {
    if (auto found = kept(path); found) return found;
  }
  CalibrationOptions options;
  options.config = config;
  options.folder = config.temporary_folder;
  options.sample_bytes = quick_sample_bytes;
  options.progress = progress;
  auto measured = calibrate(options);
  if (measured && !path.empty()) (void)save_profile(measured->to_json(), path);
  return measured;
}

}  // namespace tranship
