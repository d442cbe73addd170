// The requesting end of a link: divides requests among slots and keeps the slots moving.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/links/slot_messages.hpp"
#include "fabric/links/slot_server.hpp"
#include "fabric/messages/command.hpp"
#include "fabric/messages/pieces.hpp"
#include "fabric/messages/runs.hpp"
#include "fabric/messages/slots.hpp"
#include "fabric/wires/bulk_carrier.hpp"
#include "runtime/channel.hpp"

namespace tranship::fabric {

/// A queue of ended requests. Threads: all.
class FinishedQueue {
 public:
  void push(Finished finished);
  std::size_t take(std::span<Finished> finished);
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  std::mutex mutex_;
  std::vector<Finished> ends_;
  std::atomic<std::size_t> count_{0};
};

/// Returns the number of contiguous runs of a request, whose lists move nothing else.
inline std::int64_t runs_of(const Request& request) {
  return runs_of(request.payload.nests()) + runs_of(request.payload.indexed());
}

/// An exported array, as its requester sees it.
struct RemoteExport {
  std::uint64_t id = 0;
  int index = 0;              ///< index of its lease
  std::uint64_t address = 0;  ///< in the exporting process; 0: reachable by a command only
  std::int64_t bytes = 0;
  bool plain = false;  ///< The export is plain memory.
};

/// Packs pieces of requests into free slots (write), or asks for packed slots and unpacks them
/// (read), on the caller's thread, while the exporting process works on earlier slots. Slots are
/// used in ring order, starting again with the last one whenever all are free; requests, in order
/// of submission. Over a network, long runs are sent from and received into the caller's memory
/// without slots. Owns the bookkeeping; shares the segment. Threads: all (one mutex, held while a
/// slot is packed). Cost: allocates only when more requests are outstanding than ever before.
class Requester {
 public:
  struct Options {
    SlotSegment segment;
    Copier copy;
    /// Announces a submitted slot to the exporting process, with the bytes that accompany it.
    std::function<void(int slot, std::size_t command_bytes, const SlotBytes& bytes)> publish;
    /// Over a network: copies the bytes that are still to be sent, so that their memory is no
    /// longer read. Empty: the peer is on this machine.
    std::function<void()> keep_bulk;
    /// Over a network: waits for the bell, and meanwhile reads messages on the caller's thread.
    /// Empty: the caller only waits for the bell.
    std::function<void(std::uint32_t seen, std::chrono::nanoseconds at_most)> attend;
    pid_t direct_pid = 0;  ///< the exporting process, if its memory may be accessed directly
    std::string peer;      ///< for messages
    /// Whether the peer can see this side's leases. Over a network, the peer revokes keys instead.
    bool leases = true;
  };

  explicit Requester(Options options);

  struct Transfer {
    Request request;
    RemoteExport remote;
    Operation operation = Operation::write;
  };

  /// Queues `transfer` and starts as much of it as fits. Its end is reported to `queue`.
  Status submit(const Transfer& transfer, std::shared_ptr<FinishedQueue> queue);

  /// Sends a notice to the owner of `notice.remote`, after all earlier submissions. Its end is
  /// reported to `queue` when the owner has taken the notice, or has refused it. body: As
  /// encode_notice() returns it.
  Status submit_notice(const Transfer& notice, std::vector<std::byte> body,
                       std::shared_ptr<FinishedQueue> queue);

  /// Returns whether the peer still exports the array, from its lease, which shows a withdrawal
  /// sooner than the notice arrives. Only for peers on this machine.
  bool stands(const RemoteExport& remote) const;

  /// Counts the caller as a user of memory that it accesses by itself, until the last reference to
  /// the result is released: withdraw() at the peer waits for that, and so does the next use of the
  /// memory. Null if the peer no longer exports the array, or is lost. Only for peers on this
  /// machine.
  std::shared_ptr<void> use(const RemoteExport& remote) const;

  /// Counts the caller as a user as use() does, until end_use(), which must be called during the
  /// lifetime of this object. Returns false where use() returns null.
  bool begin_use(const RemoteExport& remote) const;
  void end_use(const RemoteExport& remote) const;

  /// Counts the caller as a user as use() does, for longer than the connection may last: ending the
  /// connection does not wait for it. The peer then fences the memory until the last reference to
  /// the result is released, on any thread, or this process is dead. A fork's reference counts for
  /// nothing.
  std::shared_ptr<void> lasting_use(const RemoteExport& remote) const;

