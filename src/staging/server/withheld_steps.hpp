// What was put within steps: withheld until they are whole, and discarded when they are freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "staging/model/box.hpp"
#include "staging/model/version_set.hpp"

namespace tranship::staging {

/// What one server withholds of a step.
struct WithheldStep {
  /// A box without elements.
  struct Empty {
    Box box;
    std::uint32_t dimensions = 0;  ///< As Extent::empty_dimensions.
  };
  std::map<std::uint64_t, std::uint64_t> objects;  ///< Orders of commits, by number.
  std::set<std::uint64_t> entries;  ///< Numbers of index entries, from their begin on.
  /// The first ones of each variable and version.
  std::map<std::pair<std::string, std::int64_t>, Empty> empties;

  bool empty() const { return objects.empty() && entries.empty() && empties.empty(); }
};

/// Withheld steps by their numbers, and those that have ended. Steps end nearly in the order of
/// their numbers: of more than `gaps_max` that have not ended between others that have, the lowest
/// count as ended. Costs are logarithms. Not thread-safe.
class WithheldSteps {
 public:
  static constexpr std::size_t gaps_max = 4096;

  WithheldStep& of(std::uint64_t step) { return steps_[step]; }
  /// Returns null if nothing of the step is withheld.
  WithheldStep* find(std::uint64_t step) {
    const auto found = steps_.find(step);
    return found == steps_.end() ? nullptr : &found->second;
  }
  /// An object, or entry, is withheld no more.
  void remove_object(std::uint64_t step, std::uint64_t number) {
    remove(step, [&](WithheldStep& one) { one.objects.erase(number); });
  }
  void remove_entry(std::uint64_t step, std::uint64_t number) {
    remove(step, [&](WithheldStep& one) { one.entries.erase(number); });
  }
  /// A version was discarded, of which the step may have a box without elements.
  void remove_empty(std::uint64_t step, const std::string& variable, std::int64_t version) {
    remove(step, [&](WithheldStep& one) { one.empties.erase({variable, version}); });
  }
  /// Removes a step, and remembers that it has ended.
  WithheldStep end(std::uint64_t step) {
    const auto number = static_cast<std::int64_t>(step);
    ended_.insert(number, number);
    const auto found = steps_.find(step);
    if (found == steps_.end()) return {};
    WithheldStep withheld = std::move(found->second);
    steps_.erase(found);
    return withheld;
  }
  bool has_ended(std::uint64_t step) const {
    return ended_.contains(static_cast<std::int64_t>(step));
  }
  std::size_t size() const { return steps_.size(); }

 private:
  template <typename Remove>
  void remove(std::uint64_t step, const Remove& from) {
    const auto found = steps_.find(step);
    if (found == steps_.end()) return;
    from(found->second);
    if (found->second.empty()) steps_.erase(found);
  }

  std::map<std::uint64_t, WithheldStep> steps_;
  VersionSet ended_{VersionSet::Excess::join, gaps_max};
};

/// Versions of variables by the step that has shown them. Costs are logarithms. Not thread-safe.
class ShownSteps {
 public:
  struct Version {
    std::string variable;
    std::uint64_t incarnation = 0;
    std::int64_t version = 0;
    auto operator<=>(const Version&) const = default;
  };
  using Versions = std::set<Version>;

  void add(std::uint64_t step, Version version) { versions_[step].insert(std::move(version)); }
  /// Removes and returns the versions of a step.
  Versions take(std::uint64_t step) {
    const auto found = versions_.find(step);
    if (found == versions_.end()) return {};
    Versions taken = std::move(found->second);
    versions_.erase(found);
    return taken;
  }

 private:
  std::map<std::uint64_t, Versions> versions_;
};

}  // namespace tranship::staging
