#include "plan/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/at.hpp"

namespace tranship {
namespace {

/// A path is pruned if it cannot be faster than the best by more than this share.
constexpr double worth_share = 0.002;
/// Steps after which the search ends with its best candidate: no plan is worth seconds of planning.
constexpr int steps_max = 20000;
constexpr int mask_bits = 64;

}  // namespace

FullSearch::FullSearch(const Graph& graph, const Task& task, Costs& costs)
    : graph_(graph),
      profile_(graph.profile()),
      task_(task),
      costs_(costs),
      remaining_(graph.remaining(task.query.target_memory)),
      labels_(2 * profile_.memories.size()),
      visited_(profile_.memories.size(), 0) {
  for (std::size_t c = 0; c < profile_.channels.size(); ++c) {
    const ChannelSpec& channel = profile_.channels[c];
    if (channel.target == task.query.target_memory && channel.source != channel.target) {
      arriving_.push_back(static_cast<int>(c));
    }
  }
  may_dominate_ = profile_.memories.size() <= mask_bits && profile_.resources.size() <= mask_bits &&
                  task.query.waiting_s.empty() && task.query.through.empty();
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
  if (task_.converts) measure_rest();
  visited_[at(source)] = source != task_.query.target_memory;
  visit(source, !task_.converts, {});
}

std::vector<Candidate> FullSearch::found() const {
  std::vector<Candidate> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return sorted;
}

void FullSearch::measure_rest() {
  rest_converting_.resize(profile_.memories.size());
  for (Sums& sums : rest_converting_) {
    sums.sum_s.fill(INFINITY);
    sums.beat_s.fill(INFINITY);
  }
  // Relaxed until nothing changes: over one converting channel first, then over more plain ones.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t c = 0; c < profile_.channels.size(); ++c) {
      const ChannelSpec& channel = profile_.channels[c];
      const auto& plain = remaining_.from[at(channel.target)];
      if (plain.hops < 0) continue;
      const bool may_convert = task_.may_convert(channel);
      const auto& converted_s = costs_.converting(static_cast<int>(c)).at_least_s;
      const auto& plain_s = graph_.tile_s(static_cast<int>(c));
      const Sums& later = rest_converting_[at(channel.target)];
      Sums& here = rest_converting_[at(channel.source)];
      for (std::size_t k = at(costs_.size_first()); k < at(costs_.size_end()); ++k) {
        const double here_s = may_convert ? converted_s[k] : INFINITY;
        const double sum_s =
            channel.latency_s + std::min(here_s + plain.sum_s[k], plain_s[k] + later.sum_s[k]);
        const double beat_s =
            std::min(std::max(here_s, plain.beat_s[k]), std::max(plain_s[k], later.beat_s[k]));
        changed = changed || sum_s < here.sum_s[k] || beat_s < here.beat_s[k];
        here.sum_s[k] = std::min(here.sum_s[k], sum_s);
        here.beat_s[k] = std::min(here.beat_s[k], beat_s);
      }
    }
  }
}

bool FullSearch::may_pass(int memory) const {
  return profile_.memories[at(memory)].buffer_bytes_max > 0;
}

bool FullSearch::forced_elsewhere(int memory) const {
  const auto& through = task_.query.through;
  return !through.empty() && through[at(path_.count + 1)] != memory;
}

bool FullSearch::ends(int channel, bool converted) const {
  const auto& through = task_.query.through;
  const bool long_enough = through.empty() || at(path_.count + 2) == through.size();
  return profile_.channels[at(channel)].target == task_.query.target_memory && converted &&
         long_enough;
}

FullSearch::Sums FullSearch::after(const Sums& sums, int channel, bool converts) {
  const BySize& times = converts ? costs_.converting(channel).at_least_s : graph_.tile_s(channel);
  const double latency_s = profile_.channels[at(channel)].latency_s;
  Sums longer;
  for (std::size_t k = at(costs_.size_first()); k < at(costs_.size_end()); ++k) {
    longer.sum_s[k] = sums.sum_s[k] + times[k] + latency_s;
    longer.beat_s[k] = std::max(sums.beat_s[k], times[k]);
  }
  return longer;
}

