// The bell on which callers wait for answers.
#pragma once

#include <atomic>
#include <memory>

#include "base/error.hpp"
#include "os/bell.hpp"
#include "os/descriptor.hpp"
#include "os/shared_memory.hpp"

namespace tranship::fabric {

/// The bell that rings whenever a peer's answer arrives or a peer is lost. It lies in memory that
/// exporters on this machine map. A caller that attends to the wire sleeps on descriptor() instead,
/// which ring() makes readable, too. Threads: all, after open().
class AttendedBell {
 public:
  /// @error out_of_memory or io if there is no memory, or no descriptor
  Status open();

  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }
  Bell& bell() const { return *reinterpret_cast<Bell*>(memory_->data()); }
  /// Rings the bell, and wakes the caller that attends to the wire.
  void ring();

  /// Sets whether a caller attends to the wire.
  void set_attended(bool attended) { attended_.store(attended, std::memory_order_seq_cst); }
  int descriptor() const { return wakener_.get(); }
  /// Makes descriptor() unreadable again.
  void drain();

 private:
  std::shared_ptr<SharedMemory> memory_;
  std::atomic<bool> attended_{false};
  FileDescriptor wakener_;
};

/// Returns the error of a process that has too many files open.
Error no_descriptors();

}  // namespace tranship::fabric
