// Timing loops around calls of the engine, without Python between the calls. The engine is that of
// the module `tranship._core`, reached through its table of functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "by_hand.hpp"
#include "engine_functions.hpp"

namespace nb = nanobind;

namespace tranship::bench {
namespace {

using python::EngineFunctions;
using python::EventMemory;
using python::WorkState;
using Clock = std::chrono::steady_clock;

/// The table of the module `tranship._core`, which stays loaded until the process ends.
const EngineFunctions* functions = nullptr;

void load_functions() {
  const nb::object capsule = nb::module_::import_("tranship._core").attr("engine_functions")();
  functions = static_cast<const EngineFunctions*>(
      PyCapsule_GetPointer(capsule.ptr(), python::engine_functions_name));
  if (functions == nullptr) throw nb::python_error();
  if (functions->version != python::engine_functions_version) {
    throw nb::import_error("tranship-bench was built for another version of tranship");
  }
}

/// Raises the error that the last function of the table left on this thread.
[[noreturn]] void raise_last() {
  functions->raise_error();
  throw nb::python_error();
}

void* opened(void* object) {
  if (object == nullptr) throw nb::python_error();
  return object;
}

using Handle = std::unique_ptr<void, void (*)(void*)>;

/// An engine and pairs of arrays, opened for a loop.
class Copies {
 public:
  Copies(nb::handle engine, nb::handle pairs)
      : engine_(opened(functions->open_engine(engine.ptr())), functions->close_engine),
        pairs_(opened(functions->open_pairs(pairs.ptr())), functions->close_pairs) {}
  Copies(nb::handle engine, nb::handle source, nb::handle target)
      : Copies(engine, nb::make_tuple(nb::make_tuple(source, target))) {}

  void* engine() const { return engine_.get(); }
  const void* pairs() const { return pairs_.get(); }
  std::int64_t count() const { return functions->count_pairs(pairs()); }

 private:
  Handle engine_;
  Handle pairs_;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Runs `body` without the interpreter's lock; raises the last error if `body` returns false.
template <typename Body>
void run(const Body& body) {
  const bool well = [&] {
    const nb::gil_scoped_release released;
    return body();
  }();
  if (!well) raise_last();
}

/// Returns the seconds of each of `repeats` copies, each from the call to the end of the copy.
std::vector<double> time_copies(nb::handle engine, nb::handle source, nb::handle target,
                                int repeats) {
  const Copies copies(engine, source, target);
  std::vector<double> seconds;
  run([&] {
    for (int k = 0; k < repeats; ++k) {
      const auto begin = Clock::now();
      if (!functions->copy(copies.engine(), copies.pairs(), 0)) return false;
      seconds.push_back(seconds_since(begin));
    }
    return true;
  });
  return seconds;
}

/// Returns the mean seconds of `count` copies in a row, each waited for: for copies that are too
/// short to be timed alone.
double time_many(nb::handle engine, nb::handle source, nb::handle target, int count) {
  const Copies copies(engine, source, target);
  const auto begin = Clock::now();
  run([&] {
    for (int k = 0; k < count; ++k) {
      if (!functions->copy(copies.engine(), copies.pairs(), 0)) return false;
    }
    return true;
  });
  return seconds_since(begin) / count;
}

/// Events of started copies, which the destructor ends.
class Events {
 public:
  explicit Events(std::size_t count_max) { memory_.reserve(count_max); }
  ~Events() { clear(); }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  /// Keeps the event that `start` makes, if it makes one.
  template <typename Start>
  bool add(const Start& start) {
    const bool started = start(&memory_.emplace_back());
    if (!started) memory_.pop_back();
    return started;
  }
  /// Waits for all events, even after a failure; returns whether none failed.
  bool wait() const {
    bool well = true;
    for (const EventMemory& event : memory_) well = functions->wait(&event) && well;
    return well;
  }
  void clear() {
    for (EventMemory& event : memory_) functions->end_event(&event);
    memory_.clear();
  }

