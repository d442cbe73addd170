#include "engine/recipe/copy_planner.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/at.hpp"
#include "engine/checks.hpp"

namespace tranship {
CopyPlanner::CopyPlanner(const Profile& profile, const Config& config, std::size_t gpu_count,
                         const LinkUsage* links)
    : profile_(profile), config_(config), links_(links), planner_(profile) {
  const auto name_of = [](MemoryKind kind) {
    switch (kind) {
      case MemoryKind::pinned: return "node0/pinned0";
      case MemoryKind::host: return "node0/host0";
      case MemoryKind::file: return "node0/file0";
      case MemoryKind::shared: return "node0/shared0";
      case MemoryKind::near_process: return "node0/host1";
      case MemoryKind::far_process: return "node1/host0";
      default: return "";  // of devices there may be several; arrays are of no other kind
    }
  };
  for (std::size_t k = 0; k < memories_.size(); ++k) {
    memories_[k] = profile_.find_memory(name_of(static_cast<MemoryKind>(k)));
  }
  for (std::size_t k = 0; k < gpu_count; ++k) {
    device_memories_.push_back(profile_.find_memory("node0/device" + std::to_string(k)));
  }
}

int CopyPlanner::memory_of(const Array& array) const {
  if (array.memory_kind != MemoryKind::device)
    return memories_[at(static_cast<int>(array.memory_kind))];
  const bool known = array.device >= 0 && at(array.device) < device_memories_.size();
  return known ? device_memories_[at(array.device)] : -1;
}

Result<PlanQuery> CopyPlanner::query_of(const Array& source, const Array& target,
                                        const CopyOptions& options, bool in_streams) const {
  if (options.buffer_bytes_max < 0) {
    return invalid("buffer_bytes=" + std::to_string(options.buffer_bytes_max) + " is negative",
                   "give a number of bytes, or 0 for no limit of this copy's own");
  }
  auto view = check_pair(source, target);
  if (!view) return view.error();
  PlanQuery query;
  query.source = source.view;
  query.target = std::move(*view);
  query.source_memory = memory_of(source);
  query.target_memory = memory_of(target);
  query.planner = options.planner;
  query.casting = options.casting;
  query.buffer_bytes_max = options.buffer_bytes_max;
  // What lies in one memory gains nothing by leaving it, whatever a noisy profile says; and of two
  // GPUs' arrays another process's is open for the GPU that carries the one hop.
  const bool on_gpus =
      source.memory_kind == MemoryKind::device && target.memory_kind == MemoryKind::device;
  query.one_hop = in_streams || query.source_memory == query.target_memory ||
                  (on_gpus && (is_opened(source) || is_opened(target)));
  query.full_from_bytes = config_.full_plan_bytes;
  query.lanes_max = static_cast<int>(std::clamp<std::int64_t>(config_.lanes, 1, 64));
  // Another process's array is open for one GPU, which other lanes do not use.
  if (is_opened(source) || is_opened(target)) query.lanes_max = 1;
  if (query.source_memory < 0 || query.target_memory < 0) {
    const Array& lost = query.source_memory < 0 ? source : target;
    return Error{ErrorCode::no_route, "the machine profile has no memory for " + lost.name,
                 "measure it anew with: tranship calibrate"};
  }
  if (links_ != nullptr && query.lanes_max > 1 && !query.one_hop) {
    if (const auto link = link_of(source, target, query.source.bytes())) {
      query.closed_channels = links_->closed_channels(*link);
    }
  }
  if (query.planner == PlannerKind::automatic) {
    query.planner = *planner_kind_from(config_.planner);
  }
  return query;
}

Result<std::shared_ptr<const Plan>> CopyPlanner::plan_of(const PlanQuery& query) {
  if (auto cached = cache_.find(query)) return cached;
  auto made = planner_.plan(query);
  if (!made) return made.error();
  auto shared = std::make_shared<const Plan>(std::move(*made));
  cache_.add(query, shared);
  return std::shared_ptr<const Plan>(shared);
}

}  // namespace tranship
