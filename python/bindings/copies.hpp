// What the bindings of copies share: events, plans, regions, and what a copy starts after.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace tranship::python {

/// A plan and the engine, whose profile describes the plan's channels.
struct BoundPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Engine> engine;

  const Profile& profile() const { return engine->profile(); }
};

/// An event and its engine, whose profile is needed to describe the event's plan.
struct BoundEvent {
  Event event;
  std::shared_ptr<Engine> engine;
};

/// Largest copy, in bytes, that runs with the interpreter's lock held if it stays in this process's
/// memory: up to this size a copy takes less time than releasing the lock and taking it again.
constexpr std::int64_t small_bytes = 64 << 10;

/// One entry of a region: a dimension's name and its half-open range.
struct NamedRange {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 0;
};
using Region = std::vector<NamedRange>;

/// Returns the ranges of a region from Python; none for None.
Region region_of(nb::handle region);

/// Restricts both arrays to the region.
void apply_region(CopyPair& ends, const Region& region);

/// Gives each array without an owner one that keeps its memory alive after the call.
void own(CopyPair& ends, nb::handle source, nb::handle target);

CopyOptions copy_options(int priority, const std::string& planner, std::int64_t buffer_bytes);

/// The events and streams that a copy starts after.
struct Before {
  std::vector<Event> events;
  Streams streams;

  /// Adds an event or a GPU library's stream. Returns false if `object` is neither.
  bool add(nb::handle object);
  /// Adds the streams that the arrays of a pair name.
  void follow(const CopyPair& pair);
};

Before before_of(nb::handle after, nb::handle stream);

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Runs `start` without the interpreter's lock, and returns its event.
template <typename Start>
BoundEvent start_unlocked(const std::shared_ptr<Engine>& engine, const Start& start) {
  return {unwrap(run([&]() -> Result<Event> { return start(); })), engine};
}

/// Lets a copy, or a start of one, run behind a stream, if there is one.
template <typename Options>
void take_stream(const std::optional<CallerStream>& stream, Options& options) {
  if (!stream) return;
  options.stream = stream->handle;
  options.stream_device = stream->device;
}

/// Starts a copy after the streams that the arrays and the caller name.
template <typename Copy>
BoundEvent start_after(const std::shared_ptr<Engine>& engine, const Streams& streams,
                       CopyPair& ends, CopyOptions& options, const Copy& copy) {
  return start_unlocked(engine, [&]() -> Result<Event> {
    auto stream = joined(*engine, streams, ends.source, ends.target);
    if (!stream) return stream.error();
    take_stream(*stream, options);
    options.interrupted = interrupted;
    return copy();
  });
}

/// An iterable of tuples (source, target, type of the source or None, type of the target or None).
using TypedPairs =
    nb::typed<nb::iterable, nb::typed<nb::tuple, nb::object, nb::object, nb::object, nb::object>>;

/// Returns arrays and types; None for a type stands for raw bytes.
std::vector<TypedPair> typed_pairs_of(const TypedPairs& given, Hold held);

}  // namespace tranship::python
