#include "engine/known_works.hpp"

#include <cstdint>
#include <utility>

namespace tranship {
namespace {

/// Two addresses that are aligned alike to a line of a GPU's cache have one place.
std::size_t place_of(const Plan& plan, const Request& request) {
  constexpr std::uintptr_t line_bytes = 128;
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(&plan);
  for (const std::byte* address : {request.source.address, request.target.address}) {
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(address) % line_bytes) * 0x9e3779b97f4a7c15u;
  }
  return static_cast<std::size_t>(hash >> 32);
}

}  // namespace

std::shared_ptr<const GpuWork> KnownWorks::find(const std::shared_ptr<const Plan>& plan,
                                                GpuChannel& channel, const Request& request) {
  const bool urgent = request.priority > 0;
  Entry& entry = entries_[place_of(*plan, request) % entries_.size()];
  {
    std::lock_guard lock(mutex_);
    if (entry.plan == plan && entry.channel == &channel && entry.urgent == urgent) {
      if (!entry.work) return nullptr;
      if (entry.work->fits(request.source.address, request.target.address)) return entry.work;
    }
  }
  Entry made{plan, &channel, urgent, channel.plan(request)};
  auto work = made.work;
  std::lock_guard lock(mutex_);
  std::swap(entry, made);  // what was there ends without the lock
  return work;
}

}  // namespace tranship
