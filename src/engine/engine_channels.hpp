// The channels of an engine: their numbers in the driver, and those of its GPUs.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/array.hpp"
#include "engine/gpu_side.hpp"
#include "engine/recipe/recipe.hpp"
#include "machine/profile.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

/// Finds what carries a channel of the profile. Refers to parts of an engine, which outlive it.
/// Threads: all, after the last add().
class EngineChannels {
 public:
  /// gpus: Null if there are none.
  EngineChannels(const Profile& profile, std::shared_ptr<ThreadDriver> driver, const GpuSide* gpus)
      : profile_(profile), driver_(std::move(driver)), gpus_(gpus) {}

  /// Sets the driver's number of a kind of channels that have no GPU at their ends.
  void add(ChannelKind kind, int number) { numbers_[kind] = number; }

  const Profile& profile() const { return profile_; }
  const GpuSide* gpus() const { return gpus_; }
  ThreadDriver& driver() const { return *driver_; }
  const std::shared_ptr<ThreadDriver>& shared_driver() const { return driver_; }

  const ChannelSpec& spec_of(const Hop& hop) const;
  /// Returns the driver's number of the channel of a kind without a GPU.
  int number_of(ChannelKind kind) const { return numbers_.at(kind); }
  /// Returns the driver's number of a channel. carrier: As of carrier_of().
  int number_of(const ChannelSpec& channel, int carrier = -1) const;
  /// Returns whether a single hop of a GPU carries the copy.
  bool one_gpu_hop(const Plan& plan) const;
  /// Returns the channel of the first hop of a plan, one of a GPU, between two arrays.
  GpuChannel& gpu_channel(const Plan& plan, const Array& source, const Array& target) const;
  /// Returns the last channel of the profile that has a GPU of this process; null if none has.
  const ChannelSpec* any_gpu_channel() const;

  /// Returns what a GPU carries between two arrays in one request.
  static Request request_of(const RecipeStep& step, const Array& source, const Array& target);

  /// Returns, for each channel of the profile, the seconds of work of at least this priority that
  /// is queued; empty if none is.
  std::vector<double> waiting_s(int priority) const;

 private:
  const Profile& profile_;
  std::shared_ptr<ThreadDriver> driver_;
  const GpuSide* gpus_;
  std::map<ChannelKind, int> numbers_;
};

}  // namespace tranship
