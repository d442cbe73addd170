// The client of the staging service, as C sees it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "c/arrays.hpp"
#include "c/errors.hpp"
#include "c/staging_client.hpp"
#include "c/workers.hpp"
#include "calibration/kept_profile.hpp"
#include "engine/engine.hpp"
#include "tranship/staging.h"

using namespace tranship;
using namespace tranship::c_api;
using staging::Client;
using staging::GetRequest;
using staging::VariableInfo;
using staging::VersionChoice;

struct tranship_listing {
  std::vector<VariableInfo> variables;
};

namespace {

/// Returns a new handle, kept in a list by which leak checkers find it.
tranship_staging* handle_of(std::shared_ptr<OpenStaging> open) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<tranship_staging>>;
  auto made = std::make_unique<tranship_staging>();
  made->open = std::move(open);
  const std::lock_guard lock(mutex);
  return all.emplace_back(std::move(made)).get();
}

std::string own_name() {
  char host[256] = {};
  (void)gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

Result<std::shared_ptr<OpenStaging>> open_staging(const char* contact, const char* name,
                                                  double timeout) {
  const auto patience = duration(timeout);
  if (!patience) return patience.error();
  Engine::Options options;
  auto config = config_from_environment(std::getenv);
  if (!config) return config.error();
  auto profile = profile_of_this_machine(*config, {});
  if (!profile) return profile.error();
  options.config = std::move(*config);
  options.profile = std::move(*profile);
  auto engine = Engine::open(std::move(options));
  if (!engine) return engine.error();
  auto client = Client::open(**engine, contact, name != nullptr ? name : own_name(), {*patience});
  if (!client) return client.error();
  auto open = std::make_shared<OpenStaging>();
  open->engine = std::move(*engine);
  open->client = std::move(*client);
  Client* const used = open->client.get();
  open->workers = std::make_unique<Workers>(
      Workers::Notices{[used] { return used->notices(); },
                       [used](std::uint64_t seen, std::chrono::milliseconds timeout) {
                         used->wait_for_notice(seen, timeout);
                       }});
  return open;
}

Status get(Client& client, VersionChoice which, std::int64_t& version, const Move& move) {
  const GetRequest request{move.variable, which, version, move.box};
  const auto found = client.get(request, move.array, move.timeout);
  if (found) version = *found;
  return found ? Status{} : Status(found.error());
}

Result<bool> get_later(Client& client, std::int64_t version, const Move& move, bool waits) {
  const GetRequest request{move.variable, VersionChoice::exact, version, move.box};
  if (!waits) {
    const auto found = client.get_at_once(request, move.array, move.timeout);
    return found ? Result<bool>(found->has_value()) : Result<bool>(found.error());
  }
  const auto found = client.get(request, move.array, move.timeout);
  return found ? Result<bool>(true) : Result<bool>(found.error());
}

}  // namespace

tranship_code tranship_open(const char* contact, const char* name, double timeout,
                            tranship_staging** staging) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"staging", staging}}); !given) return given;
    *staging = nullptr;
    if (Status given = check_given({{"contact", contact}}); !given) return given;
    auto opened = open_staging(contact, name, timeout);
    if (!opened) return opened.error();
    *staging = handle_of(std::move(*opened));
    return {};
  });
}

tranship_code tranship_close(tranship_staging* staging) {
  return guarded([&]() -> Status {
    if (staging == nullptr) return {};
    if (Status given = check_handle("staging", staging, HandleKind::staging); !given) return given;
    // In a fork the threads live in the parent only: to wait for them would never end.
    if (staging->generation != fork_generation()) return {};
    std::shared_ptr<OpenStaging> ended;
    {
      const std::lock_guard lock(staging->mutex);
      ended.swap(staging->open);
    }
    if (!ended) return {};
    ended->workers->finish();
    const Status left = ended->client->close();
    // Closing the engine waits until the server has read the last message: the process may end
    // right after.
    const Status closed = ended->engine->close();
    return closed ? left : closed;
  });
}

int tranship_is_open(tranship_staging* staging) {
  int open = 0;
  (void)caught([&]() -> Status {
    open = use(staging, {}) ? 1 : 0;
    return {};
  });
  return open;
}

