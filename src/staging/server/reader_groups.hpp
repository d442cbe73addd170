// Groups of readers that use steps, and how long steps are kept for them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "staging/model/limits.hpp"
#include "staging/model/steps.hpp"
#include "staging/model/variable.hpp"
#include "staging/server/step_table.hpp"

namespace tranship::staging {

/// Each group gets each whole step once, by one of its members, who holds it until he releases it.
/// Laws: while there are groups, a whole step is freed when each of them has released it; what a
/// member held that has left, or is lost, goes to another one. A group without members is none:
/// what its last member held when it left counts as released, and all else is kept for others. The
/// first whole step is kept if the queue says so. Costs are linear in the number of groups, and in
/// that of the steps that they hold. Not thread-safe.
class ReaderGroups {
 public:
  /// Groups that there may be, and members of each.
  static constexpr std::size_t groups_max = 1024;
  static constexpr std::size_t members_max = 4096;

  /// `steps` must outlive the groups.
  explicit ReaderGroups(StepTable& steps) : steps_(steps) {}

  void define(const StepQueue& queue) { queue_ = queue; }

  /// Adds a member. `after`: Of the group, for its first member: lower steps count as released.
  /// @error invalid_argument if the group shares in another way, or the client is a member;
  ///        out_of_memory for a limit
  Status join(const ClientId& client, const std::string& group, Sharing sharing,
              std::int64_t after);
  /// Removes a member, if the client is one.
  void leave(const ClientId& client, const std::string& group);
  /// Removes the client from all groups. Returns whether it was a member of one.
  bool lost(const ClientId& client);

  /// Gives the next whole step to a member. `received`: The last one whose reply has reached him:
  /// if he holds a later one, he gets that again. `known`: Broken steps up to this one are not
  /// named.
  /// @error not_found if the client is no member
  Result<StepTable::Found> take(const ClientId& client, const std::string& group, StepId received,
                                std::int64_t known);
  /// Records that a member needs a step no more.
  /// @error not_found unless he holds it
  Status release(const ClientId& client, const std::string& group, StepId id);

  /// What happens to a step that is begun now.
  struct Admission {
    bool waits = false;
    bool drops = false;
    std::string why;  ///< Why it waits, or is dropped.
  };
  /// Says whether a step may begin; frees the oldest one if the queue says so.
  Admission admit(const ClientId& client, std::int64_t number);

 private:
  struct Group {
    Sharing sharing = Sharing::demand;
    std::int64_t after = INT64_MIN;  ///< Higher steps have not been given to any member.
    std::vector<ClientId> members;   ///< In the order in which they have joined.
    std::size_t turn = 0;            ///< The member who gets the next step.
    std::map<ClientId, std::deque<std::int64_t>> queues;  ///< Given, and not taken.
    std::map<std::int64_t, ClientId> held;
    std::map<ClientId, StepId> last;  ///< That each member was given.
    std::set<std::int64_t> returned;  ///< Of members that have left.

    bool needs(std::int64_t number) const;
  };

  void remove(const ClientId& client, const std::string& name, bool leaves);
  void forget_freed();
  static void hand_out(Group& group, std::int64_t number);
  std::optional<std::int64_t> next_for(Group& group, const ClientId& client);
  bool is_needed(std::int64_t number) const;
  bool is_pinned(std::int64_t number) const;
  void free_released();
  std::string holders(std::int64_t number) const;

  StepTable& steps_;
  StepQueue queue_;
  std::map<std::string, Group> groups_;
};

}  // namespace tranship::staging
