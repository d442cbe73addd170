// Python classes of the engine, its events and its plans.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "base/lent_vector.hpp"
#include "copies.hpp"
#include "engine/processes.hpp"
#include "integer_lists.hpp"
#include "plain_copies.hpp"
#include "tensor_copies.hpp"

namespace tranship::python {
namespace {

const char* read_environment(const char* name) { return std::getenv(name); }

}  // namespace

Region region_of(nb::handle region) {
  if (region.is_none()) return {};
  try {
    Region ranges;
    for (nb::handle item : region.attr("items")()) {
      const nb::object range = item[1];
      if (nb::len(range) != 2) throw nb::value_error("two bounds");
      ranges.push_back({nb::cast<std::string>(item[0]), nb::cast<std::int64_t>(range[0]),
                        nb::cast<std::int64_t>(range[1])});
    }
    return ranges;
  } catch (const std::exception&) {  // nanobind's or Python's exceptions
    raise(Error{ErrorCode::invalid_argument,
                "a region gives two whole numbers for each name, as in {\"x\": (0, 64)}"});
  }
}

namespace {

/// Restricts an array to ranges of dimensions that have the names of `names`.
void apply_region(Array& array, const Region& region, const View& names) {
  for (const NamedRange& range : region) {
    const std::string& name = range.name;
    const std::int64_t low = range.low;
    const std::int64_t high = range.high;
    const auto& space = names.mapping->space();
    const auto found = std::find_if(space.begin(), space.end(),
                                    [&](const Dimension& d) { return d.name == name; });
    if (found == space.end()) {
      std::string known;
      for (const Dimension& d : space) known += (known.empty() ? "" : ", ") + d.name;
      raise({ErrorCode::invalid_argument, "the region names dimension \"" + name +
                                              "\", and the array has " +
                                              (known.empty() ? "none" : known)});
    }
    const auto k = static_cast<std::size_t>(found - space.begin());
    if (static_cast<int>(k) >= array.view.mapping->rank()) continue;  // copy() reports the ranks
    if (low < 0 || high < low || high > array.view.extents[k]) {
      raise({ErrorCode::out_of_range,
             "the region [" + std::to_string(low) + ", " + std::to_string(high) + ") of \"" + name +
                 "\" lies outside [0, " + std::to_string(array.view.extents[k]) + ")"});
    }
    array.view.lower[k] += low;
    array.view.extents[k] = high - low;
  }
}

}  // namespace

void apply_region(CopyPair& ends, const Region& region, WholeEnds whole) {
  if (region.empty()) return;
  // A plain array's dimensions, and thus the region, match the other array's by position.
  const View names = ends.source.named ? ends.source.view : ends.target.view;
  if (whole.source) apply_region(ends.source, region, names);
  if (whole.target) apply_region(ends.target, region, ends.target.named ? ends.target.view : names);
}

CopyOptions copy_options(int priority, const std::string& planner, std::int64_t buffer_bytes) {
  CopyOptions options;
  options.priority = priority;
  options.planner = unwrap(planner_kind_from(planner));
  options.buffer_bytes_max = buffer_bytes;
  if (buffer_bytes < 0) {
    raise({ErrorCode::invalid_argument,
           "buffer_bytes=" + std::to_string(buffer_bytes) + " is negative",
           "give a number of bytes, or 0 for no limit of this copy's own"});
  }
  return options;
}

bool Before::add_one(nb::handle object) {
  if (nb::isinstance<BoundEvent>(object)) {
    events_.push_back(nb::cast<const BoundEvent&>(object).event);
    return true;
  }
  if (PyLong_Check(object.ptr())) return false;
  const auto stream = stream_in(object);
  if (stream) StreamOrder::add(order_.before, *stream);
  return stream.has_value();
}

void Before::add(const Array& array) {
  if (device_ < 0 && array.memory_kind == MemoryKind::device) device_ = array.device;
  const auto stream = stream_of(engine_, array);
  if (!stream) return;
  StreamOrder::add(choice_.own ? order_.before : order_.around, *stream);
}

void Before::add(const CopyPair& pair) {
  add(pair.target);  // its stream comes first
  add(pair.source);
}

Before::Before(const Engine& engine, nb::handle after, nb::handle stream)
    : engine_(engine), choice_(stream_choice(stream)) {
  order_.own = choice_.own;
  if (after.is_none() || add_one(after)) return;
  try {
    for (nb::handle one : after) {
      if (!add_one(one)) throw nb::type_error("neither an event nor a stream");
    }
  } catch (const std::exception&) {
    raise(Error{ErrorCode::invalid_argument,
                "after=" + shown(after) + " is not an event or a stream",
                "give an event that copy() returned, a stream object of a GPU library, or "
                "several of them"});
  }
}

std::vector<Event> events_of(nb::handle after) {
  if (after.is_none()) return {};
  if (nb::isinstance<BoundEvent>(after)) return {nb::cast<const BoundEvent&>(after).event};
  std::vector<Event> events;
  try {
    for (nb::handle one : after) events.push_back(nb::cast<const BoundEvent&>(one).event);
  } catch (const std::exception&) {
    raise(Error{ErrorCode::invalid_argument, "after=" + shown(after) + " is not an event",
                "give an event that Engine.copy() returned, or several of them"});
  }
  return events;
}

void own(CopyPair& ends, nb::handle source, nb::handle target) {
  if (!ends.source.owner) ends.source.owner = keep(source);
  if (!ends.target.owner) ends.target.owner = keep(target);
}

namespace {

/// Returns the two arrays of a copy, both restricted to the region; without owners where the caller
/// holds NumPy arrays.
CopyPair borrowed_ends_of(nb::handle source, nb::handle target, nb::handle region,
                          Follows follows) {
  CopyPair ends{array_of(source, false, Hold::nothing, follows),
                array_of(target, true, Hold::nothing, follows)};
  apply_region(ends, region_of(region));
  return ends;
}

CopyPair ends_of(nb::handle source, nb::handle target, nb::handle region, Follows follows) {
  CopyPair ends = borrowed_ends_of(source, target, region, follows);
  own(ends, source, target);
  return ends;
}

BoundEvent copy(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                nb::handle region, int priority, nb::handle after, const std::string& planner,
                std::int64_t buffer_bytes, nb::handle stream) {
  drop_kept();
  const bool plain =
      region.is_none() && after.is_none() && buffer_bytes == 0 && planner == "automatic";
  const bool usual = plain && stream.is_none();
  if (usual) {
    if (auto event = copy_known(*engine, source, target)) return {std::move(*event), engine};
  }
  TensorCopy tensors(engine, priority, stream);
  if (plain && tensors.add(source, target)) {
    if (auto event = tensors.start(keep(nb::make_tuple(source, target)))) return *event;
  }
  CopyOptions options = copy_options(priority, planner, buffer_bytes);
  Before before(*engine, after, stream);
  CopyPair ends = borrowed_ends_of(source, target, region, before.follows());
  before.add(ends);
  if (after.is_none() && before.no_streams() && ends.source.view.bytes() <= small_bytes) {
    if (auto event = engine->copy_now(ends.source, ends.target, options)) {
      if (usual) remember_copy(*engine, source, target, ends, event->plan());
      return {std::move(*event), engine};
    }
  }
  own(ends, source, target);
  const auto description = tensors.description_of({&ends, 1});
  return start_in_order(engine, before, options, [&] {
    return description.empty() ? engine->copy(ends.source, ends.target, options)
                               : engine->copy_described(description, {&ends, 1}, options);
  });
}

BoundEvent copy_all(const std::shared_ptr<Engine>& engine, const Pairs& given, int priority,
                    nb::handle after, nb::handle stream) {
  drop_kept();
  if (after.is_none() && stream.is_none()) {
    if (auto event = copy_short_list(*engine, given)) return {std::move(*event), engine};
  }
  nb::object held;
  TensorCopy tensors(engine, priority, stream);
  if (after.is_none() && tensors.add_all(given, held)) {
    if (auto event = tensors.start_blocks(keep(held))) return *event;
    if (auto event = tensors.start(keep(held))) return *event;
  }
  Before before(*engine, after, stream);
  LentVector<CopyPair> lent;
  std::vector<CopyPair>& pairs = *lent;
  add_pairs(held.is_valid() ? nb::borrow<Pairs>(held) : given, Hold::object, before.follows(),
            pairs);
  CopyOptions options;
  options.priority = priority;
  for (const CopyPair& pair : pairs) before.add(pair);
  const auto description = tensors.description_of(pairs);
  return start_in_order(engine, before, options, [&] {
    return description.empty() ? engine->copy_all(pairs, options)
                               : engine->copy_described(description, pairs, options);
  });
}

BoundEvent copy_pages(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                      nb::handle source_pages, nb::handle target_pages, int priority,
                      nb::handle after, nb::handle stream) {
  const IntegerLists pages({source_pages, target_pages}, "page_lists");
  Before before(*engine, after, stream);
  const CopyPair ends = ends_of(source, target, nb::none(), before.follows());
  before.add(ends);
  CopyOptions options;
  options.priority = priority;
  return start_in_order(engine, before, options, [&] {
    return engine->copy_pages(ends.source, ends.target, pages[0], pages[1], options);
  });
}

BoundEvent copy_pieces(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                       nb::handle source_offsets, nb::handle target_offsets, nb::handle lengths,
                       int priority, nb::handle after, nb::handle stream) {
  const IntegerLists lists({source_offsets, target_offsets, lengths}, "piece_lists");
  Before before(*engine, after, stream);
  const CopyPair ends = ends_of(source, target, nb::none(), before.follows());
  before.add(ends);
  CopyOptions options;
  options.priority = priority;
  const PieceLists pieces{lists[0], lists[1], lists[2]};
  return start_in_order(engine, before, options, [&] {
    return engine->copy_pieces(ends.source, ends.target, pieces, options);
  });
}

BoundPlan plan(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
               nb::handle region, int priority, const std::string& planner,
               std::int64_t buffer_bytes) {
  const CopyPair ends = ends_of(source, target, region, Follows::nothing);
  const CopyOptions options = copy_options(priority, planner, buffer_bytes);
  auto made = [&] {
    const Released released;
    return engine->plan(ends.source, ends.target, options);
  }();
  return {unwrap(std::move(made)), engine};
}

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

std::shared_ptr<Engine> open(const std::string& profile,
                             const std::map<std::string, std::string>& overrides,
                             const std::string& trace_file, const std::string& program, bool accept,
                             const std::string& contact_file) {
  check_interpreter();
  Engine::Options options;
  options.config = config_with(overrides);
  options.profile = unwrap(Profile::from_json(profile));
  options.trace_file = trace_file;
  options.program = program;
  options.accept = accept;
  options.contact_file = contact_file;
  auto opened = [&] {
    const Released released;
    return Engine::open(std::move(options));
  }();
  return owned(unwrap(std::move(opened)));
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

std::string plan_text(const BoundPlan& self) {
  if (self.plan->hops.empty()) return "<Plan of nothing>";
  return "<Plan " + self.plan->path(self.profile()) + ": " + std::to_string(self.plan->bytes) +
         " bytes, planner " + to_string(self.plan->planner) + ">";
}

/// Returns a function of tranship.events, which completes events in Python.
nb::object in_events(const char* name) {
  return nb::module_::import_("tranship.events").attr(name);
}

/// Adds to the trace what the caller did from `begin_ns` until now.
void add_span(const Engine& engine, const std::string& name, std::int64_t begin_ns,
              std::int64_t bytes) {
  if (engine.trace() == nullptr) return;
  Span span{name, "program", begin_ns, SteadyClock().now_ns(), bytes};
  span.thread = own_row();
  const Released released;
  engine.trace()->add(std::move(span));
}

void bind_plan(nb::module_& module) {
  nb::class_<BoundPlan>(module, "Plan", "The way that a copy takes, and what it should cost.")
      .def(
          "explain", [](const BoundPlan& self) { return explain(*self.plan, self.profile()); },
          "Hops, layouts, tiles, predicted time, what binds it, and what it beat.")
      .def("to_json",
           [](const BoundPlan& self) { return explain_json(*self.plan, self.profile()); })
      .def("__str__", [](const BoundPlan& self) { return self.plan->path(self.profile()); })
      .def("__repr__", &plan_text)
      .def(
          "__reduce__",
          [](const BoundPlan&) -> nb::object {
            throw nb::type_error(
                "a Plan cannot be pickled: it belongs to an engine of this process; send "
                "plan.to_json() or plan.explain()");
          },
          nb::sig("def __reduce__(self) -> typing.NoReturn"))
      .def_prop_ro(
          "path", [](const BoundPlan& self) { return self.plan->path(self.profile()); },
          "The memories in order.")
      .def_prop_ro(
          "seconds", [](const BoundPlan& self) { return self.plan->seconds; }, "Predicted time.")
      .def_prop_ro(
          "throughput_gbps",
          [](const BoundPlan& self) { return self.plan->bytes_per_second / 1e9; },
          "Predicted gigabytes (10^9 bytes) a second, of a long transfer.")
      .def_prop_ro("bytes", [](const BoundPlan& self) { return self.plan->bytes; })
      .def_prop_ro(
          "direct", [](const BoundPlan& self) { return self.plan->direct; },
          "Whether it runs on the caller's thread.")
      .def_prop_ro(
          "binding", [](const BoundPlan& self) { return self.plan->bound_by(self.profile()); },
          "The channel or resource that limits it.")
      .def_prop_ro("planner", [](const BoundPlan& self) { return to_string(self.plan->planner); });
}

bool cancelled(const BoundEvent& self) {
  if (self.event.ended_well()) return false;
  const Released released;
  if (!self.event.done()) return false;
  const Status status = self.event.wait(std::chrono::nanoseconds{0});
  return !status && status.error().code == ErrorCode::cancelled;
}

/// Returns what concurrent.futures.wait() and as_completed() read of a future.
nb::object of_future(nb::handle event, const char* name) {
  return in_events("ending_of")(event).attr(name);
}

void bind_event(nb::module_& module) {
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
      .def_prop_ro("_condition", [](nb::handle self) { return of_future(self, "_condition"); })
      .def_prop_ro("_state", [](nb::handle self) { return of_future(self, "_state"); })
      .def_prop_ro("_waiters", [](nb::handle self) { return of_future(self, "_waiters"); })
      .def_prop_ro(
          "plan", [](const BoundEvent& self) { return bound_plan(self.event.plan(), self.engine); },
          "The plan that the copy follows.");
}

}  // namespace

Config config_with(const std::map<std::string, std::string>& overrides) {
  return unwrap(config_from_environment([&](const char* name) -> const char* {
    const auto found = overrides.find(name);
    return found != overrides.end() ? found->second.c_str() : read_environment(name);
  }));
}

void bind_engine(nb::module_& module) {
  bind_plan(module);
  bind_event(module);
  nb::class_<Engine>(module, "EngineCore")
      .def_static("open", &open, nb::arg("profile"), nb::arg("overrides"), nb::arg("trace_file"),
                  nb::arg("program"), nb::arg("accept"), nb::arg("contact_file"))
      .def("copy", &copy, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("region").none(), nb::arg("priority"), nb::arg("after").none(),
           nb::arg("planner"), nb::arg("buffer_bytes"), nb::arg("stream").none())
      .def("copy_all", &copy_all, nb::arg("pairs"), nb::arg("priority"), nb::arg("after").none(),
           nb::arg("stream").none())
      .def("copy_pages", &copy_pages, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("source_pages").none(), nb::arg("target_pages").none(), nb::arg("priority"),
           nb::arg("after").none(), nb::arg("stream").none())
      .def("copy_pieces", &copy_pieces, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("source_offsets").none(), nb::arg("target_offsets").none(),
           nb::arg("lengths").none(), nb::arg("priority"), nb::arg("after").none(),
           nb::arg("stream").none())
      .def("plan", &plan, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("region").none(), nb::arg("priority"), nb::arg("planner"),
           nb::arg("buffer_bytes"))
      .def(
          "close", [](nb::handle self) { unwrap(close_apart(self, nb::cast<Engine&>(self))); },
          nb::sig("def close(self) -> None"))
      .def_prop_ro("closed", &Engine::closed)
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro("buffer_bytes_in_use",
                   [](const Engine& engine) {
                     const Released released;
                     return engine.buffer_bytes_in_use();
                   })
      .def_prop_ro("profile", [](const Engine& engine) { return engine.profile().to_json(); })
      .def_prop_ro(
          "cache_counters",
          [](const Engine& engine) {
            const auto counters = run([&] { return engine.cache_counters(); });
            return nb::make_tuple(counters.hits, counters.misses);
          },
          nb::sig("def cache_counters(self, /) -> tuple[int, int]"))
      .def("add_span", &add_span, nb::arg("name"), nb::arg("begin_ns"), nb::arg("bytes"));
  module.def(
      "describe_config",
      [](const std::map<std::string, std::string>& overrides) {
        nb::list entries;
        for (const ConfigEntry& entry : describe(config_with(overrides), read_environment)) {
          entries.append(nb::make_tuple(entry.name, entry.value, entry.source, entry.help));
        }
        return entries;
      },
      nb::arg("overrides"),
      nb::sig("def describe_config(overrides: dict[str, str]) -> "
              "list[tuple[str, str, str, str]]"));
  module.def(
      "parse_bytes", [](const std::string& text) { return unwrap(parse_bytes(text)); },
      nb::arg("text"));
}

}  // namespace tranship::python
