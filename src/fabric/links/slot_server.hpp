// The exporting end of a link: carries out the commands of one requester.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/links/exports.hpp"
#include "fabric/links/slot_messages.hpp"
#include "fabric/messages/copy_notice.hpp"
#include "fabric/messages/slots.hpp"
#include "runtime/channel.hpp"

namespace tranship::fabric {

/// A process that has connected to this one.
struct RequesterId {
  std::uint64_t value = 0;
  auto operator<=>(const RequesterId&) const = default;
};

/// The host copier, for nests and for lists of runs; channels/host has the fast one. cold: Whether
/// the whole transfer does not fit the caches.
using CopyNests = std::function<void(std::span<const LoopNest> nests, const std::byte* source,
                                     std::byte* target, bool cold)>;
using CopyRuns = std::function<void(std::span<const Run> runs, const std::byte* source,
                                    std::byte* target, bool cold)>;
struct Copier {
  CopyNests nests;
  CopyRuns runs;
};
/// Carries out a request between memory and an attachment; may finish later, on any thread.
using ExecuteRequest = std::function<void(const Request&, std::function<void(Status)>)>;

/// Answers a call of a requester into `reply`, and returns the length of the answer in bytes. The
/// question is a private copy. Called on a service thread, which serves nothing else meanwhile.
using AnswerCall = std::function<Result<std::size_t>(
    RequesterId requester, std::span<const std::byte> question, std::span<std::byte> reply)>;

/// Takes a notice of a requester's copy. Must not block.
/// @error why the requester's copy fails: nobody gets the notice
using TakeNotice = std::function<Status(CopyNotice)>;

/// Takes submitted slots in the requester's order (over a network, in the order of arrival), checks
/// every value of a command on a private copy, and copies between the slot and the exported array.
/// A command whose export has an attachment is passed to `execute` and may finish out of order.
/// Shares the segment with the requester. Threads: all.
class SlotServer : public std::enable_shared_from_this<SlotServer> {
 public:
  struct Options {
    SlotSegment segment;
    std::shared_ptr<ExportTable> exports;
    Copier copy;
    ExecuteRequest execute;
    AnswerCall answer;
    TakeNotice take_notice;
    RequesterId id;
    /// Announces an answered slot to the requester, with the bytes that accompany it.
    std::function<void(int slot, const SlotBytes& bytes)> answered;
    bool network = false;   ///< Long runs bypass the slots.
    std::string requester;  ///< for messages
    Identity identity{};    ///< the requester's, for its notices
  };

  explicit SlotServer(Options options);

  /// Carries out submitted commands, at most one for each slot; sets `more` if some are left.
  /// Returns whether there were any. question: Scratch memory of the caller, for calls and notices.
  bool serve(bool& more, std::vector<std::byte>& question);

  /// Carries out submitted commands that are short, if no other thread is in serve(). Returns
  /// whether no command is left for serve().
  bool serve_quickly();

  /// Over a network: returns where to write the bytes of a command from `offset` on, of which
  /// `left` are still to come; empty if the command may not bring any bytes. Progress thread only.
  ReceiveBuffer place(int slot, std::span<const std::byte> command, std::int64_t offset,
                      std::int64_t left);

  /// Ends the service. Commands that `execute` still holds keep this object alive; their answers
  /// are dropped.
  void stop() { stopping_.store(true); }

  /// Returns whether serve() would find a command. Threads: all.
  bool waiting() const { return !stopping_.load(std::memory_order_relaxed) && next(); }

  /// Returns whether `execute` holds commands of this requester. Call it after stop(), when no
  /// thread is in serve().
  bool executing() const;

  const SlotSegment& segment() const { return options_.segment; }
  /// Returns when the last call was answered.
  std::chrono::steady_clock::time_point called() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(called_.load(std::memory_order_relaxed)));
  }

 private:
  /// The command of one slot, from its arrival until its answer.
  struct SlotWork {
    Command command;
    std::vector<std::int64_t> scratch;
    std::size_t reply_bytes = 0;
    std::shared_ptr<const Export> read_straight;  ///< The array from which the answer is sent.
    GatheredBytes read_bytes;                     ///< The bytes of that array.
    /// The last command whose bytes went directly into an array; for the progress thread only.
    std::uint64_t placed = 0;
    bool busy = false;  ///< Guarded by finishing_mutex_.
  };

  std::optional<int> next() const;
  std::optional<int> next_of_any() const;
  bool filled_before(int slot, int other) const;
  bool waits(int slot) const;
  void read_placing(int slot, const CommandHeader& header, std::span<const std::byte> command,
                    const ExportedArray& array);
  bool quick(int slot) const;
  void carry_out(int slot, std::vector<std::byte>& question);
  std::int64_t bytes_max() const;
  std::shared_ptr<const Export> held(std::shared_ptr<Export> one) const;
  Status move(int slot, const std::shared_ptr<Export>& one, bool& pending);
  Status start(int slot, std::vector<std::byte>& question, bool& pending);
  Status copy_body(int slot, std::vector<std::byte>& body) const;
  Status answer(int slot, std::vector<std::byte>& question);
  Status take_notice(int slot, const ExportedArray& array, std::vector<std::byte>& body);
  Status execute(int slot, const std::shared_ptr<Export>& one, bool& pending);
  void executed();
  void finish(int slot, const Status& status);

  Options options_;
  mutable std::mutex finishing_mutex_;  ///< Guards each slot's `busy` together with its state.
  mutable std::mutex serving_mutex_;    ///< guards work_ and head_
  std::vector<SlotWork> work_;          ///< By slot; `execute` may hold the command of one.
  std::atomic<int> head_{0};            ///< The slot after the one that was carried out last.
  // Only the progress thread uses these: the command whose bytes are arriving.
  int placing_slot_ = -1;
  Command placing_;
  bool placing_straight_ = false;  ///< Its bytes go directly into the array.
  std::vector<std::int64_t> placing_scratch_;
  std::atomic<std::chrono::steady_clock::rep> called_{0};
  std::atomic<bool> stopping_{false};
  mutable std::mutex executing_mutex_;  ///< guards executing_
  int executing_ = 0;                   ///< commands that `execute` holds
};

}  // namespace tranship::fabric
