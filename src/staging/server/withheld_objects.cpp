// The end of a step: what was withheld of it becomes visible, or goes.
#include <algorithm>

#include "staging/server/object_store.hpp"

namespace tranship::staging {

void ObjectStore::end_step(std::uint64_t step, bool whole) {
  const WithheldStep withheld = steps_.end(step);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> by_order;
  for (const auto& [number, order] : withheld.objects) by_order.emplace_back(order, number);
  std::sort(by_order.begin(), by_order.end());  // an object may hide earlier ones of its step
  for (const auto& [order, number] : by_order) {
    const ServerObject& object = objects_.at(number);
    variables_.at(object.variable).versions.end_withholding(object.version, step);
    if (whole) {
      show(number, order);
    } else {
      drop_withheld(number);
    }
  }
  for (const std::uint64_t number : withheld.entries) {
    if (!entries_.contains(number)) continue;  // it was hidden by one that was shown before
    const IndexEntry& entry = entries_.at(number);
    if (!whole) {
      drop_entry(number);
      continue;
    }
    variables_.at(entry.variable).versions.end_withholding(entry.version, step);
    // What its client has not confirmed, its primary alone knows.
    if (entry.state == IndexEntry::State::withheld) show_entry(number);
  }
  for (const auto& [where, empty] : withheld.empties) {
    end_empty(where.first, where.second, empty, step, whole);
  }
}

/// Drops an object that nobody has seen.
void ObjectStore::drop_withheld(std::uint64_t number) {
  const ServerObject object = objects_.at(number);
  drop(number);
  HeldVariable& variable = variables_.at(object.variable);
  variable.versions.at(object.version).end_put();
  changes_.insert(object.variable);  // a writer that waits for room, or for this box, looks again
  discard_excess(object.variable, variable);
  drop_if_unused(object.variable, object.version);
}

/// Makes a box without elements visible, or drops it. Its version is there: a put is under way.
void ObjectStore::end_empty(const std::string& name, std::int64_t number,
                            const WithheldStep::Empty& empty, std::uint64_t step, bool whole) {
  HeldVariable& variable = variables_.at(name);
  variable.versions.at(number).end_put();
  if (step != 0) variable.versions.end_withholding(number, step);
  if (whole) variable.versions.add_empty(number, empty.box, empty.dimensions);
  changes_.insert(name);
  discard_excess(name, variable);
  if (!whole) drop_if_unused(name, number);
}

}  // namespace tranship::staging
