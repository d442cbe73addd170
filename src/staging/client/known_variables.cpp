#include "staging/client/known_variables.hpp"

namespace tranship::staging {
namespace {

/// Variables that a client remembers; it asks again for one that it has forgotten.
constexpr std::size_t known_max = 1024;

}  // namespace

KnownVariable KnownVariables::remember(const std::string& variable, KnownVariable known) {
  std::lock_guard lock(mutex_);
  const auto before = known_.find(variable);
  Cells& cells = known.metadata.cells;
  if (before == known_.end() ||
      before->second.metadata.incarnation.number != known.metadata.incarnation.number) {
    cells.find_order();
  } else {
    cells.order = before->second.metadata.cells.order;
    known.declared = known.declared || before->second.declared;
  }
  if (before == known_.end() && known_.size() >= known_max) known_.erase(known_.begin());
  known_[variable] = known;
  return known;
}

void KnownVariables::forget(const std::string& variable) {
  std::lock_guard lock(mutex_);
  known_.erase(variable);
}

std::optional<KnownVariable> KnownVariables::find(const std::string& variable) const {
  std::lock_guard lock(mutex_);
  const auto found = known_.find(variable);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<KnownVariable> KnownVariables::find_declared(const PutRequest& request) const {
  std::lock_guard lock(mutex_);
  const auto found = known_.find(request.variable);
  if (found == known_.end() || !found->second.declared) return std::nullopt;
  const VariableMetadata& metadata = found->second.metadata;
  const Status fits =
      check_fits(request, metadata.type, metadata.element_bytes, metadata.first.rank);
  if (!fits || !check_within(request, metadata)) return std::nullopt;
  return found->second;
}

}  // namespace tranship::staging
