#include "staging/server/reader_groups.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

Error no_member(const std::string& group) {
  return {ErrorCode::not_found, "this client is no reader of the group " + in_quotes(group),
          "join it first"};
}

bool contains(const std::deque<std::int64_t>& queue, std::int64_t number) {
  return std::find(queue.begin(), queue.end(), number) != queue.end();
}

}  // namespace

/// Returns whether a step has not been released.
bool ReaderGroups::Group::needs(std::int64_t number) const {
  if (number > after || held.contains(number) || returned.contains(number)) return true;
  return std::any_of(queues.begin(), queues.end(),
                     [&](const auto& one) { return contains(one.second, number); });
}

Status ReaderGroups::join(const ClientId& client, const std::string& name, Sharing sharing,
                          std::int64_t after) {
  if (groups_.size() >= groups_max && !groups_.contains(name)) {
    return Error{
        ErrorCode::out_of_memory,
        "there are " + std::to_string(groups_max) + " groups of readers, which is the limit",
        "let readers share a group"};
  }
  const auto [found, is_new] = groups_.try_emplace(name);
  Group& group = found->second;
  if (is_new) {
    group.sharing = sharing;
    group.after = after;
  }
  if (group.sharing != sharing) {
    return Error{ErrorCode::invalid_argument,
                 "the group " + in_quotes(name) + " shares steps in another way",
                 "give all of its readers the same share="};
  }
  if (std::find(group.members.begin(), group.members.end(), client) != group.members.end()) {
    return Error{ErrorCode::invalid_argument,
                 "this client is a reader of the group " + in_quotes(name) + " already",
                 "open a client for each of its readers"};
  }
  if (group.members.size() >= members_max) {
    return Error{ErrorCode::out_of_memory, "the group " + in_quotes(name) + " has " +
                                               std::to_string(members_max) +
                                               " readers, which is the limit"};
  }
  group.members.push_back(client);
  free_released();  // the group may begin behind steps that nobody has released
  return {};
}

/// Puts a step into the queue of the member whose turn it is.
void ReaderGroups::hand_out(Group& group, std::int64_t number) {
  if (group.turn >= group.members.size()) group.turn = 0;
  group.queues[group.members[group.turn++]].push_back(number);
}

/// Removes a member that leaves, or is lost.
void ReaderGroups::remove(const ClientId& client, const std::string& name, bool leaves) {
  Group& group = groups_.at(name);
  const auto member = std::find(group.members.begin(), group.members.end(), client);
  const auto place = static_cast<std::size_t>(member - group.members.begin());
  group.members.erase(member);
  if (group.turn > place) --group.turn;
  std::set<std::int64_t> held;
  for (const auto& [number, holder] : group.held) {
    if (holder == client) held.insert(number);
  }
  for (const std::int64_t number : held) group.held.erase(number);
  group.last.erase(client);
  if (!group.members.empty()) {
    group.returned.merge(held);
    const auto queue = group.queues.extract(client);
    if (queue) group.returned.insert(queue.mapped().begin(), queue.mapped().end());
    return;
  }
  groups_.erase(name);
  for (const std::int64_t number : held) {
    const bool goes = leaves && steps_.whole().contains(number) && !is_pinned(number);
    if (goes && !is_needed(number)) (void)steps_.free(steps_.at(number).id);
  }
}

/// Forgets steps that were freed by others.
void ReaderGroups::forget_freed() {
  const auto is_freed = [&](std::int64_t one) { return !steps_.whole().contains(one); };
  for (auto& [name, group] : groups_) {
    std::erase_if(group.held, [&](const auto& one) { return is_freed(one.first); });
    std::erase_if(group.returned, is_freed);
    for (auto& [client, queue] : group.queues) std::erase_if(queue, is_freed);
  }
}

void ReaderGroups::leave(const ClientId& client, const std::string& name) {
  const auto found = groups_.find(name);
  if (found == groups_.end()) return;
  const auto& members = found->second.members;
  if (std::find(members.begin(), members.end(), client) == members.end()) return;
  remove(client, name, true);
  free_released();
}

bool ReaderGroups::lost(const ClientId& client) {
  std::vector<std::string> of;
  for (const auto& [name, group] : groups_) {
    const auto& members = group.members;
    if (std::find(members.begin(), members.end(), client) != members.end()) of.push_back(name);
  }
  for (const std::string& name : of) remove(client, name, false);
  if (!of.empty()) free_released();
  return !of.empty();
}

/// Returns the number of the step that the member gets next; nothing if none is whole.
std::optional<std::int64_t> ReaderGroups::next_for(Group& group, const ClientId& client) {
  if (!group.returned.empty()) {
    return group.returned.extract(group.returned.begin()).value();
  }
  while (group.sharing == Sharing::round_robin) {
    std::deque<std::int64_t>& queue = group.queues[client];
    if (!queue.empty()) {
      const std::int64_t number = queue.front();
      queue.pop_front();
      return number;
    }
    const auto found = steps_.find({VersionChoice::next, group.after});
    if (!found || found->record == nullptr) return std::nullopt;
    group.after = found->record->number;
    hand_out(group, group.after);
  }
  const auto found = steps_.find({VersionChoice::next, group.after});
  if (!found || found->record == nullptr) return std::nullopt;
  group.after = found->record->number;
  return group.after;
}

