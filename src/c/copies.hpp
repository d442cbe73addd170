// Arguments and handles of calls that start or prepare copies.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "c/handles.hpp"

namespace tranship::c_api {

/// Checks the two ends of a copy.
/// @error invalid_argument for a null instance; closed in a fork of the process that made it
Status check_ends(const tranship_instance* source, const tranship_instance* target);

/// Returns options that have no region, which is said of a copy of one pair only.
/// @error invalid_argument for a region, and for options that cannot be read
Result<CopyOptions> options_without_region(const tranship_copy_options* options);

/// Returns the options of a preparation, without what belongs to a start.
/// @error as options_without_region(); invalid_argument for events and a stream
Result<CopyOptions> options_of_all_starts(const tranship_copy_options* options);

/// Returns a new handle of an event.
tranship_event* handle_of(std::shared_ptr<Engine> engine, Event event);

/// What a call asks to copy. Its lists refer to the caller's.
struct ReadRequest {
  std::vector<CopyPair> pairs;
  std::vector<TypePair> types;  ///< of the pairs; empty: `parts` are copied
  decltype(CopyRequest::parts) parts{};

  /// Returns the request, which refers to this object.
  /// @error invalid_argument for a cast of what has no numbers: pieces and derived types
  Result<CopyRequest> with(const CopyOptions& options) const;
};

/// Starts the copies that `read` puts into its ReadRequest, and writes the event's handle.
template <typename Read>
tranship_code started_by(tranship_engine* engine, const tranship_copy_options* options,
                         tranship_event** event, const Read& read) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"event", event}});
    if (!used) return used.error();
    *event = nullptr;
    const auto converted = options_without_region(options);
    if (!converted) return converted.error();
    ReadRequest request;
    if (Status status = read(request); !status) return status;
    const auto asked = request.with(*converted);
    if (!asked) return asked.error();
    auto started = (*used)->copy(*asked);
    if (!started) return started.error();
    *event = handle_of(std::move(*used), std::move(*started));
    return {};
  });
}

/// Prepares the copies that `read` puts into its ReadRequest, and writes the handle.
template <typename Read>
tranship_code prepared_by(tranship_engine* engine, const tranship_copy_options* options,
                          tranship_prepared** prepared, const Read& read) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"prepared", prepared}});
    if (!used) return used.error();
    *prepared = nullptr;
    const auto converted = options_of_all_starts(options);
    if (!converted) return converted.error();
    ReadRequest request;
    if (Status status = read(request); !status) return status;
    const auto asked = request.with(*converted);
    if (!asked) return asked.error();
    auto copy = (*used)->prepare(*asked);
    if (!copy) return copy.error();
    *prepared = std::make_unique<tranship_prepared>(std::move(*used), std::move(*copy)).release();
    return {};
  });
}

}  // namespace tranship::c_api
