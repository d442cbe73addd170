// Answers to requests about steps and attributes.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "staging/server/service.hpp"

namespace tranship::staging {
namespace {

Error not_the_first() {
  return {ErrorCode::invalid_argument, "this is not the first server of its group"};
}

Error too_large(const Attribute& attribute) {
  return {ErrorCode::invalid_argument, "the attribute " + in_quotes(attribute.key) + " takes " +
                                           std::to_string(attribute.value.size()) +
                                           " bytes, which is too much for a message"};
}

/// Copies values from number `first` on into a page, as many as fit into `room` bytes, which become
/// fewer. Returns how many are left.
template <typename Values, typename Page, typename Convert>
std::uint32_t fill(const Values& values, std::size_t first, Page& page, std::size_t& room,
                   const Convert& convert) {
  std::size_t taken = 0;
  auto one = values.begin();
  std::advance(one, static_cast<std::ptrdiff_t>(std::min(first, values.size())));
  for (; one != values.end(); ++one, ++taken) {
    auto value = convert(*one);
    const std::size_t bytes = encoded_bytes(value);
    if (bytes > room) break;
    room -= bytes;
    page.push_back(std::move(value));
  }
  const std::size_t seen = std::min(first, values.size()) + taken;
  return static_cast<std::uint32_t>(values.size() - seen);
}

/// Returns what a step has, from these numbers on, as much as fits into `room` bytes.
protocol::StepPage page_of(const StepRecord& record, std::size_t variable, std::size_t attribute,
                           std::size_t room) {
  protocol::StepPage page;
  page.variables_left = fill(record.variables, variable, page.variables, room,
                             [](const auto& one) { return one.second; });
  page.attributes_left = fill(
      record.attributes, attribute, page.attributes, room,
      [](const auto& one) { return Attribute{one.first.first, one.first.second, one.second}; });
  return page;
}

std::size_t room_beside(std::size_t all, std::size_t taken) {
  return all > taken ? all - taken : 0;
}

}  // namespace

/// Carries out here what other servers learn by SettleStep, and wakes who waits for steps.
void Service::settle_ended_steps() {
  for (const UnsettledStep& ended : steps_.take_ended()) {
    store_.end_step(ended.id, ended.state);
    if (options_.servers == 1) steps_.settled(0, ended.id, ended.state, true);
    changes_.insert(steps_watch);
  }
}

protocol::StepStateFound Service::state_of(ClientConnection from, StepId id) {
  const StepRecord* record = steps_.find(id);
  protocol::StepStateFound found{steps_.state(id), record == nullptr ? std::string() : record->why};
  settle_ended_steps();  // may forget the step
  found.settles = steps_.take_unsettled(from, id);
  return found;
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::BeginStep& request,
                                ReplyTo<protocol::BeginStep> reply) {
  if (!is_first()) return not_the_first();
  if (draining_) return closing();
  const auto admission = readers_.admit(clients_.at(from).id, request.number);
  if (admission.waits) return wait(from, steps_watch, admission.why, reply);
  const bool readers_wait = steps_.may_begin_again();
  const auto record = steps_.begin(clients_.at(from).id, request.number, request.writers,
                                   admission.drops ? admission.why : std::string());
  if (!record) return record.error();
  if (readers_wait) changes_.insert(steps_watch);
  settle_ended_steps();
  return reply(protocol::StepBegun{(*record)->id, (*record)->dropped, steps_.take_unsettled(from)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::AddToStep& request,
                                ReplyTo<protocol::AddToStep> reply) {
  if (!is_first()) return not_the_first();
  const Status status = steps_.add(clients_.at(from).id, request.id, request.contents);
  return status ? reply(protocol::Done{}) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::EndStep& request,
                                ReplyTo<protocol::EndStep> reply) {
  if (!is_first()) return not_the_first();
  const auto record = steps_.end(clients_.at(from).id, request.id, request.contents);
  if (!record) return record.error();
  return reply(state_of(from, request.id));
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::GiveUpStep& request,
                                ReplyTo<protocol::GiveUpStep> reply) {
  if (!is_first()) return not_the_first();
  const ClientId& client = clients_.at(from).id;
  const StepId id = request.id != 0 ? request.id : steps_.begun_by(client, request.number);
  steps_.give_up(client, id, request.why);
  return reply(state_of(from, id));
}

Result<std::size_t> Service::on(ClientConnection, const protocol::SettleStep& request,
                                ReplyTo<protocol::SettleStep> reply) {
  // The first server has settled each step that has ended.
  if (!is_first()) store_.end_step(request.id, request.state);
  return reply(protocol::DoneWithOrphans{store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::StepSettled& request,
                                ReplyTo<protocol::StepSettled> reply) {
  if (!is_first()) return not_the_first();
  if (request.id == 0) {
    steps_.drop_settler(from);
    return reply(protocol::Done{});
  }
  // A server that the client has lost may go on for others, unless it is dead.
  const bool all = std::all_of(request.lost.begin(), request.lost.end(),
                               [&](int server) { return dead_servers_.contains(server); });
  steps_.settled(from, request.id, request.state, request.done && all);
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::QueryStep& request,
                                ReplyTo<protocol::QueryStep> reply) {
  if (!is_first()) return not_the_first();
  protocol::StepStateFound found = state_of(from, request.id);
  // The client may wait behind an open step for one that has ended.
  found.unsettled = steps_.take_unsettled(from);
  return reply(found);
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::FindStep& request,
                                ReplyTo<protocol::FindStep> reply) {
  if (!is_first()) return not_the_first();
  if (request.watch) waiting_.add(steps_watch, from);
  return step_found(from, steps_.find(request.query), reply.room());
}

/// Replies with a whole step, or why there is none.
Result<std::size_t> Service::step_found(ClientConnection from, Result<StepTable::Found> found,
                                        std::span<std::byte> reply) {
  if (!found) return found.error();
  protocol::StepFound answer;
  answer.number = found->number;
  answer.why = std::move(found->why);
  answer.ending = found->awaits ? Ending::none : steps_.ending();
  const auto broken_most = std::min<std::ptrdiff_t>(std::ssize(found->broken), 8);
  answer.broken.assign(found->broken.begin(), found->broken.begin() + broken_most);
  answer.unsettled = steps_.take_unsettled(from);
  const std::size_t taken = sizeof(ReplyKind) + encoded_bytes(answer);
  // The reader goes on behind the broken steps that he learns.
  const bool all = broken_most == std::ssize(found->broken);
  if (found->record != nullptr && all) {
    const StepRecord& record = *found->record;
    answer.id = record.id;
    answer.number = record.number;
    answer.settled = record.settled;
    answer.page = page_of(record, 0, 0, room_beside(reply.size(), taken));
  }
  return write_reply(reply, answer);
}

Result<std::size_t> Service::on(ClientConnection, const protocol::MoreOfStep& request,
                                ReplyTo<protocol::MoreOfStep> reply) {
  if (!is_first()) return not_the_first();
  const StepRecord* record = steps_.find(request.id);
  if (record == nullptr || record->state != StepState::whole) {
    return Error{ErrorCode::not_found, "the step was discarded"};
  }
  const std::size_t taken = sizeof(ReplyKind) + encoded_bytes(protocol::StepPage{});
  return reply(page_of(*record, request.first_variable, request.first_attribute,
                       room_beside(reply.bytes(), taken)));
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::FreeStep& request,
                                ReplyTo<protocol::FreeStep> reply) {
  if (!is_first()) return not_the_first();
  if (steps_.free(request.id)) return reply(state_of(from, request.id));
  return Error{ErrorCode::not_found, "there is no such step"};
}

Result<std::size_t> Service::on(ClientConnection, const protocol::DefineQueue& request,
                                ReplyTo<protocol::DefineQueue> reply) {
  if (!is_first()) return not_the_first();
  if (request.queue.full == QueueFull::spill && options_.store.full != Full::spill) {
    return Error{ErrorCode::invalid_argument, "these servers do not move objects to disk",
                 "start them with --full spill"};
  }
  readers_.define(request.queue);
  changes_.insert(steps_watch);
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::JoinReaders& request,
                                ReplyTo<protocol::JoinReaders> reply) {
  if (!is_first()) return not_the_first();
  const Status status =
      readers_.join(clients_.at(from).id, request.group, request.sharing, request.after);
  changes_.insert(steps_watch);
  if (!status) return status.error();
  settle_ended_steps();
  return reply(protocol::StepsFreed{steps_.take_unsettled(from)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::LeaveReaders& request,
                                ReplyTo<protocol::LeaveReaders> reply) {
  if (!is_first()) return not_the_first();
  readers_.leave(clients_.at(from).id, request.group);
  changes_.insert(steps_watch);
  settle_ended_steps();
  return reply(protocol::StepsFreed{steps_.take_unsettled(from)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::TakeStep& request,
                                ReplyTo<protocol::TakeStep> reply) {
  if (!is_first()) return not_the_first();
  if (request.watch) waiting_.add(steps_watch, from);
  return step_found(
      from, readers_.take(clients_.at(from).id, request.group, request.received, request.known),
      reply.room());
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::ReleaseStep& request,
                                ReplyTo<protocol::ReleaseStep> reply) {
  if (!is_first()) return not_the_first();
  const Status status = readers_.release(clients_.at(from).id, request.group, request.id);
  return status ? reply(state_of(from, request.id)) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection, const protocol::SetAttributes& request,
                                ReplyTo<protocol::SetAttributes> reply) {
  if (!is_first()) return not_the_first();
  for (const Attribute& attribute : request.attributes) {
    // A reply has room for each, and for what is around it.
    if (2 * std::ssize(attribute.value) > options_.message_bytes) return too_large(attribute);
  }
  const Status status = attributes_.set(request.attributes);
  return status ? reply(protocol::Done{}) : Answer(status.error());
}

Result<std::size_t> Service::on(ClientConnection, const protocol::GetAttributes& request,
                                ReplyTo<protocol::GetAttributes> reply) {
  if (!is_first()) return not_the_first();
  protocol::AttributesFound found;
  const std::size_t taken = sizeof(ReplyKind) + encoded_bytes(found);
  std::size_t room = room_beside(reply.bytes(), taken);
  found.more = fill(attributes_.of(request.variable, request.after), 0, found.attributes, room,
                    [](const Attribute& one) { return one; }) > 0;
  return reply(found);
}

}  // namespace tranship::staging