FullSearch::Sums FullSearch::whole_way(const Sums& sums, int memory, bool converted,
                                       bool done) const {
  if (done) return sums;
  const bool to_convert = task_.converts && !converted;
  const auto& plain = remaining_.from[at(memory)];
  const BySize& sum_s = to_convert ? rest_converting_[at(memory)].sum_s : plain.sum_s;
  const BySize& beat_s = to_convert ? rest_converting_[at(memory)].beat_s : plain.beat_s;
  Sums whole;
  for (std::size_t k = at(costs_.size_first()); k < at(costs_.size_end()); ++k) {
    whole.sum_s[k] = sums.sum_s[k] + sum_s[k];
    whole.beat_s[k] = std::max(sums.beat_s[k], beat_s[k]);
  }
  return whole;
}

int FullSearch::list_steps(int memory, bool converted, const Sums& sums, Step* steps) {
  const bool at_target = memory == task_.query.target_memory && path_.count > 0;
  // A self-loop that does not convert gains nothing if runs are as long as they can be, but may be
  // what was asked for.
  const bool loops_may_be_plain =
      task_.has_gaps || !task_.query.through.empty() ||
      (path_.count == 0 && task_.query.source_memory == task_.query.target_memory);
  int count = 0;
  for (const int channel : graph_.leaving(memory)) {
    const int next = profile_.channels[at(channel)].target;
    const bool loops = next == memory;
    if (at_target && !loops) continue;  // it only still has to convert, or to be spread
    if (loops && looped_) continue;
    if (forced_elsewhere(next) || (!loops && visited_[at(next)])) continue;
    if (remaining_.from[at(next)].hops < 0 ||
        path_.count + 1 + remaining_.from[at(next)].hops > hops_most_) {
      continue;
    }
    for (const bool converts : {true, false}) {
      if ((converts && converted) || (!converts && loops && !loops_may_be_plain)) continue;
      if (converts && !task_.may_convert(profile_.channels[at(channel)])) continue;
      const bool done = ends(channel, converted || converts);
      if ((!done && !may_pass(next)) || count == steps_abreast_max) continue;
      ++steps_;
      const Sums whole =
          whole_way(after(sums, channel, converts), next, converted || converts, done);
      const double least_s = costs_.at_least(whole.sum_s, whole.beat_s);
      if (least_s < seconds_ * (1 - worth_share)) steps[count++] = {channel, converts, least_s};
    }
  }
  return count;
}

void FullSearch::visit(int memory, bool converted, const Sums& sums) {
  if (path_.count >= hops_most_ || steps_ > steps_max) return;
  std::array<Step, steps_abreast_max> steps;
  const int count = list_steps(memory, converted, sums, steps.data());
  std::stable_sort(steps.begin(), steps.begin() + count,
                   [](const Step& a, const Step& b) { return a.at_least_s < b.at_least_s; });
  for (int k = 0; k < count; ++k) take(steps[at(k)], converted, sums);
}

void FullSearch::take(const Step& step, bool converted, const Sums& sums) {
  const double to_beat = seconds_ * (1 - worth_share);
  if (step.at_least_s >= to_beat) return;
  const int next = profile_.channels[at(step.channel)].target;
  const bool then_converted = converted || step.converts;
  const bool done = ends(step.channel, then_converted);
  const Sums longer = after(sums, step.channel, step.converts);
  const bool loops = next == profile_.channels[at(step.channel)].source;
  const bool looped = looped_;
  looped_ = looped_ || loops;
  path_.add(step.channel);
  if (step.converts) converting_hop_ = path_.count - 1;
  const Sums whole = whole_way(longer, next, then_converted, done);
  if (may_beat(to_beat, whole, next, then_converted, done)) {
    const char before = visited_[at(next)];
    visited_[at(next)] = 1;
    if (done) {
      if (auto found = costs_.best_tiling(path_, converting_hop_, to_beat)) consider(*found);
      // The last step may still be to spread what has arrived.
      const bool may_spread = task_.has_gaps && !looped_ && task_.query.through.empty();
      if (may_spread && may_pass(next)) visit(next, then_converted, longer);
    } else if (!is_dominated(next, then_converted)) {
      visit(next, then_converted, longer);
    }
    visited_[at(next)] = before;
  }
  if (step.converts) converting_hop_ = -1;
  looped_ = looped;
  --path_.count;
}

