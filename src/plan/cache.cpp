#include "plan/cache.hpp"

#include "base/hash.hpp"

namespace tranship {
namespace {

std::uint64_t hash_of(const PlanQuery& query) {
  std::uint64_t hash = query.source.mapping->hash();
  hash = mixed(hash, query.target.mapping->hash());
  hash = mixed(hash, static_cast<std::uint64_t>(query.source_memory * 4096 + query.target_memory));
  hash = mixed(hash, static_cast<std::uint64_t>(query.planner));
  hash = mixed(hash, static_cast<std::uint64_t>(query.buffer_bytes_max));
  hash = mixed(hash, static_cast<std::uint64_t>(query.full_from_bytes * 64 + query.lanes_max));
  hash = mixed(hash, static_cast<std::uint64_t>(query.one_hop) +
                         2 * static_cast<std::uint64_t>(query.casting));
  for (const int memory : query.through) hash = mixed(hash, static_cast<std::uint64_t>(memory));
  for (const int channel : query.closed_channels) {
    hash = mixed(hash, static_cast<std::uint64_t>(channel));
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(query.source.mapping->rank()); ++k) {
    hash = mixed(hash, static_cast<std::uint64_t>(query.source.lower[k]));
    hash = mixed(hash, static_cast<std::uint64_t>(query.target.lower[k]));
    hash = mixed(hash, static_cast<std::uint64_t>(query.source.extents[k]));
  }
  return hash;
}

bool same(const View& a, const View& b) {
  const bool mapped = a.mapping == b.mapping || a.mapping->key() == b.mapping->key();
  return mapped && a.lower == b.lower && a.extents == b.extents;
}

bool same(const PlanQuery& a, const PlanQuery& b) {
  return a.source_memory == b.source_memory && a.target_memory == b.target_memory &&
         a.planner == b.planner && a.casting == b.casting &&
         a.buffer_bytes_max == b.buffer_bytes_max && a.full_from_bytes == b.full_from_bytes &&
         a.lanes_max == b.lanes_max && a.one_hop == b.one_hop && a.through == b.through &&
         a.waiting_s == b.waiting_s && a.closed_channels == b.closed_channels &&
         same(a.source, b.source) && same(a.target, b.target);
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::find(const PlanQuery& query) {
  const std::uint64_t hash = hash_of(query);
  std::lock_guard lock(mutex_);
  for (CachedPlan& entry : set_of(hash).entries) {
    if (entry.plan && entry.hash == hash && same(entry.query, query)) return entry.plan;
  }
  return nullptr;
}

void PlanCache::add(const PlanQuery& query, std::shared_ptr<const Plan> plan) {
  const std::uint64_t hash = hash_of(query);
  std::lock_guard lock(mutex_);
  Set& set = set_of(hash);
  set.entries[set.next] = {hash, query, std::move(plan)};
  set.next = (set.next + 1) % set.entries.size();
}

}  // namespace tranship
