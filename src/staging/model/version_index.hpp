// The boxes of one version that a server knows: of its own objects, and of those of other servers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "staging/model/box_index.hpp"
#include "staging/model/requests.hpp"

namespace tranship::staging {

/// Own objects are indexed when they are committed. Objects of other servers are index entries, by
/// numbers of the server's own; they are added when their put begins. Costs as BoxIndex. Not
/// thread-safe.
class VersionIndex {
 public:
  /// A connected client begins, or ends, to put an object or index entry of the version.
  void begin_put() { ++pending_; }
  void end_put() { --pending_; }

  void add_object(std::uint64_t number, const Box& box, std::int64_t bytes) {
    objects_.add(number, box);
    bytes_ += bytes;
    bounds_ = bounds_ ? around(*bounds_, box) : box;
  }
  /// A box without elements was put.
  void add_empty(const Box& box, std::uint32_t dimensions) {
    if (empty_) return;
    empty_ = box;
    empty_dimensions_ = dimensions;
  }
  void remove_object(std::uint64_t number, const Box& box, std::int64_t bytes) {
    objects_.remove(number, box);
    bytes_ -= bytes;
  }
  void add_entry(const ObjectId& id, std::uint64_t number, const Box& box) {
    entry_numbers_.emplace(id, number);
    entries_.add(number, box);
  }
  void remove_entry(const ObjectId& id, const Box& box) {
    const auto found = entry_numbers_.find(id);
    if (found == entry_numbers_.end()) return;
    entries_.remove(found->second, box);
    entry_numbers_.erase(found);
  }
  /// The object of an entry was committed.
  void confirm_entry() { ++confirmed_; }
  /// Removes an entry that was confirmed.
  void remove_confirmed(const ObjectId& id, const Box& box) {
    remove_entry(id, box);
    --confirmed_;
  }

  /// Returns the entry's number; nothing if there is none.
  std::optional<std::uint64_t> entry(const ObjectId& id) const {
    const auto found = entry_numbers_.find(id);
    return found == entry_numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::map<ObjectId, std::uint64_t>& entries() const { return entry_numbers_; }

  /// Append the numbers of own objects, or of entries, that share a point with the box.
  void find_objects(const Box& box, std::vector<std::uint64_t>& numbers) const {
    objects_.find(box, numbers);
  }
  void find_entries(const Box& box, std::vector<std::uint64_t>& numbers) const {
    entries_.find(box, numbers);
  }
  /// Appends the numbers of all own objects.
  void all_objects(std::vector<std::uint64_t>& numbers) const { objects_.all(numbers); }
  /// Returns whether an object or entry shares a point with the box.
  bool meets(const Box& box) const { return objects_.meets(box) || entries_.meets(box); }
  bool meets_entries(const Box& box) const { return entries_.meets(box); }

  /// Returns whether something of the version was put here.
  bool has_extent() const { return bounds_ || empty_; }
  /// Returns the box around what was put here.
  Extent extent(std::int64_t version) const {
    return {version, bounds_, empty_, empty_dimensions_};
  }
  bool has_empty() const { return empty_.has_value(); }

  /// Bytes of the own objects, in whole units.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t objects() const { return static_cast<std::int64_t>(objects_.size()); }
  /// Objects and entries that connected clients have begun and not ended.
  int pending() const { return pending_; }
  /// Boxes of the version that limits count.
  std::int64_t boxes() const {
    return static_cast<std::int64_t>(entry_numbers_.size()) + pending_ + objects();
  }
  /// Returns whether an object of the version was committed, as far as the server knows. Limits of
  /// versions count only such versions.
  bool counts() const { return objects_.size() > 0 || confirmed_ > 0 || empty_; }
  bool unused() const {
    return pending_ == 0 && objects_.size() == 0 && entry_numbers_.empty() && !empty_;
  }

 private:
  BoxIndex objects_;
  BoxIndex entries_;
  std::map<ObjectId, std::uint64_t> entry_numbers_;
  std::int64_t bytes_ = 0;
  std::optional<Box> bounds_;  ///< Around the own objects that were ever committed.
  std::optional<Box> empty_;   ///< As Extent::empty.
  std::uint32_t empty_dimensions_ = 0;
  int pending_ = 0;
  int confirmed_ = 0;
};

}  // namespace tranship::staging
