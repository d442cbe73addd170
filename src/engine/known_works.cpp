#include "engine/known_works.hpp"

#include <utility>

namespace tranship {
namespace {

/// Largest table, in bytes, that a remembered work may keep of a list before it.
constexpr std::int64_t kept_table_bytes_most = 64 << 10;
/// Most numbers of the lists that are remembered: some forty boxes.
constexpr std::size_t numbers_most = 1024;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t number) {
  return (hash ^ number) * 0x9e3779b97f4a7c15u;
}

/// Appends all that the nests say. Returns false if that is too much.
bool append(std::span<const IndexedNest> indexed, std::vector<std::int64_t>& numbers) {
  for (const IndexedNest& one : indexed) {
    const LoopNest& nest = one.nest;
    if (one.entries.size() > numbers_most || numbers.size() > numbers_most) return false;
    numbers.insert(numbers.end(), {nest.element_bytes, nest.source_offset, nest.target_offset,
                                   nest.rank, one.source_step, one.target_step,
                                   one.one_allocation ? 1 : 0, std::ssize(one.entries)});
    for (int k = 0; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
      numbers.insert(numbers.end(), {loop.extent, loop.source_stride, loop.target_stride});
    }
    for (const IndexedEntry& entry : one.entries) {
      numbers.insert(numbers.end(), {entry.source_offset, entry.target_offset, entry.count});
    }
  }
  return numbers.size() <= numbers_most;
}

}  // namespace

std::shared_ptr<const GpuWork> KnownWorks::of_plan(const std::shared_ptr<const Plan>& plan,
                                                   GpuChannel& channel, const Request& request) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(plan.get());
  for (const std::byte* address : {request.source.address, request.target.address}) {
    hash = mixed(hash, GpuWork::alignment_of(address));
  }
  PlanEntry& entry = plans_[(hash >> 32) % plans_.size()];
  {
    std::lock_guard lock(mutex_);
    if (entry.plan == plan && entry.is_of(channel, request)) {
      if (!entry.work) return nullptr;
      if (entry.work->fits(request.source.address, request.target.address)) return entry.work;
    }
  }
  PlanEntry made{{&channel, request.priority > 0, channel.plan(request)}, plan};
  auto work = made.work;
  std::lock_guard lock(mutex_);
  std::swap(entry, made);  // what was there ends without the lock
  return work;
}

std::shared_ptr<const GpuWork> KnownWorks::of_lists(GpuChannel& channel, const Request& request) {
  thread_local std::vector<std::int64_t> numbers;
  numbers.clear();
  for (const std::byte* address : {request.source.address, request.target.address}) {
    numbers.push_back(static_cast<std::int64_t>(GpuWork::alignment_of(address)));
  }
  if (!append(request.indexed, numbers)) return nullptr;
  std::uint64_t hash = 0;
  for (const std::int64_t number : numbers) hash = mixed(hash, static_cast<std::uint64_t>(number));
  ListEntry& entry = lists_[(hash >> 32) % lists_.size()];
  ListEntry made{{&channel, request.priority > 0, nullptr}, numbers, nullptr, false};
  {
    std::lock_guard lock(mutex_);
    if (entry.numbers != numbers || !entry.is_of(channel, request)) {
      std::swap(entry, made);
      return nullptr;  // what was there ends without the lock
    }
    if (entry.refused) return nullptr;
    if (entry.work) return entry.usable() ? entry.work : nullptr;
  }
  auto begun = channel.begin_prepare(request, kept_table_bytes_most);
  made.refused = !begun;  // the copy itself says why, if it fails, too
  if (begun) {
    made.work = std::move(begun->work);
    made.ready = std::move(begun->ready);
  }
  std::lock_guard lock(mutex_);
  std::swap(entry, made);
  return nullptr;
}

bool KnownWorks::ListEntry::usable() {
  if (ready && ready->done()) {
    refused = !ready->status();
    ready = nullptr;
  }
  return !ready && !refused;
}

}  // namespace tranship
