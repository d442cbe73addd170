#include "driver_copies.hpp"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace tranship::bench {
namespace {

using Code = int;
using Context = void*;
using Stream = void*;

constexpr Code success = 0;
constexpr Code not_ready = 600;
constexpr unsigned not_blocking = 1;

void check(Code code, const char* what) {
  if (code == success) return;
  throw std::runtime_error(std::string("CUDA: ") + what + " fails with " + std::to_string(code));
}

template <typename Function>
void load(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the CUDA driver lacks ") + name);
}

}  // namespace

/// The functions of the driver that are used here, and the streams.
struct DriverCopies::Driver {
  Code (*init)(unsigned) = nullptr;
  Code (*retain)(Context*, int) = nullptr;
  Code (*release)(int) = nullptr;
  Code (*set_context)(Context) = nullptr;
  Code (*make_stream)(Stream*, unsigned) = nullptr;
  Code (*end_stream)(Stream) = nullptr;
  Code (*copy)(std::uintptr_t, std::uintptr_t, std::size_t, Stream) = nullptr;
  Code (*query)(Stream) = nullptr;

  struct Opened {
    Context context = nullptr;
    Stream stream = nullptr;
    int device = 0;
  };
  std::vector<Opened> streams;

  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error("there is no CUDA driver");
    load(library, "cuInit", init);
    load(library, "cuDevicePrimaryCtxRetain", retain);
    load(library, "cuDevicePrimaryCtxRelease_v2", release);
    load(library, "cuCtxSetCurrent", set_context);
    load(library, "cuStreamCreate", make_stream);
    load(library, "cuStreamDestroy_v2", end_stream);
    load(library, "cuMemcpyAsync", copy);
    load(library, "cuStreamQuery", query);
    check(init(0), "cuInit");
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() {
    for (const Opened& opened : streams) {
      if (opened.stream != nullptr) (void)end_stream(opened.stream);
      (void)release(opened.device);
    }
  }

  void open(int device) {
    Context context = nullptr;
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    Opened& opened = streams.emplace_back(Opened{context, nullptr, device});
    check(set_context(context), "cuCtxSetCurrent");
    check(make_stream(&opened.stream, not_blocking), "cuStreamCreate");
  }
};

DriverCopies::DriverCopies(const std::vector<RawCopy>& copies, bool emulated) : copies_(copies) {
  if (emulated) return;
  driver_ = std::make_unique<Driver>();
  for (const RawCopy& copy : copies_) driver_->open(copy.device);
}

DriverCopies::~DriverCopies() = default;

void DriverCopies::start() {
  for (std::size_t k = 0; k < copies_.size(); ++k) {
    const auto& [source, target, bytes, device] = copies_[k];
    if (driver_ == nullptr) {
      std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
      continue;
    }
    const Driver::Opened& opened = driver_->streams[k];
    // One thread may start copies of several GPUs.
    if (driver_->streams.size() > 1) check(driver_->set_context(opened.context), "cuCtxSetCurrent");
    check(driver_->copy(target, source, bytes, opened.stream), "cuMemcpyAsync");
  }
}

void DriverCopies::wait() {
  if (driver_ == nullptr) return;
  for (const Driver::Opened& opened : driver_->streams) {
    Code code = not_ready;
    while (code == not_ready) code = driver_->query(opened.stream);
    check(code, "a copy");
  }
}

}  // namespace tranship::bench
