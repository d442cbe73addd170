#include "staging/client/step_client.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

constexpr int first_server = 0;

Error no_more_steps(Ending ending, const std::string& why) {
  if (ending == Ending::died) {
    return {ErrorCode::peer_lost, "a process that wrote steps has died: " + why};
  }
  return {ErrorCode::closed, "all processes that wrote steps have ended: " + why};
}

Error broken_step(const std::string& why) {
  return {ErrorCode::not_found, why.empty() ? "the step is broken" : why,
          "nothing of it is kept: begin the next step"};
}

/// Moves values that take up to `room` bytes together, which become fewer, behind others; at least
/// one, if the room is still `all`.
template <typename Value>
void move_some(std::vector<Value>& from, std::vector<Value>& to, std::size_t& room,
               const std::size_t all) {
  while (!from.empty()) {
    const std::size_t bytes = encoded_bytes(from.back());
    if (bytes > room && room < all) return;
    room -= std::min(bytes, room);
    to.push_back(std::move(from.back()));
    from.pop_back();
  }
}

}  // namespace

/// Bytes of variables and attributes that go into one message.
std::size_t StepClient::message_room() const {
  return static_cast<std::size_t>(requester_.message_bytes()) / 2;
}

Result<StepId> StepClient::begin(std::int64_t number, int writers, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const protocol::BeginStep request{number, writers};
  const auto begun = requester_.ask(first_server, request, reply);
  if (!begun) return begun.error();
  settle_all(begun->unsettled, end_ns);
  const std::lock_guard lock(mutex_);
  open_[begun->id];
  return begun->id;
}

Status StepClient::check_open(StepId id) {
  if (id == 0) return {};
  const std::lock_guard lock(mutex_);
  return open_.contains(id) ? Status{} : Status(broken_step("this client has ended the step"));
}

void StepClient::add(StepId id, const StepVariable& variable) {
  if (id == 0) return;
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  const auto [known, is_new] = open->second.variables.emplace(variable.name, variable);
  // Elements of another type were refused when they were put.
  if (!is_new) (void)merge(known->second, variable);
}

/// Checks an attribute before it is sent.
Status StepClient::check(const Attribute& attribute) const {
  if (Status status = check_key(attribute.key); !status) return status;
  if (encoded_bytes(attribute) <= message_room()) return {};
  return Error{ErrorCode::invalid_argument,
               "the attribute " + in_quotes(attribute.key) + " takes " +
                   std::to_string(attribute.value.size()) + " bytes, and a message has room for " +
                   std::to_string(message_room()),
               "put it as a variable, or start the servers with a larger slot_bytes"};
}

Status StepClient::add(StepId id, const Attribute& attribute) {
  if (Status status = check(attribute); !status) return status;
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return {};
  open->second.attributes.insert_or_assign({attribute.variable, attribute.key}, attribute.value);
  return {};
}

/// Sends what does not fit into one message, and leaves the rest.
Status StepClient::send_contents(StepId id, StepContents& contents, std::int64_t end_ns) {
  while (true) {
    protocol::AddToStep some;
    some.id = id;
    const std::size_t all = message_room();
    std::size_t room = all;
    move_some(contents.variables, some.contents.variables, room, all);
    move_some(contents.attributes, some.contents.attributes, room, all);
    if (contents.variables.empty() && contents.attributes.empty()) {
      contents = std::move(some.contents);
      return {};
    }
    ReplyBuffer reply(end_ns);
    const auto added = requester_.ask(first_server, some, reply);
    if (!added) return added.error();
  }
}

Status StepClient::end(StepId id, std::int64_t end_ns) {
  StepContents contents;
  {
    const std::lock_guard lock(mutex_);
    const auto open = open_.find(id);
    if (open == open_.end()) return broken_step("");
    for (auto& [name, variable] : open->second.variables) contents.variables.push_back(variable);
    for (auto& [name, value] : open->second.attributes) {
      contents.attributes.push_back({name.first, name.second, std::move(value)});
    }
    open_.erase(open);
  }
  ReplyBuffer reply(end_ns);
  protocol::EndStep request;
  request.id = id;
  Status sent = send_contents(id, contents, end_ns);
  request.contents = std::move(contents);
  auto ended = sent ? requester_.ask(first_server, request, reply)
                    : Result<protocol::StepStateFound>(sent.error());
  if (!ended) {
    // The first server gets this after what it may have got before: it decides once.
    give_up(id, ended.error().message);
    return ended.error();
  }
  if (ended->settles) tell_all(id, ended->state == StepState::whole, end_ns);
  return ended->state == StepState::broken ? Status(broken_step(ended->why)) : Status{};
}

void StepClient::give_up(StepId id, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    open_.erase(id);
  }
  if (requester_.servers() == 1) {
    requester_.send(first_server, message_of(protocol::GiveUpStep{id, why}));
    return;
  }
  ReplyBuffer reply;
  const auto given_up = requester_.ask(first_server, protocol::GiveUpStep{id, why}, reply);
  if (given_up && given_up->settles) {
    tell_all(id, given_up->state == StepState::whole, reply.end_ns);
  }
}

