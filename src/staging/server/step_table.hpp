// The steps of a group of servers, on the first of them: who writes each, what it has, and whether
// it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "staging/model/leases.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/requests.hpp"
#include "staging/model/steps.hpp"
#include "staging/model/variable.hpp"

namespace tranship::staging {

/// One attempt to write a step.
struct StepRecord {
  StepId id = 0;
  std::int64_t number = 0;
  int writers = 1;                 ///< Clients that write it.
  std::map<ClientId, bool> parts;  ///< Those that have begun it, and whether they have ended it.
  StepState state = StepState::open;
  bool dropped = false;  ///< Whether it broke when it began, because of the queue.
  std::string why;       ///< Why it is broken.
  std::map<std::string, StepVariable> variables;
  std::map<std::pair<std::string, std::string>, std::string> attributes;
  std::set<std::string> removed{};            ///< Variables that were discarded while it was open.
  std::int64_t bytes = 0;                     ///< Of the variables' and attributes' texts.
  bool settled = false;                       ///< Whether all servers know its state.
  std::optional<ClientConnection> settler{};  ///< The client that tells them.
  std::set<ClientConnection> failed{};        ///< Clients that could not tell all of them.
};

/// Decides when a step is whole or broken, once for each, and in one place: all that readers see of
/// it follows from that. Steps are begun in rising order, by each client and by all. A broken one
/// may be begun again while it is the highest; it has another id then.
/// Laws: a step becomes whole when as many clients as it has writers have ended their parts, and
/// broken when one of them gives it up, or is lost, within its part, or when its writers have all
/// gone on to a higher step without it; it is neither before, and never both. A whole step is kept
/// until it is freed. Costs are logarithms, and linear in what a request contains. Not thread-safe.
class StepTable {
 public:
  /// Steps that may be open at a time, and broken ones that are remembered.
  static constexpr std::size_t open_max = 1024;
  static constexpr std::size_t broken_max = 1024;
  /// Ended steps that one reply hands to a client to settle.
  static constexpr std::size_t settled_at_once = 16;
  /// Most bytes of a client's reason to give a step up; a longer one is truncated.
  static constexpr std::size_t why_bytes = 256;

  /// `versions_max`: Whole steps that are kept; 0: as many as limits allow.
  StepTable(const Limits& limits, int versions_max)
      : limits_(limits), versions_max_(versions_max) {}

  /// Lets a client write a step, which begins with the first of its writers.
  /// @error invalid_argument if the step is whole, lower than one that was begun before, has
  ///        another number of writers, or the client has begun it before; out_of_memory for a limit
  /// `drops`: The reason why a step that begins with this client is dropped; empty: it is not.
  Result<const StepRecord*> begin(const ClientId& client, std::int64_t number, int writers,
                                  const std::string& drops = {});
  /// Returns whether begin() would add a client to a step that others have begun.
  bool joins(std::int64_t number) const;
  /// Adds to what the step has: all of it, or nothing.
  /// @error not_found unless it is open and the client is within it; invalid_argument if it does
  ///        not fit what is there, or an attribute has no value; out_of_memory for a limit
  Status add(const ClientId& client, StepId id, const StepContents& contents);
  /// Ends the client's part. Returns the record: a repeated request gets the same answer, and a
  /// step that is broken stays so.
  /// @error as add(); not_found if nothing is known of the step
  Result<const StepRecord*> end(const ClientId& client, StepId id, const StepContents& contents);
  /// Returns the open step of that number within which the client is; 0: none.
  StepId begun_by(const ClientId& client, std::int64_t number) const;
  /// Returns whether the step is open, and the client within it.
  bool is_within(const ClientId& client, StepId id) const;
  /// Breaks a step within which the client is. Otherwise does nothing.
  void give_up(const ClientId& client, StepId id, const std::string& why);

  /// As those of Registry. A client that is lost breaks the steps within which it is. `name`: Its
  /// name. Return whether it wrote steps.
  bool lost(const ClientId& client, const std::string& name);
  void came_back(const ClientId& client);
  bool gone(const ClientId& client, bool cleanly);

