// The planned work of short copies on GPUs that came before.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "channels/gpu/gpu_channel.hpp"
#include "plan/plan.hpp"

namespace tranship {

/// Remembers what a GPU does for recent short copies: to plan it takes a fifth of the time in which
/// a copy of one box starts, and more than that time for several boxes. Threads: all.
class KnownWorks {
 public:
  /// Returns the work of the plan's nests, which `request` holds, on the channel; null if it has to
  /// be planned for each copy.
  std::shared_ptr<const GpuWork> of_plan(const std::shared_ptr<const Plan>& plan,
                                         GpuChannel& channel, const Request& request);

  /// Returns the work of the request's indexed nests if they were asked for before, at the same
  /// distances from the two addresses; null if it has to be planned. The second time, its
  /// preparation begins.
  std::shared_ptr<const GpuWork> of_lists(GpuChannel& channel, const Request& request);

 private:
  struct Entry {
    const GpuChannel* channel = nullptr;
    bool urgent = false;
    std::shared_ptr<const GpuWork> work;  ///< null: it needs a table, or none is known yet

    bool is_of(const GpuChannel& one, const Request& request) const {
      return channel == &one && urgent == (request.priority > 0);
    }
  };
  struct PlanEntry : Entry {
    std::shared_ptr<const Plan> plan;  ///< kept, so that its address is not another plan's
  };
  struct ListEntry : Entry {
    /// Say what the nests are, and how the addresses are aligned.
    std::vector<std::int64_t> numbers;
    std::shared_ptr<GpuFlight> ready;  ///< Until it is done, the work is not on the GPU.
    bool refused = false;              ///< the driver could not prepare it

    bool usable();
  };

  std::mutex mutex_;
  std::array<PlanEntry, 256> plans_;
  std::array<ListEntry, 32> lists_;
};

}  // namespace tranship
