#include "channels/sim/time_queue.hpp"

#include <algorithm>
#include <bit>

namespace tranship {

std::size_t TimeQueue::bucket_of(std::int64_t time_ns) const {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time_ns ^ last_ns_)));
}

void TimeQueue::push(std::int64_t time_ns, int source) {
  const std::int64_t time = std::max(time_ns, last_ns_);
  buckets_[bucket_of(time)].push_back({time, source});
  ++size_;
}

/// Fills bucket 0 if it is empty: distributes the first non-empty bucket over the buckets before
/// it.
bool TimeQueue::refill() {
  if (due_ < buckets_[0].size()) return true;
  buckets_[0].clear();
  due_ = 0;
  const auto full =
      std::find_if(buckets_.begin() + 1, buckets_.end(),
                   [](const std::vector<DueTime>& bucket) { return !bucket.empty(); });
  if (full == buckets_.end()) return false;
  last_ns_ = std::min_element(full->begin(), full->end(), [](const DueTime& a, const DueTime& b) {
               return a.time_ns < b.time_ns;
             })->time_ns;
  for (const DueTime& entry : *full) buckets_[bucket_of(entry.time_ns)].push_back(entry);
  full->clear();
  return true;
}

std::optional<TimeQueue::DueTime> TimeQueue::pop() {
  if (!refill()) return std::nullopt;
  --size_;
  return buckets_[0][due_++];
}

}  // namespace tranship
