// The structs of the C API's handles.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "c/errors.hpp"
#include "channels/host/type_packer.hpp"
#include "datatypes/datatype.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "fabric/messages/copy_notice.hpp"
#include "os/fork.hpp"
#include "tranship/tranship.h"

/// Never freed, so that a call after tranship_engine_close() is refused instead of reading memory
/// that was given to another use: a few bytes for each engine that was opened.
struct tranship_engine {
  std::mutex mutex;
  std::shared_ptr<tranship::Engine> engine;  ///< null: closed
  std::string contact;                       ///< set before the handle is returned
  std::uint64_t generation = tranship::fork_generation();
};

/// The engine outlives whatever refers to it.
struct tranship_instance {
  std::shared_ptr<tranship::Engine> engine;
  tranship::Array array;
  std::uint64_t generation = tranship::fork_generation();
};

struct tranship_event {
  std::shared_ptr<tranship::Engine> engine;
  tranship::Event event;
  std::uint64_t generation = tranship::fork_generation();
};

struct tranship_prepared {
  std::shared_ptr<tranship::Engine> engine;
  tranship::PreparedCopy copy;
  std::uint64_t generation = tranship::fork_generation();
};

struct tranship_type {
  tranship::Datatype type;
};

struct tranship_packer {
  tranship::TypePacker packer;
};

struct tranship_plan {
  std::string text;
  std::string json;
  double seconds = 0;
};

struct tranship_peer {
  std::shared_ptr<tranship::Engine> engine;
  tranship::fabric::PeerId id{};
  std::uint64_t generation = tranship::fork_generation();
};

struct tranship_names {
  std::vector<std::string> names;
};

struct tranship_notices {
  std::vector<tranship::fabric::CopyNotice> notices;
};

namespace tranship::c_api {

inline Error forked_error() {
  return {ErrorCode::closed, "this process was forked after the engine was opened",
          "open an engine in this process"};
}

/// Returns the engine behind a handle, if no other argument of the call is null.
/// @error invalid_argument; closed, also in a fork
Result<std::shared_ptr<Engine>> use(
    tranship_engine* engine, std::initializer_list<std::pair<const char*, const void*>> arguments);

/// Checks a handle that is not null. @error closed in a fork of the process that made it
template <typename Handle>
Status check_here(const Handle& handle) {
  return handle.generation == fork_generation() ? Status{} : Status(forked_error());
}

/// Frees a handle. In a fork it leaks: threads and locks of the parent may be in what it refers to.
template <typename Handle>
void free_handle(Handle* handle) noexcept {
  if (handle == nullptr || handle->generation != fork_generation()) return;
  (void)caught([&]() -> Status {
    delete handle;
    return {};
  });
}

/// Returns a new handle of an instance.
tranship_instance* instance_of(std::shared_ptr<Engine> engine, Array array);

}  // namespace tranship::c_api
