// The thread that drives the sessions of a fabric.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "fabric/sessions/core.hpp"

namespace tranship::fabric {

/// A thread that takes the steps of a core: it polls while messages come, and sleeps otherwise.
/// Owns the thread, and shares the core. Threads: attend() from all.
class ProgressThread {
 public:
  /// spin: How long it polls without a message before it sleeps.
  explicit ProgressThread(std::chrono::microseconds spin) : spin_(spin) {}

  /// @error io if there are no descriptors; out_of_memory if there is no thread
  Status start(std::shared_ptr<FabricCore> core);

  /// Waits until the core's bell rings more than `seen` times. Meanwhile the caller reads messages
  /// from the network itself, instead of being woken by the progress thread, unless another caller
  /// does so already.
  void attend(std::uint32_t seen, std::chrono::nanoseconds at_most);

  /// Closes the core, and ends the thread, in bounded time.
  void end();

 private:
  void run();
  void sleep();
  bool step_for_caller();
  void sleep_as_caller(std::chrono::nanoseconds at_most);

  std::chrono::microseconds spin_;
  std::shared_ptr<FabricCore> core_;
  std::mutex step_mutex_;       ///< Held while a step is taken.
  std::mutex attending_mutex_;  ///< Held by the caller that attends to the wire.
  EventSet attendance_;         ///< That caller sleeps on the wire and the bell's descriptor.
  std::thread thread_;
};

}  // namespace tranship::fabric
