// The arrays of one step at its start, and what keeps their memory until the copy has ended.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "channels/gpu/gpu_channel.hpp"
#include "engine/checks.hpp"
#include "engine/copy_options.hpp"
#include "runtime/transfer.hpp"

namespace tranship {

struct StepEnds {
  const CopyPair& base;           ///< what the step's offsets count from
  std::span<const CopyPair> all;  ///< all arrays that it moves
  std::shared_ptr<void> owner{};  ///< keeps the memory of all; null: the arrays' owners do

  const Array& source() const { return base.source; }
  const Array& target() const { return base.target; }
};

/// Owners and leases of arrays. The owners keep this process's memory allocated, and a lease keeps
/// another process from taking back its array. The end of the copy checks whether those processes
/// are still alive: a copy from the memory of a process that has exited may have read anything.
class Guards {
 public:
  /// @error not_found if an array was withdrawn, or why its process is lost
  static Result<Guards> of(const StepEnds& ends);

  /// Returns whether all arrays are this process's.
  bool all_own() const { return lives_.empty(); }

  /// Hands everything to what carries the copy, until that has ended.
  void give_to(GpuFlight& flight);
  void give_to(Transfer& transfer);

 private:
  Status add(const CopyPair& pair, bool with_owners);
  std::function<Status()> final_check();

  std::array<std::shared_ptr<void>, 3> owners_;  ///< of one pair, or the owner
  Leases held_;
  std::vector<std::shared_ptr<const Liveness>> lives_;
};

}  // namespace tranship
