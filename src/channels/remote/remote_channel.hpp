// The channel between this process's memory and an array of another process.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "channels/remote/carriers.hpp"
#include "fabric/fabric.hpp"
#include "fabric/links/outgoing_notice.hpp"
#include "os/bell.hpp"
#include "runtime/channel.hpp"

namespace tranship::fabric {

/// Sends notices, whose target is an OutgoingNotice, to the owners of arrays. Carries requests of
/// which exactly one end has a RemoteArray as its attachment, and chooses how
/// for each of them:
/// - `mapped`: the array lies in shared memory that this process maps: one copy, here, at once;
/// - `direct`: a few small runs on one machine: process_vm_writev or process_vm_readv, at once;
/// - `carried`: longer runs on one machine: the same, on several threads at once; of runs that are
///   not long, the slots carry what no thread has begun;
/// - `slots`: packed pieces through slots in shared memory; the exporting process unpacks one
///   while this one packs the next;
/// - `carrier`: long runs of peers with a carrier of the same kind (bulk_carrier.hpp), on a thread;
/// - `network`: the same slots on each side; TCP copies a slot across.
/// A request may be larger than the slots: it is cut here. Packing and unpacking happen in the
/// thread that submits and polls.
/// Owns nothing of the fabric, which must outlive it; after the fabric's close() every request
/// ends with `closed`. Threads: submit(), poll() and idle() from one; wake() and explain() from
/// all.
class RemoteChannel : public Channel {
 public:
  struct Options {
    std::string name = "remote_write";
    std::int64_t bytes_in_flight_max = 8 * 256 * 1024;  ///< as large as a peer's ring of slots
    int carriers = 0;         ///< threads for long requests that need no slots; 0: all take slots
    int carrier_threads = 0;  ///< threads for what a BulkCarrier moves; 0: none is used
    /// Mean length of the runs from which on a BulkCarrier is used: each is an operation of its
    /// own.
    std::int64_t carrier_run_bytes = 16 * 1024;
  };

  RemoteChannel(Fabric& fabric, Options options);

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return capabilities_; }

  /// @error invalid_argument if not exactly one end is remote; out_of_range if a nest leaves the
  ///        array; permission if it is read-only; not_found if it was withdrawn; peer_lost or
  ///        closed if the connection to the peer has ended
  Status submit(const Request& request) override;
  std::size_t poll(std::span<Finished> finished) override;
  void idle(std::chrono::nanoseconds at_most) override;
  void wake() override;
  /// Ends requests through slots at once, and those of a carrier when the parts that it has begun
  /// have ended. Copies by the kernel are not cancelled.
  void cancel(std::uint64_t tag) override;

  /// Returns the way that submit() would choose, and why, in a few words.
  std::string explain(const Request& request) const;

 private:
  void submit_returned();
  void share_with_slots();
  void watch(const std::shared_ptr<Link>& link);
  Status submit_to_slots(const Carriers::Job& job);
  Status submit_notice(const Request& request, const OutgoingNotice& notice);
  void end_sent_notices();
  bool fits_carrier(const Request& request, const RemoteArray& array) const;
  void submit_to_carrier(Carriers::Job job, const RemoteArray& array);
  void on_job_ended(Carriers::Job job, std::optional<Status> status);

  Fabric& fabric_;
  Options options_;
  Capabilities capabilities_;
  std::shared_ptr<FinishedQueue> finished_ = std::make_shared<FinishedQueue>();
  std::vector<std::shared_ptr<Link>> active_;  ///< links with requests of this channel
  /// A notice that the caller's thread has sent, and whose end this channel reports.
  struct SentNotice {
    std::shared_ptr<Link> link;
    std::shared_ptr<FinishedQueue> queue;
    std::uint64_t tag = 0;
  };
  std::vector<SentNotice> sent_notices_;
  std::uint32_t rings_seen_ = 0;
  /// Wakes idle() while no answer is awaited. Answers ring the fabric's bell instead, for which the
  /// callers of Fabric::ask() wait as well.
  Bell bell_;
  std::uint32_t wakes_seen_ = 0;
  std::mutex mutex_;                     ///< guards what follows
  std::vector<Carriers::Job> returned_;  ///< by carriers: for slots after all
  std::map<std::uint64_t, std::shared_ptr<std::atomic<bool>>> carried_;  ///< by tag: to cancel them
  std::unique_ptr<Carriers> carriers_;  ///< ends before what it uses
};

}  // namespace tranship::fabric
