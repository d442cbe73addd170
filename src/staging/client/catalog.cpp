#include "staging/client/catalog.hpp"

#include <algorithm>
#include <iterator>

#include "base/crc32c.hpp"
#include "base/text.hpp"

namespace tranship::staging {
namespace {

/// A call that must not wait for others waits so long for a disk.
constexpr std::int64_t recall_wait_ns = 1'000'000'000;

}  // namespace

Error often_deleted(const std::string& variable) {
  return {ErrorCode::not_found, in_quotes(variable) + " is deleted again and again meanwhile"};
}

Status Catalog::define(const PutRequest& domain, int writers) {
  ReplyBuffer reply;
  const protocol::Define define{domain, writers};
  const auto answer = requester_.ask(distribution_.metadata_server(domain.variable), define, reply);
  return answer ? Status{} : Status(answer.error());
}

/// Announces to the metadata server that this client puts to the variable, unless it has done so.
Result<KnownVariable> Catalog::declare(const PutRequest& request, std::int64_t end_ns, bool empty) {
  if (auto known = known_.find_declared(request)) return std::move(*known);
  ReplyBuffer reply(end_ns);
  auto answer = requester_.ask(distribution_.metadata_server(request.variable),
                               protocol::Declare{request, empty}, reply);
  if (!answer) return answer.error();
  return known_.remember(request.variable, {std::move(answer->metadata), true});
}

Result<protocol::Described> Catalog::ask_metadata_server(const protocol::Describe& describe,
                                                         std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const int metadata_server = distribution_.metadata_server(describe.variable);
  auto answer = requester_.ask_until_done(metadata_server, describe, reply, end_ns);
  if (!answer) return answer.error();
  auto described = std::get<protocol::Described>(std::move(*answer));
  const bool known = known_.find(describe.variable).has_value();
  if (!known) known_.remember(describe.variable, {described.metadata, false});
  return described;
}

/// Waits until the variable exists, if there are several servers.
Result<Catalog::IndexServers> Catalog::index_servers_of(const std::string& variable, const Box& box,
                                                        std::int64_t end_ns) {
  if (distribution_.servers() == 1) return IndexServers{{0}, {}};
  std::optional<KnownVariable> known = known_.find(variable);
  if (!known || known->metadata.cells.rank != box.rank) {
    const auto described = ask_metadata_server({variable, false}, end_ns);
    if (!described) return described.error();
    known = known_.remember(variable, {described->metadata, false});
  }
  if (known->metadata.cells.rank != box.rank)
    return wrong_rank(variable, known->metadata.cells.rank, box);
  return IndexServers{distribution_.index_servers(variable, known->metadata.cells, box),
                      known->metadata.incarnation};
}

Result<bool> Catalog::put(const PutRequest& request, const Data& data, std::int64_t end_ns) {
  progress_.begin(request.variable, request.version);
  Result<ReplyKind> said = ReplyKind::stale;
  bool finishes = false;
  for (int attempt = 0; said && *said == ReplyKind::stale && attempt < attempts_max; ++attempt) {
    if (attempt > 0) known_.forget(request.variable);
    said = put_now(request, data, end_ns, finishes);
  }
  if (said && *said == ReplyKind::done) {
    report_left(request, finishes);
    return true;
  }
  progress_.give_up(request.variable, request.version);
  if (!said) return said.error();
  if (*said == ReplyKind::stale) return often_deleted(request.variable);
  return false;
}

/// Returns the kind of the reply: done, stale, or one after which the object is put by a copy.
Result<ReplyKind> Catalog::put_now(const PutRequest& request, const Data& data, std::int64_t end_ns,
                                   bool& finishes) {
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  const auto index_servers =
      distribution_.index_servers(request.variable, known->metadata.cells, request.box);
  if (index_servers.size() > 1) return ReplyKind::needs_other_servers;
  finishes = progress_.finishes(request.variable, request.version);
  protocol::Put put;
  put.object = request;
  put.object.incarnation = known->metadata.incarnation;
  put.finishes = finishes;
  const auto fill = [&](std::span<std::byte> room) {
    Status status = data.fill(room.data());
    if (status && data.checksum) put.checksum = {1, crc32c(room)};
    return status;
  };
  put.data.length = data.bytes;
  put.data.write = std::ref(fill);
  ReplyBuffer reply(end_ns);
  const auto answer = distribution_.servers() == 1
                          ? requester_.ask_until_done(index_servers[0], put, reply, end_ns)
                          : requester_.ask(index_servers[0], put, reply);
  if (!answer) return answer.error();
  const auto* done = std::get_if<protocol::DoneWithOrphans>(&*answer);
  if (done != nullptr) {
    requester_.report_orphans(index_servers[0], done->orphans);
    tell_part(request, index_servers[0], finishes);
  }
  return std::visit([](const auto& one) { return one.kind; }, *answer);
}

Result<PreparedPut> Catalog::begin(const Beginning& beginning) {
  const PutRequest& request = beginning.request;
  progress_.begin(request.variable, request.version);
  Result<PreparedPut> put = often_deleted(request.variable);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto begun = begin_now(beginning);
    if (begun && !begun->stale) return begun;
    known_.forget(request.variable);
    if (begun) continue;
    put = begun.error();
    break;
  }
  progress_.give_up(request.variable, request.version);
  return put;
}

