#include "staging/model/deletions.hpp"

#include <algorithm>

namespace tranship::staging {

Deletions::Deletions(int servers, std::size_t names_max)
    : distribution_(servers),
      names_max_(names_max),
      newest_(static_cast<std::size_t>(servers)),
      forgotten_(static_cast<std::size_t>(servers)) {}

void Deletions::add(const std::string& variable, std::uint64_t number) {
  const auto keeper = static_cast<std::size_t>(distribution_.keeper(variable));
  newest_[keeper] = std::max(newest_[keeper], number);
  std::uint64_t& known = names_[variable];
  if (known >= number) return;
  known = number;
  order_.emplace_back(variable, number);
  while (order_.size() > names_max_) {
    const auto& [name, oldest] = order_.front();
    const auto its = static_cast<std::size_t>(distribution_.keeper(name));
    forgotten_[its] = std::max(forgotten_[its], oldest);
    const auto found = names_.find(name);
    if (found != names_.end() && found->second == oldest) names_.erase(found);
    order_.pop_front();
  }
}

bool Deletions::stale(const std::string& variable, const Life& life) const {
  if (order_.empty() || life.stamp == 0) return false;
  const auto keeper = static_cast<std::size_t>(distribution_.keeper(variable));
  if (life.stamp >= newest_[keeper]) return false;
  const auto found = names_.find(variable);
  if (found != names_.end()) return life.life < found->second;
  return life.stamp < forgotten_[keeper];
}

}  // namespace tranship::staging