 private:
  std::vector<EventMemory> memory_;  ///< reserved in full: events never move
};

/// Returns the seconds of `count` rounds of copies in all, started together or one by one; the wait
/// for the first begins when all are started.
double time_pairs(nb::handle engine, nb::handle pairs, bool together, int count) {
  const Copies copies(engine, pairs);
  const std::int64_t starts = together ? 1 : copies.count();
  Events events(static_cast<std::size_t>(count * starts));
  const auto begin = Clock::now();
  run([&] {
    bool well = true;
    for (int k = 0; k < count && well; ++k) {
      for (std::int64_t j = 0; j < starts && well; ++j) {
        well = events.add([&](EventMemory* event) {
          return together ? functions->start_all(copies.engine(), copies.pairs(), event)
                          : functions->start_copy(copies.engine(), copies.pairs(), j, event);
        });
      }
    }
    return events.wait() && well;
  });
  return seconds_since(begin);
}

/// Returns the mean seconds of `count` cached plans for the two arrays; the first plan, which fills
/// the cache, is not counted.
double time_plans(nb::handle engine, nb::handle source, nb::handle target, int count) {
  const Copies copies(engine, source, target);
  double seconds = 0.0;
  run([&] {
    if (!functions->plan(copies.engine(), copies.pairs(), 0)) return false;
    const auto begin = Clock::now();
    for (int k = 0; k < count; ++k) {
      if (!functions->plan(copies.engine(), copies.pairs(), 0)) return false;
    }
    seconds = seconds_since(begin) / count;
    return true;
  });
  return seconds;
}

/// Returns the seconds of each of `count` plans, made anew or, if `cached`, found in a cache. Each
/// cached value is the mean of 1000 look-ups, because reading the clock takes as long as one.
std::vector<double> time_planning(nb::handle query, bool cached, int count) {
  void* const opened_query = opened(functions->query_of(query.ptr()));
  const auto ask = cached ? functions->find_query : functions->plan_query;
  const int each = cached ? 1000 : 1;
  std::vector<double> seconds;
  run([&] {
    for (int k = 0; k < count; ++k) {
      const auto begin = Clock::now();
      for (int j = 0; j < each; ++j) {
        if (!ask(opened_query)) return false;
      }
      seconds.push_back(seconds_since(begin) / each);
    }
    return true;
  });
  return seconds;
}

/// Returns the mean seconds of `count` calls of memcpy on one thread.
double time_memcpy(nb::handle source, nb::handle target, int count) {
  const Handle pairs(
      opened(functions->open_pairs(nb::make_tuple(nb::make_tuple(source, target)).ptr())),
      functions->close_pairs);
  const auto memory = functions->memory_of(pairs.get(), 0);
  const auto bytes = static_cast<std::size_t>(memory.bytes);
  // The compiler must neither replace the library's memcpy nor remove a call.
  void* (*volatile library_copy)(void*, const void*, std::size_t) = std::memcpy;
  double seconds = 0.0;
  run([&] {
    const auto begin = Clock::now();
    for (int k = 0; k < count; ++k) {
      library_copy(memory.target, memory.source, bytes);
      asm volatile("" : : "r"(memory.target) : "memory");
    }
    seconds = seconds_since(begin) / count;
    return true;
  });
  return seconds;
}

/// Addresses of source and target, bytes, and the GPU whose stream carries the copy.
using RawCopy = std::tuple<std::uintptr_t, std::uintptr_t, std::int64_t, int>;

Handle open_stream(void* engine, int device) {
  void* const stream = functions->open_stream(engine, device);
  if (stream == nullptr) raise_last();
  return {stream, functions->close_stream};
}

/// Waits for the work before the stream's recorded event. `pause` runs between two polls.
template <typename Pause>
bool wait_for(void* stream, const Pause& pause) {
  while (true) {
    const WorkState state = functions->state(stream);
    if (state != WorkState::running) return state == WorkState::ended;
    pause();
  }
}

/// Starts bare copies of the driver, each in a stream of its own, and waits for all of them.
bool carry(const std::vector<RawCopy>& copies, const std::vector<Handle>& streams) {
  for (std::size_t k = 0; k < copies.size(); ++k) {
    const auto& [source, target, bytes, device] = copies[k];
    void* const stream = streams[k].get();
    const bool started = functions->stream_copy(stream, reinterpret_cast<const std::byte*>(source),
                                                reinterpret_cast<std::byte*>(target), bytes);
    if (!functions->record(stream) || !started) return false;
  }
  for (const Handle& stream : streams) {
    if (!wait_for(stream.get(), [] {})) return false;
  }
  return true;
}

/// Returns the seconds of each of `count` rounds; in a round, all bare copies run at once.
std::vector<double> time_gpu_copies(nb::handle engine, const std::vector<RawCopy>& copies,
                                    int count) {
  const Handle kept(opened(functions->open_engine(engine.ptr())), functions->close_engine);
  std::vector<Handle> streams;
  for (const RawCopy& copy : copies) streams.push_back(open_stream(kept.get(), std::get<3>(copy)));
  std::vector<double> seconds;
  for (int k = 0; k < count; ++k) {
    const auto begin = Clock::now();
    run([&] { return carry(copies, streams); });
    seconds.push_back(seconds_since(begin));
  }
  return seconds;
}

/// Returns the caller's mean seconds to start one copy: of the engine, and of the driver alone. The
/// two take turns; the waits for the ends of the copies are not included.
std::pair<double, double> time_starts(nb::handle engine, nb::handle source, nb::handle target,
                                      int device, int count) {
  constexpr int at_once = 32;  // a full stream makes the caller wait
  const Copies copies(engine, source, target);
  const auto memory = functions->memory_of(copies.pairs(), 0);
  const Handle stream = open_stream(copies.engine(), device);
  double engine_s = 0.0;
  double bare_s = 0.0;
  run([&] {
    Events events(at_once);
    for (int k = 0; k < count; k += at_once) {
      bool well = true;
      auto begin = Clock::now();
      for (int j = 0; j < at_once && well; ++j) {
        well = events.add([&](EventMemory* event) {
          return functions->start_copy(copies.engine(), copies.pairs(), 0, event);
        });
      }
      engine_s += seconds_since(begin);
      if (!events.wait() || !well) return false;
      events.clear();
      begin = Clock::now();
      for (int j = 0; j < at_once && well; ++j) {
        well = functions->stream_copy(stream.get(), memory.source, memory.target, memory.bytes);
      }
      bare_s += seconds_since(begin);
      if (!well || !functions->record(stream.get())) return false;
      if (!wait_for(stream.get(), [] { std::this_thread::yield(); })) return false;
    }
    return true;
  });
  return {engine_s / count, bare_s / count};
}

}  // namespace
}  // namespace tranship::bench

NB_MODULE(_loops, module) {
  using namespace tranship::bench;
  load_functions();
  module.doc() = "Timing loops around calls of the engine, without Python between the calls.";
  module.def("time_copies", &time_copies, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("repeats"));
  module.def("time_many", &time_many, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("count"));
  module.def("time_pairs", &time_pairs, nb::arg("engine"), nb::arg("pairs"), nb::arg("together"),
             nb::arg("count"));
  module.def("time_plans", &time_plans, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("count"));
  module.def("time_planning", &time_planning, nb::arg("query"), nb::arg("cached"),
             nb::arg("count"));
  module.def("time_memcpy", &time_memcpy, nb::arg("source"), nb::arg("target"), nb::arg("count"));
  module.def("time_gpu_copies", &time_gpu_copies, nb::arg("engine"), nb::arg("copies"),
             nb::arg("count"));
  module.def("time_starts", &time_starts, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("device"), nb::arg("count"));
  bind_by_hand(module);
}
