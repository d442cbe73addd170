#include "staging/client/step_client.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

constexpr int first_server = 0;
/// A longer reason to give a step up is truncated: a message has room for it.
constexpr std::size_t why_bytes = 512;

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

/// If a reply of the first server may have come too late, the steps that it named are given back:
/// this client would settle them otherwise, and does not know which. Returns whether it may have.
bool StepClient::give_back(const Error& why) {
  if (why.code != ErrorCode::timeout && why.code != ErrorCode::cancelled) return false;
  requester_.send(first_server, message_of(protocol::StepSettled{}));
  return true;
}

bool StepClient::is_open(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& one) { return one.second.number == number; });
}

/// Asks the first server, and gives back what it may have named in vain.
template <typename Request>
Result<typename Request::Reply> StepClient::ask(const Request& request, ReplyBuffer& reply) {
  auto answer = requester_.ask(first_server, request, reply);
  if (!answer) (void)give_back(answer.error());
  return answer;
}

/// Bytes of variables and attributes that go into one message.
std::size_t StepClient::message_room() const {
  return static_cast<std::size_t>(requester_.message_bytes()) / 2;
}

Result<StepId> StepClient::begin(std::int64_t number, int writers, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const protocol::BeginStep request{number, writers};
  const auto answer = requester_.ask_until_done(first_server, request, reply, end_ns);
  if (!answer) {
    if (!give_back(answer.error()) || is_open(number)) return answer.error();
    // It may have begun all the same: the first server gets this afterwards.
    requester_.send(first_server, message_of(protocol::GiveUpStep{0, "it did not begin", number}));
    return answer.error();
  }
  const auto& begun = std::get<protocol::StepBegun>(*answer);
  settle_all(begun.unsettled, end_ns);
  const std::lock_guard lock(mutex_);
  Open& open = open_[begun.id];
  open.number = number;
  open.dropped = begun.dropped;
  return begun.id;
}

bool StepClient::is_dropped(StepId id) {
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  return open != open_.end() && open->second.dropped;
}

Status StepClient::begin_put(StepId id) {
  if (id == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end() || open->second.ends) {
    return broken_step("this client has ended the step");
  }
  ++open->second.puts;
  return {};
}

void StepClient::end_put(StepId id) {
  if (id == 0) return;
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  --open->second.puts;
  put_ended_.notify_all();
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
  const std::pair name(attribute.variable, attribute.key);
  if (attribute.value.empty()) {
    open->second.attributes.erase(name);
  } else {
    open->second.attributes[name] = attribute;
  }
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
    std::unique_lock lock(mutex_);
    auto open = open_.find(id);
    if (open == open_.end() || open->second.ends) return broken_step("this client has ended it");
    open->second.ends = true;
    // Puts of other threads: each ends with its own timeout.
    while (open->second.puts > 0) {
      put_ended_.wait(lock);
      open = open_.find(id);
      if (open == open_.end()) return broken_step("it was given up");
    }
    for (auto& [name, variable] : open->second.variables) contents.variables.push_back(variable);
    for (auto& [name, one] : open->second.attributes) contents.attributes.push_back(one);
    const bool dropped = open->second.dropped;
    open_.erase(open);
    if (dropped) return {};
  }
  ReplyBuffer reply(end_ns);
  protocol::EndStep request;
  request.id = id;
  Status sent = send_contents(id, contents, end_ns);
  request.contents = std::move(contents);
  auto ended = sent ? ask(request, reply) : Result<protocol::StepStateFound>(sent.error());
  if (!ended) {
    // The first server gets this after what it may have got before: it decides once.
    give_up(id, ended.error().message);
    return ended.error();
  }
  if (ended->settles) tell_all(id, ended->state, end_ns);
  return ended->state == StepState::broken ? Status(broken_step(ended->why)) : Status{};
}

