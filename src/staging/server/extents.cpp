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
  (*variable)->versions.add_empty(request.version, request.box, dimensions);
  changes_.insert(request.variable);
  discard_excess(request.variable, **variable);
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
    if (held != nullptr && held->has_extent()) return Answer(held->extent(request.version));
    return Answer(Waiting{version_of(request.variable, request.version) + " is not there"});
  }
  const bool up = request.choice == VersionChoice::next;
  const auto held = up ? versions.next(request.version) : versions.latest(request.version);
  if (held != versions.held().end()) return Answer(held->second.extent(held->first));
  return Answer(Waiting{"there is no version of " + in_quotes(request.variable) +
                        (up ? " after " : " up to ") + std::to_string(request.version)});
}

}  // namespace tranship::staging
