// The order of a copy with other copies and with the work in streams of GPUs.
#pragma once

#include <vector>

#include "bindings.hpp"

namespace tranship::python {

/// An event and its engine, whose profile is needed to describe the event's plan.
struct BoundEvent {
  Event event;
  std::shared_ptr<Engine> engine;
};

/// Returns the name of the notice that a caller asks for; empty for None.
/// @throws InvalidArgument for what names none
std::string notice_name(nb::handle notify);

/// The events and streams after which a copy starts, and the streams that wait for its end.
class Before {
 public:
  /// @throws InvalidArgument for what is neither an event nor a stream
  Before(const Engine& engine, nb::handle after, nb::handle stream);

  Follows follows() const { return choice_.follows; }
  const std::vector<Event>& events() const { return events_; }
  /// Returns whether there are no events and no streams.
  bool empty() const { return events_.empty() && order_.empty(); }
  bool no_streams() const { return order_.empty(); }
  /// Orders the copy with the streams that the arrays name.
  void add(const Array& array);
  void add(const std::vector<CopyPair>& pairs);
  /// Orders the copy with a library's current stream.
  void add_current(const CallerStream& stream) { StreamOrder::add(order_.around, stream); }
  /// Sets the GPU of streams that are given by their number alone, unless it is set.
  void note_device(int device) {
    if (device_ < 0) device_ = device;
  }

  /// Stores in `options` what the copy starts after.
  Result<OrderedStart> begin(StartOptions& options) const;

 private:
  /// Adds an event or a GPU library's stream. Returns false if `object` is neither.
  bool add_one(nb::handle object);

  const Engine& engine_;
  StreamChoice choice_;
  std::vector<Event> events_;
  StreamOrder order_;
  int device_ = -1;  ///< of the first array that lies on a GPU
};

/// Runs `start`, which starts a copy with `options`, without the interpreter's lock, in the order
/// that the caller and the arrays ask for.
template <typename Start>
BoundEvent start_in_order(const std::shared_ptr<Engine>& engine, const Before& before,
                          StartOptions& options, const Start& start) {
  auto event = run([&]() -> Result<Event> {
    const auto begun = before.begin(options);
    if (!begun) return begun.error();
    Result<Event> started = start();
    if (!started) return started;
    Status kept = engine->end_order(*begun, *started, interrupted);
    return kept ? std::move(started) : Result<Event>(kept.error());
  });
  return {unwrap(std::move(event)), engine};
}

}  // namespace tranship::python