tranship_code tranship_put(tranship_staging* staging, const char* variable, int64_t version,
                           const tranship_array* array, double timeout) {
  return guarded([&]() -> Status {
    return move_now(staging, variable, array, timeout,
                    [&](Client& client, const Move& move) { return put(client, version, move); });
  });
}

tranship_code tranship_get(tranship_staging* staging, const char* variable, int64_t version,
                           const tranship_array* array, double timeout) {
  return guarded([&]() -> Status {
    return move_now(staging, variable, array, timeout, [&](Client& client, const Move& move) {
      return get(client, VersionChoice::exact, version, move);
    });
  });
}

tranship_code tranship_get_next(tranship_staging* staging, const char* variable, int64_t after,
                                const tranship_array* array, double timeout, int64_t* version) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"version", version}}); !given) return given;
    return move_now(staging, variable, array, timeout, [&](Client& client, const Move& move) {
      Status status = get(client, VersionChoice::next, after, move);
      if (status) *version = after;
      return status;
    });
  });
}

tranship_code tranship_get_latest(tranship_staging* staging, const char* variable,
                                  const tranship_array* array, double timeout, int64_t* version) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"version", version}}); !given) return given;
    return move_now(staging, variable, array, timeout, [&](Client& client, const Move& move) {
      std::int64_t found = INT64_MAX;  // above every version
      Status status = get(client, VersionChoice::latest, found, move);
      if (status) *version = found;
      return status;
    });
  });
}

tranship_code tranship_wait_next(tranship_staging* staging, const char* variable, int64_t after,
                                 const tranship_array* box, double timeout, int64_t* version) {
  const Arguments given{{"variable", variable}, {"box", box}, {"version", version}};
  return with_client(staging, given, timeout, [&](Client& client, auto patience) -> Status {
    const auto whole = box_of(*box);
    if (!whole) return whole.error();
    const auto found = client.wait({variable, VersionChoice::next, after, *whole}, patience);
    if (!found) return found.error();
    *version = *found;
    return {};
  });
}

tranship_code tranship_define(tranship_staging* staging, const char* variable, const char* type,
                              const tranship_array* domain, int writers) {
  const Arguments given{{"variable", variable}, {"type", type}, {"domain", domain}};
  return with_client(staging, given, [&](Client& client) -> Status {
    const auto field = field_of(type);
    if (!field) return field.error();
    if (writers < 0) {
      return Error{ErrorCode::invalid_argument,
                   "writers=" + std::to_string(writers) + " is negative",
                   "give the number of clients that will put, or 0 if it is unknown"};
    }
    const auto whole = box_of(*domain);
    if (!whole) return whole.error();
    return client.define(variable, *field, *whole, writers);
  });
}

tranship_code tranship_discard(tranship_staging* staging, const char* variable, int64_t version) {
  return with_client(staging, {{"variable", variable}},
                     [&](Client& client) { return client.discard(variable, version); });
}

tranship_code tranship_describe(tranship_staging* staging, const char* name, double timeout,
                                tranship_variable* variable) {
  const Arguments given{{"name", name}, {"variable", variable}};
  return with_client(staging, given, timeout, [&](Client& client, auto patience) {
    const auto info = client.describe(name, patience);
    return info ? fill(*variable, *info) : Status(info.error());
  });
}

tranship_code tranship_describe_version(tranship_staging* staging, const char* name,
                                        int64_t version, double timeout,
                                        tranship_variable* variable) {
  const Arguments given{{"name", name}, {"variable", variable}};
  return with_client(staging, given, timeout, [&](Client& client, auto patience) {
    const auto extent = client.extent_of(name, version, patience);
    return extent ? fill(*variable, name, *extent) : Status(extent.error());
  });
}

tranship_code tranship_wait_next_version(tranship_staging* staging, const char* name, int64_t after,
                                         double timeout, int64_t* version,
                                         tranship_variable* variable) {
  const Arguments given{{"name", name}, {"version", version}, {"variable", variable}};
  return with_client(staging, given, timeout, [&](Client& client, auto patience) -> Status {
    const auto found = client.find_version({name, VersionChoice::next, after}, patience);
    if (!found) return found.error();
    Status status = fill(*variable, name, *found);
    if (status) *version = found->version;
    return status;
  });
}

