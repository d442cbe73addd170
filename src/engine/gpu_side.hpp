// The GPUs of an engine: their memories and channels in its profile.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "channels/cuda/cuda_channel.hpp"
#include "engine/array.hpp"
#include "machine/profile.hpp"
#include "runtime/buffer_pool.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

/// Whether the kind of channel is carried by a GPU.
bool on_gpu(ChannelKind kind);

/// Opens GPUs and feeds their channels. Threads: all, after start().
class GpuSide {
 public:
  /// Null without an error where there is no GPU, or none is wanted.
  /// @error what the driver refused, where GPUs were asked for by emulated_gpus
  static Result<std::unique_ptr<GpuSide>> open(const Config& config);

  /// Adds pinned memory, the GPUs and their channels to a profile that lacks them, without rates.
  void extend(Profile& profile, std::int64_t buffer_bytes_max) const;

  /// Makes a channel for each gpu channel of the profile, and lets the driver feed it.
  Status start(const Profile& profile, ThreadDriver& driver);

  /// The driver's number of a channel of the profile; -1 if it is none of ours.
  int number_of(const ChannelSpec& channel) const;
  CudaChannel& channel(const ChannelSpec& channel) const;

  /// What intermediate buffers there are made of; nothing for memory that is not ours.
  BufferSource buffers(const Memory& memory) const;

  /// The number of a "node0/deviceN" memory, or -1.
  static int device_of(const Memory& memory);

  /// Says for pointers of this process in which memory they lie.
  Status resolve(Array& array, bool other_on_gpu) const;

  /// Memory of a GPU or pinned memory, given back with the last reference.
  Result<std::shared_ptr<void>> allocate(Where where, int device, std::int64_t bytes) const;

  const std::shared_ptr<Gpus>& gpus() const { return gpus_; }

 private:
  struct Entry {
    ChannelKind kind;
    int device;
    int number;
    std::shared_ptr<CudaChannel> channel;
  };
  explicit GpuSide(std::shared_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}
  const Entry* find(const ChannelSpec& channel) const;

  std::shared_ptr<Gpus> gpus_;
  std::vector<int> devices_;  ///< by memory of the profile
  std::vector<Entry> entries_;
};

}  // namespace tranship
