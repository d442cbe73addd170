// Exported arrays and connections, as C sees them.
#include "c/handles.hpp"
#include "engine/processes.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

/// Returns the links of a peer's engine, if no other argument of the call is null.
/// @error invalid_argument; closed
Result<std::shared_ptr<Processes>> links_of(
    const tranship_peer* peer, std::initializer_list<std::pair<const char*, const void*>> others) {
  Status given = check_given({{"peer", peer}});
  if (given) given = check_given(others);
  if (given) given = check_here(*peer);
  if (!given) return given.error();
  return peer->engine->processes();
}

}  // namespace

tranship_code tranship_export(tranship_engine* engine, const char* name,
                              const tranship_instance* instance) {
  return guarded([&]() -> Status {
    const auto used = use(engine, {{"name", name}, {"instance", instance}});
    if (!used) return used.error();
    if (Status here = check_here(*instance); !here) return here;
    const auto links = (*used)->processes();
    return links ? (*links)->export_array(name, instance->array) : Status(links.error());
  });
}

tranship_code tranship_withdraw(tranship_engine* engine, const char* name) {
  return guarded([&]() -> Status {
    const auto used = use(engine, {{"name", name}});
    if (!used) return used.error();
    const auto links = (*used)->processes();
    return links ? (*links)->withdraw(name) : Status(links.error());
  });
}

tranship_code tranship_connect(tranship_engine* engine, const char* contact, double timeout,
                               tranship_peer** peer) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"contact", contact}, {"peer", peer}});
    if (!used) return used.error();
    *peer = nullptr;
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    auto made = std::make_unique<tranship_peer>();
    const auto links = (*used)->processes();
    if (!links) return links.error();
    const auto id = (*links)->connect(contact, *patience);
    if (!id) return id.error();
    made->engine = std::move(*used);
    made->id = *id;
    *peer = made.release();
    return {};
  });
}

tranship_code tranship_peer_lookup(tranship_peer* peer, const char* name, double timeout,
                                   tranship_instance** instance) {
  return guarded([&]() -> Status {
    const auto links = links_of(peer, {{"name", name}, {"instance", instance}});
    if (!links) return links.error();
    *instance = nullptr;
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    auto array = (*links)->lookup(peer->id, name, *patience);
    if (!array) return array.error();
    *instance = instance_of(peer->engine, std::move(*array));
    return {};
  });
}

tranship_code tranship_peer_names(tranship_peer* peer, double timeout, tranship_names** names) {
  return guarded([&]() -> Status {
    const auto links = links_of(peer, {{"names", names}});
    if (!links) return links.error();
    *names = nullptr;
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    auto found = (*links)->names(peer->id, *patience);
    if (!found) return found.error();
    *names = std::make_unique<tranship_names>(std::move(*found)).release();
    return {};
  });
}

int64_t tranship_names_size(const tranship_names* names) {
  return names != nullptr ? static_cast<int64_t>(names->names.size()) : 0;
}

const char* tranship_names_entry(const tranship_names* names, int64_t index) {
  if (index < 0 || index >= tranship_names_size(names)) return nullptr;
  return names->names[static_cast<std::size_t>(index)].c_str();
}

void tranship_names_free(tranship_names* names) {
  const std::unique_ptr<tranship_names> freed(names);
}

void tranship_peer_free(tranship_peer* peer) {
  (void)caught([&]() -> Status {
    if (peer == nullptr || !check_here(*peer)) return {};
    const std::unique_ptr<tranship_peer> freed(peer);
    if (freed->engine->closed()) return {};
    const auto links = freed->engine->processes();
    return links ? (*links)->disconnect(freed->id) : Status(links.error());
  });
}
