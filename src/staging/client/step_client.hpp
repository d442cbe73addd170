// Steps and attributes, as a client writes and reads them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "staging/client/request_sender.hpp"
#include "staging/model/steps.hpp"

namespace tranship::staging {

/// A whole step.
struct FoundStep {
  StepId id = 0;
  std::int64_t number = 0;
  StepContents contents;
};

/// Requests about steps and attributes, which the first server answers. All servers learn that a
/// step has ended from the client whose request ended it, or from the next one that meets what they
/// withhold of it. Any thread may call any member. Times are of the servers' clock. Cost: a writer
/// sends two requests for a step beside its puts, and the last one also one to each other server.
class StepClient {
 public:
  explicit StepClient(RequestSender& requester) : requester_(requester) {}

  /// Begins a step, which is whole when `writers` clients have begun and ended it.
  /// @error as StepTable::begin()
  Result<StepId> begin(std::int64_t number, int writers, std::int64_t end_ns);
  /// @error not_found unless this client is within the step; never for step 0
  Status check_open(StepId id);
  /// Records that a box was put within a step, if it is not 0; end() sends it. No bounds: it has no
  /// elements.
  void add(StepId id, const StepVariable& variable);
  /// Adds an attribute; end() sends it. Added again, it has the later value.
  /// @error invalid_argument if it does not fit a message
  Status add(StepId id, const Attribute& attribute);
  /// Ends this client's part of the step. Whatever fails, the step is broken or whole afterwards,
  /// unless other clients are still within it.
  /// @error not_found if it is broken; invalid_argument or out_of_memory as StepTable::add()
  Status end(StepId id, std::int64_t end_ns);
  /// Breaks the step, unless this client has ended its part.
  void give_up(StepId id, const std::string& why);

  /// Waits for a whole step. `broken`: Gets the steps that were passed by, also if the wait fails.
  /// @error timeout, which says what is missing; not_found for an exact one that is broken, or was
  ///        discarded; closed or peer_lost if none can come
  Result<FoundStep> find(const StepQuery& query, std::int64_t end_ns,
                         std::vector<BrokenStep>* broken = nullptr);
  /// Has the first server forget a whole step. The caller discards its variables.
  /// @error not_found if it is not there
  Status forget(StepId id);

  /// Asks whether a step of which a server withholds something has ended, and tells all servers if
  /// it has. Returns whether it has.
  Result<bool> settle(StepId id, std::int64_t end_ns);

  /// Sets attributes of variables and of the run; an empty value deletes.
  /// @error as add(); as AttributeTable::set()
  Status set(std::vector<Attribute> attributes);
  /// Returns the attributes of a variable (empty: of the run), in the order of their keys.
  Result<std::vector<Attribute>> attributes_of(const std::string& variable);

 private:
  std::size_t message_room() const;
  Status check(const Attribute& attribute) const;
  Status send_contents(StepId id, StepContents& contents, std::int64_t end_ns);
  void tell_all(StepId id, bool whole, std::int64_t end_ns);
  void settle_all(const std::vector<UnsettledStep>& steps, std::int64_t end_ns);
  Status read_rest(FoundStep& step, protocol::StepPage page, std::int64_t end_ns);

  RequestSender& requester_;
  std::mutex mutex_;  ///< Guards what follows.
  struct Open {
    std::map<std::string, StepVariable> variables;
    std::map<std::pair<std::string, std::string>, std::string> attributes;  ///< Variable and key.
  };
  std::map<StepId, Open> open_;  ///< Steps that this client writes.
};

}  // namespace tranship::staging
