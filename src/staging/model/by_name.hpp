// A map by name that can also be walked in the order of the names.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tranship::staging {

/// Values of a server by variable name. find() uses a hash: among thousands of names, each search
/// in an ordered tree would miss the caches. Not thread-safe. Costs: find() is constant; emplace(),
/// erase() and names_from() are logarithms.
template <typename Value>
class ByName {
 public:
  using Map = std::unordered_map<std::string, Value>;

  auto end() const { return map_.end(); }
  auto end() { return map_.end(); }
  auto find(const std::string& name) const { return map_.find(name); }
  auto find(const std::string& name) { return map_.find(name); }
  const Value& at(const std::string& name) const { return map_.at(name); }
  Value& at(const std::string& name) { return map_.at(name); }
  bool contains(const std::string& name) const { return map_.contains(name); }
  std::size_t size() const { return map_.size(); }

  auto emplace(const std::string& name, Value value) {
    const auto placed = map_.emplace(name, std::move(value));
    if (placed.second) add_name(placed.first);
    return placed;
  }
  void erase(typename Map::const_iterator one) {
    names_.erase(one->first);
    map_.erase(one);
  }
  bool erase(const std::string& name) {
    const auto found = map_.find(name);
    if (found == map_.end()) return false;
    erase(found);
    return true;
  }

  /// Returns names from `first` on, in order, at most `count_max`, of values that are `wanted`.
  template <typename Wanted>
  std::vector<std::string> names_from(const std::string& first, std::size_t count_max,
                                      Wanted wanted) const {
    std::vector<std::string> names;
    for (auto one = names_.lower_bound(first); one != names_.end() && names.size() < count_max;
         ++one) {
      std::string name(*one);
      if (wanted(map_.at(name))) names.push_back(std::move(name));
    }
    return names;
  }

 private:
  void add_name(typename Map::const_iterator one) {
    try {
      names_.insert(one->first);
    } catch (...) {
      map_.erase(one);
      throw;
    }
  }

  Map map_;
  std::set<std::string_view> names_;  ///< Views of the keys, which do not move.
};

}  // namespace tranship::staging
