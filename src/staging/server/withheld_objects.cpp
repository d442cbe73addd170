// The end of a step: what was withheld of it becomes visible, or goes.
#include "staging/server/object_store.hpp"

namespace tranship::staging {

void ObjectStore::end_step(StepId step, StepState state) {
  const bool whole = state == StepState::whole;
  const WithheldStep withheld = steps_.end(step);
  for (const auto& [number, order] : withheld.objects) {
    const auto found = objects_.find(number);
    if (found == objects_.end()) continue;  // its version was discarded
    const ServerObject& object = found->second;
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
    if (!entries_.contains(number)) continue;
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
  for (const WithheldStep::Empty& empty : withheld.empties) {
    if (whole) shown_.add(step, {empty.variable, empty.incarnation, empty.version});
    end_empty(empty, step, whole);
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

/// Makes a box without elements visible, or drops it, unless its version was discarded meanwhile.
void ObjectStore::end_empty(const WithheldStep::Empty& empty, std::uint64_t step, bool whole) {
  HeldVariable* variable = variables_.find(empty.variable);
  if (variable == nullptr || variable->incarnation != empty.incarnation) return;
  VersionIndex* version = variable->versions.find(empty.version);
  if (version == nullptr) return;
  version->end_put();
  if (step != 0) variable->versions.end_withholding(empty.version, step);
  if (whole) variable->versions.add_empty(empty.version, empty.box, empty.dimensions);
  changes_.insert(empty.variable);
  discard_excess(empty.variable, *variable);
  if (!whole) drop_if_unused(empty.variable, empty.version);
}

}  // namespace tranship::staging
