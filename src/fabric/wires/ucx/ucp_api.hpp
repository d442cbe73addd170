// The part of UCX's interface that is used here, declared after its manual
// (openucx.readthedocs.io), so that no header of UCX is needed to build. UCX reads only the fields
// that a mask names, and adds new ones at the end: `reserved` has room for those.
// tests/fabric/wires/ucx_library_test.cpp compares the layouts with UCX's own headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::ucp {

using Handle = void*;  ///< Contexts, workers, endpoints, memory and keys.
using Status = std::int8_t;
/// Result of starting an operation: null if it has succeeded, a negative status if it has failed,
/// or a handle of the operation in progress.
using Outcome = void*;

constexpr Status ok = 0;
constexpr Status in_progress = 1;
constexpr Status last_error = -100;

constexpr std::uint64_t feature_rma = 1U << 1;
constexpr int thread_mode_serialized = 1;
constexpr int error_mode_peer = 1;
constexpr int host_memory = 0;

struct ContextParameters {
  static constexpr std::uint64_t has_features = 1U << 0;
  static constexpr std::uint64_t has_shared_workers = 1U << 5;
  std::uint64_t field_mask = 0;
  std::uint64_t features = 0;
  std::size_t request_size = 0;
  void (*request_init)(void*) = nullptr;
  void (*request_cleanup)(void*) = nullptr;
  std::uint64_t tag_sender_mask = 0;
  int mt_workers_shared = 0;
  std::byte reserved[256]{};
};

struct WorkerParameters {
  static constexpr std::uint64_t has_thread_mode = 1U << 0;
  std::uint64_t field_mask = 0;
  int thread_mode = 0;
  std::byte reserved[512]{};
};

struct EndpointParameters {
  static constexpr std::uint64_t has_remote_address = 1U << 0;
  static constexpr std::uint64_t has_error_mode = 1U << 1;
  static constexpr std::uint64_t has_error_handler = 1U << 2;
  std::uint64_t field_mask = 0;
  const void* address = nullptr;
  int error_mode = 0;
  void (*error_handler)(void* argument, Handle endpoint, Status status) = nullptr;
  void* error_argument = nullptr;
  std::byte reserved[512]{};
};

struct MemoryParameters {
  static constexpr std::uint64_t has_address = 1U << 0;
  static constexpr std::uint64_t has_length = 1U << 1;
  static constexpr std::uint64_t has_memory_type = 1U << 4;
  std::uint64_t field_mask = 0;
  void* address = nullptr;
  std::size_t length = 0;
  unsigned flags = 0;
  unsigned protection = 0;
  int memory_type = 0;
  std::byte reserved[256]{};
};

struct OperationParameters {
  static constexpr std::uint32_t has_flags = 1U << 4;
  static constexpr std::uint32_t has_memory_type = 1U << 6;
  static constexpr std::uint32_t close_by_force = 1U << 0;
  std::uint32_t field_mask = 0;
  std::uint32_t flags = 0;
  void* request = nullptr;
  void* callback = nullptr;
  std::uint64_t datatype = 0;
  void* user_data = nullptr;
  void* reply_buffer = nullptr;
  int memory_type = 0;
  std::byte reserved[256]{};
};

/// UCX's functions, as found in the library.
struct Functions {
  const char* (*version_text)() = nullptr;
  void (*version)(unsigned* major, unsigned* minor, unsigned* release) = nullptr;
  const char* (*status_text)(Status status) = nullptr;
  Status (*read_config)(const char* prefix, const char* file, Handle* config) = nullptr;
  Status (*modify_config)(Handle config, const char* name, const char* value) = nullptr;
  void (*release_config)(Handle config) = nullptr;
  Status (*init)(unsigned major, unsigned minor, const ContextParameters* parameters, Handle config,
                 Handle* context) = nullptr;
  void (*cleanup)(Handle context) = nullptr;
  Status (*create_worker)(Handle context, const WorkerParameters* parameters,
                          Handle* worker) = nullptr;
  void (*destroy_worker)(Handle worker) = nullptr;
  unsigned (*progress)(Handle worker) = nullptr;
  Status (*get_address)(Handle worker, void** address, std::size_t* bytes) = nullptr;
  void (*release_address)(Handle worker, void* address) = nullptr;
  Status (*map)(Handle context, const MemoryParameters* parameters, Handle* memory) = nullptr;
  Status (*unmap)(Handle context, Handle memory) = nullptr;
  Status (*pack_key)(Handle context, Handle memory, void** key, std::size_t* bytes) = nullptr;
  void (*release_key_buffer)(void* key) = nullptr;
  Status (*create_endpoint)(Handle worker, const EndpointParameters* parameters,
                            Handle* endpoint) = nullptr;
  Outcome (*close_endpoint)(Handle endpoint, const OperationParameters* parameters) = nullptr;
  Outcome (*flush)(Handle endpoint, const OperationParameters* parameters) = nullptr;
  Status (*unpack_key)(Handle endpoint, const void* buffer, Handle* key) = nullptr;
  void (*destroy_key)(Handle key) = nullptr;
  Outcome (*put)(Handle endpoint, const void* buffer, std::size_t bytes, std::uint64_t address,
                 Handle key, const OperationParameters* parameters) = nullptr;
  Outcome (*get)(Handle endpoint, void* buffer, std::size_t bytes, std::uint64_t address,
                 Handle key, const OperationParameters* parameters) = nullptr;
  Status (*check)(void* request) = nullptr;
  void (*free_request)(void* request) = nullptr;
  /// Functions for UCX's global options; older versions may not have them.
  Status (*get_option)(const char* name, char* value, std::size_t bytes) = nullptr;
  Status (*set_option)(const char* name, const char* value) = nullptr;
};

/// Returns whether an outcome is an operation in progress.
inline bool under_way(Outcome outcome) {
  const auto value = reinterpret_cast<std::uintptr_t>(outcome);
  return value != 0 && value < static_cast<std::uintptr_t>(static_cast<std::intptr_t>(last_error));
}

/// Returns the status of an operation that is not in progress.
inline Status status_of(Outcome outcome) {
  return static_cast<Status>(reinterpret_cast<std::intptr_t>(outcome));
}

}  // namespace tranship::ucp
