#include "staging/server/registry.hpp"

#include <utility>

#include "base/text.hpp"

namespace tranship::staging {

Status Registry::check(const PutRequest& request) const {
  if (Status status = check_element(request); !status) return status;
  const std::string& name = request.variable;
  if (definitions_.contains(name) || variables_.contains(name)) return {};
  if (Status status = check_name(name, limits_.name_bytes); !status) return status;
  if (std::ssize(variables_) < limits_.variables && std::ssize(definitions_) < limits_.variables) {
    return {};
  }
  return limit_reached("the variables that the server knows are", limits_.variables,
                       "staging_variables");
}

Status Registry::define(const PutRequest& domain, int writers) {
  if (Status status = check(domain); !status) return status;
  if (writers < 0) return Error{ErrorCode::invalid_argument, "writers are counted from 0"};
  auto found = definitions_.find(domain.variable);
  if (found != definitions_.end()) {
    const Definition& known = found->second;
    Status status =
        check_fits(domain, known.domain.type, known.domain.element_bytes, known.domain.box.rank);
    if (!status) return status;
    if (intersection(known.domain.box, domain.box) != known.domain.box ||
        known.writers != writers) {
      return Error{ErrorCode::invalid_argument,
                   in_quotes(domain.variable) + " was defined with the domain " +
                       known.domain.box.text() + " and " + std::to_string(known.writers) +
                       " writers",
                   "give the same, or a domain around it"};
    }
  }
  const auto variable = variables_.find(domain.variable);
  if (variable != variables_.end()) {
    const VariableMetadata& metadata = variable->second;
    Status status = check_fits(domain, metadata.type, metadata.element_bytes, metadata.first.rank);
    if (!status) return status;
    variable->second.domain = domain.box;
    variable->second.writers = writers;
  }
  definitions_[domain.variable] = {domain, writers};
  return {};
}

Result<VariableMetadata> Registry::declare(const ClientId& client, const PutRequest& request) {
  if (Status status = check(request); !status) return status.error();
  VariableMetadata made;
  made.type = request.type;
  made.element_bytes = request.element_bytes;
  made.first = request.box;
  const auto definition = definitions_.find(request.variable);
  if (definition != definitions_.end()) {
    const PutRequest& domain = definition->second.domain;
    Status status = check_fits(request, domain.type, domain.element_bytes, domain.box.rank);
    if (!status) return status.error();
    made.domain = domain.box;
    made.writers = definition->second.writers;
    if (status = check_within(request, made); !status) return status.error();
  }
  made.cells = Cells::around(request.box, request.element_bytes, cell_bytes_, made.domain);
  made.incarnation.number = number_ + 1;
  const auto [found, is_new] = variables_.emplace(request.variable, std::move(made));
  number_ += is_new ? 1 : 0;
  VariableMetadata& metadata = found->second;
  if (Status status =
          check_fits(request, metadata.type, metadata.element_bytes, metadata.first.rank);
      !status) {
    return status.error();
  }
  came_back(client);
  if (producers_[client].variables.insert(request.variable).second) {
    ++metadata.producers;
    ++metadata.came;
  }
  metadata.incarnation.stamp = number_;
  return metadata;
}

std::optional<VariableMetadata> Registry::metadata(const std::string& variable) const {
  const auto found = variables_.find(variable);
  if (found == variables_.end()) return std::nullopt;
  VariableMetadata metadata = found->second;
  metadata.incarnation.stamp = number_;
  return metadata;
}

std::pair<std::uint64_t, bool> Registry::remove(const std::string& variable) {
  const bool defined = definitions_.erase(variable) > 0;
  const bool known = variables_.erase(variable);
  for (auto& [client, producer] : producers_) producer.variables.erase(variable);
  return {++number_, defined || known};
}

std::set<std::string> Registry::lost(const ClientId& client) {
  const auto found = producers_.find(client);
  if (found == producers_.end() || found->second.lost) return {};
  found->second.lost = true;
  for (const std::string& variable : found->second.variables) {
    VariableMetadata& metadata = variables_.at(variable);
    --metadata.producers;
    ++metadata.missing;
  }
  return found->second.variables;
}

void Registry::came_back(const ClientId& client) {
  const auto found = producers_.find(client);
  if (found == producers_.end() || !found->second.lost) return;
  found->second.lost = false;
  for (const std::string& variable : found->second.variables) {
    VariableMetadata& metadata = variables_.at(variable);
    ++metadata.producers;
    --metadata.missing;
  }
}

std::set<std::string> Registry::gone(const ClientId& client, bool cleanly) {
  (void)lost(client);
  const auto found = producers_.find(client);
  if (found == producers_.end()) return {};
  std::set<std::string> variables = std::move(found->second.variables);
  producers_.erase(found);
  for (const std::string& variable : variables) {
    VariableMetadata& metadata = variables_.at(variable);
    --metadata.missing;
    metadata.deaths += cleanly ? 0 : 1;
  }
  return variables;
}

}  // namespace tranship::staging
