// The staging service's client, as C sees it.
#include "staging/client.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "c/arrays.hpp"
#include "c/errors.hpp"
#include "c/workers.hpp"
#include "engine/checks.hpp"
#include "engine/kept_profile.hpp"

using namespace tranship;
using namespace tranship::c_api;
using staging::Client;
using staging::GetRequest;
using staging::VariableInfo;
using staging::Which;

/// What the workers do uses the client, which uses the engine: they end in this order.
struct tranship_staging {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Client> client;
  std::unique_ptr<Workers> workers = std::make_unique<Workers>();
};

namespace {

/// How a put or get behind its caller's back has ended.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  Status status;

  void end(Status how) {
    const std::lock_guard lock(mutex);
    status = std::move(how);
    ended = true;
    changed.notify_all();
  }
};

constexpr double timeout_most_s = 1e6;

}  // namespace

/// `staging` is not looked at once the outcome is there: it may be closed by then.
struct tranship_request {
  std::shared_ptr<Outcome> outcome;
  std::uint64_t generation = fork_generation();
};

struct tranship_listing {
  std::vector<VariableInfo> variables;
};

namespace {

Result<std::chrono::milliseconds> duration(double seconds) {
  if (std::isnan(seconds) || seconds < 0) {
    return invalid("the timeout is " + std::to_string(seconds) + "; give seconds from 0 on");
  }
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::min(seconds, timeout_most_s) * 1e3));
}

std::string own_name() {
  char host[256] = {};
  (void)gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

Result<std::unique_ptr<tranship_staging>> open_staging(const char* contact, const char* name,
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
  auto staging = std::make_unique<tranship_staging>();
  staging->engine = std::move(*engine);
  staging->client = std::move(*client);
  return staging;
}

/// What a put or get was given, checked.
struct Move {
  std::string variable;
  Array array;
  staging::Box box;
  std::vector<std::int64_t> lower;
  std::chrono::milliseconds timeout{};
};

Result<Move> checked(const tranship_staging* staging, const char* variable,
                     const tranship_array* array, double timeout) {
  Status given = check_given({{"staging", staging}, {"variable", variable}, {"array", array}});
  if (given) given = staging->engine->usable();
  if (!given) return given.error();
  auto made = array_of(*array, staging->engine->gpus().get());
  if (!made) return made.error();
  const auto patience = duration(timeout);
  if (!patience) return patience.error();
  return Move{variable, std::move(*made), *box_of(*array), lower_of(*array), *patience};
}

Status put(Client& client, std::int64_t version, const Move& move) {
  return client.put(move.variable, version, move.array, move.lower, move.timeout);
}

Status get(Client& client, Which which, std::int64_t& version, const Move& move) {
  const GetRequest request{move.variable, which, version, move.box};
  const auto found = client.get(request, move.array, move.timeout);
  if (found) version = *found;
  return found ? Status{} : Status(found.error());
}

/// Lets the workers run `work(client, move)`.
template <typename Work>
Status begin(tranship_staging* staging, Result<Move> move, tranship_request** request, Work work) {
  if (Status given = check_given({{"request", request}}); !given) return given;
  *request = nullptr;
  if (!move) return move.error();
  auto made = std::make_unique<tranship_request>();
  made->outcome = std::make_shared<Outcome>();
  staging->workers->run(
      [outcome = made->outcome, client = staging->client.get(), what = std::move(*move),
       work = std::move(work)] { outcome->end(caught([&] { return work(*client, what); })); });
  *request = made.release();
  return {};
}

Status fill(tranship_variable& variable, const VariableInfo& info) {
  variable = {};
  if (info.type.size() >= sizeof variable.type) {
    return Error{ErrorCode::unsupported, "the variable \"" + info.name + "\" has elements of " +
                                             info.type + ", which C has no name for"};
  }
  std::copy(info.type.begin(), info.type.end(), variable.type);
  variable.rank = info.bounds.rank;
  variable.producers = info.producers;
  std::copy_n(info.bounds.lower.begin(), info.bounds.rank, variable.lower);
  std::copy_n(info.bounds.upper.begin(), info.bounds.rank, variable.upper);
  return {};
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
    *staging = opened->release();
    return {};
  });
}

tranship_code tranship_close(tranship_staging* staging) {
  return guarded([&]() -> Status {
    if (staging == nullptr) return {};
    // In a fork the threads live in the parent only: to wait for them would never end.
    if (!staging->engine->usable()) return {};
    const std::unique_ptr<tranship_staging> ended(staging);
    ended->workers.reset();
    // The engine takes its leave until the server has read it; the process may end right after.
    return ended->engine->close();
  });
}

tranship_code tranship_put(tranship_staging* staging, const char* variable, int64_t version,
                           const tranship_array* array, double timeout) {
  return guarded([&]() -> Status {
    const auto move = checked(staging, variable, array, timeout);
    return move ? put(*staging->client, version, *move) : Status(move.error());
  });
}

tranship_code tranship_get(tranship_staging* staging, const char* variable, int64_t version,
                           const tranship_array* array, double timeout) {
  return guarded([&]() -> Status {
    const auto move = checked(staging, variable, array, timeout);
    return move ? get(*staging->client, Which::exact, version, *move) : Status(move.error());
  });
}