Result<StepTable::Found> ReaderGroups::take(const ClientId& client, const std::string& name,
                                            StepId received, std::int64_t known) {
  const auto found = groups_.find(name);
  if (found == groups_.end()) return no_member(name);
  Group& group = found->second;
  if (std::find(group.members.begin(), group.members.end(), client) == group.members.end()) {
    return no_member(name);
  }
  forget_freed();
  StepTable::Found answer;
  if (const auto last = group.last.find(client);
      last != group.last.end() && last->second != received) {
    const StepRecord* record = steps_.find(last->second);
    const auto held = record == nullptr ? group.held.end() : group.held.find(record->number);
    if (held != group.held.end() && held->second == client && record->state == StepState::whole) {
      answer.record = record;
      return answer;
    }
  }
  auto next = steps_.find({VersionChoice::next, std::max(group.after, known)});
  if (!next) return next.error();
  answer.why = std::move(next->why);
  answer.broken = std::move(next->broken);
  if (!answer.broken.empty()) return answer;  // he asks again when he knows them
  if (const auto number = next_for(group, client)) {
    group.held.emplace(*number, client);
    answer.record = &steps_.at(*number);
    group.last[client] = answer.record->id;
    return answer;
  }
  // What others hold may come back.
  const auto is_busy = [](const auto& one) { return !one.second.empty(); };
  answer.awaits =
      !group.held.empty() || std::any_of(group.queues.begin(), group.queues.end(), is_busy);
  return answer;
}

Status ReaderGroups::release(const ClientId& client, const std::string& name, StepId id) {
  const auto found = groups_.find(name);
  if (found == groups_.end()) return no_member(name);
  const StepRecord* record = steps_.find(id);
  if (record == nullptr || record->state != StepState::whole) return {};  // it was discarded
  const auto held = found->second.held.find(record->number);
  if (held == found->second.held.end() || held->second != client) {
    return Error{ErrorCode::not_found, "this client does not hold " + step_of(record->number)};
  }
  found->second.held.erase(held);
  free_released();
  return {};
}

bool ReaderGroups::is_needed(std::int64_t number) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const auto& one) { return one.second.needs(number); });
}

bool ReaderGroups::is_pinned(std::int64_t number) const {
  return queue_.keep_first && steps_.first_whole() == number;
}

/// Frees what each group has released.
void ReaderGroups::free_released() {
  forget_freed();
  if (groups_.empty()) return;
  std::int64_t taken = INT64_MAX;  // by all groups
  for (const auto& [name, group] : groups_) taken = std::min(taken, group.after);
  std::vector<StepId> released;
  for (const std::int64_t number : steps_.whole()) {
    if (number > taken) break;
    if (!is_pinned(number) && !is_needed(number)) released.push_back(steps_.at(number).id);
  }
  for (const StepId id : released) (void)steps_.free(id);
}

/// Returns who keeps a step from being freed, for messages.
std::string ReaderGroups::holders(std::int64_t number) const {
  std::string names;
  for (const auto& [name, group] : groups_) {
    if (group.needs(number)) names += (names.empty() ? "" : ", ") + in_quotes(name);
  }
  if (groups_.empty()) return "no reader is registered that would release " + step_of(number);
  if (names.empty()) return step_of(number) + " is kept";
  return "the readers " + names + " have not released " + step_of(number);
}

ReaderGroups::Admission ReaderGroups::admit(const ClientId& client, std::int64_t number) {
  if (steps_.joins(number)) return {};
  std::size_t readers = 0;
  for (const auto& [name, group] : groups_) readers += group.members.size();
  if (!steps_.any() && readers < static_cast<std::size_t>(queue_.readers)) {
    return {true, false,
            std::to_string(readers) + " of " + std::to_string(queue_.readers) +
                " readers have registered"};
  }
  if (queue_.steps == 0 || queue_.full == QueueFull::spill) return {};
  std::vector<std::int64_t> kept;
  for (const std::int64_t one : steps_.whole()) {
    if (!is_pinned(one)) kept.push_back(one);
  }
  // A writer that has ended its steps may begin one more: others that are behind may have left the
  // open ones out, which only shows when all have begun a higher one.
  const std::size_t most =
      static_cast<std::size_t>(queue_.steps) + (steps_.has_left_open(client) ? 1 : 0);
  const auto full = [&] { return kept.size() + steps_.open() >= most; };
  if (!full()) return {};
  if (queue_.full == QueueFull::drop_oldest) {
    const auto is_held = [&](std::int64_t one) {
      return std::any_of(groups_.begin(), groups_.end(),
                         [&](const auto& group) { return group.second.held.contains(one); });
    };
    for (auto one = kept.begin(); full() && one != kept.end();) {
      if (is_held(*one)) {
        ++one;
        continue;
      }
      (void)steps_.free(steps_.at(*one).id);
      one = kept.erase(one);
    }
    if (!full()) return {};
  }
  const std::string why = std::to_string(kept.size() + steps_.open()) +
                          " steps are kept, as many as the queue has; " +
                          (kept.empty() ? "they are being written" : holders(kept.front()));
  const bool drops = queue_.full == QueueFull::drop_newest;
  return {!drops, drops, why};
}

}  // namespace tranship::staging
