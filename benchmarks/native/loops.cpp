// Timing loops around what the engine is compared with, without Python between the calls.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <tuple>
#include <vector>

#include "by_hand.hpp"
#include "driver_copies.hpp"

namespace nb = nanobind;

namespace tranship::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the mean seconds of `count` calls of memcpy on one thread.
double time_memcpy(std::uintptr_t source, std::uintptr_t target, std::size_t bytes, int count) {
  const nb::gil_scoped_release released;
  // The compiler must neither replace the library's memcpy nor remove a call.
  void* (*volatile library_copy)(void*, const void*, std::size_t) = std::memcpy;
  const auto begin = Clock::now();
  for (int k = 0; k < count; ++k) {
    library_copy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
    asm volatile("" : : "r"(target) : "memory");
  }
  return seconds_since(begin) / count;
}

/// Addresses of source and target, bytes, and the GPU whose stream carries the copy.
using Copy = std::tuple<std::uintptr_t, std::uintptr_t, std::size_t, int>;

std::vector<RawCopy> raw_copies(const std::vector<Copy>& copies) {
  std::vector<RawCopy> raw;
  for (const auto& [source, target, bytes, device] : copies) {
    raw.push_back({source, target, bytes, device});
  }
  return raw;
}

/// Returns the seconds of bare copies of the driver that are all started at once.
double time_gpu_copies(const std::vector<Copy>& copies, bool emulated) {
  const nb::gil_scoped_release released;
  DriverCopies driver(raw_copies(copies), emulated);
  const auto begin = Clock::now();
  driver.start();
  driver.wait();
  return seconds_since(begin);
}

/// Returns the caller's mean seconds to start a bare copy of the driver; the waits for their ends
/// are not included.
double time_gpu_starts(const Copy& copy, bool emulated, int count) {
  constexpr int at_once = 32;  // a full stream makes the caller wait
  const nb::gil_scoped_release released;
  DriverCopies driver(raw_copies({copy}), emulated);
  double seconds = 0.0;
  for (int k = 0; k < count; k += at_once) {
    const auto begin = Clock::now();
    for (int j = 0; j < at_once; ++j) driver.start();
    seconds += seconds_since(begin) / count;
    driver.wait();
  }
  return seconds;
}

}  // namespace
}  // namespace tranship::bench

NB_MODULE(_loops, module) {
  using namespace tranship::bench;
  module.doc() = "Timing loops around what the engine is compared with, without Python.";
  module.def("time_memcpy", &time_memcpy, nb::arg("source"), nb::arg("target"), nb::arg("bytes"),
             nb::arg("count"));
  module.def("time_gpu_copies", &time_gpu_copies, nb::arg("copies"), nb::arg("emulated"));
  module.def("time_gpu_starts", &time_gpu_starts, nb::arg("copy"), nb::arg("emulated"),
             nb::arg("count"));
  bind_by_hand(module);
}
