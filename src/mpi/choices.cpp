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
/// Least gain for which MPI's way is left: MPI libraries carry types of one shape at speeds that
/// differ by half, by how they were built.
constexpr double gain_min = 1.5;

/// Vectors and arrays whose runs lie so many times their length apart are left to MPI: both ways
/// wait for memory, and packing here writes all bytes once more.
constexpr std::int64_t far_apart = 64;

/// MPI's time over that of packing here, for one run length and one size.
struct Gain {
  double run_log = 0;
  double bytes_log = 0;
  double gain = 0;
};

using Gains = std::array<std::array<std::vector<Gain>, constructions>, tasks>;

/// Returns the place of a word; the number of words if it is none of them.
template <std::size_t count>
std::size_t place_of(const std::string& word, const std::array<const char*, count>& words) {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

/// Reads lines such as "message blocks 64 65536 2.7": run bytes, bytes, gain. Others are skipped.
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
  std::string construction;
  double run = 0;
  double bytes = 0;
  double gain = 0;
  while (file >> task >> construction >> run >> bytes >> gain) {
    const std::size_t row = place_of(task, names);
    const std::size_t column = place_of(construction, construction_names);
    if (row == tasks || column == constructions || run <= 0 || bytes <= 0) continue;
    gains[row][column].push_back({std::log2(run), std::log2(bytes), gain});
  }
  return gains;
}

}  // namespace

bool packing_is_faster(Task task, const TypeShape& shape) {
  if (settings().packing != Packing::measured) return settings().packing == Packing::always;
  const bool in_loops =
      shape.construction == Construction::vectors || shape.construction == Construction::arrays;
  if (in_loops && shape.span_bytes / far_apart >= shape.bytes) return false;
  static const Gains* const gains = new Gains(read(settings().choices));
  const auto& measured =
      (*gains)[static_cast<std::size_t>(task)][static_cast<std::size_t>(shape.construction)];
  const auto log_of = [](std::int64_t bytes) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
  };
  const double run_log = log_of(shape.run_bytes);
  const double bytes_log = log_of(shape.bytes);
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
