#include "base/units.hpp"

#include <cmath>
#include <cstdio>

namespace tranship {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  static const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::abs(value) >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == std::floor(value);
  return format(whole ? "%.0f " : "%.1f ", value) + units[unit];
}

std::string format_rate(double bytes_per_second) {
  if (bytes_per_second >= 1e8) return format("%.1f GB/s", bytes_per_second / 1e9);
  if (bytes_per_second >= 1e5) return format("%.1f MB/s", bytes_per_second / 1e6);
  if (bytes_per_second >= 1e2) return format("%.1f kB/s", bytes_per_second / 1e3);
  return format("%.1f B/s", bytes_per_second);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-6) return format("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return format("%.1f us", seconds * 1e6);
  if (seconds < 1) return format("%.1f ms", seconds * 1e3);
  return format("%.2f s", seconds);
}

}  // namespace tranship
