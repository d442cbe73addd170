// What a server has of a version, and boxes without elements.
#include "base/text.hpp"
#include "staging/server/object_store.hpp"

namespace tranship::staging {

Status ObjectStore::put_empty(ClientConnection client, const PutRequest& request,
                              std::uint32_t dimensions) {
  const auto variable = variable_for(request);
  if (!variable) return variable.error();
  if (Status allowed = check_limits(client, **variable, request.version); !allowed) {
    drop_if_unused(request.variable, request.version);
    return allowed;
  }
  const WithheldStep::Empty empty{request.box, dimensions};
  VersionHistory& versions = (*variable)->versions;
  if (request.step == 0) {
    versions.hold(request.version).begin_put();
    end_empty(request.variable, request.version, empty, 0, true);
    return {};
  }
  auto& empties = steps_.of(request.step).empties;
  const bool is_first = empties.emplace(std::pair(request.variable, request.version), empty).second;
  if (!is_first) return {};
  versions.hold(request.version).begin_put();
  versions.withhold(request.version, request.step);
  return {};
}

Result<std::variant<Extent, Waiting>> ObjectStore::extent(const GetRequest& request) const {
  using Answer = std::variant<Extent, Waiting>;
  const HeldVariable* variable = variables_.visible(request);
  if (variable == nullptr) {
    return Answer(Waiting{"nothing has been put to " + in_quotes(request.variable) + " yet"});
  }
  const VersionHistory& versions = variable->versions;
  if (request.choice == VersionChoice::exact) {
    if (versions.was_discarded(request.version)) {
      return discarded(request.variable, *variable, request.version);
    }
    const VersionIndex* held = versions.find(request.version);
    const std::uint64_t step = versions.withheld_beside(request.choice, request.version, {});
    if (held != nullptr && held->has_extent()) {
      Extent extent = held->extent(request.version);
      extent.step = step;
      return Answer(extent);
    }
    Waiting none{version_of(request.variable, request.version) + " is not there"};
    none.step = step;
    return Answer(none);
  }
  const bool up = request.choice == VersionChoice::next;
  const auto held = up ? versions.next(request.version) : versions.latest(request.version);
  if (held != versions.held().end()) {
    Extent extent = held->second.extent(held->first);
    extent.step = versions.withheld_beside(request.choice, request.version, held->first);
    return Answer(extent);
  }
  Waiting none{"there is no version of " + in_quotes(request.variable) +
               (up ? " after " : " up to ") + std::to_string(request.version)};
  none.step = versions.withheld_beside(request.choice, request.version, {});
  return Answer(none);
}

}  // namespace tranship::staging
