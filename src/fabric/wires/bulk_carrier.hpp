// The interface of carriers, which move bulk bytes between processes outside the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/indexed_nest.hpp"
#include "data/loop_nest.hpp"
#include "fabric/messages/command.hpp"
#include "fabric/messages/protocol.hpp"

namespace tranship::fabric {

/// Copies between memory of this process and memory that a peer has registered, without the peer's
/// help (RDMA). Nothing listens: addresses and keys travel in the messages of an authenticated
/// connection. A process that has granted a key revokes it before the memory has another use.
/// Threads: all. The objects that a carrier returns keep it alive.
class BulkCarrier {
 public:
  /// Memory of this process that peers with its key may access until this object ends. If the bytes
  /// go through a card, the card refuses the key from then on; on one machine a process that was
  /// stopped in the middle of a copy is kept out by its lease (fences.hpp).
  class Registration {
   public:
    virtual ~Registration() = default;
    virtual const std::vector<std::byte>& key() const = 0;
  };

  /// A copy between local and registered memory.
  struct Movement {
    std::span<const LoopNest> nests;
    std::span<const IndexedNest> lists;  ///< of runs, moved in addition
    std::byte* local = nullptr;
    Operation operation = Operation::write;
  };

  /// Registered memory of a peer.
  class Memory {
   public:
    virtual ~Memory() = default;
    /// Copies, and returns when the copy no longer accesses either memory: also after a failure, or
    /// after `stop` has returned true, which ends the copy early.
    /// @error cancelled if it was stopped; io if the carrier fails, which then no longer serves
    ///        this peer
    virtual Status move(const Movement& movement, const std::function<bool()>& stop) = 0;
  };

  /// A process that this carrier can reach.
  class Peer {
   public:
    virtual ~Peer() = default;
    /// Opens registered memory of the peer.
    /// @error io if the carrier refuses the key
    virtual Result<std::shared_ptr<Memory>> open(std::span<const std::byte> key,
                                                 std::uint64_t address) = 0;
  };

  virtual ~BulkCarrier() = default;

  /// Returns the kind of carrier, for messages. Only carriers of the same kind can communicate.
  virtual const std::string& kind() const = 0;
  /// Returns whether the carrier serves peers on this machine (`local`), or peers on others.
  virtual bool serves(bool local) const = 0;
  virtual const std::vector<std::byte>& address() const = 0;
  /// Registers memory of this process.
  /// @error io if the carrier cannot reach that memory
  virtual Result<std::unique_ptr<Registration>> register_memory(std::byte* address,
                                                                std::int64_t bytes) = 0;
  /// Connects to a peer's carrier.
  /// @error io if the peer cannot be reached
  virtual Result<std::shared_ptr<Peer>> connect(std::span<const std::byte> address) = 0;
  /// Answers peers that are connecting; never waits. Returns whether there were any.
  virtual bool progress() = 0;
};

}  // namespace tranship::fabric
