// Objects that later ones of their version hide whole: nobody can get them any more.
#include <algorithm>

#include "staging/server/object_store.hpp"

namespace tranship::staging {
namespace {

/// Objects that are compared with one that several may hide together.
constexpr std::size_t hiding_max = 256;

std::int64_t points_of(const std::vector<Part>& parts) {
  std::int64_t points = 0;
  for (const Part& part : parts) points += part.box.points();
  return points;
}

bool contains(const Box& outer, const Box& inner) { return intersection(outer, inner) == inner; }

}  // namespace

/// Returns whether later objects hide this one whole, of which `box`, of that order, is the last
/// that has come. Compares with the others only when they may have hidden as many points as it has.
bool ObjectStore::is_hidden(const VersionIndex& index, ServerObject& object, const Box& box,
                            std::uint64_t order) {
  if (object.order >= order) return false;
  if (contains(box, object.box)) return true;
  const auto shared = intersection(box, object.box);
  const std::int64_t points = object.box.points();
  object.hidden_points += std::min(shared ? shared->points() : 0, points - object.hidden_points);
  return object.hidden_points == points && is_hidden_by_all(index, object);
}

/// Returns whether later visible objects, and entries of such, hide this one whole together.
bool ObjectStore::is_hidden_by_all(const VersionIndex& index, ServerObject& object) {
  std::vector<std::uint64_t> numbers;
  index.find_objects(object.box, numbers);
  std::vector<StoredObject> later;
  const auto add = [&](const Box& other, std::uint64_t its_order) {
    if (its_order > object.order) later.push_back({0, 0, other, its_order, {}});
  };
  for (const std::uint64_t number : numbers)
    add(objects_.at(number).box, objects_.at(number).order);
  numbers.clear();
  index.find_entries(object.box, numbers);
  for (const std::uint64_t number : numbers) {
    const IndexEntry& entry = entries_.at(number);
    if (entry.state == IndexEntry::State::confirmed) add(entry.box, entry.order);
  }
  std::vector<Part> parts;
  Box missing;
  object.hidden_points = 0;
  if (later.size() > hiding_max) return false;
  if (find_parts(object.box, later, parts, missing)) return true;
  object.hidden_points = points_of(parts);
  return false;
}

/// Returns whether one later object hides an entry of that box and order whole.
bool ObjectStore::hides(const VersionIndex& index, const Box& box, std::uint64_t order) const {
  const auto hiding = [&](const Box& other, std::uint64_t its_order) {
    return its_order > order && contains(other, box);
  };
  std::vector<std::uint64_t> numbers;
  index.find_objects(box, numbers);
  const bool own = std::any_of(numbers.begin(), numbers.end(), [&](std::uint64_t number) {
    const ServerObject& object = objects_.at(number);
    return hiding(object.box, object.order);
  });
  if (own) return true;
  numbers.clear();
  index.find_entries(box, numbers);
  return std::any_of(numbers.begin(), numbers.end(), [&](std::uint64_t number) {
    const IndexEntry& entry = entries_.at(number);
    return entry.state == IndexEntry::State::confirmed && hiding(entry.box, entry.order);
  });
}

/// Drops an object that became visible after later ones, if they hide it whole.
void ObjectStore::drop_if_hidden(std::uint64_t number) {
  ServerObject& object = objects_.at(number);
  VersionHistory& versions = variables_.at(object.variable).versions;
  if (!is_hidden_by_all(versions.at(object.version), object)) return;
  versions.remove_object(object.version, number, object.box, object.bytes);
  drop(number);
}

/// Drops what the object of that box and order hides whole: own objects, and entries of objects of
/// other servers, which learn of it in the same way, or as of orphans.
void ObjectStore::drop_hidden(const std::string& name, std::int64_t version, const Box& box,
                              std::uint64_t order) {
  HeldVariable& variable = variables_.at(name);
  VersionIndex& index = variable.versions.at(version);
  std::vector<std::uint64_t> numbers;
  index.find_objects(box, numbers);
  for (const std::uint64_t number : numbers) {
    ServerObject& object = objects_.at(number);
    if (!is_hidden(index, object, box, order)) continue;
    variable.versions.remove_object(version, number, object.box, object.bytes);
    object.discarded = true;
    if (object.leases == 0) drop(number);
  }
  numbers.clear();
  index.find_entries(box, numbers);
  for (const std::uint64_t number : numbers) {
    const IndexEntry& entry = entries_.at(number);
    if (entry.state != IndexEntry::State::confirmed) continue;
    const bool hidden = entry.order < order
                            ? contains(box, entry.box)
                            : entry.order == order && hides(index, entry.box, order);
    if (!hidden) continue;
    index.remove_confirmed(ObjectId(entry.where.id), Box(entry.box));
    entries_.discard(number);
  }
}

}  // namespace tranship::staging
