#include "plan/search.hpp"

#include <algorithm>

namespace tranship {
namespace {

/// A way is given up if it cannot be faster than the best by more than this share.
constexpr double worth_share = 0.002;
/// Steps after which the search stays with what it has: no plan is worth seconds of planning.
constexpr int steps_max = 200000;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

FullSearch::FullSearch(const Graph& graph, const Task& task, Costs& costs)
    : graph_(graph),
      profile_(graph.profile()),
      task_(task),
      costs_(costs),
      remaining_(graph.remaining(task.query.target_memory)),
      visited_(profile_.memories.size(), 0) {
  if (!task.query.through.empty()) {
    hops_most_ = std::min(hops_max, static_cast<int>(task.query.through.size()) - 1);
  }
}

void FullSearch::consider(const Candidate& candidate) {
  found_.push_back(candidate);
  seconds_ = std::min(seconds_, candidate.seconds);
}

void FullSearch::run() {
  const int source = task_.query.source_memory;
  visited_[at(source)] = source != task_.query.target_memory;
  visit(source, !task_.converts, {});
}

std::vector<Candidate> FullSearch::found() const {
  std::vector<Candidate> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Candidate& a, const Candidate& b) {
    return a.seconds < b.seconds;
  });
  return sorted;
}

bool FullSearch::may_pass(int memory) const {
  return profile_.memories[at(memory)].buffer_bytes_max > 0;
}

bool FullSearch::forced_elsewhere(int memory) const {
  const auto& through = task_.query.through;
  return !through.empty() && through[at(path_.count + 1)] != memory;
}

void FullSearch::visit(int memory, bool converted, const Sums& sums) {
  if (path_.count >= hops_most_ || steps_ > steps_max) return;
  const bool at_target = memory == task_.query.target_memory && path_.count > 0;
  for (const int channel : graph_.leaving(memory)) {
    const int next = profile_.channels[at(channel)].target;
    const bool loops = next == memory;
    if (at_target && !loops) continue;  // it only still has to convert
    if (forced_elsewhere(next)) continue;
    if (!loops && visited_[at(next)]) continue;
    if (!converted) step(channel, true, converted, sums);
    // Passing through a self-loop without converting there never helps, but may be all there is.
    if (!loops || (path_.count == 0 && task_.query.source_memory == task_.query.target_memory) ||
        !task_.query.through.empty()) {
      step(channel, false, converted, sums);
    }
  }
}

void FullSearch::step(int channel, bool converts, bool converted, const Sums& sums) {
  ++steps_;
  const ChannelSpec& spec = profile_.channels[at(channel)];
  const int next = spec.target;
  const bool arrives = next == task_.query.target_memory;
  const auto& through = task_.query.through;
  const bool long_enough = through.empty() || at(path_.count + 2) == through.size();
  const bool done = arrives && (converted || converts) && long_enough;
  const auto& rest = remaining_.from[at(next)];
  if (rest.hops < 0 || path_.count + 1 + rest.hops > hops_most_) return;
  if (!done && !may_pass(next)) return;
  const BySize times = converts ? costs_.converting_s(channel) : graph_.tile_s(channel);
  Sums longer;
  Sums whole;
  for (std::size_t k = 0; k < tile_sizes; ++k) {
    longer.sum_s[k] = sums.sum_s[k] + times[k] + spec.latency_s;
    longer.beat_s[k] = std::max(sums.beat_s[k], times[k]);
    whole.sum_s[k] = longer.sum_s[k] + rest.sum_s[k];
    whole.beat_s[k] = std::max(longer.beat_s[k], rest.beat_s[k]);
  }
  const double to_beat = seconds_ * (1 - worth_share);
  if (costs_.at_least(whole.sum_s, whole.beat_s) >= to_beat) return;
  path_.add(channel);
  if (converts) converting_hop_ = path_.count - 1;
  if (done) {
    if (auto candidate = costs_.best_tiling(path_, converting_hop_, to_beat)) consider(*candidate);
  } else {
    const char before = visited_[at(next)];
    visited_[at(next)] = 1;
    visit(next, converted || converts, longer);
    visited_[at(next)] = before;
  }
  if (converts) converting_hop_ = -1;
  --path_.count;
}

}  // namespace tranship
