// The end of a step: what was withheld of it becomes visible, or goes.
#include <algorithm>

#include "staging/server/object_store.hpp"

namespace tranship::staging {

void ObjectStore::end_step(StepId step, StepState state) {
  const bool whole = state == StepState::whole;
  const WithheldStep withheld = steps_.end(step);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> by_order;
  for (const auto& [number, order] : withheld.objects) by_order.emplace_back(order, number);
  std::sort(by_order.begin(), by_order.end());  // an object may hide earlier ones of its step
  for (const auto& [order, number] : by_order) {
    const ServerObject& object = objects_.at(number);
    HeldVariable& variable = variables_.at(object.variable);
    variable.versions.end_withholding(object.version, step);
    if (whole) {
      shown_.add(step, {object.variable, variable.incarnation, object.version});
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
    HeldVariable& variable = variables_.at(entry.variable);
    variable.versions.end_withholding(entry.version, step);
    shown_.add(step, {entry.variable, variable.incarnation, entry.version});
    // What its client has not confirmed, its primary alone knows.
    if (entry.state == IndexEntry::State::withheld) show_entry(number);
  }
  for (const auto& [where, empty] : withheld.empties) {
    const auto& [name, version] = where;
    if (whole) shown_.add(step, {name, variables_.at(name).incarnation, version});
    end_empty(name, version, empty, step, whole);
  }
  if (state == StepState::freed) free_step(step);
}

/// Discards the versions that a step has shown.
void ObjectStore::free_step(StepId step) {
  for (const auto& [name, incarnation, version] : shown_.take(step)) {
    HeldVariable* variable = variables_.find(name);
    const bool same = variable != nullptr && variable->incarnation == incarnation;
    if (same && variable->versions.contains(version)) discard_version(name, *variable, version);
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
