// The GPUs of an engine: their memories and channels in its profile.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "channels/gpu/gpu_channel.hpp"
#include "channels/gpu_file/gpu_file_channel.hpp"
#include "engine/array.hpp"
#include "gpu/gpu_buffers.hpp"
#include "gpu/ipc_memory.hpp"
#include "gpu/pinning.hpp"
#include "machine/profile.hpp"
#include "runtime/buffer_pool.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

/// Marks the place of an exported array on a GPU: the place's address is the GPU's.
class GpuMemory : public Attachment {
 public:
  explicit GpuMemory(int device) : device_(device) {}
  int device() const { return device_; }

 private:
  int device_;
};

/// Opens GPUs and feeds their channels. Threads: all, after start().
class GpuSide {
 public:
  /// Opens the GPUs that the settings allow. Returns null where there are none.
  /// @error what the driver refused, where GPUs were asked for by emulated_gpus
  static Result<std::unique_ptr<GpuSide>> open(const Config& config);

  /// Adds pinned memory, the GPUs and their channels to a profile that lacks them, without rates.
  void extend(Profile& profile, std::int64_t buffer_bytes_max) const;

  /// Makes a channel for each gpu channel of the profile, and lets the driver feed it.
  Status start(const Profile& profile, ThreadDriver& driver);

  /// Whether a channel of the profile has a GPU at one of its ends.
  bool serves(const ChannelSpec& channel) const;
  /// Returns the driver's number of a channel of the profile, or -1 if it has no GPU at its ends.
  /// Copies between two GPUs are carried by the GPU `carrier` (carrier_of(); -1: by the source's).
  int number_of(const ChannelSpec& channel, int carrier = -1) const;
  /// Whether files reach GPUs without host memory between.
  bool reaches_files() const { return cufile_ != nullptr; }
  GpuChannel& channel(const ChannelSpec& channel, int carrier = -1) const;
  /// Returns the driver's number of a GPU's channel of this kind; -1 if there is none.
  int number_of(ChannelKind kind, int device) const;

  /// Waits until no copy that a caller's thread has started runs any more, or until `deadline`.
  void wait_for_flights(std::chrono::steady_clock::time_point deadline) const;
  /// Releases what copies hold that have ended, such as arrays of other processes.
  void release_ended() const;

  /// Returns how intermediate buffers in a memory are allocated; empty for memories that this
  /// object does not serve.
  BufferSource buffers(const Memory& memory) const;

  /// Returns N for a memory that is named "node0/deviceN"; -1 for any other.
  static int device_of(const Memory& memory);

  /// Finds the memory in which a pointer of this process lies.
  Status resolve(Array& array) const;

  /// The source of device and pinned memory, which is kept for the next use.
  const GpuBuffers& memory() const { return *memory_; }
  /// The pinned ranges of host memory, which the GPUs reach.
  const Pinning& pinning() const { return *pinning_; }

  /// Returns the encoded IPC handle with which another process of this machine opens an array on a
  /// GPU; empty if its kind of memory cannot be opened elsewhere.
  std::string ipc_handle_of(const std::byte* address) const;
  /// Opens another process's array for the GPU that it lies on, or for another GPU if this process
  /// does not see that one.
  /// @error what the driver refused
  Result<std::shared_ptr<IpcMemory>> open_ipc_handle(const std::string& ipc) const;
  /// Maps both ends of a copy between GPUs, of which another process owns at least one, for the GPU
  /// of this process's own array, which then carries the copy. The other GPU is left to its
  /// process: a GPU that two processes use switches between them, which takes some 300 us.
  /// @error why a process is lost, or what the driver refused, if others own both ends
  Status open_for_one(Array& source, Array& target) const;

  /// Returns an event behind the work in a stream of the caller's; null if the stream is being
  /// captured.
  /// @error what the driver refused; unsupported if the profile has no channel of that GPU
  Result<std::shared_ptr<GpuFlight>> event_behind(const GpuStream& stream) const;

  /// Returns the channel that records events in the streams of a GPU; `usual` if there is none.
  GpuChannel& channel_on(int device, GpuChannel& usual) const;

  const std::shared_ptr<Gpus>& gpus() const { return gpus_; }

 private:
  struct Entry {
    ChannelKind kind;
    int device;
    int number;
    std::shared_ptr<GpuChannel> channel;
  };
  explicit GpuSide(std::shared_ptr<Gpus> gpus)
      : gpus_(std::move(gpus)),
        memory_(std::make_unique<GpuBuffers>(gpus_)),
        pinning_(std::make_unique<Pinning>(gpus_)) {}
  /// GPUDirect Storage, if the settings and the system have it.
  Status open_files(const Config& config);
  Status start_files(const ChannelSpec& spec, ThreadDriver& driver);
  int device_at(const ChannelSpec& channel) const;
  const Entry* find(ChannelKind kind, int device) const;
  const Entry* find(const ChannelSpec& channel, int carrier = -1) const;

  std::shared_ptr<Gpus> gpus_;
  std::unique_ptr<GpuBuffers> memory_;
  std::unique_ptr<Pinning> pinning_;
  std::vector<int> devices_;                 ///< by memory of the profile
  std::vector<std::pair<int, int>> joined_;  ///< GPUs, from and to, that a channel joins
  std::vector<Entry> entries_;
  struct FileEntry {
    ChannelKind kind;
    int device;
    int number;
    std::unique_ptr<GpuFileChannel> channel;
  };
  std::shared_ptr<const CuFile> cufile_;  ///< null: files go through pinned memory
  std::vector<FileEntry> file_entries_;
};

}  // namespace tranship
