// Which GPUs' links to the host other processes use now, and which are left for lanes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "engine/array.hpp"
#include "gpu/gpus.hpp"
#include "machine/profile.hpp"
#include "os/usage_table.hpp"

namespace tranship {

/// One direction of the link between the host and a GPU.
struct GpuLink {
  int device = 0;
  bool to_gpu = true;
};

/// Returns the link that carries a copy of so many bytes between host memory and a GPU; nothing for
/// other copies, and for those that are too short for lanes.
std::optional<GpuLink> link_of(const Array& source, const Array& target, std::int64_t bytes);

/// A process that copies between the host and a GPU over that GPU's own link.
struct LinkUse {
  int process = 0;  ///< number that all processes agree on
  int link = 0;     ///< number of the GPU
};

/// Returns the links of one direction that lanes of a process must not use, in ascending order:
/// those that other processes use, and the idle links outside its share. The idle links are divided
/// among the processes in the order of their first links. Processes that see the same uses thus
/// compute the same shares without a message, and no two of them use one GPU's link.
/// count: Number of links. process: Number of the process, which has at least one of the uses.
std::vector<int> closed_links(int count, int process, std::span<const LinkUse> uses);

/// An engine's view of the table of links in shared memory, by the PCI addresses of its GPUs. The
/// engines of one process count as one.
/// Threads: all.
class LinkUsage {
 public:
  /// Returns null where there is no table: copies are then planned as if they were alone.
  /// process: As of UsageTable::open().
  /// profile: Must not change its channels while the object exists. clock: Must show the system's
  /// monotonic clock, and outlive the object.
  static std::unique_ptr<LinkUsage> open(const Config& config, std::uint64_t process,
                                         const std::vector<GpuInfo>& gpus, const Profile& profile,
                                         const Clock& clock);

  /// Marks that this process uses a link for `seconds` from now on, and probably soon again.
  void mark(const GpuLink& link, double seconds);

  /// Returns the channels that further lanes of a copy over `link` must not use, in ascending
  /// order.
  std::vector<int> closed_channels(const GpuLink& link) const;

  /// Clears what this process has marked.
  void leave() { table_->leave(); }

 private:
  /// What belongs to one direction, by the numbers of the GPUs.
  struct Direction {
    std::vector<int> columns;                      ///< of the table
    std::vector<std::vector<int>> channels;        ///< of the profile, over the GPU's link
    std::vector<std::atomic<std::int64_t>> marks;  ///< when the link was marked last
  };

  LinkUsage(std::unique_ptr<UsageTable> table, const Clock& clock)
      : table_(std::move(table)), clock_(clock) {}
  const Direction& direction_of(const GpuLink& link) const {
    return directions_[link.to_gpu ? 1 : 0];
  }

  std::unique_ptr<UsageTable> table_;
  const Clock& clock_;
  std::array<Direction, 2> directions_;  ///< from the GPUs, to the GPUs
};

}  // namespace tranship
