// The GPUs of this machine, as the channels use them. One implementation calls CUDA; the other
// keeps its "device memory" in host memory, so that the code above is tested without a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/kernels/cast_plan.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/nest_list.hpp"
#include "gpu/kernels/place_list.hpp"
#include "gpu/kernels/repeated_nest.hpp"
#include "gpu/kernels/run_table.hpp"
#include "machine/memory_kind.hpp"

namespace tranship {

struct PointerInfo {
  MemoryKind kind = MemoryKind::host;
  int device = -1;  ///< for device and managed memory
};

struct GpuInfo {
  std::string name;  ///< name from the driver, such as "NVIDIA H200"
  std::string bus;   ///< PCI address
  std::int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int numa_node = -1;  ///< -1: unknown
};

/// A queue of work on one GPU. Does not own the CUDA stream.
struct GpuStream {
  int device = 0;
  void* handle = nullptr;  ///< cudaStream_t
};

/// A CUDA event, which marks the work that was in a stream when the event was recorded. Does not
/// own the CUDA event.
struct GpuEvent {
  int device = 0;
  void* handle = nullptr;  ///< cudaEvent_t
};

/// Handle with which another process of this machine opens an allocation of this one (CUDA IPC).
struct IpcHandle {
  std::array<std::byte, 64> handle{};  ///< cudaIpcMemHandle_t
  std::string bus;  ///< PCI address of the GPU, since GPU numbers differ between processes
  std::int64_t offset_bytes = 0;  ///< from the allocation's base to the address
  std::uint64_t allocation = 0;   ///< distinguishes allocations at one address
};

/// Shape of a copy engine's 2-D or 3-D copy: rows of bytes in planes. Strides in bytes.
struct PitchedCopy {
  std::int64_t width_bytes = 0;
  std::int64_t rows = 1;
  std::int64_t planes = 1;
  std::int64_t source_pitch = 0;
  std::int64_t target_pitch = 0;
  std::int64_t source_plane = 0;  ///< a multiple of source_pitch
  std::int64_t target_plane = 0;
};

/// How emulated GPUs pin memory, for tests.
struct EmulatedPinning {
  std::int64_t bytes_per_second = -1;  ///< 0: they refuse to; -1: at once
};

/// Streams of emulated GPUs that stand for those of other libraries, in tests of the order of
/// copies. Work in a held stream, and work that waits for it, runs when let_go() is called; that of
/// a captured stream when its graph is called.
/// Threads: all.
class EmulatedStreams {
 public:
  virtual ~EmulatedStreams() = default;
  /// Returns a new stream, which is held. Gpus::release() gives it back.
  virtual Result<GpuStream> make_held_stream(int device) = 0;
  virtual void hold(const GpuStream& stream) = 0;
  /// Runs the work in the stream, and the work that waited for it, on the calling thread.
  virtual void let_go(const GpuStream& stream) = 0;
  /// Begins a capture of the stream: from now on its work becomes a part of a graph, and does not
  /// run. A stream that is captured waits for no event that is outstanding.
  virtual void begin_capture(const GpuStream& stream) = 0;
  /// Ends the capture. Returns the graph, which runs its work on the calling thread.
  virtual std::function<void()> end_capture(const GpuStream& stream) = 0;
  /// Puts a kernel into the stream that sets bytes.
  virtual Status fill(const GpuStream& stream, std::byte* target, std::int64_t bytes,
                      std::byte value) = 0;
};

/// Memory, streams, events, copies and kernel launches of all GPUs. No call waits for work in a
/// stream, except release() and close_ipc_handle(), where CUDA may wait. Every call but enter()
/// leaves the calling thread's current device as it was. Threads: all.
class Gpus {
 public:
  virtual ~Gpus() = default;

  /// Opens the GPUs of this machine.
  /// @error unsupported, with the reason, if there are none that can be used
  static Result<std::shared_ptr<Gpus>> open();
  /// Makes `count` emulated GPUs, whose memory is the host's: for tests and trials.
  static std::shared_ptr<Gpus> emulate(int count, EmulatedPinning pinning = {});

  virtual const std::vector<GpuInfo>& list() const = 0;
  virtual bool emulated() const = 0;
  /// Returns whether kernels and copies on `from` can access the memory of `to` directly.
  virtual bool peers(int from, int to) const = 0;

