// What every call that starts or prepares copies does with its arguments and its handles.
#pragma once

#include <memory>
#include <utility>

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

/// Starts copies by `start`, which gets the engine and the options, and writes the event's handle.
template <typename Start>
tranship_code started_by(tranship_engine* engine, std::pair<const char*, const void*> list,
                         const tranship_copy_options* options, tranship_event** event,
                         const Start& start) {
  return guarded([&]() -> Status {
    auto used = use(engine, {list, {"event", event}});
    if (!used) return used.error();
    *event = nullptr;
    const auto converted = options_without_region(options);
    if (!converted) return converted.error();
    Result<Event> started = start(**used, *converted);
    if (!started) return started.error();
    *event = handle_of(std::move(*used), std::move(*started));
    return {};
  });
}

/// Prepares a copy by `prepare`, which gets the engine and the options, and writes its handle.
template <typename Prepare>
tranship_code prepared_by(tranship_engine* engine, const tranship_copy_options* options,
                          tranship_prepared** prepared, const Prepare& prepare) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"prepared", prepared}});
    if (!used) return used.error();
    *prepared = nullptr;
    const auto converted = options_of_all_starts(options);
    if (!converted) return converted.error();
    Result<PreparedCopy> copy = prepare(**used, *converted);
    if (!copy) return copy.error();
    *prepared = std::make_unique<tranship_prepared>(std::move(*used), std::move(*copy)).release();
    return {};
  });
}

}  // namespace tranship::c_api
