// The versions of one variable that a server holds, and those that it has discarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "staging/model/retention.hpp"
#include "staging/model/version_index.hpp"

namespace tranship::staging {

/// Decides which versions a limit discards; the caller discards them, and what belongs to them.
/// Laws: a put that was never committed changes no decision. excess() names the lowest versions,
/// and none at or above one to which a connected client is putting. Costs are logarithms of the
/// number of versions. Not thread-safe.
class VersionHistory {
 public:
  using Held = std::map<std::int64_t, VersionIndex>;

  /// `versions_max`: Versions that are kept; 0: all. `intervals_max`: As of DiscardedVersions.
  VersionHistory(int versions_max, std::size_t intervals_max)
      : versions_max_(versions_max), discarded_(intervals_max) {}

  const Held& held() const { return held_; }
  bool contains(std::int64_t version) const { return held_.contains(version); }
  /// Returns a version that is held.
  VersionIndex& at(std::int64_t version) { return held_.at(version); }
  const VersionIndex& at(std::int64_t version) const { return held_.at(version); }
  /// Returns null if the version is not held.
  VersionIndex* find(std::int64_t version);
  const VersionIndex* find(std::int64_t version) const;
  /// Returns a version, which is held from now on.
  VersionIndex& hold(std::int64_t version) { return held_[version]; }

  // Changes of a version that is held, which may count from then on, or count no more.
  void add_object(std::int64_t version, std::uint64_t number, const Box& box, std::int64_t bytes);
  void remove_object(std::int64_t version, std::uint64_t number, const Box& box,
                     std::int64_t bytes);
  void confirm_entry(std::int64_t version);
  void remove_confirmed(std::int64_t version, const ObjectId& id, const Box& box);
  /// A box without elements is put to a version, which is held from now on.
  void add_empty(std::int64_t version, const Box& box, std::uint32_t dimensions);

  /// Something of the step is withheld at the version, which is held, or is so no longer.
  void withhold(std::int64_t version, std::uint64_t step) { ++withheld_[version][step]; }
  void end_withholding(std::int64_t version, std::uint64_t step);
  /// Returns the steps of which something is withheld at the version.
  std::vector<std::uint64_t> withheld(std::int64_t version) const;
  /// Returns a step of which something is withheld that could change an answer: that no version
  /// fits the choice, or that `found` does. 0: none.
  std::uint64_t withheld_beside(VersionChoice choice, std::int64_t version,
                                std::optional<std::int64_t> found) const;

  /// Returns the versions that the limit discards now, in rising order.
  std::vector<std::int64_t> excess() const;
  /// Removes a version that is held, and returns its boxes.
  VersionIndex remove(std::int64_t version);
  /// Removes a version, returns its boxes, and remembers that it was discarded. A version that is
  /// not held has no boxes.
  VersionIndex discard(std::int64_t version);
  /// Forgets a version of which nothing is there.
  void drop_if_unused(std::int64_t version);

  bool was_discarded(std::int64_t version) const {
    return !held_.contains(version) && discarded_.contains(version);
  }
  /// Returns whether the limit would discard the version at once, if it were put.
  bool is_too_old(std::int64_t version) const;
  /// Returns whether no version is held, and none was discarded.
  bool empty() const { return held_.empty() && discarded_.empty(); }

  /// Returns the lowest held version above `version` that has something of the box; end if none.
  Held::const_iterator next(std::int64_t version, const Box& box) const;
  /// Returns the highest held version up to `version` that has something of the box; end if none.
  Held::const_iterator latest(std::int64_t version, const Box& box) const;
  /// Return the lowest held version above `version`, or the highest up to it, of which anything was
  /// put here; end if none.
  Held::const_iterator next(std::int64_t version) const;
  Held::const_iterator latest(std::int64_t version) const;

 private:
  int versions_max_;
  Held held_;
  int counted_ = 0;  ///< Held versions that count.
  /// How much is withheld, by version and step.
  std::map<std::int64_t, std::map<std::uint64_t, int>> withheld_;
  DiscardedVersions discarded_;
};

}  // namespace tranship::staging