  /// Makes the GPU the calling thread's current one, for libraries that ask CUDA for it.
  virtual Status enter(int device) const = 0;

  virtual PointerInfo where(const void* address) const = 0;

  virtual Result<std::byte*> allocate(int device, std::int64_t bytes) = 0;
  virtual void release(int device, std::byte* address) = 0;
  virtual Result<std::byte*> allocate_pinned(std::int64_t bytes) = 0;
  virtual void release_pinned(std::byte* address) = 0;
  /// Makes whole pages of pageable memory pinned, for every GPU.
  virtual Status pin(std::byte* address, std::int64_t bytes) = 0;
  virtual void unpin(std::byte* address) = 0;
  /// Returns how many bytes from an address on lie in the same range that this object pinned or
  /// allocated as pinned memory; 0: in none. No command of a copy engine leaves such a range.
  virtual std::int64_t pinned_bytes_from(const std::byte* address) const = 0;

  /// Makes a stream. urgent: Its work overtakes that of other streams where the hardware allows it.
  virtual Result<GpuStream> make_stream(int device, bool urgent) = 0;
  virtual void release(const GpuStream& stream) = 0;
  virtual Result<GpuEvent> make_event(int device) = 0;
  virtual void release(const GpuEvent& event) = 0;
  virtual Status record(const GpuEvent& event, const GpuStream& stream) = 0;
  /// Returns whether the work before the event has ended.
  /// @error the error with which that work failed
  virtual Result<bool> reached(const GpuEvent& event) = 0;
  /// Makes later work of `stream` start after the event.
  virtual Status wait(const GpuStream& stream, const GpuEvent& event) = 0;
  /// Returns whether the stream can be one of this machine's: false if it is known that it is not.
  virtual bool has_stream(const GpuStream& stream) const = 0;
  virtual bool capturing(const GpuStream& stream) const = 0;
  /// Returns a number that no other stream of the process ever has; 0: unknown.
  virtual std::uint64_t identity(const GpuStream& stream) const = 0;

  virtual Status copy(const GpuStream& stream, const std::byte* source, std::byte* target,
                      std::int64_t bytes) = 0;
  virtual Status copy(const GpuStream& stream, const std::byte* source, std::byte* target,
                      const PitchedCopy& shape) = 0;
  /// Launches a kernel for one nest, or for several of its shape. Their origins lie in memory that
  /// the GPU can read, and stay valid until the kernel has ended.
  virtual Status launch(const GpuStream& stream, const gpu::KernelPlan& plan,
                        const gpu::Repeats& repeats, const std::byte* source,
                        std::byte* target) = 0;
  /// Launches a kernel that converts numbers.
  virtual Status launch(const GpuStream& stream, const gpu::CastPlan& plan, const std::byte* source,
                        std::byte* target) = 0;
  /// Launches a kernel for a list of pieces. `pieces` lies in pinned memory and stays valid until
  /// the kernel has ended.
  virtual Status launch(const GpuStream& stream, const Run* pieces, std::int64_t count,
                        const std::byte* source, std::byte* target) = 0;
  /// Launches a kernel for runs. Their table lies in memory that the GPU can read,
  /// and stays valid until the kernel has ended.
  virtual Status launch(const GpuStream& stream, const gpu::RunTable& table,
                        const std::byte* source, std::byte* target) = 0;
  /// Launches a kernel for lists of places. Their table lies in memory that the GPU can read, and
  /// stays valid until the kernel has ended.
  virtual Status launch(const GpuStream& stream, const gpu::PlaceLaunch& places,
                        const std::byte* source, std::byte* target) = 0;
  /// Launches a kernel for a list of nests. The table lies in memory that the GPU can read, and
  /// stays valid until the kernel has ended.
  virtual Status launch(const GpuStream& stream, const gpu::NestTable& table,
                        const std::byte* source, std::byte* target) = 0;

  virtual Result<IpcHandle> ipc_handle(const std::byte* address) const = 0;
  /// Returns the address of the memory in this process. An allocation is opened once, however many
  /// handles refer to it.
  virtual Result<std::byte*> open_ipc_handle(const IpcHandle& ipc, int device) = 0;
  virtual void close_ipc_handle(std::byte* address) = 0;
};

}  // namespace tranship
