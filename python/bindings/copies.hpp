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

/// Returns a plan for Python. plan: Null for a copy of nothing, whose plan has no hops.
inline BoundPlan bound_plan(std::shared_ptr<const Plan> plan, std::shared_ptr<Engine> engine) {
  if (!plan) plan = std::make_shared<const Plan>();
  return {std::move(plan), std::move(engine)};
}

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

/// The ends of a copy that a region is yet to be applied to.
struct WholeEnds {
  bool source = true;
  bool target = true;
};

/// Restricts both arrays to the region, where they are whole.
void apply_region(CopyPair& ends, const Region& region, WholeEnds whole = {});

/// Gives each array without an owner one that keeps its memory alive after the call.
void own(CopyPair& ends, nb::handle source, nb::handle target);

CopyOptions copy_options(int priority, const std::string& planner, std::int64_t buffer_bytes);

/// Lets a copy, or a start of one, run behind a stream, if there is one.
template <typename Options>
void take_stream(const std::optional<CallerStream>& stream, Options& options) {
  if (!stream) return;
  options.stream = stream->handle;
  options.stream_device = stream->device;
}

/// What a copy starts after, and what comes after it.
class Before {
 public:
  /// @throws InvalidArgument for what is neither an event nor a stream
  Before(const Engine& engine, nb::handle after, nb::handle stream);

  Follows follows() const { return choice_.follows; }
  const std::vector<Event>& events() const { return events_; }
  /// Whether no stream is ordered with the copy.
  bool no_streams() const { return order_.empty(); }
  /// Orders the copy with the stream that an array names.
  void add(const Array& array);
  void add(const CopyPair& pair);
  /// Orders the copy with a library's current stream.
  void add_current(const CallerStream& stream) { StreamOrder::add(order_.around, stream); }

  /// Gives a copy, or a start of one, what it starts after.
  template <typename Options>
  Result<OrderedStart> begin(Options& options) const {
    options.interrupted = interrupted;
    options.after = events_;
    if (order_.empty()) return OrderedStart{};
    auto start = engine_.begin_order(order_, device_);
    if (!start) return start;
    options.after.insert(options.after.end(), start->after.begin(), start->after.end());
    take_stream(start->stream, options);
    options.in_order = start->in_order;
    return start;
  }

 private:
  /// Adds an event or a GPU library's stream. Returns false if `object` is neither.
  bool add_one(nb::handle object);

  const Engine& engine_;
  StreamChoice choice_;
  std::vector<Event> events_;
  StreamOrder order_;
  int device_ = -1;  ///< of the first array that lies on a GPU
};

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Runs `start` without the interpreter's lock, and returns its event.
template <typename Start>
BoundEvent start_unlocked(const std::shared_ptr<Engine>& engine, const Start& start) {
  return {unwrap(run([&]() -> Result<Event> { return start(); })), engine};
}

/// Starts a copy in the order that the caller and the arrays ask for.
template <typename Options, typename Start>
BoundEvent start_in_order(const std::shared_ptr<Engine>& engine, const Before& before,
                          Options& options, const Start& start) {
  return start_unlocked(engine, [&]() -> Result<Event> {
    const auto begun = before.begin(options);
    if (!begun) return begun.error();
    auto event = start();
    if (!event) return event;
    Status kept = engine->end_order(*begun, *event, interrupted);
    return kept ? std::move(event) : Result<Event>(kept.error());
  });
}

/// An iterable of tuples (source, target, type of the source or None, type of the target or None).
using TypedPairs =
    nb::typed<nb::iterable, nb::typed<nb::tuple, nb::object, nb::object, nb::object, nb::object>>;

/// Returns arrays and types; None for a type stands for raw bytes.
/// objects: Gets the arrays as objects, unless it is null.
std::vector<TypedPair> typed_pairs_of(const TypedPairs& given, Hold held, Follows follows,
                                      std::vector<ObjectPair>* objects = nullptr);

}  // namespace tranship::python
