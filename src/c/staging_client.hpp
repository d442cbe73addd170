// A connection of a C program to the staging service, and what its calls have in common.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "c/arrays.hpp"
#include "c/errors.hpp"
#include "c/workers.hpp"
#include "engine/engine.hpp"
#include "os/fork.hpp"
#include "staging/client/client.hpp"
#include "tranship/staging.h"

namespace tranship::c_api {

/// First member of a handle: what it is. Programs in languages that do not check it for them may
/// pass a handle of another kind.
enum class HandleKind : std::uint64_t {
  staging = 0x676e69676174733eU,
  step_writer = 0x7265746972773e3eU,
  step = 0x706574733e3e3e3eU,
  attributes = 0x7475626972747461U
};

/// Returns whether a handle is there, and of this kind.
bool is_handle(const void* handle, HandleKind kind);

/// Checks a handle. `name`: Argument name.
/// @error invalid_argument for null, and for a handle of another kind
Status check_handle(const char* name, const void* handle, HandleKind kind);

/// A connection that is open. The workers use the client, which uses the engine: they are destroyed
/// in this order.
struct OpenStaging {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<staging::Client> client;
  std::unique_ptr<Workers> workers;
};

/// The outcome of an asynchronous put or get.
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

  /// Waits for the end, and returns what the put or get returned.
  Status wait() {
    std::unique_lock lock(mutex);
    while (!ended) changed.wait_for(lock, std::chrono::seconds(1));
    return status;
  }
};

/// Names and values of arguments that must not be null.
using Arguments = std::initializer_list<std::pair<const char*, const void*>>;

Error closed_error();
Error forked_client_error();

}  // namespace tranship::c_api

/// Never freed, so that a call after tranship_close() is refused instead of reading memory that was
/// given to another use: a few bytes for each client that was opened.
struct tranship_staging {
  const tranship::c_api::HandleKind kind = tranship::c_api::HandleKind::staging;
  std::mutex mutex;
  std::shared_ptr<tranship::c_api::OpenStaging> open;  ///< Shared by running calls. Null: closed.
  std::uint64_t generation = tranship::fork_generation();
};

/// It does not refer to the connection, which may be closed before the request is freed.
struct tranship_request {
  std::shared_ptr<tranship::c_api::Outcome> outcome;
  std::uint64_t generation = tranship::fork_generation();
};

namespace tranship::c_api {

/// Returns the open connection behind a handle, if no other argument of the call is null.
/// @error invalid_argument; closed, also in a fork
Result<std::shared_ptr<OpenStaging>> use(tranship_staging* staging, Arguments arguments);

/// Checks the arguments and runs `work(client)`.
template <typename Work>
tranship_code with_client(tranship_staging* staging, Arguments arguments, const Work& work) {
  return guarded([&]() -> Status {
    const auto open = use(staging, arguments);
    return open ? work(*(*open)->client) : Status(open.error());
  });
}

/// Checks the arguments and runs `work(client, timeout)`.
template <typename Work>
tranship_code with_client(tranship_staging* staging, Arguments arguments, double timeout,
                          const Work& work) {
  return with_client(staging, arguments, [&](staging::Client& client) -> Status {
    const auto patience = duration(timeout);
    return patience ? work(client, *patience) : Status(patience.error());
  });
}

/// The arguments of a put or get, checked.
struct Move {
  std::string variable;
  Array array;
  staging::Box box;
  std::vector<std::int64_t> lower;
  std::chrono::milliseconds timeout{};
  staging::StepId step = 0;  ///< The step that a put belongs to; 0: none.
};

Result<Move> checked(const OpenStaging& open, const char* variable, const tranship_array* array,
                     double timeout);

Status put(staging::Client& client, std::int64_t version, const Move& move);
/// An Attempt at a put.
Result<bool> put_later(staging::Client& client, std::int64_t version, const Move& move, bool waits);

/// Checks the arguments and runs `work(client, move)`.
template <typename Work>
Status move_now(tranship_staging* staging, const char* variable, const tranship_array* array,
                double timeout, const Work& work) {
  const auto open = use(staging, {{"variable", variable}, {"array", array}});
  if (!open) return open.error();
  auto move = checked(**open, variable, array, timeout);
  return move ? work(*(*open)->client, *move) : Status(move.error());
}

/// Carries out a put or get within some time. Unless it may wait, returns false where it would have
/// to wait for others.
using Attempt = std::function<Result<bool>(staging::Client&, const Move&, bool waits)>;

struct Later {
  tranship_request** request;
  bool lasting;              ///< Whether closing waits for it.
  staging::StepId step = 0;  ///< The step that a put belongs to; 0: none.
};

/// Checks the arguments and lets the workers carry out `attempt`. Their jobs hold no reference to
/// the connection: the thread that drops the last one joins them.
Status move_later(tranship_staging* staging, const char* variable, const tranship_array* array,
                  double timeout, const Later& later, Attempt attempt);

/// Describes a variable, or one of a step or version, by its type and bounds.
/// @error unsupported for a type that C has no name for
Status fill(tranship_variable& variable, const staging::VariableInfo& info);
Status fill(tranship_variable& variable, const std::string& name,
            const staging::VersionExtent& extent);

}  // namespace tranship::c_api