  /// Carries out a small transfer at once by process_vm_writev or process_vm_readv.
  /// Returns nothing if the transfer cannot be carried out in this way: use submit().
  std::optional<Status> direct(const Transfer& transfer);
  bool direct_possible(const Transfer& transfer) const;

  /// Carries out a transfer of any size in runs that are not short as direct() does: worthwhile on
  /// several threads.
  std::optional<Status> direct_at_length(const Transfer& transfer);
  bool direct_at_length_possible(const Transfer& transfer) const;
  /// Returns whether a transfer has runs so short that direct_at_length() is little faster than the
  /// slots.
  static bool is_scattered(const Transfer& transfer);

  /// Has a carrier move a transfer, which ends early if `cancelled` is set or the peer is lost.
  /// Returns nothing if a command must do it, or must report why it cannot be done.
  std::optional<Status> carried(const Transfer& transfer, BulkCarrier::Memory& memory,
                                const std::atomic<bool>& cancelled);

  /// Sends a notice as submit_notice() does, on the caller's thread, and waits for its end for at
  /// most `at_most`. Returns nothing if it has not come by then: `queue` gets it, if progress() is
  /// called.
  std::optional<Status> notice_here(const Transfer& notice, std::vector<std::byte> body,
                                    const std::shared_ptr<FinishedQueue>& queue,
                                    std::chrono::nanoseconds at_most, Bell& bell);

  /// A question that was sent. The object must not move until the call has ended or was abandoned.
  struct Call {
    std::span<const std::byte> question;
    std::span<std::byte> reply;
    std::size_t reply_bytes = 0;
    Status status;
    std::atomic<bool> ended{false};
  };

  /// Sends a question; progress() takes the answer.
  /// @error invalid_argument if it does not fit a slot; the reason if the peer was lost
  Status start(Call& call);

  /// Waits for the answer of a call that was started. @error as call()
  Result<std::size_t> finish(Call& call, std::chrono::milliseconds timeout, Bell& bell,
                             const std::function<bool()>& interrupted = {});

  /// Abandons the answer of a call. Returns false if the call has ended.
  bool abandon(Call& call);

  /// Sends a question and waits for the answer. A timeout does not undo what the peer does with a
  /// question that has been sent.
  /// @error as Fabric::ask()
  Result<std::size_t> call(std::span<const std::byte> question, std::span<std::byte> reply,
                           std::chrono::milliseconds timeout, Bell& bell,
                           const std::function<bool()>& interrupted = {});

  /// Sends a question whose answer is dropped, after all earlier submissions, as soon as a slot is
  /// free, unless the link ends first.
  /// @error invalid_argument if the question does not fit a slot; the reason if the peer was lost
  Status tell(std::span<const std::byte> question);
  /// Returns whether questions of tell() are under way: no thread waits for their answers, and the
  /// progress thread must call progress().
  bool unattended() const { return unattended_.load(std::memory_order_acquire) != 0; }

  /// Takes answers and fills free slots until neither is possible. Returns whether it did either.
  bool progress();

  /// Ends at once, as cancelled, the transfer with this tag whose end is reported to `queue`, if it
  /// has not ended: its local memory is no longer accessed. Slots that the peer owns become free
  /// when it has answered.
  void cancel(const FinishedQueue& queue, std::uint64_t tag);

  /// Over a network: returns where to write the bytes of a slot's answer from `offset` on, of which
  /// `left` are still to come; empty if the answer may not bring any bytes.
  ReceiveBuffer place(int slot, std::int64_t offset, std::int64_t left);

  /// Ends all outstanding and all future requests with `error`.
  void fail(Error error);

  /// Returns whether a copy of this process is under way in the peer's memory, by use() or
  /// directly. After fail() no new copy begins. While a lasting use begins or ends, a copy may be
  /// overlooked: the peer's fence is what counts.
  bool in_use() const;

  bool lost() const { return lost_flag_.load(std::memory_order_acquire); }
  Error lost_error() const;
  bool outstanding() const { return operations_.load(std::memory_order_acquire) != 0; }
  /// Returns the number of answers: if it stays the same while a request is outstanding, the peer
  /// is stuck.
  std::uint64_t answers() const { return answers_.load(std::memory_order_relaxed); }

  /// Returns whether callers that wait for an answer read it from the network themselves, with
  /// attend().
  bool attended() const { return options_.attend != nullptr; }
  void attend(std::uint32_t seen, std::chrono::nanoseconds at_most) const {
    options_.attend(seen, at_most);
  }

