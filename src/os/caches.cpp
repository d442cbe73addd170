#include "os/caches.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

namespace tranship {
namespace {

/// Largest believed cache for each core, in bytes: few machines have more.
constexpr std::int64_t bytes_a_core_max = std::int64_t{4} << 20;

/// Returns the size of the last-level cache that the system reports; 0 if it reports none.
std::int64_t last_level_cache_bytes() {
  // sysfs comes first: in virtual machines sysconf() reports the host's whole cache, not this
  // share.
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string path =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size";
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    long kibibytes = 0;
    if (file && std::fscanf(file.get(), "%ld", &kibibytes) == 1) {
      largest = std::max(largest, kibibytes * std::int64_t{1024});
    }
  }
  if (largest > 0) return largest;
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
    largest = std::max<std::int64_t>(largest, sysconf(name));
  }
  return largest;
}

}  // namespace

std::int64_t cache_bytes_at_hand() {
  const auto cores = static_cast<std::int64_t>(std::max(std::thread::hardware_concurrency(), 1U));
  return std::min(last_level_cache_bytes(), cores * bytes_a_core_max);
}

}  // namespace tranship
