#include "engine/carriers/ends.hpp"

#include <utility>

namespace tranship {
namespace {

/// Whether the list has the owner among its last two, as owners of sources and targets take turns.
bool ends_with(const Leases& held, const std::shared_ptr<void>& owner) {
  const std::size_t count = held.size();
  return (count > 0 && held[count - 1] == owner) || (count > 1 && held[count - 2] == owner);
}

}  // namespace

Result<Guards> Guards::of(const StepEnds& ends) {
  Guards guards;
  const bool one = ends.all.size() == 1;
  if (ends.owner) {
    guards.owners_[0] = ends.owner;
  } else if (one) {
    guards.owners_ = {ends.source().owner, ends.target().owner, nullptr};
  }
  for (const CopyPair& pair : ends.all) {
    if (Status s = guards.add(pair, !ends.owner && !one); !s) return s.error();
  }
  return guards;
}

Status Guards::add(const CopyPair& pair, bool with_owners) {
  for (const Array* array : {&pair.source, &pair.target}) {
    if (with_owners && array->owner && !ends_with(held_, array->owner)) {
      held_.push_back(array->owner);
    }
    if (!array->liveness) continue;
    auto lease = lease_of(*array);
    if (!lease) return lease.error();
    held_.push_back(std::move(*lease));
    if (lives_.empty() || lives_.back() != array->liveness) lives_.push_back(array->liveness);
  }
  return {};
}

std::function<Status()> Guards::final_check() {
  if (lives_.empty()) return {};
  return [lives = std::move(lives_)] {
    for (const auto& life : lives) {
      if (Status status = life->check(); !status) return status;
    }
    return Status{};
  };
}

void Guards::give_to(GpuFlight& flight) {
  flight.keep_alive(std::move(owners_));
  if (!held_.empty()) flight.hold(std::move(held_));
  if (auto check = final_check()) flight.check_at_end(std::move(check));
}

void Guards::give_to(Transfer& transfer) {
  transfer.keep_alive.assign(owners_.begin(), owners_.end());
  for (auto& lease : held_) transfer.keep_alive.push_back(std::move(lease));
  transfer.final_check = final_check();
}

}  // namespace tranship