bool FullSearch::may_beat(double seconds, const Sums& whole, int next, bool converted, bool done) {
  const bool first_sees = converting_hop_ != 0;
  const bool last_sees = !done || converting_hop_ != path_.count - 1;
  const bool arrives = !done && next == task_.query.target_memory;  // a self-loop is still to come
  const bool both = task_.trades_runs && first_sees && last_sees && !arrives && path_.count > 1;
  // From large tiles to small: what a large one makes at its ends bounds what smaller ones make.
  for (int k = costs_.size_end() - 1; k >= costs_.size_first(); --k) {
    const double sum_s = whole.sum_s[at(k)];
    const double beat_s = whole.beat_s[at(k)];
    if (costs_.at_least(k, sum_s, beat_s) >= seconds) continue;
    if (!both) return true;
    for (const int last : arriving_) {
      // The last channel of a complete path is known.
      if (done && last != path_.channels[at(path_.count - 1)]) continue;
      const int before = profile_.channels[at(last)].source;
      if (!done && before != next && visited_[at(before)]) continue;
      const double otherwise_s = converted ? INFINITY : costs_.converting(last).at_least_s[at(k)];
      const auto beats = [&](double ends_s) {
        const double slower_s = std::min(ends_s, otherwise_s);
        // One of the two channels takes that long; the sum counts both as if their runs were long.
        const double counted_s =
            std::max(graph_.tile_s(path_.channels[0])[at(k)], graph_.tile_s(last)[at(k)]);
        const double more_s = std::max(slower_s - counted_s, 0.0);
        return costs_.at_least(k, sum_s + more_s, std::max(beat_s, slower_s)) < seconds;
      };
      if (!beats(costs_.ends_known_s(path_.channels[0], last, k))) continue;
      if (beats(costs_.ends_s(path_.channels[0], last, k))) return true;
    }
  }
  return false;
}

FullSearch::Label FullSearch::label_of(bool& twice) {
  Label label;
  label.first_function = graph_.function(path_.channels[0]);
  label.converts_first = converting_hop_ == 0;
  for (int k = 0; k < path_.count; ++k) {
    const int number = path_.channels[at(k)];
    const ChannelSpec& channel = profile_.channels[at(number)];
    label.memories |= std::uint64_t{1} << channel.target;
    for (const int r : channel.resources) {
      twice = twice || (label.resources >> r & 1) != 0;
      label.resources |= std::uint64_t{1} << r;
    }
    const BySize& plain_s = graph_.tile_s(number);
    const BySize& common_s = k == converting_hop_ ? costs_.converting(number).common_s : plain_s;
    for (std::size_t j = at(costs_.size_first()); j < at(costs_.size_end()); ++j) {
      label.plain.sum_s[j] += plain_s[j] + channel.latency_s;
      label.plain.beat_s[j] = std::max(label.plain.beat_s[j], plain_s[j]);
      label.common.sum_s[j] += common_s[j] + channel.latency_s;
      label.common.beat_s[j] = std::max(label.common.beat_s[j], common_s[j]);
    }
  }
  return label;
}

bool FullSearch::no_worse(const Sums& a, const Sums& b) const {
  for (std::size_t k = at(costs_.size_first()); k < at(costs_.size_end()); ++k) {
    if (a.sum_s[k] > b.sum_s[k] || a.beat_s[k] > b.beat_s[k]) return false;
  }
  return true;
}

bool FullSearch::is_dominated(int memory, bool converted) {
  if (!may_dominate_) return false;
  bool twice = false;  // a resource used twice costs more than its bit says
  const Label label = label_of(twice);
  auto& labels = labels_[2 * at(memory) + (converted ? 1 : 0)];
  for (const Label& other : labels) {
    const bool as_free = other.first_function == label.first_function &&
                         other.converts_first == label.converts_first &&
                         (other.memories & ~label.memories) == 0 &&
                         (other.resources & ~label.resources) == 0;
    if (as_free && no_worse(other.plain, label.plain) && no_worse(other.common, label.common)) {
      return true;
    }
  }
  if (!twice) labels.push_back(label);
  return false;
}

}  // namespace tranship
