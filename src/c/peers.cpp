// Exported arrays and connections, as C sees them.
#include "c/handles.hpp"
#include "engine/processes.hpp"

#include <optional>
#include <string>

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

/// Takes notices of a peer, or of all processes, into a new list.
/// @error invalid_argument for an engine that accepts no connections; as Processes::take_notices()
Result<tranship_notices*> take_notices(Processes& links, std::optional<fabric::PeerId> peer,
                                       double timeout) {
  const auto patience = duration(timeout);
  if (!patience) return patience.error();
  if (links.contact().empty()) {
    return Error{ErrorCode::invalid_argument,
                 "this engine accepts no connections, so that no process can send it notices",
                 "set contact_file or accept in the options with which it is opened"};
  }
  auto made = std::make_unique<tranship_notices>();  // before notices are taken, to lose none
  auto taken = links.take_notices(peer, *patience);
  if (!taken) return taken.error();
  made->notices = std::move(*taken);
  return made.release();
}

}  // namespace

tranship_code tranship_export(tranship_engine* engine, const char* name,
                              const tranship_instance* instance) {
  return tranship_export_with(engine, name, instance, nullptr);
}

tranship_code tranship_export_with(tranship_engine* engine, const char* name,
                                   const tranship_instance* instance,
                                   const tranship_export_options* options) {
  return guarded([&]() -> Status {
    const auto used = use(engine, {{"name", name}, {"instance", instance}});
    if (!used) return used.error();
    if (Status here = check_here(*instance); !here) return here;
    const auto read = read_options(options);
    if (!read) return read.error();
    const auto links = (*used)->processes();
    if (!links) return links.error();
    return (*links)->export_array(name, instance->array, read->notices != 0);
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

tranship_code tranship_engine_notices(tranship_engine* engine, double timeout,
                                      tranship_notices** notices) {
  return guarded([&]() -> Status {
    const auto used = use(engine, {{"notices", notices}});
    if (!used) return used.error();
    *notices = nullptr;
    const auto links = (*used)->processes();
    if (!links) return links.error();
    const auto taken = take_notices(**links, std::nullopt, timeout);
    if (!taken) return taken.error();
    *notices = *taken;
    return {};
  });
}

tranship_code tranship_peer_notices(tranship_peer* peer, double timeout,
                                    tranship_notices** notices) {
  return guarded([&]() -> Status {
    const auto links = links_of(peer, {{"notices", notices}});
    if (!links) return links.error();
    *notices = nullptr;
    const auto taken = take_notices(**links, peer->id, timeout);
    if (!taken) return taken.error();
    *notices = *taken;
    return {};
  });
}

int64_t tranship_notices_size(const tranship_notices* notices) {
  return notices != nullptr ? static_cast<int64_t>(notices->notices.size()) : 0;
}

tranship_code tranship_notices_entry(const tranship_notices* notices, int64_t index,
                                     tranship_notice* notice) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"notices", notices}, {"notice", notice}}); !given) {
      return given;
    }
    const int64_t size = tranship_notices_size(notices);
    if (index < 0 || index >= size) {
      return Error{ErrorCode::out_of_range,
                   "the index is " + std::to_string(index) + ", and there are " +
                       std::to_string(size) + " notices",
                   "give an index from 0 to below the size of the list"};
    }
    const fabric::CopyNotice& found = notices->notices[static_cast<std::size_t>(index)];
    *notice = {found.name.c_str(), found.array.c_str(), found.written ? 1 : 0, found.label.c_str()};
    return {};
  });
}

void tranship_notices_free(tranship_notices* notices) {
  const std::unique_ptr<tranship_notices> freed(notices);
}
