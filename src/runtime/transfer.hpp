// A transfer: one copy() on its way. Pure state; the scheduler moves it, drivers run its requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "plan/tile.hpp"
#include "runtime/buffer_queue.hpp"
#include "runtime/channel.hpp"
#include "runtime/completion.hpp"

namespace tranship {

/// One hop at run time (Isometry 3.4). The first hop of a lane takes the transfer's next tile; the
/// tiles that it took are the lane's sequence, which the other hops follow. Tiles may end in any
/// order. The maker of a transfer sets `channel` and may set `in_flight_max` and `streams`; the
/// scheduler sets the rest.
struct Descriptor {
  int channel = 0;             ///< number of the runtime's channel
  int lane = 0;                ///< index into the plan's lanes
  std::int64_t issued = 0;     ///< tiles issued: the next one's number in the lane's sequence
  std::int64_t in_flight = 0;  ///< tiles issued and not ended
  /// Most tiles that are in flight at a time; 0: as many as the channel takes.
  int in_flight_max = 0;
  bool streams = false;  ///< writes past the caches, since a bus reads its output next
  std::int64_t ended = 0;
  int buffer_memory =
      -1;              ///< the pool's memory in which its output ring lies; -1: as the plan says
  int input = -1;      ///< index of the ring that it reads; -1: it reads the source
  int output = -1;     ///< index of the ring that it fills; -1: it writes the target
  bool ready = false;  ///< it is in its channel's heap of ready descriptors
};

/// A tile's place in an intermediate buffer.
struct Slot {
  std::int64_t filled = -1;  ///< number, in the lane, of the tile that lies in it
  std::int64_t freed = 0;    ///< number of the next tile that may be written into it
  std::int64_t tile = 0;     ///< which of the transfer's tiles lies in it
};

/// One intermediate buffer. The tile with number s of the lane lies in slot s % slots of the plan.
struct Ring {
  std::int64_t slot_bytes = 0;
  std::byte* buffer = nullptr;
};

enum class TransferState { waiting, running, draining, ended };

/// Owned by the event and by the scheduler. Only the scheduler changes it, under its lock.
struct Transfer : BufferWaiter, std::enable_shared_from_this<Transfer> {
  std::shared_ptr<const Plan> plan;
  Place source;
  Place target;
  /// Nests that are moved as they are, as the one tile of a one-hop plan; empty: the plan's tiles,
  /// or nothing if the hop has no mappings.
  std::vector<LoopNest> fixed_nests;
  /// What the plan moves, tile by tile, in place of its box; null: the box. Between two hops a tile
  /// lies densely in its buffer.
  std::shared_ptr<const IndexedCopy> indexed;
  bool cold = false;
  std::vector<std::shared_ptr<void>> keep_alive;  ///< arrays, files: released at the end
  std::function<Status()> final_check;  ///< asked at the end; its error makes the copy fail

  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  int blockers = 0;  ///< events that it must wait for
  TransferState state = TransferState::waiting;
  std::int64_t tiles_begun = 0;  ///< the number of the next tile that a lane takes
  std::int64_t tiles_ended = 0;  ///< tiles that have passed the last hop of their lane
  std::int64_t bytes_ended = 0;  ///< of those tiles; any thread may read it, by std::atomic_ref
  std::vector<Descriptor> descriptors;
  std::vector<Ring> rings;
  std::vector<Slot> slots;  ///< ring after ring
  std::size_t place = 0;    ///< in the scheduler's list
  bool even = false;        ///< all tiles have the full size
  Status failure;           ///< why it drains
  std::string label;        ///< the path, for errors and traces

  Slot& slot(int ring, std::int64_t sequence) { return slots[slot_index(ring, sequence)]; }
  const Slot& slot(int ring, std::int64_t sequence) const {
    return slots[slot_index(ring, sequence)];
  }

  /// Returns whether there are tiles that the descriptor has still to issue, now or later.
  bool tiles_left(const Descriptor& descriptor) const;

  /// Returns whether the next tile should go by this lane. Towards the end it should not, if the
  /// tiles that the lane has begun keep it busy for longer than the others need for all that is
  /// left.
  bool wants_tile(int lane) const;

 private:
  std::size_t slot_index(int ring, std::int64_t sequence) const {
    return static_cast<std::size_t>(ring * plan->slots + sequence % plan->slots);
  }
};

/// One tile of one hop, handed to a channel.
struct Job {
  std::shared_ptr<Transfer> transfer;
  int hop = 0;
  std::int64_t sequence = 0;  ///< its number in the lane: says in which slots it lies
  std::int64_t tile = 0;      ///< its number in the transfer: says which box it is
  std::int64_t bytes = 0;
};

/// The nests of a request, kept from request to request so that none allocates.
struct RequestNests {
  std::vector<LoopNest> plain;
  std::vector<IndexedNest> indexed;
  std::vector<IndexedEntry> entries;
};

/// Lowers the job's tile into `nests` (cleared first) and names its two places. Indexed nests are
/// expanded unless the channel carries them, as its capabilities say.
Request prepare(const Job& job, const Capabilities& channel, RequestNests& nests);

/// Returns a request with sizes alone, without nests and places, for channels that move nothing.
Request outline(const Job& job);

}  // namespace tranship
