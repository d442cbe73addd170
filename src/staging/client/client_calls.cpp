// Calls of a client that move no elements: of variables, versions, steps and attributes.
#include "staging/client/client.hpp"

namespace tranship::staging {

Status Client::define(const std::string& variable, const Field& field, const Box& domain,
                      int writers) {
  return call(
      [&] { return catalog_.define({variable, 0, domain, field.type, field.bytes}, writers); });
}

Result<VariableInfo> Client::describe(const std::string& variable,
                                      std::chrono::milliseconds timeout, bool bounds) {
  return call([&] { return catalog_.describe(variable, bounds, end_ns(timeout)); });
}

Result<VersionExtent> Client::find_version(const VersionQuery& query,
                                           std::chrono::milliseconds timeout,
                                           std::vector<SkippedVersion>* skipped) {
  return call([&] { return catalog_.find_version(query, end_ns(timeout), skipped); });
}

Result<VersionExtent> Client::extent_of(const std::string& variable, std::int64_t version,
                                        std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.extent_of(variable, version, end_ns(timeout)); });
}

Result<std::vector<Box>> Client::boxes_of(const std::string& variable, std::int64_t version,
                                          std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.boxes_of(variable, version, end_ns(timeout)); });
}

Status Client::nothing(const std::string& variable, std::int64_t first, std::int64_t last) {
  return call([&] { return catalog_.nothing(variable, first, last); });
}

Status Client::discard(const std::string& variable, std::int64_t version) {
  return call([&] { return catalog_.discard(variable, version); });
}

Result<std::vector<VariableInfo>> Client::list() {
  return call([&] { return catalog_.list(); });
}

Result<std::vector<ServerInfo>> Client::status() {
  return call([&] { return catalog_.status(); });
}

Result<int> Client::clients(std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.clients(end_ns(timeout)); });
}

Result<std::optional<VariableInfo>> Client::describe_at_once(const std::string& variable,
                                                             std::chrono::milliseconds timeout,
                                                             bool bounds) {
  const NoWaits none;
  auto found = describe(variable, timeout, bounds);
  if (found) return std::optional(std::move(*found));
  if (none.met() && !closed()) return std::optional<VariableInfo>();
  return found.error();
}

Result<std::optional<VersionExtent>> Client::find_version_at_once(
    const VersionQuery& query, std::chrono::milliseconds timeout) {
  const NoWaits none;
  auto found = find_version(query, timeout);
  if (found) return std::optional(std::move(*found));
  if (none.met() && !closed()) return std::optional<VersionExtent>();
  return found.error();
}

Result<StepId> Client::begin_step(std::int64_t number, int writers,
                                  std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.steps().begin(number, writers, end_ns(timeout)); });
}

Status Client::set_step_attribute(StepId step, const Attribute& attribute) {
  return call([&] { return catalog_.steps().add(step, attribute); });
}

Status Client::end_step(StepId step, std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.steps().end(step, end_ns(timeout)); });
}

Status Client::give_up_step(StepId step, const std::string& why) {
  return call([&] {
    catalog_.steps().give_up(step, why);
    return Status{};
  });
}

Result<FoundStep> Client::find_step(const StepQuery& query, std::chrono::milliseconds timeout,
                                    std::vector<BrokenStep>* broken) {
  return call([&] { return catalog_.steps().find(query, end_ns(timeout), broken); });
}

Result<std::vector<ListedStep>> Client::list_steps(std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.steps().list(end_ns(timeout)); });
}

Status Client::discard_step(std::int64_t number, std::chrono::milliseconds timeout) {
  return call([&] { return catalog_.steps().free(number, end_ns(timeout)); });
}

Status Client::define_queue(const StepQueue& queue) {
  return call([&] { return catalog_.steps().define(queue); });
}

Status Client::join_readers(const std::string& group, Sharing sharing, std::int64_t after) {
  return call([&] { return catalog_.steps().join(group, sharing, after); });
}

Status Client::leave_readers(const std::string& group) {
  return call([&] { return catalog_.steps().leave(group); });
}

void Client::leave_readers_later(const std::string& group) {
  if (const auto inside = enter()) catalog_.steps().leave_later(group);
}

Result<FoundStep> Client::take_step(const std::string& group, std::chrono::milliseconds timeout,
                                    std::vector<BrokenStep>* broken) {
  return call([&] { return catalog_.steps().take(group, end_ns(timeout), broken); });
}

Status Client::release_step(const std::string& group, StepId step) {
  return call([&] { return catalog_.steps().release(group, step); });
}

Status Client::set_attributes(const std::vector<Attribute>& attributes) {
  return call([&] { return catalog_.steps().set(attributes); });
}

Result<std::vector<Attribute>> Client::attributes_of(const std::string& variable) {
  return call([&] { return catalog_.steps().attributes_of(variable); });
}

Result<std::optional<FoundStep>> Client::find_step_at_once(const StepQuery& query,
                                                           std::chrono::milliseconds timeout) {
  const NoWaits none;
  auto found = find_step(query, timeout);
  if (found) return std::optional(std::move(*found));
  if (none.met() && !closed()) return std::optional<FoundStep>();
  return found.error();
}

}  // namespace tranship::staging
