// Calibration, shared memory, links to other processes, and loops without Python's own cost.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/clock.hpp"
#include "bindings.hpp"
#include "calibration/calibrate.hpp"
#include "calibration/kept_profile.hpp"
#include "engine/processes.hpp"

namespace tranship::python {
namespace {

std::shared_ptr<Processes> processes(Engine& engine) {
  return unwrap(run([&] { return engine.processes(); }));
}

/// Ends an export. After Ctrl-C the withdrawal goes on by itself.
void withdraw(Engine& engine, const std::string& name) {
  const auto links = processes(engine);
  const std::function<Result<bool>()> work = [links, name]() -> Result<bool> {
    if (Status status = links->withdraw(name); !status) return status.error();
    return true;
  };
  unwrap(run_apart<bool>(work, [](bool) {}));
}

fabric::PeerId connect(Engine& engine, const std::string& contact, double timeout) {
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  return unwrap(run_apart<fabric::PeerId>(
      [=] { return links->connect(contact, patience); },
      [links](fabric::PeerId unwanted) { (void)links->disconnect(unwanted); }));
}

std::vector<std::string> names(Engine& engine, fabric::PeerId peer, double timeout) {
  using Names = std::vector<std::string>;
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  return unwrap(
      run_apart<Names>([=] { return links->names(peer, patience); }, [](const Names&) {}));
}

Array lookup(Engine& engine, fabric::PeerId peer, const std::string& name, double timeout) {
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  Array array = unwrap(
      run_apart<Array>([=] { return links->lookup(peer, name, patience); }, [](const Array&) {}));
  // Closing an array of another process's GPU may wait for the driver.
  array.owner = ended_without_lock(std::move(array.owner));
  array.liveness = ended_without_lock(std::move(array.liveness));
  return array;
}

/// Runs `body` without the interpreter's lock.
template <typename Body>
auto released(const Body& body) {
  const Released unlocked;
  return body();
}

/// Tells Python how far a calibration is; empty if it does not want to know.
std::function<void(double, const std::string&)> progress_to(const nb::object& report) {
  if (report.is_none()) return {};
  return [&report](double share, const std::string& what) {
    const Acquired held;
    if (held) report(share, what);
  };
}

std::string calibrate_json(const std::optional<std::string>& folder, std::int64_t sample_bytes,
                           bool processes, const nb::object& progress,
                           const std::map<std::string, std::string>& overrides) {
  CalibrationOptions options;
  options.config = config_with(overrides);
  options.folder = folder.value_or(options.config.temporary_folder);
  options.sample_bytes = sample_bytes;
  options.processes = processes;
  options.progress = progress_to(progress);
  auto profile = released([&] { return calibrate(options); });
  return unwrap(std::move(profile)).to_json();
}

void bind_calibration(nb::module_& module) {
  module.def("calibrate", &calibrate_json, nb::arg("folder").none(), nb::arg("sample_bytes"),
             nb::arg("processes"), nb::arg("progress").none(), nb::arg("overrides"));
  module.def(
      "profile_path",
      [](const std::map<std::string, std::string>& overrides) {
        return profile_path(config_with(overrides));
      },
      nb::arg("overrides"));
  module.def(
      "save_profile",
      [](const std::string& profile, const std::string& path) {
        return save_profile(profile, path).ok();
      },
      nb::arg("profile"), nb::arg("path"));
  module.def(
      "profile_of_this_machine",
      [](const nb::object& progress, const std::map<std::string, std::string>& overrides) {
        const Config config = config_with(overrides);
        const auto report = progress_to(progress);
        auto profile = released([&] { return profile_of_this_machine(config, report); });
        return unwrap(std::move(profile)).to_json();
      },
      nb::arg("progress").none(), nb::arg("overrides"));
}

/// Seconds of each of `repeats` copies, waited for; the engine's own cost, not Python's.
std::vector<double> time_copies(Engine& engine, nb::handle source, nb::handle target, int repeats) {
  const Array from = array_of(source, false);
  const Array to = array_of(target, true);
  std::vector<double> seconds;
  Status failure;
  released([&] {
    for (int k = 0; k < repeats && failure; ++k) {
      const auto begin = std::chrono::steady_clock::now();
      auto event = engine.copy(from, to, {});
      failure = event ? event->wait(std::chrono::seconds(60)) : Status(event.error());
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return 0;
  });
  unwrap(failure);
  return seconds;
}

/// Seconds for each of `count` copies in a row, waited for one by one: for what is too short to
/// be timed alone.
double time_many(Engine& engine, nb::handle source, nb::handle target, int count) {
  const Array from = array_of(source, false);
  const Array to = array_of(target, true);
  Status failure;
  const auto begin = std::chrono::steady_clock::now();
  released([&] {
    for (int k = 0; k < count && failure; ++k) {
      auto event = engine.copy(from, to, {});
      failure = event ? event->wait(std::chrono::seconds(60)) : Status(event.error());
    }
    return 0;
  });
  unwrap(failure);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
}

/// Seconds for `count` rounds of copies, `together` or one by one, all begun before the first is
/// waited for.
double time_pairs(Engine& engine, const Pairs& given, bool together, int count) {
  std::vector<CopyPair> pairs;
  for (nb::handle pair : given) pairs.push_back(pair_of(pair));
  std::vector<Event> events;
  Status failure;
  const auto keep = [&](Result<Event> event) {
    if (event) {
      events.push_back(std::move(*event));
    } else if (failure) {
      failure = event.error();
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  released([&] {
    for (int k = 0; k < count; ++k) {
      if (together) keep(engine.copy_all(pairs, {}));
      for (const CopyPair& pair : pairs) {
        if (!together) keep(engine.copy(pair.source, pair.target, {}));
      }
    }
    for (const Event& event : events) {
      if (Status status = event.wait(std::chrono::seconds(60)); failure) failure = status;
    }
    return 0;
  });
  unwrap(failure);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds for each plan of the two arrays, all but the first from the cache.
double time_plans(Engine& engine, nb::handle source, nb::handle target, int count) {
  const Array from = array_of(source, false);
  const Array to = array_of(target, true);
  Status failure;
  const auto begin = released([&] {
    if (auto first = engine.plan(from, to, {}); !first) failure = first.error();
    const auto after_first = std::chrono::steady_clock::now();
    for (int k = 0; k < count && failure; ++k) {
      if (auto plan = engine.plan(from, to, {}); !plan) failure = plan.error();
    }
    return after_first;
  });
  unwrap(failure);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
}

/// Seconds for each of `count` memcpy calls on one thread.
double time_memcpy(nb::handle source, nb::handle target, int count) {
  const Array from = array_of(source, false);
  const Array to = array_of(target, true);
  const auto bytes = static_cast<std::size_t>(from.view.bytes());
  // The library's own memcpy: through a pointer that the compiler cannot see through.
  void* (*volatile library_copy)(void*, const void*, std::size_t) = std::memcpy;
  return released([&] {
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < count; ++k) {
      library_copy(to.place.address, from.place.address, bytes);
      asm volatile("" : : "r"(to.place.address) : "memory");
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
  });
}

void bind_shared_memory(nb::module_& module) {
  nb::class_<SharedMemory>(module, "SharedMemory")
      .def_prop_ro("bytes", &SharedMemory::bytes)
      .def_prop_ro("address", [](const SharedMemory& memory) {
        return reinterpret_cast<std::uintptr_t>(memory.data());
      });
  nb::class_<fabric::PeerId>(module, "PeerId");
  module.def(
      "allocate_shared",
      [](Engine& engine, std::int64_t bytes) {
        return unwrap(released([&] { return engine.allocate_shared(bytes); }));
      },
      nb::arg("engine"), nb::arg("bytes"));
}

/// Addresses of source and target, bytes, and the GPU whose stream carries it.
using RawCopy = std::tuple<std::uintptr_t, std::uintptr_t, std::int64_t, int>;

/// Streams and marks of bare copies; given back at the end.
class RawCopies {
 public:
  RawCopies(std::shared_ptr<Gpus> gpus, const std::vector<RawCopy>& copies)
      : gpus_(std::move(gpus)), copies_(copies) {}
  ~RawCopies() {
    for (const GpuMark& mark : marks_) gpus_->release(mark);
    for (const GpuStream& stream : streams_) gpus_->release(stream);
  }

  Status prepare() {
    for (const RawCopy& copy : copies_) {
      auto stream = gpus_->make_stream(std::get<3>(copy), false);
      if (!stream) return stream.error();
      streams_.push_back(*stream);
      auto mark = gpus_->make_mark(std::get<3>(copy));
      if (!mark) return mark.error();
      marks_.push_back(*mark);
    }
    return {};
  }

  Status run() {
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      const auto& [source, target, bytes, device] = copies_[k];
      Status status = gpus_->copy(streams_[k], reinterpret_cast<const std::byte*>(source),
                                  reinterpret_cast<std::byte*>(target), bytes);
      if (Status recorded = gpus_->record(marks_[k], streams_[k]); status) status = recorded;
      if (!status) return status;
    }
    for (const GpuMark& mark : marks_) {
      while (true) {
        auto reached = gpus_->reached(mark);
        if (!reached) return reached.error();
        if (*reached) break;
      }
    }
    return {};
  }

 private:
  std::shared_ptr<Gpus> gpus_;
  const std::vector<RawCopy>& copies_;
  std::vector<GpuStream> streams_;
  std::vector<GpuMark> marks_;
};

/// Seconds of each repetition of bare copies of the driver, all at once: what the engine's are
/// measured by.
std::vector<double> time_gpu_copies(const Engine& engine, const std::vector<RawCopy>& copies,
                                    int count) {
  if (!engine.gpus()) {
    raise({ErrorCode::unsupported, "there is no GPU here: see tranship topology"});
  }
  RawCopies raw(engine.gpus(), copies);
  unwrap(raw.prepare());
  SteadyClock clock;
  std::vector<double> seconds;
  for (int k = 0; k < count; ++k) {
    const std::int64_t begin = clock.now_ns();
    unwrap(released([&] { return raw.run(); }));
    seconds.push_back(static_cast<double>(clock.now_ns() - begin) * 1e-9);
  }
  return seconds;
}

/// Seconds that a start of one copy takes the caller, of the engine and of the driver alone, in
/// turns; the ends are not waited for within the time.
std::pair<double, double> time_starts(Engine& engine, nb::handle source, nb::handle target,
                                      int device, int count) {
  const Array from = array_of(source, false);
  const Array to = array_of(target, true);
  const auto gpus = engine.gpus();
  if (!gpus) raise({ErrorCode::unsupported, "there is no GPU here: see tranship topology"});
  const GpuStream stream = unwrap(gpus->make_stream(device, false));
  const GpuMark mark = unwrap(gpus->make_mark(device));
  constexpr int at_once = 32;  // a stream that is full makes the caller wait
  SteadyClock clock;
  std::int64_t engine_ns = 0;
  std::int64_t bare_ns = 0;
  Status failure;
  std::vector<Event> events;
  events.reserve(at_once);
  for (int k = 0; k < count && failure; k += at_once) {
    std::int64_t begin = clock.now_ns();
    for (int j = 0; j < at_once && failure; ++j) {
      auto event = engine.copy(from, to, {});
      failure = event ? Status{} : Status(event.error());
      if (event) events.push_back(std::move(*event));
    }
    engine_ns += clock.now_ns() - begin;
    for (const Event& event : events) failure = failure ? event.wait({}) : failure;
    events.clear();
    begin = clock.now_ns();
    for (int j = 0; j < at_once && failure; ++j) {
      failure = gpus->copy(stream, from.place.address, to.place.address, from.view.bytes());
    }
    bare_ns += clock.now_ns() - begin;
    if (failure) failure = gpus->record(mark, stream);
    for (auto done = gpus->reached(mark); failure && done && !*done; done = gpus->reached(mark)) {
      std::this_thread::yield();
    }
  }
  gpus->release(mark);
  gpus->release(stream);
  unwrap(failure);
  return {static_cast<double>(engine_ns) * 1e-9 / count,
          static_cast<double>(bare_ns) * 1e-9 / count};
}

}  // namespace

void bind_measuring(nb::module_& module) {
  bind_calibration(module);
  bind_shared_memory(module);
  module.def("time_gpu_copies", &time_gpu_copies, nb::arg("engine"), nb::arg("copies"),
             nb::arg("count"));
  module.def("time_starts", &time_starts, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("device"), nb::arg("count"));
  module.def("time_copies", &time_copies, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("repeats"));
  module.def("time_many", &time_many, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("count"));
  module.def("time_pairs", &time_pairs, nb::arg("engine"), nb::arg("pairs"), nb::arg("together"),
             nb::arg("count"));
  module.def("time_plans", &time_plans, nb::arg("engine"), nb::arg("source"), nb::arg("target"),
             nb::arg("count"));
  module.def("time_memcpy", &time_memcpy, nb::arg("source"), nb::arg("target"), nb::arg("count"));
  module.def(
      "contact", [](Engine& engine) { return processes(engine)->contact(); }, nb::arg("engine"));
  module.def(
      "export_array",
      [](Engine& engine, const std::string& name, nb::handle array) {
        const auto links = processes(engine);
        const Array exported = array_of(array, false);
        unwrap(released([&] { return links->export_array(name, exported); }));
      },
      nb::arg("engine"), nb::arg("name"), nb::arg("array"));
  module.def("withdraw", &withdraw, nb::arg("engine"), nb::arg("name"));
  module.def("connect", &connect, nb::arg("engine"), nb::arg("contact"), nb::arg("timeout"));
  module.def(
      "disconnect",
      [](Engine& engine, fabric::PeerId peer) {
        const auto links = processes(engine);
        unwrap(released([&] { return links->disconnect(peer); }));
      },
      nb::arg("engine"), nb::arg("peer"));
  module.def(
      "describe_peer",
      [](Engine& engine, fabric::PeerId peer) {
        const auto links = processes(engine);
        return released([&] { return links->describe_peer(peer); });
      },
      nb::arg("engine"), nb::arg("peer"));
  module.def("names", &names, nb::arg("engine"), nb::arg("peer"), nb::arg("timeout"));
  module.def("lookup", &lookup, nb::arg("engine"), nb::arg("peer"), nb::arg("name"),
             nb::arg("timeout"));
}

}  // namespace tranship::python
