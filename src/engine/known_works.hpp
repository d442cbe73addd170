// The planned work of short copies on GPUs that came before.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "channels/gpu/gpu_channel.hpp"
#include "plan/plan.hpp"

namespace tranship {

/// Remembers what a GPU does for the nests of recent plans: to plan it takes a fifth of the time in
/// which a short copy starts. Threads: all.
class KnownWorks {
 public:
  /// Returns the work of the plan's nests, which `request` holds, on the channel; null if it has to
  /// be planned for each copy.
  std::shared_ptr<const GpuWork> find(const std::shared_ptr<const Plan>& plan, GpuChannel& channel,
                                      const Request& request);

 private:
  struct Entry {
    std::shared_ptr<const Plan> plan;  ///< kept, so that its address is not another plan's
    const GpuChannel* channel = nullptr;
    bool urgent = false;
    std::shared_ptr<const GpuWork> work;  ///< null: it needs a table
  };

  std::mutex mutex_;
  std::array<Entry, 64> entries_;
};

}  // namespace tranship