tranship_code tranship_get_next(tranship_staging* staging, const char* variable, int64_t after,
                                const tranship_array* array, double timeout, int64_t* version) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"version", version}}); !given) return given;
    const auto move = checked(staging, variable, array, timeout);
    if (!move) return move.error();
    Status status = get(*staging->client, Which::next, after, *move);
    if (status) *version = after;
    return status;
  });
}

tranship_code tranship_get_latest(tranship_staging* staging, const char* variable,
                                  const tranship_array* array, double timeout, int64_t* version) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"version", version}}); !given) return given;
    const auto move = checked(staging, variable, array, timeout);
    if (!move) return move.error();
    std::int64_t found = INT64_MAX;  // of all versions
    Status status = get(*staging->client, Which::latest, found, *move);
    if (status) *version = found;
    return status;
  });
}

tranship_code tranship_wait_next(tranship_staging* staging, const char* variable, int64_t after,
                                 const tranship_array* box, double timeout, int64_t* version) {
  return guarded([&]() -> Status {
    Status given = check_given(
        {{"staging", staging}, {"variable", variable}, {"box", box}, {"version", version}});
    if (given) given = staging->engine->usable();
    if (!given) return given;
    const auto whole = box_of(*box);
    if (!whole) return whole.error();
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    const auto found = staging->client->wait({variable, Which::next, after, *whole}, *patience);
    if (!found) return found.error();
    *version = *found;
    return {};
  });
}

tranship_code tranship_define(tranship_staging* staging, const char* variable, const char* type,
                              const tranship_array* domain, int writers) {
  return guarded([&]() -> Status {
    Status given = check_given(
        {{"staging", staging}, {"variable", variable}, {"type", type}, {"domain", domain}});
    if (given) given = staging->engine->usable();
    if (!given) return given;
    const auto field = field_of(type);
    if (!field) return field.error();
    const auto whole = box_of(*domain);
    if (!whole) return whole.error();
    return staging->client->define(variable, *field, *whole, writers);
  });
}

tranship_code tranship_discard(tranship_staging* staging, const char* variable, int64_t version) {
  return guarded([&]() -> Status {
    Status given = check_given({{"staging", staging}, {"variable", variable}});
    if (given) given = staging->engine->usable();
    return given ? staging->client->discard(variable, version) : given;
  });
}

tranship_code tranship_describe(tranship_staging* staging, const char* name, double timeout,
                                tranship_variable* variable) {
  return guarded([&]() -> Status {
    Status given = check_given({{"staging", staging}, {"name", name}, {"variable", variable}});
    if (given) given = staging->engine->usable();
    if (!given) return given;
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    const auto info = staging->client->describe(name, *patience);
    return info ? fill(*variable, *info) : Status(info.error());
  });
}

tranship_code tranship_put_async(tranship_staging* staging, const char* variable, int64_t version,
                                 const tranship_array* array, double timeout,
                                 tranship_request** request) {
  return guarded([&] {
    return begin(
        staging, checked(staging, variable, array, timeout), request,
        [version](Client& client, const Move& move) { return put(client, version, move); });
  });
}

tranship_code tranship_get_async(tranship_staging* staging, const char* variable, int64_t version,
                                 const tranship_array* array, double timeout,
                                 tranship_request** request) {
  return guarded([&] {
    return begin(staging, checked(staging, variable, array, timeout), request,
                 [version](Client& client, const Move& move) {
                   std::int64_t same = version;
                   return get(client, Which::exact, same, move);
                 });
  });
}

tranship_code tranship_request_wait(tranship_request* request, double timeout) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"request", request}}); !given) return given;
    const auto patience = duration(timeout);
    if (!patience) return patience.error();
    Outcome& outcome = *request->outcome;
    std::unique_lock lock(outcome.mutex);
    if (outcome.changed.wait_for(lock, *patience, [&] { return outcome.ended; })) {
      return outcome.status;
    }
    return Error{ErrorCode::timeout,
                 "the request has not ended within the timeout; it goes on: wait longer"};
  });
}

tranship_code tranship_request_test(tranship_request* request, int* ended) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"request", request}, {"ended", ended}}); !given) return given;
    const std::lock_guard lock(request->outcome->mutex);
    *ended = request->outcome->ended ? 1 : 0;
    return {};
  });
}

void tranship_request_free(tranship_request* request) {
  (void)guarded([&]() -> Status {
    const std::unique_ptr<tranship_request> freed(request);
    if (!freed || freed->generation != fork_generation()) return {};
    Outcome& outcome = *freed->outcome;
    std::unique_lock lock(outcome.mutex);
    while (!outcome.ended) outcome.changed.wait_for(lock, std::chrono::seconds(1));
    return {};
  });
}

tranship_code tranship_ls(tranship_staging* staging, tranship_listing** listing) {
  return guarded([&]() -> Status {
    Status given = check_given({{"staging", staging}, {"listing", listing}});
    if (given) given = staging->engine->usable();
    if (!given) return given;
    *listing = nullptr;
    auto variables = staging->client->list();
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
                   "there is no variable " + std::to_string(index) + "; the listing has " +
                       std::to_string(tranship_listing_size(listing)) + ": take less"};
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
