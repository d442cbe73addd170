// The GPUs of this machine, through the statically linked CUDA runtime. On a machine without a
// driver, open() returns an error, and no other function is called.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "gpu/gpus.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/pitches.hpp"

namespace tranship {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(IpcHandle::handle));

/// Version of the driver functions that are requested: functions of a later version would need a
/// later driver.
constexpr unsigned int driver_interface_version = 12000;

ErrorCode code_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation: return ErrorCode::out_of_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorHostMemoryAlreadyRegistered: return ErrorCode::invalid_argument;
    case cudaErrorNotSupported: return ErrorCode::unsupported;
    case cudaErrorNotPermitted: return ErrorCode::permission;
    default: return ErrorCode::io;
  }
}

std::string text_of(cudaError_t code) {
  return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ")";
}

/// Returns an error for `code`, and clears CUDA's last error, which other code on this thread
/// reads.
Error failure(cudaError_t code, const char* call, int device, const std::string& advice = {}) {
  (void)cudaGetLastError();
  std::string message = std::string(call) + " failed";
  if (device >= 0) message += " on GPU " + std::to_string(device);
  message += ": " + text_of(code) + "; ";
  message += advice.empty()
                 ? "an earlier copy or kernel may have caused it: run the program under "
                   "compute-sanitizer, and look for Xid messages of the driver in the system log"
                 : advice;
  return Error{code_of(code), std::move(message)};
}

/// Fails if CUDA never made what is released. Errors of a failed GPU, or at the end of the process,
/// are ignored.
void check_released(cudaError_t code) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();
  CHECK(code != cudaErrorInvalidValue && code != cudaErrorInvalidResourceHandle &&
            code != cudaErrorHostMemoryNotRegistered,
        "what is given back to CUDA did not come from it");
}

/// Sets the thread's capture mode to relaxed for a scope. While another stream of this process is
/// being captured, CUDA otherwise refuses allocations and queries in all threads.
class DuringCapture {
 public:
  DuringCapture() { exchange(); }
  ~DuringCapture() { exchange(); }
  DuringCapture(const DuringCapture&) = delete;
  DuringCapture& operator=(const DuringCapture&) = delete;

 private:
  void exchange() {
    if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) (void)cudaGetLastError();
  }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Makes `device` current on this thread for a scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    code_ = cudaGetDevice(&before_);
    if (code_ != cudaSuccess || before_ == device) return;
    code_ = cudaSetDevice(device);
    changed_ = code_ == cudaSuccess;
  }
  ~CurrentDevice() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess) (void)cudaGetLastError();
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  cudaError_t code() const { return code_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t code_ = cudaSuccess;
};

/// Runs `call`, which returns a cudaError_t, with `device` current.
template <typename Call>
cudaError_t on(int device, const Call& call) {
  DuringCapture relaxed;
  CurrentDevice current(device);
  return current.code() == cudaSuccess ? call() : current.code();
}

template <typename Call>
Status run(const char* name, int device, const Call& call) {
  const cudaError_t code = on(device, call);
  if (code == cudaSuccess) return {};
  return failure(code, name, device);
}

/// Runs a kernel's launch, or records an event, on the stream's GPU: for these the thread's capture
/// mode does not matter.
template <typename Call>
cudaError_t launch_on(int device, const Call& call) {
  CurrentDevice current(device);
  return current.code() == cudaSuccess ? static_cast<cudaError_t>(call()) : current.code();
}