/// Returns the room; or `stale`, if the variable was deleted since this client has asked for it.
Result<PreparedPut> Catalog::begin_now(const Beginning& beginning) {
  const auto& [request, offer, end_ns, ready] = beginning;
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  PreparedPut put;
  put.request = request;
  put.request.incarnation = known->metadata.incarnation;
  put.end_ns = end_ns;
  put.ready = ready;
  put.offer = offer;
  const auto candidates =
      distribution_.storage_servers(request.variable, known->metadata.cells, request.box);
  const auto index_servers =
      distribution_.index_servers(request.variable, known->metadata.cells, request.box);
  // A step that has broken meanwhile may be what fills the memory.
  const auto look = [&, end = end_ns, step = request.step]() -> Status {
    if (step == 0) return {};
    const auto settled = steps_.settle(step, end);
    return settled ? Status{} : Status(settled.error());
  };
  const Status found = offer ? room_finder_.begin_offer(candidates.front(), put)
                             : room_finder_.find(candidates, index_servers, put, end_ns, look);
  if (!found) return found.error();
  if (put.stale) return put;
  if (Status status = room_finder_.index(index_servers, put); !status) {
    give_back(put);
    return status.error();
  }
  return put;
}

Status Catalog::take_pages(const PreparedPut& put) {
  if (put.ready) return {};
  ReplyBuffer reply(put.end_ns);
  const auto taken = requester_.ask(put.primary, protocol::TakePages{put.object}, reply);
  return taken ? Status{} : Status(taken.error());
}

Status Catalog::commit(PreparedPut& put, std::string_view path, const Checksum& checksum) {
  const PutRequest& request = put.request;
  if (Status indexed = room_finder_.finish_index(put); !indexed || put.stale) {
    abort(put);
    if (put.stale) known_.forget(request.variable);
    return put.stale ? Status(often_deleted(request.variable)) : indexed;
  }
  ReplyBuffer reply(put.end_ns);
  protocol::Commit commit;
  commit.object = put.object;
  commit.order_before = put.order_before;
  commit.variable = request.variable;
  commit.bytes = request.box.points() * request.element_bytes;
  commit.path = path;
  commit.checksum = checksum;
  commit.version = request.version;
  commit.finishes = progress_.finishes(request.variable, request.version);
  const auto committed = requester_.ask(put.primary, commit, reply);
  if (!committed) {
    progress_.give_up(request.variable, request.version);
    return committed.error();
  }
  tell_part(request, put.primary, commit.finishes);
  confirm(put, committed->order, {{put.primary, committed->orphans}});
  report_left(request, commit.finishes);
  return {};
}

