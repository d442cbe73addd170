// The end of a step: what was withheld of it becomes visible, or goes.
#include "staging/server/object_store.hpp"

namespace tranship::staging {

void ObjectStore::end_step(std::uint64_t step, bool whole) {
  const WithheldStep withheld = steps_.end(step);
  for (const auto& [number, order] : withheld.objects) {
    const auto found = objects_.find(number);
    if (found == objects_.end()) continue;  // its version was discarded
    const ServerObject& object = found->second;
    variables_.at(object.variable).versions.end_withholding(object.version, step);
    if (whole) {
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
    variables_.at(entry.variable).versions.end_withholding(entry.version, step);
    // What its client has not confirmed, its primary alone knows.
    if (entry.state == IndexEntry::State::withheld) show_entry(number);
  }
  for (const WithheldStep::Empty& empty : withheld.empties) end_empty(empty, step, whole);
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