cudaStream_t handle_of(const GpuStream& stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t handle_of(const GpuEvent& event) { return static_cast<cudaEvent_t>(event.handle); }

bool is_default(const GpuStream& stream) {
  return reinterpret_cast<std::uintptr_t>(stream.handle) <=
         reinterpret_cast<std::uintptr_t>(cudaStreamPerThread);
}

/// Whether a stream is the default stream of its GPU that all threads share, which cannot be
/// captured. The one of a thread can.
bool is_shared_default(const GpuStream& stream) {
  return reinterpret_cast<std::uintptr_t>(stream.handle) <=
         reinterpret_cast<std::uintptr_t>(cudaStreamLegacy);
}

/// Runs `call` for a stream. Copies and events run on the GPU of their stream whatever GPU is
/// current; only the default streams belong to the current GPU.
template <typename Call>
Status run_in(const GpuStream& stream, const char* name, const Call& call) {
  if (is_default(stream)) return run(name, stream.device, call);
  const cudaError_t code = call();
  if (code == cudaSuccess) return {};
  return failure(code, name, stream.device);
}

Status launched(const GpuStream& stream, cudaError_t code) {
  if (code == cudaSuccess) return {};
  return failure(code, "a kernel's launch", stream.device);
}

std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Returns the NUMA node of a PCI device from sysfs; -1 if sysfs has none.
int numa_node_of(std::string bus) {
  for (char& letter : bus) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  std::ifstream file("/sys/bus/pci/devices/" + bus + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

/// Ranges of pinned memory, by their first addresses. Threads: all.
class PinnedRanges {
 public:
  void add(const std::byte* begin, std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    ends_[begin] = begin + bytes;
  }
  void remove(const std::byte* begin) {
    std::lock_guard lock(mutex_);
    ends_.erase(begin);
  }
  /// Returns the bytes from the address to the end of its range; 0 if it lies in none.
  std::int64_t bytes_from(const std::byte* address) const {
    std::shared_lock lock(mutex_);
    const auto after = ends_.upper_bound(address);
    if (after == ends_.begin()) return 0;
    return std::max<std::int64_t>(std::prev(after)->second - address, 0);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, const std::byte*> ends_;
};

class CudaGpus final : public Gpus {
 public:
  /// @error the driver's error
  static Result<std::shared_ptr<Gpus>> open(int count);
  ~CudaGpus() override;

  const std::vector<GpuInfo>& list() const override { return list_; }
  bool emulated() const override { return false; }
  bool peers(int from, int to) const override;
  PointerInfo where(const void* address) const override;

  Result<std::byte*> allocate(int device, std::int64_t bytes) override;
  void release(int device, std::byte* address) override;
  Result<std::byte*> allocate_pinned(std::int64_t bytes) override;
  void release_pinned(std::byte* address) override;
  Status pin(std::byte* address, std::int64_t bytes) override;
  void unpin(std::byte* address) override;
  std::int64_t pinned_bytes_from(const std::byte* address) const override {
    return pinned_.bytes_from(address);
  }

  Status enter(int device) const override;
  Result<GpuStream> make_stream(int device, bool urgent) override;
  void release(const GpuStream& stream) override;
  Result<GpuEvent> make_event(int device) override;
  void release(const GpuEvent& event) override;
  Status record(const GpuEvent& event, const GpuStream& stream) override;
  Result<bool> reached(const GpuEvent& event) override;
  Status wait(const GpuStream& stream, const GpuEvent& event) override;
  bool has_stream(const GpuStream&) const override { return true; }
  bool capturing(const GpuStream& stream) const override;
  std::uint64_t identity(const GpuStream& stream) const override;

  Status copy(const GpuStream& stream, const std::byte* source, std::byte* target,
              std::int64_t bytes) override;
  Status copy(const GpuStream& stream, const std::byte* source, std::byte* target,
              const PitchedCopy& shape) override;
  Status launch(const GpuStream& stream, const gpu::KernelPlan& plan, const gpu::Repeats& repeats,
                const std::byte* source, std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::CastPlan& plan, const std::byte* source,
                std::byte* target) override;
  Status launch(const GpuStream& stream, const Run* pieces, std::int64_t count,
                const std::byte* source, std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::RunTable& table, const std::byte* source,
                std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::PlaceLaunch& places, const std::byte* source,
                std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::NestTable& table, const std::byte* source,
                std::byte* target) override;

  Result<IpcHandle> ipc_handle(const std::byte* address) const override;
  Result<std::byte*> open_ipc_handle(const IpcHandle& ipc, int device) override;
  void close_ipc_handle(std::byte* address) override;

 private:
  /// Identifies an allocation of another process, as opened for one of the GPUs here.
  struct Key {
    std::array<std::byte, 64> handle{};
    std::uint64_t allocation = 0;
    int device = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Opened {
    Key key;
    std::int64_t users = 1;
  };

  CudaGpus() = default;
  Status find_driver_functions();
  Status describe(int device);
  Status join_peers();
  bool known(int device) const { return device >= 0 && device < static_cast<int>(list_.size()); }
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * list_.size() + static_cast<std::size_t>(to);
  }

  std::vector<GpuInfo> list_;
  std::vector<char> peers_;  // indexed by [from][to]
  decltype(&cuMemGetAddressRange) address_range_ = nullptr;
  decltype(&cuPointerGetAttribute) pointer_attribute_ = nullptr;

  PinnedRanges pinned_;  ///< memory that this process pinned: found without a call of the driver
  std::mutex ipc_lock_;
  std::map<Key, std::byte*> opened_;
  std::map<std::byte*, Opened> bases_;
};

template <typename Function>
Status driver_function(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t code = cudaGetDriverEntryPointByVersion(
      name, &address, driver_interface_version, cudaEnableDefault, &found);
#else
  const cudaError_t code = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (code != cudaSuccess) return failure(code, "cudaGetDriverEntryPoint", -1);
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    return Error{ErrorCode::unsupported,
                 std::string("the NVIDIA driver has no ") + name + ": install a newer driver"};
  }
  function = reinterpret_cast<Function>(address);
  return {};
}

Status CudaGpus::find_driver_functions() {
  if (auto status = driver_function("cuMemGetAddressRange", address_range_); !status) return status;
  return driver_function("cuPointerGetAttribute", pointer_attribute_);
}

Status CudaGpus::describe(int device) {
  cudaDeviceProp properties{};
  auto status = run("cudaGetDeviceProperties", device,
                    [&] { return cudaGetDeviceProperties(&properties, device); });
  if (!status) return status;
  char bus[32] = {};
  status = run("cudaDeviceGetPCIBusId", device,
               [&] { return cudaDeviceGetPCIBusId(bus, sizeof bus, device); });
  if (!status) return status;
  GpuInfo info;
  info.name = properties.name;
  info.bus = bus;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.multiprocessors = properties.multiProcessorCount;
  info.numa_node = numa_node_of(info.bus);
  list_.push_back(std::move(info));
  return {};
}

Status CudaGpus::join_peers() {
  const int count = static_cast<int>(list_.size());
  peers_.assign(list_.size() * list_.size(), 0);
  for (int from = 0; from < count; ++from) {
    peers_[pair(from, from)] = 1;
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      int reachable = 0;
      auto status = run("cudaDeviceCanAccessPeer", from,
                        [&] { return cudaDeviceCanAccessPeer(&reachable, from, to); });
      if (!status) return status;
      if (reachable == 0) continue;
      const cudaError_t code = on(from, [&] { return cudaDeviceEnablePeerAccess(to, 0); });
      if (code != cudaSuccess) (void)cudaGetLastError();
      // cudaErrorPeerAccessAlreadyEnabled: another library of the process has enabled the access.
      // After any other error the GPUs are not peers, and the planner uses a path through the host.
      peers_[pair(from, to)] = code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled;
    }
  }
  return {};
}

Result<std::shared_ptr<Gpus>> CudaGpus::open(int count) {
  std::shared_ptr<CudaGpus> gpus(new CudaGpus);
  for (int device = 0; device < count; ++device) {
    if (auto status = gpus->describe(device); !status) return status.error();
    // The first use creates the GPU's context: it happens here, so that a busy or broken GPU gets a
    // clear error message.
    const cudaError_t code = on(device, [] { return cudaFree(nullptr); });
    if (code != cudaSuccess) {
      return failure(code, "the first use", device,
                     "look at nvidia-smi for its state, or hide it by CUDA_VISIBLE_DEVICES");
    }
  }
  if (auto status = gpus->find_driver_functions(); !status) return status.error();
  if (auto status = gpus->join_peers(); !status) return status.error();
  return std::shared_ptr<Gpus>(std::move(gpus));
}

CudaGpus::~CudaGpus() {
  for (const auto& [base, opened] : bases_) {
    check_released(
        on(opened.key.device, [address = base] { return cudaIpcCloseMemHandle(address); }));
  }
}

bool CudaGpus::peers(int from, int to) const {
  return known(from) && known(to) && peers_[pair(from, to)] != 0;
}

PointerInfo CudaGpus::where(const void* address) const {
  if (pinned_.bytes_from(static_cast<const std::byte*>(address)) > 0) {
    return {MemoryKind::pinned, -1};
  }
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  switch (attributes.type) {
    case cudaMemoryTypeHost: return {MemoryKind::pinned, -1};
    case cudaMemoryTypeDevice: return {MemoryKind::device, attributes.device};
    case cudaMemoryTypeManaged: return {MemoryKind::managed, attributes.device};
    default: return {};
  }
}

Result<std::byte*> CudaGpus::allocate(int device, std::int64_t bytes) {
  CHECK(known(device), "a GPU of that number does not exist");
  CHECK(bytes > 0, "an allocation has at least one byte");
  void* address = nullptr;
  std::size_t free_bytes = 0;
  const cudaError_t code = on(device, [&] {
    const cudaError_t allocated = cudaMalloc(&address, size_of(bytes));
    if (allocated == cudaErrorMemoryAllocation) {
      std::size_t total_bytes = 0;
      if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) free_bytes = 0;
    }
    return allocated;
  });
  if (code == cudaSuccess) return static_cast<std::byte*>(address);
  if (code != cudaErrorMemoryAllocation) return failure(code, "cudaMalloc", device);
  return failure(code, "cudaMalloc", device,
                 std::to_string(bytes) + " bytes were asked for and " + std::to_string(free_bytes) +
                     " are free: free arrays on it");
}

void CudaGpus::release(int device, std::byte* address) {
  if (address == nullptr) return;
  check_released(on(device, [&] { return cudaFree(address); }));
}

Result<std::byte*> CudaGpus::allocate_pinned(std::int64_t bytes) {
  CHECK(bytes > 0, "an allocation has at least one byte");
  DuringCapture relaxed;
  void* address = nullptr;
  const cudaError_t code =
      cudaHostAlloc(&address, size_of(bytes), cudaHostAllocPortable | cudaHostAllocMapped);
  if (code == cudaSuccess) {
    pinned_.add(static_cast<std::byte*>(address), bytes);
    return static_cast<std::byte*>(address);
  }
  return failure(
      code, "cudaHostAlloc", -1,
      std::to_string(bytes) + " bytes of pinned memory were asked for: free some memory");
}

void CudaGpus::release_pinned(std::byte* address) {
  if (address == nullptr) return;
  pinned_.remove(address);
  DuringCapture relaxed;
  check_released(cudaFreeHost(address));
}

Status CudaGpus::pin(std::byte* address, std::int64_t bytes) {
  CHECK(bytes > 0, "memory to pin has at least one byte");
  DuringCapture relaxed;
  const cudaError_t code =
      cudaHostRegister(address, size_of(bytes), cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (code == cudaSuccess) {
    pinned_.add(address, bytes);
    return {};
  }
  if (code == cudaErrorHostMemoryAlreadyRegistered) {
    return failure(code, "cudaHostRegister", -1,
                   "this memory is pinned already, or a part of it is: pin it once");
  }
  return failure(code, "cudaHostRegister", -1,
                 std::to_string(bytes) +
                     " bytes could not be pinned: the memory may be read-only "
                     "or a mapped file; copy it into memory of its own");
}

void CudaGpus::unpin(std::byte* address) {
  pinned_.remove(address);
  DuringCapture relaxed;
  check_released(cudaHostUnregister(address));
}

Status CudaGpus::enter(int device) const {
  CHECK(known(device), "a GPU of that number does not exist");
  const cudaError_t code = cudaSetDevice(device);
  if (code == cudaSuccess) return {};
  return failure(code, "cudaSetDevice", device, "the GPU may be in use by another process alone");
}

Result<GpuStream> CudaGpus::make_stream(int device, bool urgent) {
  CHECK(known(device), "a GPU of that number does not exist");
  cudaStream_t stream = nullptr;
  auto status = run("cudaStreamCreateWithPriority", device, [&] {
    int least = 0;
    int greatest = 0;
    const cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (code != cudaSuccess) return code;
    return cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least);
  });
  if (!status) return status.error();
  return GpuStream{device, stream};
}

void CudaGpus::release(const GpuStream& stream) {
  if (stream.handle == nullptr) return;
  check_released(on(stream.device, [&] { return cudaStreamDestroy(handle_of(stream)); }));
}

Result<GpuEvent> CudaGpus::make_event(int device) {
  CHECK(known(device), "a GPU of that number does not exist");
  cudaEvent_t handle = nullptr;
  auto status = run("cudaEventCreateWithFlags", device,
                    [&] { return cudaEventCreateWithFlags(&handle, cudaEventDisableTiming); });
  if (!status) return status.error();
  return GpuEvent{device, handle};
}

void CudaGpus::release(const GpuEvent& event) {
  if (event.handle == nullptr) return;
  check_released(on(event.device, [&] { return cudaEventDestroy(handle_of(event)); }));
}

Status CudaGpus::record(const GpuEvent& event, const GpuStream& stream) {
  CHECK(event.device == stream.device, "an event is recorded on its own GPU");
  if (is_shared_default(stream)) {
    const cudaError_t code = launch_on(
        stream.device, [&] { return cudaEventRecord(handle_of(event), handle_of(stream)); });
    return code == cudaSuccess ? Status{} : failure(code, "cudaEventRecord", stream.device);
  }
  return run_in(stream, "cudaEventRecord",
                [&] { return cudaEventRecord(handle_of(event), handle_of(stream)); });
}

Result<bool> CudaGpus::reached(const GpuEvent& event) {
  DuringCapture relaxed;
  const cudaError_t code = cudaEventQuery(handle_of(event));
  if (code == cudaSuccess) return true;
  if (code != cudaErrorNotReady) return failure(code, "a copy or kernel", event.device);
  (void)cudaGetLastError();
  return false;
}

Status CudaGpus::wait(const GpuStream& stream, const GpuEvent& event) {
  return run("cudaStreamWaitEvent", stream.device,
             [&] { return cudaStreamWaitEvent(handle_of(stream), handle_of(event), 0); });
}

bool CudaGpus::capturing(const GpuStream& stream) const {
  if (is_shared_default(stream)) return false;
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  const auto ask = [&] { return cudaStreamIsCapturing(handle_of(stream), &state); };
  const cudaError_t code = is_default(stream) ? on(stream.device, ask) : ask();
  if (code != cudaSuccess) (void)cudaGetLastError();
  return code == cudaSuccess && state != cudaStreamCaptureStatusNone;
}

/// A handle of a destroyed stream may be given to another one, and the default streams' handles
/// name one stream for each GPU, or for each thread.
std::uint64_t CudaGpus::identity(const GpuStream& stream) const {
  constexpr std::uint64_t shared_default = std::uint64_t{1} << 63;
  if (is_shared_default(stream)) return shared_default + static_cast<std::uint64_t>(stream.device);
  if (is_default(stream)) return 0;
  unsigned long long number = 0;
  if (cudaStreamGetId(handle_of(stream), &number) == cudaSuccess) return number + 1;
  (void)cudaGetLastError();
  return 0;
}

Status CudaGpus::copy(const GpuStream& stream, const std::byte* source, std::byte* target,
                      std::int64_t bytes) {
  CHECK(bytes >= 0, "a copy has a length");
  if (bytes == 0) return {};
  return run_in(stream, "cudaMemcpyAsync", [&] {
    return cudaMemcpyAsync(target, source, size_of(bytes), cudaMemcpyDefault, handle_of(stream));
  });
}

Status CudaGpus::copy(const GpuStream& stream, const std::byte* source, std::byte* target,
                      const PitchedCopy& given) {
  auto plain = plain_pitches(given);
  if (!plain) return plain.error();
  const PitchedCopy shape = *plain;
  if (shape.width_bytes == 0 || shape.rows == 0 || shape.planes == 0) return {};
  const std::size_t width = size_of(shape.width_bytes);
  const std::size_t source_pitch = size_of(shape.source_pitch);
  const std::size_t target_pitch = size_of(shape.target_pitch);
  if (shape.planes == 1 && shape.rows == 1) {
    return copy(stream, source, target, shape.width_bytes);
  }
  if (shape.planes == 1) {
    return run("cudaMemcpy2DAsync", stream.device, [&] {
      return cudaMemcpy2DAsync(target, target_pitch, source, source_pitch, width,
                               size_of(shape.rows), cudaMemcpyDefault, handle_of(stream));
    });
  }
  cudaMemcpy3DParms cuboid{};
  cuboid.srcPtr.ptr = const_cast<std::byte*>(source);
  cuboid.srcPtr.pitch = source_pitch;
  cuboid.srcPtr.xsize = width;
  cuboid.srcPtr.ysize = size_of(shape.source_plane / shape.source_pitch);
  cuboid.dstPtr.ptr = target;
  cuboid.dstPtr.pitch = target_pitch;
  cuboid.dstPtr.xsize = width;
  cuboid.dstPtr.ysize = size_of(shape.target_plane / shape.target_pitch);
  cuboid.extent = {width, size_of(shape.rows), size_of(shape.planes)};
  cuboid.kind = cudaMemcpyDefault;
  return run("cudaMemcpy3DAsync", stream.device,
             [&] { return cudaMemcpy3DAsync(&cuboid, handle_of(stream)); });
}

Status CudaGpus::launch(const GpuStream& stream, const gpu::KernelPlan& plan,
                        const gpu::Repeats& repeats, const std::byte* source, std::byte* target) {
  const cudaError_t code = launch_on(
      stream.device, [&] { return gpu::launch(plan, repeats, source, target, stream.handle); });
  if (code == cudaSuccess) return {};
  Error error = failure(code, "a kernel's launch", stream.device);
  error.message += " (" + gpu::explain(plan) + ")";
  return error;
}

Status CudaGpus::launch(const GpuStream& stream, const gpu::CastPlan& plan, const std::byte* source,
                        std::byte* target) {
  return launched(stream, launch_on(stream.device, [&] {
                    return gpu::launch_cast(plan, source, target, stream.handle);
                  }));
}

Status CudaGpus::launch(const GpuStream& stream, const Run* pieces, std::int64_t count,
                        const std::byte* source, std::byte* target) {
  CHECK(count >= 0, "a list of pieces has a length");
  if (count == 0) return {};
  return launched(stream, launch_on(stream.device, [&] {
                    return gpu::launch_pieces(pieces, count, source, target, stream.handle);
                  }));
}

Status CudaGpus::launch(const GpuStream& stream, const gpu::RunTable& table,
                        const std::byte* source, std::byte* target) {
  return launched(stream, launch_on(stream.device, [&] {
                    return gpu::launch_runs(table, source, target, stream.handle);
                  }));
}

Status CudaGpus::launch(const GpuStream& stream, const gpu::NestTable& table,
                        const std::byte* source, std::byte* target) {
  return launched(stream, launch_on(stream.device, [&] {
                    return gpu::launch_list(table, source, target, stream.handle);
                  }));
}

Status CudaGpus::launch(const GpuStream& stream, const gpu::PlaceLaunch& places,
                        const std::byte* source, std::byte* target) {
  return launched(stream, launch_on(stream.device, [&] {
                    return gpu::launch_places(places, source, target, stream.handle);
                  }));
}

Result<IpcHandle> CudaGpus::ipc_handle(const std::byte* address) const {
  const PointerInfo info = where(address);
  if (info.kind != MemoryKind::device || !known(info.device)) {
    return Error{ErrorCode::invalid_argument,
                 "only memory that this process allocated on a GPU can be offered to others"};
  }
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  unsigned long long identity = 0;
  cudaIpcMemHandle_t handle{};
  CUresult refused = CUDA_SUCCESS;
  const cudaError_t code = on(info.device, [&] {
    refused = address_range_(&base, &bytes, pointer);
    if (refused == CUDA_SUCCESS) {
      refused = pointer_attribute_(&identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
    }
    if (refused != CUDA_SUCCESS) return cudaSuccess;
    return cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(base));
  });
  if (refused != CUDA_SUCCESS) {
    return Error{ErrorCode::io, "the driver does not know the allocation of an address on GPU " +
                                    std::to_string(info.device) + " (CUresult " +
                                    std::to_string(static_cast<int>(refused)) +
                                    "): check that the array still exists"};
  }
  if (code != cudaSuccess) {
    return failure(code, "cudaIpcGetMemHandle", info.device,
                   "only memory of cudaMalloc in this process can be offered to others: copy the "
                   "array into an array of the engine");
  }
  IpcHandle ipc;
  std::memcpy(ipc.handle.data(), &handle, sizeof handle);
  ipc.bus = list_[static_cast<std::size_t>(info.device)].bus;
  ipc.offset_bytes = static_cast<std::int64_t>(pointer - base);
  ipc.allocation = identity;
  return ipc;
}

Result<std::byte*> CudaGpus::open_ipc_handle(const IpcHandle& ipc, int device) {
  CHECK(known(device), "a GPU of that number does not exist");
  const Key key{ipc.handle, ipc.allocation, device};
  std::lock_guard held(ipc_lock_);
  if (const auto found = opened_.find(key); found != opened_.end()) {
    ++bases_.at(found->second).users;
    return found->second + ipc.offset_bytes;
  }
  cudaIpcMemHandle_t handle{};
  std::memcpy(&handle, ipc.handle.data(), sizeof handle);
  void* address = nullptr;
  const cudaError_t code = on(device, [&] {
    return cudaIpcOpenMemHandle(&address, handle, cudaIpcMemLazyEnablePeerAccess);
  });
  if (code != cudaSuccess) {
    return failure(code, "cudaIpcOpenMemHandle", device,
                   "the memory on the GPU at " + ipc.bus +
                       " is of another process, which must be alive and see the same GPUs: "
                       "containers need a common IPC namespace");
  }
  auto* base = static_cast<std::byte*>(address);
  const auto [entry, fresh] = bases_.emplace(base, Opened{key, 1});
  if (fresh) {
    opened_.emplace(key, base);
    return base + ipc.offset_bytes;
  }
  // CUDA counted one mapping twice: for another GPU, or for memory that lay at this address before.
  check_released(on(device, [&] { return cudaIpcCloseMemHandle(address); }));
  if (entry->second.key.allocation != ipc.allocation) {
    return Error{ErrorCode::io,
                 "an array that the other process has freed is still open here, on the GPU at " +
                     ipc.bus + ": close it and try again"};
  }
  ++entry->second.users;
  return base + ipc.offset_bytes;
}

void CudaGpus::close_ipc_handle(std::byte* address) {
  std::lock_guard held(ipc_lock_);
  auto found = bases_.upper_bound(address);
  CHECK(found != bases_.begin(), "no memory of an IPC handle is open at this address");
  --found;
  if (--found->second.users > 0) return;
  const int device = found->second.key.device;
  opened_.erase(found->second.key);
  std::byte* base = found->first;
  bases_.erase(found);
  check_released(on(device, [&] { return cudaIpcCloseMemHandle(base); }));
}

Error why_no_gpus(cudaError_t code) {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  (void)cudaGetLastError();
  if (version == 0) {
    return Error{ErrorCode::unsupported,
                 "no NVIDIA driver on this machine: install one to use its GPUs (in a container, "
                 "start it with access to them)"};
  }
  if (code == cudaErrorInsufficientDriver) {
    return Error{ErrorCode::unsupported,
                 "the NVIDIA driver is for CUDA " + version_text(version) +
                     " and this build needs " + version_text(CUDART_VERSION) +
                     ": install a newer driver, or build with an older CUDA toolkit"};
  }
  if (code == cudaErrorNoDevice || code == cudaSuccess) {
    return Error{ErrorCode::unsupported,
                 "the NVIDIA driver shows no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"};
  }
  return failure(code, "cudaGetDeviceCount", -1,
                 "check that nvidia-smi lists the GPUs and that the driver's parts are of one "
                 "version");
}

}  // namespace

Result<std::shared_ptr<Gpus>> Gpus::open() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) return why_no_gpus(code);
  return CudaGpus::open(count);
}

}  // namespace tranship