/// Tells all other servers that a step has ended, and the first one that they know. One that is
/// lost has lost its objects.
void StepClient::tell_all(StepId id, bool whole, std::int64_t end_ns) {
  bool done = true;
  SentRequests<protocol::SettleStep> sent(end_ns);
  for (int server = 1; server < requester_.servers(); ++server) {
    (void)requester_.send(server, protocol::SettleStep{id, whole}, sent);
  }
  sent.take_replies([&](int server, const Result<protocol::DoneWithOrphans>& settled) {
    if (settled) {
      requester_.report_orphans(server, settled->orphans);
    } else {
      done = done && settled.error().code == ErrorCode::peer_lost;
    }
    return settled || settled.error().code != ErrorCode::cancelled;
  });
  requester_.send(first_server, message_of(protocol::StepSettled{id, done}));
}

void StepClient::settle_all(const std::vector<UnsettledStep>& steps, std::int64_t end_ns) {
  for (const UnsettledStep& step : steps) tell_all(step.id, step.whole, end_ns);
}

Result<bool> StepClient::settle(StepId id, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const auto found = requester_.ask(first_server, protocol::QueryStep{id}, reply);
  if (!found) return found.error();
  if (found->state == StepState::open) return false;
  tell_all(id, found->state == StepState::whole, end_ns);
  return true;
}

Result<FoundStep> StepClient::find(const StepQuery& asked, std::int64_t end_ns,
                                   std::vector<BrokenStep>* broken) {
  StepQuery query = asked;
  for (int rounds = 0;; ++rounds) {
    const std::uint64_t seen = requester_.notices();
    ReplyBuffer reply(end_ns);
    auto found = requester_.ask(first_server, protocol::FindStep{query, true}, reply);
    if (!found) return found.error();
    settle_all(found->unsettled, end_ns);
    for (const BrokenStep& passed : found->broken) {
      if (query.choice == VersionChoice::exact) return broken_step(passed.why);
      if (passed.number <= query.number) return not_a_server();
      if (broken != nullptr) broken->push_back(passed);
      query.number = passed.number;
    }
    if (found->id != 0) {
      const bool fits = query.choice == VersionChoice::next     ? found->number > query.number
                        : query.choice == VersionChoice::latest ? found->number <= query.number
                                                                : found->number == query.number;
      if (!fits) return not_a_server();
      FoundStep step{found->id, found->number, {}};
      if (Status rest = read_rest(step, std::move(found->page), end_ns); !rest) {
        if (rest.error().code != ErrorCode::not_found || query.choice == VersionChoice::exact) {
          return rest.error();
        }
        Status more = requester_.continue_search(rounds, end_ns, rest.error().message);
        if (!more) return more.error();
        continue;  // it was discarded meanwhile
      }
      if (!found->settled && requester_.servers() > 1) tell_all(found->id, true, end_ns);
      return step;
    }
    if (!found->broken.empty()) continue;
    if (found->ending != Ending::none) return no_more_steps(found->ending, found->why);
    if (Status status = requester_.pause(seen, end_ns, found->why); !status) return status.error();
  }
}

/// Fetches what did not fit into the reply that found the step.
Status StepClient::read_rest(FoundStep& step, protocol::StepPage page, std::int64_t end_ns) {
  auto& [variables, attributes] = step.contents;
  const auto take = [&](protocol::StepPage& one) {
    variables.insert(variables.end(), one.variables.begin(), one.variables.end());
    attributes.insert(attributes.end(), one.attributes.begin(), one.attributes.end());
  };
  take(page);
  while (page.variables_left > 0 || page.attributes_left > 0) {
    const std::uint32_t left = page.variables_left + page.attributes_left;
    ReplyBuffer reply(end_ns);
    const protocol::MoreOfStep more{step.id, static_cast<std::uint32_t>(variables.size()),
                                    static_cast<std::uint32_t>(attributes.size())};
    auto answer = requester_.ask(first_server, more, reply);
    if (!answer) return answer.error();
    page = std::move(*answer);
    if (page.variables_left + page.attributes_left >= left) return not_a_server();
    take(page);
  }
  return {};
}

Status StepClient::forget(StepId id) {
  ReplyBuffer reply;
  const auto forgotten = requester_.ask(first_server, protocol::ForgetStep{id}, reply);
  return forgotten ? Status{} : Status(forgotten.error());
}

Status StepClient::set(std::vector<Attribute> attributes) {
  for (const Attribute& attribute : attributes) {
    if (Status status = check(attribute); !status) return status;
  }
  std::reverse(attributes.begin(), attributes.end());  // move_some() takes the last ones first
  while (!attributes.empty()) {
    protocol::SetAttributes some;
    const std::size_t all = message_room();
    std::size_t room = all;
    move_some(attributes, some.attributes, room, all);
    ReplyBuffer reply;
    const auto done = requester_.ask(first_server, some, reply);
    if (!done) return done.error();
  }
  return {};
}

Result<std::vector<Attribute>> StepClient::attributes_of(const std::string& variable) {
  std::vector<Attribute> all;
  for (std::uint32_t left = 1; left > 0;) {
    ReplyBuffer reply;
    const protocol::GetAttributes request{variable, static_cast<std::uint32_t>(all.size())};
    auto found = requester_.ask(first_server, request, reply);
    if (!found) return found.error();
    if (found->left > 0 && found->attributes.empty()) return not_a_server();
    left = found->left;
    all.insert(all.end(), found->attributes.begin(), found->attributes.end());
  }
  return all;
}

}  // namespace tranship::staging