void StepClient::give_up(StepId id, const std::string& reason) {
  const std::string why = reason.size() <= why_bytes ? reason : in_quotes(reason, why_bytes);
  {
    const std::lock_guard lock(mutex_);
    const auto open = open_.find(id);
    if (open != open_.end() && open->second.dropped) return void(open_.erase(open));
    open_.erase(id);
    put_ended_.notify_all();
  }
  if (requester_.servers() == 1) {
    requester_.send(first_server, message_of(protocol::GiveUpStep{id, why}));
    return;
  }
  ReplyBuffer reply;
  const auto given_up = ask(protocol::GiveUpStep{id, why}, reply);
  if (given_up && given_up->settles) tell_all(id, given_up->state, reply.end_ns);
}

/// Tells all other servers the state of a step, and the first one that they know, and which ones
/// could not be reached: it decides whether they have lost their objects.
void StepClient::tell_all(StepId id, StepState state, std::int64_t end_ns) {
  if (state == StepState::open) return;
  protocol::StepSettled told{id, state, true, {}};
  SentRequests<protocol::SettleStep> sent(end_ns);
  for (int server = 1; server < requester_.servers(); ++server) {
    (void)requester_.send(server, protocol::SettleStep{id, state}, sent);
  }
  sent.take_replies([&](int server, const Result<protocol::DoneWithOrphans>& settled) {
    if (settled) {
      requester_.report_orphans(server, settled->orphans);
    } else if (settled.error().code == ErrorCode::peer_lost) {
      told.lost.push_back(server);
    } else {
      told.done = false;
    }
    return settled || settled.error().code != ErrorCode::cancelled;
  });
  requester_.send(first_server, message_of(told));
}

void StepClient::settle_all(const std::vector<UnsettledStep>& steps, std::int64_t end_ns) {
  for (const UnsettledStep& step : steps) tell_all(step.id, step.state, end_ns);
}

Result<bool> StepClient::settle(StepId id, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const auto found = ask(protocol::QueryStep{id}, reply);
  if (!found) return found.error();
  settle_all(found->unsettled, end_ns);
  if (found->state == StepState::open) return !found->unsettled.empty();
  tell_all(id, found->state, end_ns);
  return true;
}

Result<FoundStep> StepClient::find(const StepQuery& asked, std::int64_t end_ns,
                                   std::vector<BrokenStep>* broken) {
  StepQuery query = asked;
  for (int rounds = 0;; ++rounds) {
    const std::uint64_t seen = requester_.notices();
    ReplyBuffer reply(end_ns);
    auto found = ask(protocol::FindStep{query, true}, reply);
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
      auto step = complete(std::move(*found), end_ns);
      const bool gone = !step && step.error().code == ErrorCode::not_found;
      if (!gone || query.choice == VersionChoice::exact) return step;
      Status more = requester_.continue_search(rounds, end_ns, step.error().message);
      if (!more) return more.error();
      continue;
    }
    if (!found->broken.empty() && broken != nullptr) return FoundStep{0, query.number, {}};
    if (!found->broken.empty()) {
      Status more = requester_.continue_search(rounds, end_ns, found->why);
      if (!more) return more.error();
      continue;
    }
    if (found->ending != Ending::none) return no_more_steps(found->ending, found->why);
    if (Status status = requester_.pause(seen, end_ns, found->why); !status) return status.error();
  }
}

/// Asks for a step once, without a notice of those to come.
Result<protocol::StepFound> StepClient::look(const StepQuery& query, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  auto found = ask(protocol::FindStep{query, false}, reply);
  if (found) settle_all(found->unsettled, end_ns);
  return found;
}

/// Returns a step of which the first server has sent a page.
Result<FoundStep> StepClient::complete(protocol::StepFound found, std::int64_t end_ns) {
  FoundStep step{found.id, found.number, {}};
  if (Status rest = read_rest(step, std::move(found.page), end_ns); !rest) return rest.error();
  if (!found.settled && requester_.servers() > 1) tell_all(found.id, StepState::whole, end_ns);
  return step;
}

