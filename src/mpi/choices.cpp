#include "mpi/choices.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "mpi/settings.hpp"

namespace tranship::mpi {
namespace {

constexpr std::array<const char*, tasks> names{"message", "pack", "unpack"};
/// Least gain for which MPI's way is left.
constexpr double gain_min = 1.1;

/// MPI's time over that of packing here, for one run length and one size.
struct Gain {
  double run_log = 0;
  double bytes_log = 0;
  double gain = 0;
};

using Gains = std::array<std::vector<Gain>, tasks>;

/// Reads lines such as "message 64 65536 2.7": run bytes, bytes, gain. Others are skipped.
Gains read(const std::string& path) {
  Gains gains;
  if (path.empty()) return gains;
  std::ifstream file(path);
  if (!file) {
    (void)std::fprintf(
        stderr,
        "tranship-mpi: TRANSHIP_MPI_CHOICES names %s, which cannot be read: messages "
        "in host memory are left to MPI\n",
        path.c_str());
  }
  std::string task;
  double run = 0;
  double bytes = 0;
  double gain = 0;
  while (file >> task >> run >> bytes >> gain) {
    const auto found = std::find(names.begin(), names.end(), task);
    if (found == names.end() || run <= 0 || bytes <= 0) continue;
    gains[static_cast<std::size_t>(found - names.begin())].push_back(
        {std::log2(run), std::log2(bytes), gain});
  }
  return gains;
}

}  // namespace

bool packing_is_faster(Task task, std::int64_t run_bytes, std::int64_t bytes) {
  if (settings().packing != Packing::measured) return settings().packing == Packing::always;
  static const Gains* const gains = new Gains(read(settings().choices));
  const auto& measured = (*gains)[static_cast<std::size_t>(task)];
  const double run_log = std::log2(static_cast<double>(std::max<std::int64_t>(run_bytes, 1)));
  const double bytes_log = std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
  double nearest = std::numeric_limits<double>::infinity();
  double gain = 0;
  for (const Gain& one : measured) {
    const double distance = std::hypot(one.run_log - run_log, one.bytes_log - bytes_log);
    if (distance < nearest) {
      nearest = distance;
      gain = one.gain;
    }
  }
  return gain >= gain_min;
}

}  // namespace tranship::mpi