  /// What a reader's question finds.
  struct Found {
    const StepRecord* record = nullptr;  ///< Whole; null: there is none yet.
    std::string why;                     ///< Why there is none yet.
    std::int64_t number = 0;             ///< Of the step that is awaited; as asked: none has begun.
    std::vector<BrokenStep> broken;      ///< Passed by, in rising order.
    bool awaits = false;                 ///< Whether one may come whatever writers do.
  };
  /// Finds a whole step. `next` waits for open ones that are lower, and passes a broken one by when
  /// it cannot be begun again.
  /// @error not_found for an exact one that was forgotten
  Result<Found> find(const StepQuery& query) const;
  /// Returns null if nothing is known of the step.
  const StepRecord* find(StepId id) const;
  /// Returns the state of a step: freed if nothing is known of it, and open if it is still to come.
  StepState state(StepId id) const;
  /// Returns whether the highest step is broken, and may be begun again: readers wait for that, or
  /// for a higher one.
  bool may_begin_again() const;
  /// Returns whether clients write steps, or will: a step may have had writers that have not come.
  Ending ending() const;

  /// Returns the steps that have ended, or were freed, since the last call.
  std::vector<UnsettledStep> take_ended() { return std::exchange(ended_, {}); }
  /// Returns ended steps that nobody settles, which the client does from now on, but for those that
  /// it could not settle before.
  std::vector<UnsettledStep> take_unsettled(ClientConnection client);
  /// Returns whether a step has ended and nobody settles it; the client does so from now on.
  bool take_unsettled(ClientConnection client, StepId id);
  /// Records that all servers know that the step has ended, or that the client could not tell them.
  void settled(ClientConnection client, StepId id, StepState state, bool done);
  /// The client settles nothing of what it was to settle: others do.
  void drop_settler(ClientConnection client);
  /// Clients that could not settle a step may try again.
  void settle_again();

  /// Frees a whole step. Returns whether it was there.
  bool free(StepId id);
  /// Frees the whole step that has a variable at a version, which a limit has discarded.
  void discarded(const std::string& variable, std::int64_t version);
  /// A client has discarded a version of a variable, or deleted it: steps go on without it.
  void remove(const std::string& variable, std::optional<std::int64_t> version = {});

  /// Returns the numbers of the whole steps.
  const std::set<std::int64_t>& whole() const { return whole_; }
  /// Returns the record of a whole step.
  const StepRecord& at(std::int64_t number) const { return records_.at(by_number_.at(number)); }
  std::size_t open() const { return open_.size(); }
  /// Returns whether the client is within no step, and has ended its part of an open one.
  bool has_left_open(const ClientId& client) const;
  /// Returns the number of the first step that became whole.
  std::optional<std::int64_t> first_whole() const { return first_whole_; }
  /// Returns whether any step was begun.
  bool any() const { return highest_.has_value(); }
  std::size_t size() const { return records_.size(); }

 private:
  StepRecord* part_of(const ClientId& client, StepId id);
  void end_whole(StepRecord& record);
  void end_broken(StepRecord& record, std::string why);
  void end_freed(StepRecord& record);
  const StepRecord* joined(std::int64_t number) const;
  static Status check_join(const ClientId& client, const StepRecord& record, int writers);
  Status check_begin(std::int64_t number);
  void break_left(const StepRecord& higher);
  void trim();
  bool forget_oldest_broken();
  void erase(StepId id);

  Limits limits_;
  int versions_max_;
  StepId last_ = 0;
  std::optional<std::int64_t> highest_;        ///< The highest number that was begun.
  std::optional<std::int64_t> highest_whole_;  ///< The highest that became whole.
  std::optional<std::int64_t> first_whole_;    ///< The first that became whole.
  std::map<StepId, StepRecord> records_;
  std::map<std::int64_t, StepId> by_number_;  ///< The last attempt of each.
  std::set<StepId> open_;
  std::set<StepId> unsettled_;
  std::vector<UnsettledStep> ended_;  ///< Since the last take_ended().
  std::deque<StepId> broken_;         ///< In the order in which they broke.
  std::deque<StepId> freed_;          ///< Those that not all servers know to be so.
  std::set<std::int64_t> whole_;      ///< Numbers.
  struct Writer {
    bool lost = false;
    std::int64_t highest = INT64_MIN;  ///< The highest step that it has begun.
    std::set<StepId> within;           ///< Open steps that it has begun and not ended.
  };
  std::map<ClientId, Writer> clients_;  ///< Those that have written steps, and are not gone.
  int came_ = 0;                        ///< Clients that have ever written steps.
  int writers_most_ = 0;                ///< Of any step.
  int deaths_ = 0;
};

}  // namespace tranship::staging