Result<FoundStep> StepClient::take(const std::string& group, std::int64_t end_ns,
                                   std::vector<BrokenStep>* broken) {
  Taken taken;
  {
    const std::lock_guard lock(mutex_);
    taken = taken_[group];
  }
  for (int rounds = 0;; ++rounds) {
    const std::uint64_t seen = requester_.notices();
    ReplyBuffer reply(end_ns);
    const protocol::TakeStep request{group, taken.last, taken.known, true};
    auto found = ask(request, reply);
    if (!found) return found.error();
    settle_all(found->unsettled, end_ns);
    for (const BrokenStep& passed : found->broken) {
      if (passed.number <= taken.known) return not_a_server();
      taken.known = passed.number;
      if (broken != nullptr) broken->push_back(passed);
    }
    const auto remember = [&] {
      const std::lock_guard lock(mutex_);
      taken_[group] = taken;
    };
    remember();
    if (found->id != 0) {
      const StepId id = found->id;
      auto step = complete(std::move(*found), end_ns);
      const bool gone = !step && step.error().code == ErrorCode::not_found;
      if (!step && !gone) return step;  // it is given again
      taken.last = id;
      remember();
      if (step) return step;
      Status more = requester_.continue_search(rounds, end_ns, step.error().message);
      if (!more) return more.error();
      continue;
    }
    if (!found->broken.empty() && broken != nullptr) return FoundStep{0, taken.known, {}};
    if (!found->broken.empty()) {
      Status more = requester_.continue_search(rounds, end_ns, found->why);
      if (!more) return more.error();
      continue;
    }
    if (found->ending != Ending::none) return no_more_steps(found->ending, found->why);
    if (Status status = requester_.pause(seen, end_ns, found->why); !status) return status.error();
  }
}

/// Fetches what did not fit into the reply that found the step.
Status StepClient::read_rest(FoundStep& step, protocol::StepPage page, std::int64_t end_ns) {
  auto& variables = step.contents.variables;
  auto& attributes = step.contents.attributes;
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

Status StepClient::free(std::int64_t number, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const protocol::FindStep find{{VersionChoice::exact, number}, false};
  const auto found = requester_.ask(first_server, find, reply);
  if (!found) return found.error();
  if (found->id == 0) {
    return Error{ErrorCode::not_found, step_of(number) + " is not whole: " + found->why};
  }
  const auto freed = ask(protocol::FreeStep{found->id}, reply);
  if (!freed) return freed.error();
  if (freed->settles) tell_all(found->id, freed->state, end_ns);
  return {};
}

Status StepClient::define(const StepQueue& queue) {
  ReplyBuffer reply;
  const auto done = requester_.ask(first_server, protocol::DefineQueue{queue}, reply);
  return done ? Status{} : Status(done.error());
}

Status StepClient::join(const std::string& group, Sharing sharing, std::int64_t after) {
  ReplyBuffer reply;
  const protocol::JoinReaders request{group, sharing, after};
  const auto joined = ask(request, reply);
  if (!joined) return joined.error();
  {
    const std::lock_guard lock(mutex_);
    taken_[group] = {};
  }
  settle_all(joined->unsettled, reply.end_ns);
  return {};
}

Status StepClient::leave(const std::string& group) {
  ReplyBuffer reply;
  const auto left = ask(protocol::LeaveReaders{group}, reply);
  if (!left) return left.error();
  settle_all(left->unsettled, reply.end_ns);
  return {};
}

void StepClient::leave_later(const std::string& group) {
  requester_.send(first_server, message_of(protocol::LeaveReaders{group}));
}

Status StepClient::release(const std::string& group, StepId id) {
  ReplyBuffer reply;
  const auto released = ask(protocol::ReleaseStep{group, id}, reply);
  if (!released) return released.error();
  if (released->settles) tell_all(id, released->state, reply.end_ns);
  return {};
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
  while (true) {
    ReplyBuffer reply;
    const protocol::GetAttributes request{variable, all.empty() ? std::string() : all.back().key};
    auto found = requester_.ask(first_server, request, reply);
    if (!found) return found.error();
    for (Attribute& attribute : found->attributes) {
      const bool rises = all.empty() || all.back().key < attribute.key;
      if (!rises || attribute.variable != variable) return not_a_server();
      all.push_back(std::move(attribute));
    }
    if (!found->more) return all;
    if (found->attributes.empty()) return not_a_server();
  }
}

}  // namespace tranship::staging
