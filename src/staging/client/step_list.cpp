// The list of the steps that the first server remembers.
#include <utility>

#include "staging/client/step_client.hpp"

namespace tranship::staging {
/// Returns what a reply to a look for the next step says of one that is not passed by. Nothing: the
/// step was freed meanwhile.
Result<std::optional<ListedStep>> StepClient::listed(protocol::StepFound found,
                                                     std::int64_t end_ns) {
  const std::int64_t number = found.number;
  if (found.id == 0) {
    // It is open; or it is broken, and may be begun again.
    auto now = look({VersionChoice::exact, number}, end_ns);
    if (!now && now.error().code == ErrorCode::not_found) return std::optional<ListedStep>();
    if (!now) return now.error();
    const bool breaks = !now->broken.empty();
    if ((breaks ? now->broken.front().number : now->number) != number) return not_a_server();
    if (breaks) {
      return std::optional(ListedStep{number, StepState::broken, now->broken.front().why});
    }
    if (now->id == 0) return std::optional(ListedStep{number, StepState::open, now->why});
    found = std::move(*now);
  }
  auto step = complete(std::move(found), end_ns);
  if (!step && step.error().code == ErrorCode::not_found) return std::optional<ListedStep>();
  if (!step) return step.error();
  ListedStep whole{number, StepState::whole};
  for (StepVariable& one : step->contents.variables) whole.variables.push_back(std::move(one.name));
  whole.attributes = std::ssize(step->contents.attributes);
  return std::optional(std::move(whole));
}

Result<std::vector<ListedStep>> StepClient::list(std::int64_t end_ns) {
  std::vector<ListedStep> steps;
  std::int64_t last = INT64_MIN;
  for (int rounds = 0;; ++rounds) {
    Status more = requester_.continue_search(rounds, end_ns, "steps go on and on");
    if (!more) return more.error();
    auto found = look({VersionChoice::next, last}, end_ns);
    if (!found) return found.error();
    for (BrokenStep& passed : found->broken) {
      if (passed.number <= last) return not_a_server();
      last = passed.number;
      steps.push_back({passed.number, StepState::broken, std::move(passed.why)});
    }
    if (found->id == 0 && !found->broken.empty()) continue;
    if (found->number <= last) {
      if (found->id != 0) return not_a_server();
      return steps;
    }
    last = found->number;
    auto step = listed(std::move(*found), end_ns);
    if (!step) return step.error();
    if (*step) steps.push_back(std::move(**step));
  }
}

}  // namespace tranship::staging
