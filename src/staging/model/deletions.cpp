#include "staging/model/deletions.hpp"

#include <algorithm>

namespace tranship::staging {

Deletions::Deletions(int servers, std::size_t names_max)
    : distribution_(servers),
      names_max_(names_max),
      newest_(static_cast<std::size_t>(servers)),
      forgotten_(static_cast<std::size_t>(servers)) {}

void Deletions::add(const std::string& variable, std::uint64_t number) {
  const auto metadata_server = static_cast<std::size_t>(distribution_.metadata_server(variable));
  newest_[metadata_server] = std::max(newest_[metadata_server], number);
  std::uint64_t& known = names_[variable];
  if (known >= number) return;
  known = number;
  order_.emplace_back(variable, number);
  while (order_.size() > names_max_) {
    const auto& [name, oldest] = order_.front();
    const auto its = static_cast<std::size_t>(distribution_.metadata_server(name));
    forgotten_[its] = std::max(forgotten_[its], oldest);
    const auto found = names_.find(name);
    if (found != names_.end() && found->second == oldest) names_.erase(found);
    order_.pop_front();
  }
}

bool Deletions::stale(const std::string& variable, const Incarnation& incarnation) const {
  if (order_.empty() || incarnation.stamp == 0) return false;
  const auto metadata_server = static_cast<std::size_t>(distribution_.metadata_server(variable));
  if (incarnation.stamp >= newest_[metadata_server]) return false;
  const auto found = names_.find(variable);
  if (found != names_.end()) return incarnation.number < found->second;
  return incarnation.stamp < forgotten_[metadata_server];
}

}  // namespace tranship::staging
