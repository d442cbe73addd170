// Timing loops around what the engine is compared with, without Python between the calls.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "by_hand.hpp"

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

/// Bare copies of the CUDA driver, which is loaded at run time, with a stream for each copy of a
/// round. With emulated GPUs, whose memory is the host's, each copy is a memcpy. Raises
/// std::runtime_error where the driver refuses a call.
class DriverCopies {
 public:
  DriverCopies(const std::vector<Copy>& copies, bool emulated)
      : copies_(copies), emulated_(emulated) {
    if (emulated) return;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error("there is no CUDA driver");
    load(library, "cuInit", init_);
    load(library, "cuDevicePrimaryCtxRetain", retain_);
    load(library, "cuDevicePrimaryCtxRelease_v2", release_);
    load(library, "cuCtxSetCurrent", set_context_);
    load(library, "cuStreamCreate", make_stream_);
    load(library, "cuStreamDestroy_v2", end_stream_);
    load(library, "cuMemcpyAsync", copy_);
    load(library, "cuStreamQuery", query_);
    check(init_(0), "cuInit");
    for (const Copy& copy : copies) open(std::get<3>(copy));
  }
  DriverCopies(const DriverCopies&) = delete;
  DriverCopies& operator=(const DriverCopies&) = delete;
  ~DriverCopies() {
    for (const Opened& opened : streams_) {
      (void)end_stream_(opened.stream);
      (void)release_(opened.device);
    }
  }

  /// Starts all copies.
  void start() {
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      const auto& [source, target, bytes, device] = copies_[k];
      if (emulated_) {
        std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
        continue;
      }
      // One thread may start copies of several GPUs.
      if (streams_.size() > 1) check(set_context_(streams_[k].context), "cuCtxSetCurrent");
      check(copy_(target, source, bytes, streams_[k].stream), "cuMemcpyAsync");
    }
  }

  /// Waits, without sleeping, until the started copies have ended.
  void wait() {
    for (const Opened& opened : streams_) {
      Code code = not_ready;
      while (code == not_ready) code = query_(opened.stream);
      check(code, "a copy");
    }
  }

 private:
  using Code = int;
  using Context = void*;
  using Stream = void*;

  static constexpr Code success = 0;
  static constexpr Code not_ready = 600;
  static constexpr unsigned not_blocking = 1;

  struct Opened {
    Context context = nullptr;
    Stream stream = nullptr;
    int device = 0;
  };

  static void check(Code code, const char* what) {
    if (code == success) return;
    throw std::runtime_error(std::string("CUDA: ") + what + " fails with " + std::to_string(code));
  }

  template <typename Function>
  static void load(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(std::string("the CUDA driver lacks ") + name);
  }

  void open(int device) {
    Opened opened{.device = device};
    check(retain_(&opened.context, device), "cuDevicePrimaryCtxRetain");
    check(set_context_(opened.context), "cuCtxSetCurrent");
    check(make_stream_(&opened.stream, not_blocking), "cuStreamCreate");
    streams_.push_back(opened);
  }

  const std::vector<Copy>& copies_;
  const bool emulated_;
  std::vector<Opened> streams_;
  Code (*init_)(unsigned) = nullptr;
  Code (*retain_)(Context*, int) = nullptr;
  Code (*release_)(int) = nullptr;
  Code (*set_context_)(Context) = nullptr;
  Code (*make_stream_)(Stream*, unsigned) = nullptr;
  Code (*end_stream_)(Stream) = nullptr;
  Code (*copy_)(std::uintptr_t, std::uintptr_t, std::size_t, Stream) = nullptr;
  Code (*query_)(Stream) = nullptr;
};

/// Returns the seconds of bare copies of the driver that are all started at once.
double time_gpu_copies(const std::vector<Copy>& copies, bool emulated) {
  const nb::gil_scoped_release released;
  DriverCopies driver(copies, emulated);
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
  const std::vector<Copy> copies = {copy};
  DriverCopies driver(copies, emulated);
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
