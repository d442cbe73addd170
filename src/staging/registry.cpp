#include "staging/registry.hpp"

#include <utility>

namespace tranship::staging {
namespace {

constexpr std::size_t name_bytes_max = 1024;

}  // namespace

Error never(const Facts& facts, const std::string& why) {
  if (facts.lost_producer) {
    return {ErrorCode::peer_lost, why + ", and a process that put to it has died"};
  }
  return {ErrorCode::closed, why + ", and all processes that put to it have ended"};
}

Result<Facts> Registry::declare(Owner owner, const PutRequest& request) {
  if (Status status = check_element(request); !status) return status.error();
  if (request.variable.empty() || request.variable.size() > name_bytes_max) {
    return Error{ErrorCode::invalid_argument,
                 "a variable's name has 1 to " + std::to_string(name_bytes_max) + " bytes"};
  }
  auto found = variables_.find(request.variable);
  if (found == variables_.end()) {
    Facts made;
    made.type = request.type;
    made.element_bytes = request.element_bytes;
    made.first = request.box;
    made.cells = Cells::around(request.box, request.element_bytes, cell_bytes_);
    found = variables_.emplace(request.variable, std::move(made)).first;
  }
  Facts& facts = found->second;
  if (Status status = check_fits(request, facts.type, facts.element_bytes, facts.first.rank);
      !status) {
    return status.error();
  }
  if (declared_[owner].insert(request.variable).second) {
    ++facts.producers;
    facts.lost_producer = false;
  }
  return facts;
}

std::optional<Facts> Registry::facts(const std::string& variable) const {
  const auto found = variables_.find(variable);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::set<std::string> Registry::gone(Owner owner, bool cleanly) {
  const auto found = declared_.find(owner);
  if (found == declared_.end()) return {};
  std::set<std::string> variables = std::move(found->second);
  declared_.erase(found);
  for (const std::string& variable : variables) {
    Facts& facts = variables_.at(variable);
    --facts.producers;
    if (!cleanly) facts.lost_producer = true;
  }
  return variables;
}

}  // namespace tranship::staging
