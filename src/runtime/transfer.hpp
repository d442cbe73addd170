// A transfer: one copy() on its way. Pure state; the scheduler moves it, drivers run its requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "plan/tile.hpp"
#include "runtime/buffer_pool.hpp"
#include "runtime/channel.hpp"
#include "runtime/event.hpp"

namespace tranship {

/// One hop at run time (Isometry 3.4): issues tiles in order; they may end in any order.
struct Descriptor {
  int channel = 0;             ///< number of the runtime's channel
  std::int64_t next_tile = 0;  ///< first tile not yet issued
  std::int64_t in_flight = 0;  ///< tiles issued and not ended
  std::int64_t ended = 0;
};

/// The slots of one intermediate buffer. Tile t lies in slot t % slots.
struct Ring {
  int slots = 0;
  std::int64_t slot_bytes = 0;
  std::byte* buffer = nullptr;
  std::vector<std::int64_t> filled;  ///< by slot: the tile that lies in it, or -1
  std::vector<std::int64_t> freed;   ///< by slot: the next tile that may be written into it
};

enum class TransferState { waiting, running, draining, ended };

/// Owned by the event and by the scheduler. Only the scheduler changes it, under its lock.
struct Transfer {
  std::shared_ptr<const Plan> plan;
  Place source;
  Place target;
  /// Nests that are moved as they are, as the one tile of a one-hop plan; empty: the plan's tiles.
  std::vector<LoopNest> fixed_nests;
  int priority = 0;
  bool cold = false;
  std::vector<std::shared_ptr<void>> keep_alive;  ///< arrays, files: released at the end
  std::function<Status()> final_check;  ///< what may make a copy void that seemed to succeed

  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::uint64_t age = 0;  ///< order of arrival
  int blockers = 0;       ///< events that it must wait for
  TransferState state = TransferState::waiting;
  std::vector<Descriptor> descriptors;
  std::vector<Ring> rings;
  std::vector<BufferRequest> buffer_requests;
  Status failure;     ///< why it drains
  std::string label;  ///< the path, for errors and traces
};

/// One tile of one hop, handed to a channel.
struct Job {
  std::shared_ptr<Transfer> transfer;
  int hop = 0;
  std::int64_t tile = 0;
  std::int64_t bytes = 0;
};

/// Lowers the job's tile into `nests` (cleared first) and names its two places.
Request prepare(const Job& job, std::vector<LoopNest>& nests);

}  // namespace tranship
