#include "staging/client/put_progress.hpp"

#include <algorithm>

namespace tranship::staging {
namespace {

constexpr std::size_t variables_max = 1024;
constexpr std::size_t versions_max = 16;

}  // namespace

void PutProgress::begin(const std::string& name, std::int64_t version) {
  const std::lock_guard lock(mutex_);
  if (variables_.size() >= variables_max && !variables_.contains(name)) {
    variables_.erase(variables_.begin());
  }
  ++variables_[name].versions[version].begun;
}

bool PutProgress::finishes(const std::string& name, std::int64_t version) {
  const std::lock_guard lock(mutex_);
  auto& versions = variables_[name].versions;
  int usual = 1;
  for (const auto& [number, one] : versions) {
    if (number != version) usual = std::max(usual, one.put);
  }
  const Version& one = versions[version];
  return one.put + 1 >= usual && one.begun <= 1;
}

std::vector<PutProgress::Interval> PutProgress::commit(const std::string& name,
                                                       std::int64_t version, bool finished) {
  const std::lock_guard lock(mutex_);
  Variable& variable = variables_[name];
  auto& versions = variable.versions;
  Version& one = versions[version];
  one.begun = std::max(one.begun - 1, 0);
  ++one.put;
  one.finished = one.finished || finished;
  std::vector<Interval> left;
  const bool busy = std::any_of(versions.begin(), versions.lower_bound(version),
                                [](const auto& lower) { return lower.second.begun > 0; });
  if (rises_ && variable.any && !busy && version > variable.highest) {
    left.emplace_back(variable.highest, version - 1);
    for (auto lower = versions.begin(); lower->first < version; ++lower) {
      lower->second.finished = true;
    }
  }
  for (auto lower = versions.begin(); lower->first < version; ++lower) {
    if (lower->second.finished || lower->second.begun > 0) continue;
    lower->second.finished = true;
    left.emplace_back(lower->first, lower->first);
  }
  if (!variable.any || version > variable.highest) {
    if (!busy || !variable.any) variable.highest = version;
    variable.any = true;
  }
  while (versions.size() > versions_max && versions.begin()->second.begun == 0) {
    versions.erase(versions.begin());
  }
  return left;
}

void PutProgress::give_up(const std::string& name, std::int64_t version) {
  const std::lock_guard lock(mutex_);
  auto& versions = variables_[name].versions;
  const auto found = versions.find(version);
  if (found == versions.end()) return;
  found->second.begun = std::max(found->second.begun - 1, 0);
  if (found->second.begun == 0 && found->second.put == 0) versions.erase(found);
}

void PutProgress::forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  variables_.erase(name);
}

}  // namespace tranship::staging
