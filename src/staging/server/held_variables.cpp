#include "staging/server/held_variables.hpp"

#include <utility>

#include "base/text.hpp"

namespace tranship::staging {

HeldVariable* HeldVariables::find(const std::string& name) {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

const HeldVariable* HeldVariables::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

Result<HeldVariable*> HeldVariables::make(const PutRequest& request) {
  if (Status s = check_name(request.variable, limits_.name_bytes); !s) return s.error();
  if (std::ssize(variables_) >= limits_.variables) {
    return limit_reached("the variables that the server knows are", limits_.variables,
                         "staging_variables");
  }
  HeldVariable made(versions_max_, static_cast<std::size_t>(limits_.versions_remembered));
  made.incarnation = request.incarnation.number;
  made.type = request.type;
  made.element_bytes = request.element_bytes;
  made.rank = request.box.rank;
  return &variables_.emplace(request.variable, std::move(made)).first->second;
}

Status HeldVariables::check_put(const PutRequest& request, const HeldVariable& variable) const {
  if (Status s = check_fits(request, variable.type, variable.element_bytes, variable.rank); !s) {
    return s;
  }
  if (variable.versions.was_discarded(request.version)) {
    return Error{ErrorCode::not_found,
                 version_of(request.variable, request.version) + " was discarded",
                 "put a later one, or keep more versions"};
  }
  if (variable.versions.is_too_old(request.version)) {
    return Error{ErrorCode::not_found, version_of(request.variable, request.version) +
                                           " is older than the versions that are kept, of which " +
                                           "there may be " + std::to_string(versions_max_)};
  }
  return {};
}

/// An incarnation that was deleted is not there, even for a client that was not notified yet.
const HeldVariable* HeldVariables::visible(const GetRequest& request) const {
  const HeldVariable* variable = find(request.variable);
  const std::uint64_t incarnation = request.incarnation.number;
  if (variable == nullptr || (incarnation != 0 && variable->incarnation != incarnation)) {
    return nullptr;
  }
  return variable;
}

Result<const HeldVariable*> HeldVariables::visible_box(const GetRequest& request) const {
  const HeldVariable* variable = visible(request);
  if (variable != nullptr && variable->rank != request.box.rank) {
    return wrong_rank(request.variable, variable->rank, request.box);
  }
  return variable;
}

std::optional<VariableInfo> HeldVariables::describe(const std::string& name) const {
  const HeldVariable* variable = find(name);
  if (variable == nullptr || !variable->bounds) return std::nullopt;
  return VariableInfo{name, variable->type, variable->element_bytes, *variable->bounds, {}, 0};
}

std::optional<VariableInfo> HeldVariables::info(const std::string& name,
                                                std::optional<std::int64_t> after,
                                                std::size_t versions_max) const {
  auto info = describe(name);
  if (!info) return info;
  const auto& versions = find(name)->versions.held();
  auto one = after ? versions.upper_bound(*after) : versions.begin();
  for (; one != versions.end() && info->versions.size() < versions_max; ++one) {
    const auto objects = one->second.objects();
    if (objects > 0) info->versions.push_back({one->first, objects, one->second.bytes()});
  }
  return info;
}

std::vector<std::string> HeldVariables::names_from(const std::string& first,
                                                   std::size_t count_max) const {
  return variables_.names_from(first, count_max,
                               [](const HeldVariable& one) { return one.bounds.has_value(); });
}

}  // namespace tranship::staging
