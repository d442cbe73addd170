// Fences around memory that a lost requester may still access.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <set>

#include "fabric/links/slot_server.hpp"
#include "fabric/messages/slots.hpp"
#include "os/process.hpp"

namespace tranship::fabric {

/// The leases that a requester on this machine was granted. The requester counts its copies in them
/// by itself (slots.hpp); the exporter ends leases and reads the counts.
/// Threads: one.
class LeaseGrants {
 public:
  LeaseGrants() = default;
  explicit LeaseGrants(SlotSegment segment) : segment_(std::move(segment)) {}

  void grant(int index, std::uint64_t export_id);
  /// Ends a lease: no copy begins under it any more.
  void end(int index);
  void end_all();
  bool in_use(int index) const;
  bool any_in_use() const;

 private:
  ExportLease& lease(int index) const {
    return segment_.header().leases[static_cast<std::size_t>(index)];
  }
  SlotSegment segment_;
  std::set<int> granted_;
};

/// Fences around the memory of requesters that were lost while copies of theirs were under way. A
/// fence stands until the leases show that the copies have ended, or the requester's process has
/// exited; only then may the memory be used for something else. That a connection is lost proves
/// neither.
/// Threads: one. Cost: lift() reads some words for each fence.
class Fences {
 public:
  struct Fence {
    RequesterId requester;
    bool cleanly = false;
    LeaseGrants leases;                  ///< Empty over a network.
    std::shared_ptr<SlotServer> server;  ///< Null: none was started.
    FileDescriptor pidfd;                ///< Empty: the requester's process cannot be watched.
    std::string label;
    bool served = false;  ///< Whether `served` was called.
  };

  /// Called with a lost requester, and whether it has closed its connection itself.
  using Call = std::function<void(RequesterId, bool cleanly)>;
  /// served: Called when no request of it is carried out any more, while its process may still
  /// access memory. gone: Called when it can access nothing any more. Both may be empty.
  Fences(Call served, Call gone) : served_(std::move(served)), gone_(std::move(gone)) {}

  /// Ends the requester's leases. Raises a fence if copies of the requester are under way;
  /// otherwise the requester is gone.
  void raise(Fence fence);

  /// Removes the fences whose requesters are gone.
  void lift();

  bool in_use(int export_index) const;
  bool empty() const { return fences_.empty(); }
  /// Returns the label of the first requester that has a fence, for messages.
  std::string describe() const { return fences_.empty() ? "" : fences_.front().label; }

 private:
  static bool may_touch(const Fence& fence);
  void report_served(Fence& fence) const;
  void end(const Fence& fence) const;

  Call served_;
  Call gone_;
  std::list<Fence> fences_;
};

}  // namespace tranship::fabric
