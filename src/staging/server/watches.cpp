#include "staging/server/watches.hpp"

#include <utility>

namespace tranship::staging {

void Watches::add(const std::string& name, Owner owner) {
  if (!by_name_[name].insert(owner).second) return;
  std::vector<std::string>& names = by_owner_[owner];
  names.push_back(name);
  if (names.size() <= names_max_) return;
  remove(names.front(), owner);
  names.erase(names.begin());
}

std::set<Owner> Watches::take(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return {};
  std::set<Owner> owners = std::move(found->second);
  by_name_.erase(found);
  for (const Owner owner : owners) std::erase(by_owner_.at(owner), name);
  return owners;
}

void Watches::drop(Owner owner) {
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  for (const std::string& name : found->second) remove(name, owner);
  by_owner_.erase(found);
}

void Watches::remove(const std::string& name, Owner owner) {
  const auto found = by_name_.find(name);
  found->second.erase(owner);
  if (found->second.empty()) by_name_.erase(found);
}

}  // namespace tranship::staging
