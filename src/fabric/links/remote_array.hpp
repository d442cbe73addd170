// Arrays of other processes, as attachments of requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fabric/links/requester.hpp"
#include "fabric/messages/protocol.hpp"
#include "os/bell.hpp"
#include "os/descriptor.hpp"
#include "runtime/channel.hpp"

namespace tranship::fabric {

/// A process to which this one has connected.
struct PeerId {
  std::uint64_t value = 0;
  auto operator<=>(const PeerId&) const = default;
};

class RemoteArray;

/// Whose memory an array of a peer is.
enum class Origin : std::uint8_t {
  unknown,
  other_process,  ///< no other process has mapped it
  this_process,
  file,  ///< of a file, or memory that processes share
};

/// A connection, as its requests see it. Lives as long as any array of it; after the connection has
/// ended, every request fails with the reason.
struct Link : std::enable_shared_from_this<Link> {
  PeerId peer;
  std::string label;  ///< the peer in messages: host, pid, contact
  std::string way;    ///< how bytes travel, and why no faster way is used
  Identity identity;
  LinkMode mode = LinkMode::network;
  bool direct = false;                           ///< process_vm_writev works
  std::shared_ptr<BulkCarrier::Peer> carrier{};  ///< Moves bytes outside the wire; null: none.
  Copier copy;
  std::shared_ptr<SharedMemory> bell_memory;
  std::shared_ptr<Requester> requester;
  std::atomic<int> notices_queued{0};  ///< notices that a channel carries, or will

  Bell& bell() const { return *reinterpret_cast<Bell*>(bell_memory->data()); }

  /// Begins a lookup, which lasts until the last reference to the result is released: a withdrawal
  /// that is announced between the reply and add_array() is remembered until then.
  std::shared_ptr<void> begin_lookup();
  /// Makes the array that a lookup found. memory: Descriptor of the memory in which the array lies,
  /// which is mapped once for all arrays; may be none.
  std::shared_ptr<RemoteArray> add_array(const std::string& name, LookupReply reply,
                                         FileDescriptor memory);
  /// Marks the arrays of an export as withdrawn.
  void withdraw(std::uint64_t export_id);
  /// Ends all requests with this error. What the arrays hold open ends with its last copy.
  void fail(const Error& error);

 private:
  std::shared_ptr<SharedMemory> map_once(FileDescriptor descriptor, std::int64_t bytes);

  std::mutex mutex_;  ///< guards all following members
  std::vector<std::weak_ptr<RemoteArray>> arrays_;
  std::vector<std::weak_ptr<SharedMemory>> memories_;  ///< the peer's, each mapped here once
  int lookups_ = 0;                                    ///< Lookups without an array in `arrays_`.
  bool over_ = false;                                  ///< fail() was called
  /// Exports that were withdrawn during lookups, which may have found them.
  std::set<std::uint64_t> withdrawn_;
};

/// One array that a peer exports. Immutable except for whether it is withdrawn, or its use over.
/// Threads: all.
class RemoteArray : public Attachment {
 public:
  struct Fields {
    std::string name;
    std::string description;
    bool writable = false;
    RemoteExport remote;
    std::shared_ptr<Link> link;
    std::shared_ptr<SharedMemory> memory;  ///< memory mapped here, if the array is in shared memory
    std::byte* mapped = nullptr;
    std::string ipc_handle;                          ///< as in ExportedArray; empty over a network
    std::shared_ptr<BulkCarrier::Memory> carried{};  ///< Null: no carrier reaches the array.
    MemoryName memory_name{};
    bool takes_notices = false;
  };

  explicit RemoteArray(Fields fields);

  const std::string& name() const { return fields_.name; }
  const std::string& description() const { return fields_.description; }
  std::int64_t bytes() const { return fields_.remote.bytes; }
  bool writable() const { return fields_.writable; }
  /// Returns whether the peer takes notices of copies to and from the array.
  bool takes_notices() const { return fields_.takes_notices; }
  PeerId peer() const { return fields_.link->peer; }

  /// Returns where this process has mapped the array's bytes; null if they are not mapped. A write
  /// through the mapping needs no help from the peer; withdrawn() says whether the peer still
  /// exports the array.
  std::byte* mapped() const { return fields_.mapped; }
  /// Returns the shared memory that contains mapped(); null if there is none.
  const std::shared_ptr<SharedMemory>& memory() const { return fields_.memory; }
  const std::string& ipc_handle() const { return fields_.ipc_handle; }

  /// Returns where the first byte lies, as the peer says.
  const MemoryName& memory_name() const { return fields_.memory_name; }
  Origin origin() const { return origin_; }

  /// Returns the carrier's access to the array's memory, outside the wire; null if there is none.
  const std::shared_ptr<BulkCarrier::Memory>& carried() const { return fields_.carried; }

  /// Returns whether the peer has announced that it no longer exports the array.
  bool withdrawn() const { return withdrawn_.load(std::memory_order_acquire); }
  void set_withdrawn();
  /// Calls what when_over() has set.
  void end_use();
  /// Calls `then` once, when the peer has announced that it no longer exports the array, or the
  /// connection has ended: at once if that is so; otherwise on the thread that closes or serves the
  /// connection, without any lock. At most one function can be set.
  void when_over(std::function<void()> then);

  const RemoteExport& remote() const { return fields_.remote; }
  Link& link() const { return *fields_.link; }
  const std::shared_ptr<Link>& shared_link() const { return fields_.link; }

 private:
  Fields fields_;
  Origin origin_ = Origin::unknown;
  std::atomic<bool> withdrawn_{false};
  std::mutex mutex_;  ///< guards the following members
  bool over_ = false;
  std::function<void()> when_over_;
};

}  // namespace tranship::fabric
