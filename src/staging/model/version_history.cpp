#include "staging/model/version_history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tranship::staging {

VersionIndex* VersionHistory::find(std::int64_t version) {
  const auto found = held_.find(version);
  return found == held_.end() ? nullptr : &found->second;
}

const VersionIndex* VersionHistory::find(std::int64_t version) const {
  const auto found = held_.find(version);
  return found == held_.end() ? nullptr : &found->second;
}

void VersionHistory::add_object(std::int64_t version, std::uint64_t number, const Box& box,
                                std::int64_t bytes) {
  VersionIndex& index = at(version);
  counted_ += index.counts() ? 0 : 1;
  index.add_object(number, box, bytes);
}

void VersionHistory::remove_confirmed(std::int64_t version, const ObjectId& id, const Box& box) {
  VersionIndex& index = at(version);
  index.remove_confirmed(id, box);
  counted_ -= index.counts() ? 0 : 1;
}

void VersionHistory::remove_object(std::int64_t version, std::uint64_t number, const Box& box,
                                   std::int64_t bytes) {
  VersionIndex& index = at(version);
  index.remove_object(number, box, bytes);
  counted_ -= index.counts() ? 0 : 1;
}

void VersionHistory::confirm_entry(std::int64_t version) {
  VersionIndex& index = at(version);
  counted_ += index.counts() ? 0 : 1;
  index.confirm_entry();
}

void VersionHistory::add_empty(std::int64_t version, const Box& box, std::uint32_t dimensions) {
  VersionIndex& index = hold(version);
  counted_ += index.counts() ? 0 : 1;
  index.add_empty(box, dimensions);
}

void VersionHistory::end_withholding(std::int64_t version, std::uint64_t step) {
  const auto at_version = withheld_.find(version);
  if (at_version == withheld_.end()) return;
  const auto of_step = at_version->second.find(step);
  if (of_step == at_version->second.end() || --of_step->second > 0) return;
  at_version->second.erase(of_step);
  if (at_version->second.empty()) withheld_.erase(at_version);
}

std::vector<std::uint64_t> VersionHistory::withheld(std::int64_t version) const {
  std::vector<std::uint64_t> steps;
  const auto found = withheld_.find(version);
  if (found == withheld_.end()) return steps;
  for (const auto& [step, count] : found->second) steps.push_back(step);
  return steps;
}

std::uint64_t VersionHistory::withheld_beside(VersionChoice choice, std::int64_t version,
                                              std::optional<std::int64_t> found) const {
  if (withheld_.empty()) return 0;
  const auto none = withheld_.end();
  auto one = none;
  if (choice == VersionChoice::exact) {
    one = withheld_.find(version);
  } else if (choice == VersionChoice::next) {
    one = withheld_.upper_bound(version);
    if (one != none && found && one->first > *found) one = none;
  } else {
    const auto above = withheld_.upper_bound(version);
    if (above != withheld_.begin()) one = std::prev(above);
    if (one != none && found && one->first < *found) one = none;
  }
  return one == none ? 0 : one->second.begin()->first;
}

std::vector<std::int64_t> VersionHistory::excess() const {
  std::vector<std::int64_t> versions;
  if (versions_max_ == 0) return versions;
  int left = counted_;
  for (auto one = held_.begin(); left > versions_max_ && one != held_.end(); ++one) {
    if (one->second.pending() > 0) break;  // it is discarded when its last put has ended
    versions.push_back(one->first);
    left -= one->second.counts() ? 1 : 0;
  }
  return versions;
}

VersionIndex VersionHistory::remove(std::int64_t version) {
  const auto found = held_.find(version);
  VersionIndex index = std::move(found->second);
  counted_ -= index.counts() ? 1 : 0;
  held_.erase(found);
  withheld_.erase(version);
  return index;
}

VersionIndex VersionHistory::discard(std::int64_t version) {
  VersionIndex index = contains(version) ? remove(version) : VersionIndex();
  discarded_.insert(version);
  return index;
}

void VersionHistory::drop_if_unused(std::int64_t version) {
  const auto found = held_.find(version);
  if (found != held_.end() && found->second.unused()) held_.erase(found);
}

bool VersionHistory::is_too_old(std::int64_t version) const {
  if (versions_max_ == 0 || counted_ < versions_max_ || held_.contains(version)) return false;
  const auto lowest =
      std::find_if(held_.begin(), held_.end(), [](const auto& one) { return one.second.counts(); });
  return version < lowest->first;
}

VersionHistory::Held::const_iterator VersionHistory::next(std::int64_t version,
                                                          const Box& box) const {
  auto one = held_.upper_bound(version);
  while (one != held_.end() && !one->second.meets(box)) ++one;
  return one;
}

VersionHistory::Held::const_iterator VersionHistory::latest(std::int64_t version,
                                                            const Box& box) const {
  auto above = held_.upper_bound(version);
  while (above != held_.begin() && !std::prev(above)->second.meets(box)) --above;
  return above == held_.begin() ? held_.end() : std::prev(above);
}

VersionHistory::Held::const_iterator VersionHistory::next(std::int64_t version) const {
  return std::find_if(held_.upper_bound(version), held_.end(),
                      [](const auto& one) { return one.second.has_extent(); });
}

VersionHistory::Held::const_iterator VersionHistory::latest(std::int64_t version) const {
  auto above = held_.upper_bound(version);
  while (above != held_.begin() && !std::prev(above)->second.has_extent()) --above;
  return above == held_.begin() ? held_.end() : std::prev(above);
}

}  // namespace tranship::staging
