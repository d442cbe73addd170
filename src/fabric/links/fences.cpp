#include "fabric/links/fences.hpp"

#include <algorithm>

namespace tranship::fabric {

void LeaseGrants::grant(int index, std::uint64_t export_id) {
  granted_.insert(index);
  lease(index).export_id.store(export_id, std::memory_order_seq_cst);
}

void LeaseGrants::end(int index) {
  if (granted_.contains(index)) lease(index).export_id.store(0, std::memory_order_seq_cst);
}

void LeaseGrants::end_all() {
  for (const int index : granted_) end(index);
}

bool LeaseGrants::in_use(int index) const {
  return granted_.contains(index) && lease(index).users.load(std::memory_order_seq_cst) != 0;
}

bool LeaseGrants::any_in_use() const {
  return std::any_of(granted_.begin(), granted_.end(), [&](int index) { return in_use(index); });
}

bool Fences::may_touch(const Fence& fence) {
  if (fence.server && fence.server->executing()) return true;
  return fence.leases.any_in_use() && !has_ended(fence.pidfd);
}

/// Reports once that no request of the fence's requester is carried out any more.
void Fences::report_served(Fence& fence) const {
  if (fence.served || (fence.server && fence.server->executing())) return;
  fence.served = true;
  if (served_) served_(fence.requester, fence.cleanly);
}

void Fences::end(const Fence& fence) const {
  if (gone_) gone_(fence.requester, fence.cleanly);
}

void Fences::raise(Fence fence) {
  fence.leases.end_all();
  if (!may_touch(fence)) return end(fence);
  report_served(fence);
  fences_.push_back(std::move(fence));
}

void Fences::lift() {
  for (auto fence = fences_.begin(); fence != fences_.end();) {
    if (may_touch(*fence)) {
      report_served(*fence);
      ++fence;
      continue;
    }
    const Fence lifted = std::move(*fence);
    fence = fences_.erase(fence);
    end(lifted);
  }
}

bool Fences::in_use(int export_index) const {
  return std::any_of(fences_.begin(), fences_.end(), [&](const Fence& fence) {
    return fence.leases.in_use(export_index) && !has_ended(fence.pidfd);
  });
}

}  // namespace tranship::fabric
