// Memory that a requester may still touch though its connection is gone.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <set>

#include "fabric/links/slot_server.hpp"
#include "fabric/messages/slots.hpp"
#include "os/process.hpp"

namespace tranship::fabric {

/// The leases that a requester of this machine was given. It counts itself in and out of them
/// without asking (slots.hpp); the exporting process ends them and reads the counts.
/// Threads: one.
class LeaseGrants {
 public:
  LeaseGrants() = default;
  explicit LeaseGrants(SlotSegment segment) : segment_(std::move(segment)) {}

  void grant(int index, std::uint64_t export_id);
  /// From now on no copy begins under this lease.
  void end(int index);
  void end_all();
  bool in_use(int index) const;
  bool any_in_use() const;

 private:
  Lease& lease(int index) const {
    return segment_.header().leases[static_cast<std::size_t>(index)];
  }
  SlotSegment segment_;
  std::set<int> granted_;
};

/// Requesters whose connections are gone and whose processes may still run. A fence stands until
/// the requester's copies have ended, as its leases say, or its process has; only then may the
/// memory that it could touch be somebody else's. A lost connection is neither.
/// Threads: one. Cost: look() reads some words for each fence.
class Fences {
 public:
  struct Fence {
    RequesterId requester;
    bool cleanly = false;
    LeaseGrants leases;                  ///< None over a network.
    std::shared_ptr<SlotServer> server;  ///< Null: none was started.
    FileDescriptor pidfd;                ///< None: its process cannot be watched.
    std::string label;
  };

  /// Ends the requester's leases and raises a fence, unless nothing of it is under way; returns
  /// whether it did.
  bool raise(Fence fence);

  /// Takes down the fences behind which nothing can be touched any more, and calls `lifted` with
  /// each.
  void look(const std::function<void(const Fence&)>& lifted);

  bool in_use(int export_index) const;
  bool empty() const { return fences_.empty(); }
  /// The first requester that holds a fence up, for messages.
  std::string describe() const { return fences_.empty() ? "" : fences_.front().label; }

 private:
  static bool may_touch(const Fence& fence);

  std::list<Fence> fences_;
};

}  // namespace tranship::fabric