/// Sends the order of an object, which is visible, to the other index servers, and waits until they
/// have seen it. One that is lost has lost its own objects, and not this one. Then reports the
/// orphans that they have named, and those that are known.
void Catalog::confirm(const PreparedPut& put, std::uint64_t order,
                      RequestSender::NamedOrphans orphans) {
  const PutRequest& request = put.request;
  const protocol::IndexEntryId entry{request.variable, request.version, {put.primary, put.object}};
  SentRequests<protocol::Confirm> sent(put.end_ns);
  for (const int server : put.indexed) {
    (void)requester_.send(server, protocol::Confirm{entry, order}, sent);
  }
  sent.take_replies([&](int server, const Result<protocol::Confirm::Reply>& confirmed) {
    if (confirmed) orphans.emplace_back(server, confirmed->orphans);
    return confirmed || confirmed.error().code != ErrorCode::cancelled;
  });
  requester_.report_orphans(orphans);
}

/// Tells the metadata server that this client has put to a version, unless it was the primary.
void Catalog::tell_part(const PutRequest& request, int primary, bool finishes) {
  const int metadata_server = distribution_.metadata_server(request.variable);
  if (primary == metadata_server) return;
  const protocol::Finish finish{request.variable, request.version, request.version,
                                finishes,         false,           true};
  requester_.send(metadata_server, message_of(finish));
}

/// Tells the metadata server which versions this client has left by going on to another one.
void Catalog::report_left(const PutRequest& request, bool finishes) {
  const int metadata_server = distribution_.metadata_server(request.variable);
  for (const auto& [first, last] : progress_.commit(request.variable, request.version, finishes)) {
    const protocol::Finish finish{request.variable, first, last};
    requester_.send(metadata_server, message_of(finish));
  }
}

void Catalog::abort(PreparedPut& put) {
  progress_.give_up(put.request.variable, put.request.version);
  give_back(put);
}

void Catalog::give_back(PreparedPut& put) {
  put.index_requests.drop();  // what follows on a link comes after them
  requester_.send(put.primary, message_of(protocol::Abort{put.object}));
  const PutRequest& request = put.request;
  const protocol::IndexEntryId entry{request.variable, request.version, {put.primary, put.object}};
  for (const int server : put.indexed) {
    requester_.send(server, message_of(protocol::Unindex{entry}));
  }
}

Result<LeasedBox> Catalog::get(const GetRequest& request, ReplyBuffer& reply, std::int64_t end_ns) {
  reply.end_ns = end_ns;
  auto held = find_complete(request, Wanted::data, reply, end_ns, nullptr);
  if (held) held->variable = request.variable;
  return held;
}

Result<std::int64_t> Catalog::wait(const GetRequest& request, std::int64_t end_ns,
                                   std::vector<SkippedVersion>* skipped) {
  ReplyBuffer reply(end_ns);
  const auto held = find_complete(request, Wanted::version, reply, end_ns, skipped);
  if (!held) return held.error();
  release(*held);
  return held->version;
}

Result<LeasedBox> Catalog::find_complete(const GetRequest& request, Wanted wanted,
                                         ReplyBuffer& reply, std::int64_t end_ns,
                                         std::vector<SkippedVersion>* skipped) {
  GetRequest asked = request;
  auto look = find_in_incarnation(asked, wanted, reply, end_ns, skipped);
  for (int attempt = 0; look && !*look && attempt < attempts_max; ++attempt) {
    known_.forget(request.variable);
    look = find_in_incarnation(asked, wanted, reply, end_ns, skipped);
  }
  if (!look) return look.error();
  if (!*look) return often_deleted(request.variable);
  return std::move(**look);
}

/// Takes the metadata server's reply: how the variable has ended, or nothing if it was deleted.
Result<std::optional<Ending>> Catalog::ending_of(SentRequests<protocol::Describe>& described) {
  Result<std::optional<Ending>> ending = std::optional<Ending>();
  described.take_replies([&](int, const Result<protocol::Describe::Reply>& answer) {
    if (!answer) {
      ending = answer.error();
    } else if (const auto* known = std::get_if<protocol::Described>(&*answer)) {
      ending = std::optional(known->metadata.ending());
    }
    return true;
  });
  return ending;
}