tranship_code tranship_nothing(tranship_staging* staging, const char* variable, int64_t version) {
  return with_client(staging, {{"variable", variable}},
                     [&](Client& client) { return client.nothing(variable, version, version); });
}

tranship_code tranship_put_async(tranship_staging* staging, const char* variable, int64_t version,
                                 const tranship_array* array, double timeout,
                                 tranship_request** request) {
  return guarded([&] {
    return move_later(staging, variable, array, timeout, {request, true},
                      [version](Client& client, const Move& move, bool waits) {
                        return put_later(client, version, move, waits);
                      });
  });
}

tranship_code tranship_get_async(tranship_staging* staging, const char* variable, int64_t version,
                                 const tranship_array* array, double timeout,
                                 tranship_request** request) {
  return guarded([&] {
    return move_later(staging, variable, array, timeout, {request, false},
                      [version](Client& client, const Move& move, bool waits) {
                        return get_later(client, version, move, waits);
                      });
  });
}

tranship_code tranship_request_wait(tranship_request* request, double timeout) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"request", request}}); !given) return given;
    if (request->generation != fork_generation()) return forked_client_error();
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    Outcome& outcome = *request->outcome;
    std::unique_lock lock(outcome.mutex);
    if (outcome.changed.wait_for(lock, *patience, [&] { return outcome.ended; })) {
      return outcome.status;
    }
    return Error{ErrorCode::timeout, "the request has not ended within the timeout, and goes on",
                 "wait longer"};
  });
}

tranship_code tranship_request_test(tranship_request* request, int* ended) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"request", request}, {"ended", ended}}); !given) return given;
    if (request->generation != fork_generation()) return forked_client_error();
    const std::lock_guard lock(request->outcome->mutex);
    *ended = request->outcome->ended ? 1 : 0;
    return {};
  });
}

void tranship_request_free(tranship_request* request) {
  (void)guarded([&]() -> Status {
    const std::unique_ptr<tranship_request> freed(request);
    if (!freed || freed->generation != fork_generation()) return {};
    (void)freed->outcome->wait();
    return {};
  });
}

tranship_code tranship_ls(tranship_staging* staging, tranship_listing** listing) {
  return with_client(staging, {{"listing", listing}}, [&](Client& client) -> Status {
    *listing = nullptr;
    auto variables = client.list();
    if (!variables) return variables.error();
    *listing = std::make_unique<tranship_listing>(std::move(*variables)).release();
    return {};
  });
}

int64_t tranship_listing_size(const tranship_listing* listing) {
  return listing != nullptr ? static_cast<int64_t>(listing->variables.size()) : 0;
}

tranship_code tranship_listing_entry(const tranship_listing* listing, int64_t index,
                                     tranship_entry* entry) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"listing", listing}, {"entry", entry}}); !given) return given;
    if (index < 0 || index >= tranship_listing_size(listing)) {
      return Error{ErrorCode::out_of_range,
                   "the index is " + std::to_string(index) + ", and the listing has " +
                       std::to_string(tranship_listing_size(listing)) + " variables",
                   "give an index from 0 to the size of the listing"};
    }
    const VariableInfo& info = listing->variables[static_cast<std::size_t>(index)];
    *entry = {};
    entry->name = info.name.c_str();
    entry->versions = static_cast<int64_t>(info.versions.size());
    if (!info.versions.empty()) {
      entry->version_first = info.versions.front().version;
      entry->version_last = info.versions.back().version;
    }
    for (const staging::VersionInfo& version : info.versions) {
      entry->objects += version.objects;
      entry->bytes += version.bytes;
    }
    entry->puts = info.traffic.puts.count;
    entry->put_bytes = info.traffic.puts.bytes;
    entry->gets = info.traffic.gets.count;
    entry->get_bytes = info.traffic.gets.bytes;
    return fill(entry->variable, info);
  });
}

void tranship_listing_free(tranship_listing* listing) {
  const std::unique_ptr<tranship_listing> freed(listing);
}
