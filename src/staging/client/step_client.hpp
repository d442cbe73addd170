// Steps and attributes, as a client writes and reads them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "staging/client/request_sender.hpp"
#include "staging/model/steps.hpp"

namespace tranship::staging {

/// A whole step. Id 0: none; steps were passed by up to this number, and none is whole behind them
/// yet.
struct FoundStep {
  StepId id = 0;
  std::int64_t number = 0;
  StepContents contents;
};

/// A step as it is now.
struct ListedStep {
  std::int64_t number = 0;
  StepState state = StepState::open;     ///< Open, whole or broken.
  std::string why{};                     ///< What an open one lacks, or why one is broken.
  std::vector<std::string> variables{};  ///< Names; of a whole one.
  std::int64_t attributes = 0;           ///< Of the step and its variables; of a whole one.
};

/// Requests about steps and attributes, which the first server answers. All servers learn that a
/// step has ended from the client whose request ended it, or from the next one that meets what they
/// withhold of it. Any thread may call any member. Times are of the servers' clock. Cost: a writer
/// sends two requests for a step beside its puts, and the last one also one to each other server.
class StepClient {
 public:
  explicit StepClient(RequestSender& requester) : requester_(requester) {}

  /// Begins a step, which is whole when `writers` clients have begun and ended it. Waits while the
  /// queue of steps is full, or lets the step be dropped, as the queue says: what is put within it
  /// has no effect then.
  /// @error as StepTable::begin(); timeout, which says who keeps the queue full
  Result<StepId> begin(std::int64_t number, int writers, std::int64_t end_ns);
  /// Returns whether this client has begun the step, and it was dropped.
  bool is_dropped(StepId id);
  /// A put within a step begins, or has ended; end() waits for all. Without effect for step 0.
  /// @error not_found unless this client is within the step
  Status begin_put(StepId id);
  void end_put(StepId id);
  /// Records that a box was put within a step, if it is not 0; end() sends it. No bounds: it has no
  /// elements.
  void add(StepId id, const StepVariable& variable);
  /// Adds an attribute, which replaces an earlier one of this client; end() sends it. An empty
  /// value removes it.
  /// @error invalid_argument if it does not fit a message
  Status add(StepId id, const Attribute& attribute);
  /// Ends this client's part of the step. Whatever fails, the step is broken or whole afterwards,
  /// unless other clients are still within it.
  /// @error not_found if it is broken; invalid_argument or out_of_memory as StepTable::add()
  Status end(StepId id, std::int64_t end_ns);
  /// Breaks the step, unless this client has ended its part. `reason`: Of any length.
  void give_up(StepId id, const std::string& reason);

  /// Waits for a whole step. `broken`: Gets the steps that are passed by; the call returns with
  /// them and does not wait for what comes behind.
  /// @error timeout, which says what is missing; not_found for an exact one that is broken, or was
  ///        discarded; closed or peer_lost if none can come
  Result<FoundStep> find(const StepQuery& query, std::int64_t end_ns,
                         std::vector<BrokenStep>* broken = nullptr);
  /// Returns the steps that the first server remembers, in rising order: those that clients write,
  /// whole ones, and broken ones. Waits for none, and holds none. Cost: a round trip for each whole
  /// step, two for each open one; one more for each message of variables and attributes.
  Result<std::vector<ListedStep>> list(std::int64_t end_ns);
  /// Frees a whole step: the versions of its variables are discarded.
  /// @error not_found if it is not there
  Status free(std::int64_t number, std::int64_t end_ns);

  /// Says how long steps are kept.
  /// @error invalid_argument if the servers cannot do so
  Status define(const StepQueue& queue);
  /// Those of ReaderGroups, for this client. take() waits as find() does.
  Status join(const std::string& group, Sharing sharing, std::int64_t after);
  Status leave(const std::string& group);
  /// Leaves without waiting for the answer.
  void leave_later(const std::string& group);
  Result<FoundStep> take(const std::string& group, std::int64_t end_ns,
                         std::vector<BrokenStep>* broken = nullptr);
  Status release(const std::string& group, StepId id);

  /// Asks whether a step of which a server withholds something has ended, and tells all servers if
  /// it has, or others have of which they do not know. Returns whether any has.
  Result<bool> settle(StepId id, std::int64_t end_ns);

  /// Sets attributes of variables and of the run; an empty value deletes.
  /// @error as add(); as AttributeTable::set()
  Status set(std::vector<Attribute> attributes);
  /// Returns the attributes of a variable (empty: of the run), in the order of their keys.
  Result<std::vector<Attribute>> attributes_of(const std::string& variable);

 private:
  template <typename Request>
  Result<typename Request::Reply> ask(const Request& request, ReplyBuffer& reply);
  bool give_back(const Error& why);
  bool is_open(std::int64_t number);
  std::size_t message_room() const;
  Status check(const Attribute& attribute) const;
  Status send_contents(StepId id, StepContents& contents, std::int64_t end_ns);
  void tell_all(StepId id, StepState state, std::int64_t end_ns);
  void settle_all(const std::vector<UnsettledStep>& steps, std::int64_t end_ns);
  Status read_rest(FoundStep& step, protocol::StepPage page, std::int64_t end_ns);
  Result<protocol::StepFound> look(const StepQuery& query, std::int64_t end_ns);
  Result<std::optional<ListedStep>> listed(protocol::StepFound found, std::int64_t end_ns);
  Result<FoundStep> complete(protocol::StepFound found, std::int64_t end_ns);

  RequestSender& requester_;
  std::condition_variable put_ended_;
  std::mutex mutex_;  ///< Guards what follows.
  struct Open {
    std::int64_t number = 0;
    std::map<std::string, StepVariable> variables;
    /// By variable and key.
    std::map<std::pair<std::string, std::string>, Attribute> attributes;
    bool dropped = false;
    int puts = 0;       ///< Under way.
    bool ends = false;  ///< Whether end() was called.
  };
  std::map<StepId, Open> open_;  ///< Steps that this client writes.
  struct Taken {
    StepId last = 0;                 ///< The last step that it has got.
    std::int64_t known = INT64_MIN;  ///< The highest step that it knows to be broken.
  };
  std::map<std::string, Taken> taken_;  ///< By group.
};

}  // namespace tranship::staging
