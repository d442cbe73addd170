// What writers of steps did in a run on virtual time, with which each reader's results are checked.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/staging_world.hpp"

namespace tranship::test {

using namespace staging;

constexpr std::int64_t width = 10;         ///< elements of each writer's box
constexpr std::int64_t beside_value = -5;  ///< of elements that were put beside steps
constexpr std::int64_t hidden_value = -7;  ///< of elements that their writer puts again
inline const std::vector<std::string> names{"a", "b", "c"};
inline const std::string nothing = "nothing";  ///< to which boxes without elements are put

using Attributes = std::map<std::string, std::string>;

/// An attempt to write a step.
struct Attempt {
  std::int64_t number = 0;
  int ending = 0;                             ///< writers that have called end()
  int ended = 0;                              ///< writers whose end has returned without an error
  bool given_up = false;                      ///< a writer has given it up before its end
  std::map<std::string, std::int64_t> boxes;  ///< of each variable
  Attributes attributes;
};

struct Record {
  std::map<StepId, Attempt> attempts;
  std::vector<std::string> wrong;
  int writers = 1;
  std::size_t variables = 1;
  bool empties = false;        ///< boxes without elements are put, too
  bool long_texts = false;     ///< steps have many long attributes
  bool conflicts = false;      ///< writers do not agree on an attribute
  bool overlaps = false;       ///< writers put parts of their boxes twice
  bool beside = false;         ///< clients put to the same versions beside steps
  bool late = false;           ///< requests may be late: a failure may be that
  bool discards = false;       ///< versions may be discarded
  bool fills = false;          ///< memory may be full
  bool runs_at_once = false;   ///< writers begin a step before they end the one before
  int running = 0;             ///< clients that have not ended
  int seen = 0;                ///< steps that readers have seen whole
  int settled = 0;             ///< steps that the last client has found whole
  std::int64_t came_back = 0;  ///< objects that came back from disk
  StepQueue queue{};           ///< how long steps are kept
  bool keeps_used = false;     ///< only what all groups of readers have released is freed
  int taken = 0;               ///< steps that members of groups have taken
  /// who has taken a step last, by group and number; and what was released there
  std::map<std::pair<std::string, std::int64_t>, int> holders;
  std::set<std::pair<std::string, std::int64_t>> released;

  void complain(const std::string& text) { wrong.push_back(text); }
  /// Returns whether a step may stay open: a writer of it never came.
  bool leaves_open() const {
    return std::any_of(attempts.begin(), attempts.end(), [this](const auto& one) {
      return one.second.ending > 0 && one.second.ending < writers && !one.second.given_up;
    });
  }
  bool may_be_whole(const Attempt& attempt) const {
    return attempt.ending == writers && !attempt.given_up;
  }
  bool may_be_whole(std::int64_t number) const {
    return std::any_of(attempts.begin(), attempts.end(), [&](const auto& one) {
      return one.second.number == number && may_be_whole(one.second);
    });
  }
  Box whole() const { return *Box::make({0}, {width * writers}); }
  std::size_t lists() const { return variables + (empties ? 1 : 0); }
};

inline Box box_of_writer(int writer) {
  return *Box::make({width * writer}, {width * (writer + 1)});
}

inline std::int64_t value_of(StepId id, int writer) {
  return static_cast<std::int64_t>(id) * 16 + writer;
}

/// Returns whether a failed call has a reason that this client, the servers, or the run have.
inline bool has_reason(const StagingWorld& world, const Record& record, int client) {
  return record.late || record.fills || world.cut_off(client) || !world.all_alive();
}

/// Puts a box of a variable.
inline Status put(StagingWorld& world, int client, Catalog& catalog, const PutRequest& request,
                  std::int64_t value, std::int64_t end_ns) {
  const auto bytes = static_cast<std::size_t>(8 * request.box.points());
  const auto store = [&](std::byte* data) {
    for (std::size_t k = 0; k < bytes; k += 8) std::memcpy(data + k, &value, 8);
    return Status{};
  };
  if (world.random().chance(0.5)) {
    const auto done = catalog.put(request, bytes, store, end_ns);
    if (!done) return done.error();
    if (*done) return {};
  }
  auto room = catalog.begin(request, end_ns);
  if (!room) return room.error();
  world.begin_writing(client, room->primary, room->range);
  const bool lives = world.step(client);
  std::byte* data = world.memory(room->primary, room->range);
  if (lives && data != nullptr) (void)store(data);
  world.end_writing(client);
  if (!lives || data == nullptr || world.random().chance(0.02)) {
    catalog.abort(*room);
    return Error{ErrorCode::peer_lost, "it was not copied"};
  }
  return catalog.commit(*room);
}

}  // namespace tranship::test
