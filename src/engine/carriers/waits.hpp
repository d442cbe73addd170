// What one start of a copy waits for: events, the work in a stream, and an interruption.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "engine/copy_options.hpp"
#include "engine/engine_channels.hpp"
#include "engine/lifetime.hpp"

namespace tranship {

/// Refers to the options of a start, and to parts of an engine. Threads: the caller's.
class Waits {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Waits(const EngineChannels& channels, const Lifetime& lifetime, const StartOptions& options)
      : channels_(channels), lifetime_(lifetime), options_(options) {}

  /// Returns whether all events have ended, well or not.
  bool over() const;
  /// Returns whether all events are known to have ended well, without a lock and without asking a
  /// GPU.
  bool over_well() const;
  /// Returns how the events ended, which have all ended.
  Status status() const;
  /// Returns whether the driver has to start the copy: one of the events is a transfer's that has
  /// not ended, which no GPU's stream can wait for. Returns false if the caller named a stream: the
  /// copy must be in that stream before the call returns, and so the call waits for the event.
  bool need_transfer() const;

  /// Returns the GPU events that a stream must wait for. Waits on the caller's thread for the
  /// events that no stream can wait for.
  /// @error how one of those copies failed
  Result<std::vector<GpuEvent>> gpu_events() const;
  /// Returns what a transfer must wait for: the events, and the work in the caller's stream. own:
  /// The GPU of that stream if the options name none; -1: a GPU that the plan goes through.
  Result<std::vector<std::shared_ptr<Completion>>> completions(const Plan& plan, int own) const;

  /// Waits on the caller's thread by `wait`, which gets a time until which to wait.
  /// @error timeout; closed or cancelled if that is so meanwhile; else what `wait` returns
  Status wait(Time end, const std::function<Status(Time)>& wait) const;
  /// Waits until an event has ended. @error as wait(); how the event ended
  Status wait(const Event& event) const;

  /// Returns the caller's stream, which is one of the GPU `device` unless the options name another.
  GpuStream stream(int device) const;

 private:
  const EngineChannels& channels_;
  const Lifetime& lifetime_;
  const StartOptions& options_;
};

}  // namespace tranship
