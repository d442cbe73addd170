#include "staging/server/index_entries.hpp"

#include <algorithm>
#include <utility>

namespace tranship::staging {

void IndexEntries::add(std::uint64_t number, IndexEntry entry) {
  overflow_ += entry.where.overflow ? 1 : 0;
  entries_.emplace(number, std::move(entry));
}

void IndexEntries::remove(std::uint64_t number) {
  const auto found = entries_.find(number);
  overflow_ -= found->second.where.overflow ? 1 : 0;
  entries_.erase(found);
}

void IndexEntries::discard(std::uint64_t number) {
  const RemoteObject& where = entries_.at(number).where;
  if (where.overflow) orphans_.push_back(where.id);
  remove(number);
}

std::vector<Orphan> IndexEntries::take_orphans(std::size_t count_max) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(count_max, orphans_.size()));
  std::vector<Orphan> taken(orphans_.end() - count, orphans_.end());
  orphans_.resize(orphans_.size() - taken.size());
  return taken;
}

}  // namespace tranship::staging
