#include "staging/server/registry.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace tranship::staging {

Status Registry::check(const PutRequest& request) const {
  Status status = check_element(request);
  return status ? check_room(request.variable) : status;
}

/// Checks that the server may know a variable of that name.
Status Registry::check_room(const std::string& name) const {
  if (definitions_.contains(name) || variables_.contains(name) || writers_.contains(name)) {
    return {};
  }
  if (Status status = check_name(name, limits_.name_bytes); !status) return status;
  if (std::ssize(variables_) < limits_.variables && std::ssize(definitions_) < limits_.variables &&
      std::ssize(writers_) < limits_.variables) {
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

Result<VariableMetadata> Registry::declare(const ClientId& client, const PutRequest& request,
                                           bool empty) {
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
    if (!empty) status = check_within(request, made);
    if (!status) return status.error();
  }
  made.cells = Cells::around(request.box, request.element_bytes, cell_bytes_, made.domain);
  made.incarnation.number = number_ + 1;
  const auto [found, is_new] = variables_.emplace(request.variable, std::move(made));
  number_ += is_new ? 1 : 0;
  VariableMetadata& metadata = found->second;
  if (is_new) count_early(request.variable, metadata);
  if (Status status =
          check_fits(request, metadata.type, metadata.element_bytes, metadata.first.rank);
      !status) {
    return status.error();
  }
  Writer& writer = writer_of(client, request.variable);
  writer.first = std::min(writer.first, request.version);
  metadata.incarnation.stamp = number_;
  return metadata;
}

/// Counts the clients that had nothing in versions of a variable before it existed.
void Registry::count_early(const std::string& variable, VariableMetadata& metadata) const {
  const auto found = writers_.find(variable);
  if (found == writers_.end()) return;
  metadata.came = found->second.came;
  metadata.deaths = found->second.deaths;
  for (const auto& [client, writer] : found->second.connected) {
    ++(producers_.at(client).lost ? metadata.missing : metadata.producers);
  }
}

/// Returns the record of a client that puts to a variable, which counts from then on.
Registry::Writer& Registry::writer_of(const ClientId& client, const std::string& variable) {
  came_back(client);
  Writers& writers = writers_[variable];
  if (producers_[client].variables.insert(variable).second) {
    ++writers.came;
    const auto known = variables_.find(variable);
    if (known != variables_.end()) {
      ++known->second.producers;
      ++known->second.came;
    }
  }
  return writers.connected[client];
}

Status Registry::take_part(const ClientId& client, const std::string& variable, const Part& part) {
  if (Status status = check_room(variable); !status) return status;
  Writer& writer = writer_of(client, variable);
  if (part.last < part.first) return {};
  writer.box = writer.box || part.box;
  writer.first = std::min(writer.first, part.first);
  writer.took_part.insert(part.first, part.last);
  if (part.finished) writer.finished.insert(part.first, part.last);
  std::int64_t& highest = writers_.at(variable).highest;
  highest = std::max(highest, part.last);
  return {};
}

Registry::Awaited Registry::awaited(const std::string& variable, std::int64_t version,
                                    bool finished) const {
  Awaited awaited;
  const auto found = writers_.find(variable);
  if (found == writers_.end()) return awaited;
  for (const auto& [client, writer] : found->second.connected) {
    const VersionSet& done = finished ? writer.finished : writer.took_part;
    if (writer.first > version || done.contains(version)) continue;
    ++awaited.writers;
    awaited.fresh += writer.box ? 0 : 1;
  }
  awaited.never = found->second.missed.contains(version);
  return awaited;
}

/// Records that a client puts to a variable no more.
void Registry::end(const ClientId& client, const std::string& variable, bool cleanly) {
  const auto known = variables_.find(variable);
  if (known != variables_.end()) {
    --known->second.missing;
    known->second.deaths += cleanly ? 0 : 1;
  }
  const auto found = writers_.find(variable);
  if (found == writers_.end()) return;
  Writers& writers = found->second;
  writers.deaths += cleanly ? 0 : 1;
  const auto writer = writers.connected.find(client);
  if (writer != writers.connected.end()) {
    const std::int64_t last = cleanly ? writers.highest : INT64_MAX;
    const Writer& gone = writer->second;
    auto gaps = gone.took_part.gaps(gone.first, last);
    // Nobody knows whether a client that died had finished the last version that it put to.
    const bool open = !cleanly && !gaps.empty() && gaps.back().second == last;
    if (open && gaps.back().first > gone.first) --gaps.back().first;
    for (const auto& [first, end] : gaps) writers.missed.insert(first, end);
    writers.connected.erase(writer);
  }
  const bool unknown = known == variables_.end() && !definitions_.contains(variable);
  if (unknown && writers.connected.empty()) writers_.erase(found);
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
  writers_.erase(variable);
  for (auto& [client, producer] : producers_) producer.variables.erase(variable);
  return {++number_, defined || known};
}

std::set<std::string> Registry::lost(const ClientId& client) {
  const auto found = producers_.find(client);
  if (found == producers_.end() || found->second.lost) return {};
  found->second.lost = true;
  for (const std::string& variable : found->second.variables) {
    const auto known = variables_.find(variable);
    if (known == variables_.end()) continue;
    --known->second.producers;
    ++known->second.missing;
  }
  return found->second.variables;
}

void Registry::came_back(const ClientId& client) {
  const auto found = producers_.find(client);
  if (found == producers_.end() || !found->second.lost) return;
  found->second.lost = false;
  for (const std::string& variable : found->second.variables) {
    const auto known = variables_.find(variable);
    if (known == variables_.end()) continue;
    ++known->second.producers;
    --known->second.missing;
  }
}

std::set<std::string> Registry::gone(const ClientId& client, bool cleanly) {
  (void)lost(client);
  const auto found = producers_.find(client);
  if (found == producers_.end()) return {};
  std::set<std::string> variables = std::move(found->second.variables);
  producers_.erase(found);
  for (const std::string& variable : variables) end(client, variable, cleanly);
  return variables;
}

}  // namespace tranship::staging