/// Returns nothing if the variable was deleted since this client has asked for it. The request
/// goes on behind the versions that were skipped.
Result<std::optional<LeasedBox>> Catalog::find_in_incarnation(
    GetRequest& request, Wanted wanted, ReplyBuffer& reply, std::int64_t end_ns,
    std::vector<SkippedVersion>* skipped) {
  const auto known = index_servers_of(request.variable, request.box, end_ns);
  if (!known) return known.error();
  const std::vector<int>* index_servers = &known->servers;
  request.incarnation = known->incarnation;
  const int metadata_server = distribution_.metadata_server(request.variable);
  bool alone = index_servers->size() == 1 && wanted != Wanted::objects;
  bool watch = false;
  int skips = 0;
  Ending before = Ending::none;  // what the metadata server said before the search
  while (true) {
    const std::uint64_t seen = requester_.notices();
    // The metadata server is asked at the same time. What it says counts for the next search, which
    // sees all that producers had put before they ended. A metadata server that is the only index
    // server says itself that the box can never become complete.
    const bool asks = watch && !(alone && index_servers->front() == metadata_server);
    SentRequests<protocol::Describe> described(end_ns);
    if (asks) {
      const protocol::Describe describe{request.variable, true};
      Status sent = requester_.send(metadata_server, describe, described);
      if (!sent) return sent.error();
    }
    auto look = !alone ? search_.on_all(request, *index_servers, watch, reply)
                : wanted == Wanted::data
                    ? search_.on_one(request, index_servers->front(), reply)
                    : search_.version_on(request, index_servers->front(), reply);
    if (!look) return look.error();
    if (std::holds_alternative<StaleVariable>(*look)) return std::optional<LeasedBox>();
    if (std::holds_alternative<NeedsOtherServers>(*look)) {
      alone = false;
      continue;
    }
    auto* held = std::get_if<LeasedBox>(&*look);
    const std::uint64_t step = held != nullptr ? held->step : std::get<Waiting>(*look).step;
    const auto settled = step == 0 ? Result<bool>(false) : steps_.settle(step, end_ns);
    if (held != nullptr && (!settled || *settled)) release(*held);
    if (!settled) return settled.error();
    if (*settled) {
      Status more = requester_.continue_search(skips++, end_ns, step_was_settled);
      if (!more) return more.error();
      continue;
    }
    if (held != nullptr) return std::optional<LeasedBox>(std::move(*held));
    const auto& [why, gap, answered, open_step] = std::get<Waiting>(*look);
    Ending ending = answered;
    if (asks) {
      const auto now = ending_of(described);
      if (!now) return now.error();
      if (!*now) return std::optional<LeasedBox>();
      const bool known = std::exchange(before, **now) != Ending::none;
      if (!known && before != Ending::none) continue;
      ending = before;
    }
    if (ending != Ending::none && gap && request.choice == VersionChoice::next) {
      if (*gap <= request.version) return not_a_server();
      Status more = requester_.continue_search(skips++, end_ns, why);
      if (!more) return more.error();
      if (skipped != nullptr) skipped->push_back({*gap, never_complete(ending, why).message});
      request.version = *gap;
      continue;
    }
    if (ending != Ending::none) return never_complete(ending, why);
    // A client that gets no notices of changes asks for them, and searches once more.
    const bool notified = alone && index_servers->front() == metadata_server;
    if (watch || notified) {
      if (Status status = requester_.pause(seen, end_ns, why); !status) return status.error();
    }
    watch = true;
  }
}

Result<std::variant<LeasedBox, NoView>> Catalog::lease_object(const GetRequest& request,
                                                              ReplyBuffer& reply,
                                                              std::int64_t end_ns) {
  using Answer = std::variant<LeasedBox, NoView>;
  reply.end_ns = end_ns;
  auto held = find_complete(request, Wanted::objects, reply, end_ns, nullptr);
  if (!held) return held.error();
  held->variable = request.variable;
  if (held->parts.size() > 1) {
    (void)release(*held);
    return Answer(NoView{{ErrorCode::invalid_argument,
                          version_of(request.variable, held->version) + ", " + request.box.text() +
                              ", lies in several objects, or a later one hides a part of it",
                          "get a box within one of the variable's boxes(), or let it be copied"}});
  }
  if (held->objects[held->parts[0].object].is_offered()) {
    (void)release(*held);
    return Answer(NoView{{ErrorCode::invalid_argument,
                          version_of(request.variable, held->version) + ", " + request.box.text() +
                              ", lies in the memory of the process that offers it",
                          "let it be copied"}});
  }
  Status status = keep_object(*held, reply);
  StoredObject& object = held->objects[held->parts[0].object];
  if (status && object.range.segment < 0) {
    const auto range = recall(object.primary, object.lease, object.object, end_ns);
    status = range ? Status{} : Status(range.error());
    if (range) object.range = *range;
  }
  if (status) return Answer(std::move(*held));
  (void)release(*held);
  return status.error();
}