  /// Carries out a small transfer over a network on the caller's thread. Returns nothing if other
  /// requests are queued before it, or if the answer takes longer than `at_most`; then use
  /// submit(). Part of the target may have been written by then, with its final bytes.
  std::optional<Status> carry_here(const Transfer& transfer, std::chrono::nanoseconds at_most,
                                   Bell& bell);

  /// Makes the exporting process check the slots. Only for peers on this machine.
  void ring() const { options_.publish(0, 0, {}); }

  const SlotSegment& segment() const { return options_.segment; }
  const std::string& peer() const { return options_.peer; }

 private:
  struct Use;
  class LastingUse;
  class UseHere;
  struct Pending {
    Transfer transfer;
    Call* call = nullptr;            ///< null: a transfer, or a call whose caller no longer waits
    bool to_send = false;            ///< the body of a call or a notice is not yet in a slot
    std::vector<std::byte> told{};   ///< the question of tell(), or the body of a notice
    bool unattended = false;         ///< the answer is dropped
    PieceCursor cursor;              ///< over the transfer's plain nests
    RunCursor runs;                  ///< over its lists of runs, which go after the nests
    std::int64_t command_bytes = 0;  ///< most bytes of one command
    int slots_out = 0;
    Status status;
    std::shared_ptr<FinishedQueue> queue;
    Pending* next = nullptr;

    /// Whether nothing is left to put into a slot.
    bool sent() const { return cursor.finished() && runs.finished() && !to_send; }
    /// Forgets what is left.
    void stop() {
      to_send = false;
      cursor = {};
      runs = {};
    }
  };
  struct Slot {
    Pending* pending = nullptr;
    // Between the slot and the requester's array; unchanged while straight_bytes is not 0.
    std::vector<LoopNest> local;
    std::vector<Run> runs;
    std::weak_ptr<const void> sending;  ///< Not expired while the caller's memory may be read.
    bool bulk = false;                  ///< The command has bytes that later commands may overtake.
    // For an answer that bypasses the slot: changed under both mutexes; `placed`, under
    // placing_mutex_.
    std::int64_t straight_bytes = 0;  ///< 0: the answer uses the slot.
    std::byte* straight = nullptr;    ///< The array; null: the answer is dropped.
    bool placed = false;
  };

  ExportLease& lease_of(const RemoteExport& remote) const;
  bool direct_open(const RemoteExport& remote) const;
  void end_early(Pending& pending, const Error& error);
  /// Waits on the caller's thread for the one request that ends in `queue`; nothing if it has not
  /// ended at `end`.
  std::optional<Status> wait_for_one(FinishedQueue& queue,
                                     std::chrono::steady_clock::time_point end, Bell& bell);
  template <std::size_t batch>
  std::optional<Status> move_directly(const Transfer& transfer);
  bool take_answer();
  bool fill_slot();
  bool overtakes() const;
  SlotBytes fill_transfer(Pending& pending, CommandHeader& header);
  void fill_nests(Pending& pending, Slot& slot);
  void fill_runs(Pending& pending, Slot& slot);
  SlotBytes pack(Slot& slot, const Transfer& transfer);
  void expect(Slot& slot, const Transfer& transfer);
  Status unpack(const Slot& slot, int number, const Request& request);
  void release(Slot& slot);
  void let_go(const Pending* pending);
  bool passes_slots(const Transfer& transfer) const;
  bool one_run(const Transfer& transfer) const;
  void fill_call(Pending& pending, CommandHeader& header);
  void take_reply(Pending& pending, int slot);
  void enqueue(Pending& pending);
  void leave_unattended(Pending& pending);
  Status check_question(std::span<const std::byte> question) const;
  Status answer_of(int slot);
  void end_if_done(Pending& pending);
  Pending* new_pending();

  Options options_;
  std::mutex placing_mutex_;  ///< Held while an answer is written; taken after mutex_.
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  CommandWriter writer_;
  int head_ = 0;  ///< the next slot to fill
  int used_ = 0;  ///< slots between tail and head
  std::uint64_t sequence_ = 0;
  Pending* first_ = nullptr;  ///< queued, oldest first; the first ones may be partly sent
  Pending* last_ = nullptr;
  Pending* free_ = nullptr;
  std::vector<std::unique_ptr<Pending>> all_;
  Error lost_;
  std::atomic<bool> lost_flag_{false};
  std::atomic<int> operations_{0};
  std::atomic<int> unattended_{0};
  std::atomic<std::uint64_t> answers_{0};
  /// The uses of lasting_use(), which may outlive this object.
  std::shared_ptr<std::atomic<std::uint64_t>> lasting_uses_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace tranship::fabric
