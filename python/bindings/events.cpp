// The Python class of events.
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "plans.hpp"

namespace tranship::python {
namespace {

bool done(const BoundEvent& self) {
  if (self.event.ended_well()) return true;
  const Released released;
  return self.event.done();
}

/// Returns a timeout in seconds; nothing for None. @error invalid_argument if it is not a number
std::optional<double> seconds_of(nb::handle timeout) {
  if (timeout.is_none()) return {};
  double seconds = 0;
  if (nb::try_cast(timeout, seconds) && !std::isnan(seconds)) return seconds;
  raise({ErrorCode::invalid_argument, "timeout=" + shown(timeout) + " is not a number of seconds",
         "give seconds, such as 0.5, or None to wait without a limit"});
}

/// Waits in slices and checks for signals between them, so that Ctrl-C ends the wait.
void wait(const BoundEvent& self, nb::handle given) {
  const Event& event = self.event;
  using Seconds = std::chrono::duration<double>;
  const std::optional<double> timeout = seconds_of(given);
  if (event.ended_well()) return;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                             Seconds(std::clamp(timeout.value_or(1e9), 0.0, 1e9)));
  while (true) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto slice = std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds{0},
                                                            std::chrono::milliseconds{50});
    bool ended = false;
    const Status status = [&] {
      const Released released;
      Status waited = event.wait(slice);
      ended = waited || event.done();
      return !waited && ended ? event.wait({}) : waited;
    }();
    const bool again =
        !ended && !status && status.error().code == ErrorCode::timeout && left > slice;
    if (!again) return unwrap(status);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

/// Returns "<Event pending: node0/host0 > node0/file0>", "<Event done: …>" or "<Event failed: …>".
std::string event_text(const BoundEvent& self) {
  std::string state = "pending";
  if (done(self)) {
    const Released released;
    const Status status = self.event.wait(std::chrono::nanoseconds{0});
    state = status ? "done" : "failed (" + std::string(to_string(status.error().code)) + ")";
  }
  const auto& plan = self.event.plan();
  return "<Event " + state + (plan ? ": " + plan->path(self.engine->profile()) : "") + ">";
}

/// Returns a function of tranship.events, which completes events in Python.
nb::object in_events(const char* name) {
  return nb::module_::import_("tranship.events").attr(name);
}

bool cancelled(const BoundEvent& self) {
  if (self.event.ended_well()) return false;
  const Released released;
  if (!self.event.done()) return false;
  const Status status = self.event.wait(std::chrono::nanoseconds{0});
  return !status && status.error().code == ErrorCode::cancelled;
}

/// Returns a tranship.Progress.
nb::object progress(const BoundEvent& self) {
  const auto [done, total, left] = run([&] { return self.event.progress(); });
  return in_events("Progress")(done, total, left ? nb::cast(*left) : nb::none());
}

/// Returns what concurrent.futures.wait() and as_completed() read of a future.
nb::object of_future(nb::handle event, const char* name) {
  return in_events("ending_of")(event).attr(name);
}

}  // namespace

void bind_events(nb::module_& module) {
  nb::class_<BoundEvent>(module, "Event", nb::is_weak_referenceable(),
                         "A copy that was started: wait for its end, await it, or cancel it. "
                         "concurrent.futures takes it as a future.")
      .def("done", &done, "Whether the copy has ended, well or not.")
      .def("wait", &wait, nb::arg("timeout").none() = nb::none(),
           nb::sig("def wait(self, timeout: float | None = None) -> None"),
           "Waits for the end, at most `timeout` seconds; raises what the copy failed with.")
      .def(
          "add_done_callback",
          [](nb::handle self, nb::handle callback) {
            in_events("add_done_callback")(self, callback);
          },
          nb::arg("callback").none(),
          nb::sig("def add_done_callback(self, callback: collections.abc.Callable[[Event], "
                  "object]) -> None"),
          "Calls `callback(event)` once the copy has ended, well or not, on a thread of the "
          "package.")
      .def(
          "__await__", [](nb::handle self) { return in_events("wait_for")(self); },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, None]"),
          "Waits in a coroutine, as in ``await engine.copy(source, target)``.")
      .def("__repr__", &event_text)
      .def(
          "__reduce__",
          [](const BoundEvent&) -> nb::object {
            throw nb::type_error(
                "an Event cannot be pickled: it belongs to an engine of this process; wait for it "
                "here");
          },
          nb::sig("def __reduce__(self) -> typing.NoReturn"))
      .def(
          "cancel",
          [](const BoundEvent& self) {
            const Released released;
            return self.event.cancel();
          },
          "Asks the copy to end as cancelled; what was written stays written. Returns whether it "
          "ends so: False for a copy that has ended already, or that a GPU has begun.")
      .def(
          "cancelled", [](const BoundEvent& self) { return cancelled(self); },
          "Whether the copy has ended as cancelled.")
      .def(
          "running", [](const BoundEvent& self) { return !done(self); },
          "Whether the copy has not ended.")
      .def("result", &wait, nb::arg("timeout").none() = nb::none(),
           nb::sig("def result(self, timeout: float | None = None) -> None"),
           "Does what `wait` does, as concurrent.futures has it.")
      .def(
          "exception",
          [](nb::handle self, nb::handle timeout) {
            return in_events("exception_of")(self, timeout);
          },
          nb::arg("timeout").none() = nb::none(),
          nb::sig("def exception(self, timeout: float | None = None) -> Exception | None"),
          "Waits for the end, at most `timeout` seconds, and returns what the copy failed with; "
          "None if it ended well. Raises `Timeout` if it has not ended by then.")
      .def("progress", &progress, nb::sig("def progress(self) -> tranship.events.Progress"),
           "How far the copy has come: its bytes that have arrived, all its bytes, and the seconds "
           "that are left. Does not wait.")
      .def_prop_ro("_condition", [](nb::handle self) { return of_future(self, "_condition"); })
      .def_prop_ro("_state", [](nb::handle self) { return of_future(self, "_state"); })
      .def_prop_ro("_waiters", [](nb::handle self) { return of_future(self, "_waiters"); })
      .def_prop_ro(
          "plan", [](const BoundEvent& self) { return bound_plan(self.event.plan(), self.engine); },
          "The plan that the copy follows.");
}

}  // namespace tranship::python