/// Reduces the leases to one of the only part's object.
Status Catalog::keep_object(LeasedBox& held, ReplyBuffer& reply) {
  StoredObject& object = held.objects[held.parts[0].object];
  const auto of_lease = [&](const StoredObject& one) {
    return one.primary == object.primary && one.lease == object.lease;
  };
  std::pair kept(object.primary, object.lease);
  if (std::count_if(held.objects.begin(), held.objects.end(), of_lease) > 1) {
    const protocol::Lease alone{held.variable, held.version, false, {object.object}};
    const auto answer = requester_.ask_undoable(object.primary, alone, reply);
    if (!answer) return answer.error();
    kept.second = answer->lease;
    held.leases.push_back(kept);
    const bool well =
        answer->objects.size() == 1 && answer->objects[0].state == LeasedObject::State::here;
    if (!well) return not_a_server();
    object.lease = kept.second;
    object.range = answer->objects[0].range;
  }
  for (const auto& lease : held.leases) {
    if (lease != kept) requester_.send(lease.first, message_of(protocol::Release{lease.second}));
  }
  held.leases.assign(1, kept);
  return {};
}

Status Catalog::take(const LeasedBox& held, std::int64_t end_ns,
                     const std::function<Status(const LeasedBox&)>& copy) {
  const auto is_away = [&](const Part& part) {
    return held.objects[part.object].range.segment == -1;
  };
  std::vector<Part> away;
  std::copy_if(held.parts.begin(), held.parts.end(), std::back_inserter(away), is_away);
  if (away.empty()) return copy(held);
  LeasedBox here = held;
  std::erase_if(here.parts, is_away);
  if (Status status = here.parts.empty() ? Status{} : copy(here); !status) return status;
  for (const auto& [server, lease] : held.leases) loosen(server, lease);
  return take_back(here, away, end_ns, copy);
}

/// Brings back the objects of the parts that are `away`, one at a time. The parts of one object
/// follow each other.
Status Catalog::take_back(LeasedBox& here, std::span<const Part> away, std::int64_t end_ns,
                          const std::function<Status(const LeasedBox&)>& copy) {
  const StoredObject* before = nullptr;
  for (auto first = away.begin(); first != away.end();) {
    const auto last = std::find_if(first, away.end(),
                                   [&](const Part& part) { return part.object != first->object; });
    StoredObject& seen = here.objects[first->object];
    if (before != nullptr && (before->primary != seen.primary || before->lease != seen.lease)) {
      loosen(before->primary, before->lease);
    }
    const auto range = recall(seen.primary, seen.lease, seen.object, end_ns);
    if (!range) return range.error();
    seen.range = *range;
    here.parts.assign(first, last);
    if (Status status = copy(here); !status) return status;
    before = &seen;
    first = last;
  }
  return {};
}

/// Says that no object of a lease has to stay in memory any more.
void Catalog::loosen(int server, std::uint64_t lease) {
  requester_.send(server, message_of(protocol::Recall{lease, 0}));
}

/// Returns the place of an object once it is back in memory.
Result<Range> Catalog::recall(int server, std::uint64_t lease, std::uint64_t object,
                              std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  // What was brought back would have to come from disk again if the lease ended meanwhile.
  const NoWaits::Lifted lifted;
  const std::int64_t until =
      lifted.any() ? std::min(end_ns, requester_.now_ns() + recall_wait_ns) : end_ns;
  const auto answer =
      requester_.ask_until_done(server, protocol::Recall{lease, object}, reply, until);
  if (!answer && lifted.any() && until < end_ns) lifted.note();
  if (!answer) return answer.error();
  const Range range = std::get<protocol::Recalled>(*answer).range;
  return range.segment >= 0 ? Result<Range>(range) : Result<Range>(not_a_server());
}

}  // namespace tranship::staging
