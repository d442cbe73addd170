#include "staging/client/catalog.hpp"

#include <algorithm>
#include <iterator>

#include "base/crc32c.hpp"
#include "base/text.hpp"

namespace tranship::staging {
namespace {

Error late(const std::string& why) {
  return {ErrorCode::timeout, "the wait for the staging server has ended: " + why,
          "wait longer, or look with: tranship ls"};
}

/// Times that a call begins anew because its variable was deleted meanwhile.
constexpr int attempts_max = 8;
/// Variables that a client remembers; what it forgets it asks for again.
constexpr std::size_t known_max = 1024;

Error deleted(const std::string& variable) {
  return {ErrorCode::not_found, in_quotes(variable) + " is deleted again and again meanwhile"};
}

/// A look goes on to so many other versions before the time of its call counts.
constexpr int versions_free = 1024;

/// Whether a server may name that version for the request.
bool fits(const GetRequest& request, std::int64_t version) {
  switch (request.choice) {
    case VersionChoice::exact: return version == request.version;
    case VersionChoice::next: return version > request.version;
    case VersionChoice::latest: return version <= request.version;
  }
  return false;
}

}  // namespace

Status Catalog::pause(std::uint64_t seen, std::int64_t end_ns, const std::string& why) {
  const std::int64_t now = servers_.now_ns();
  if (now >= end_ns) return late(why);
  if (interrupted_ && interrupted_()) return Error{ErrorCode::cancelled, "interrupted"};
  servers_.wait(seen, std::min(end_ns, now + look_again_ns));
  return {};
}

/// A look goes on to another version, when one had gaps or was discarded meanwhile. However many a
/// server names, that ends with the time of the call.
Status Catalog::go_on(int rounds, std::int64_t end_ns, const std::string& why) const {
  if (rounds < versions_free) return {};
  if (servers_.now_ns() >= end_ns) return late(why);
  if (interrupted_ && interrupted_()) return Error{ErrorCode::cancelled, "interrupted"};
  return {};
}

Status Catalog::define(const PutRequest& domain, int writers) {
  ReplyBuffer reply;
  const protocol::Define define{domain, writers};
  const auto answer = ask(distribution_.metadata_server(domain.variable), define, reply);
  return answer ? Status{} : Status(answer.error());
}

/// The cells of a variable never change: their order is found once.
Catalog::KnownVariable Catalog::remember(const std::string& variable, KnownVariable known) {
  std::lock_guard lock(mutex_);
  const auto before = known_.find(variable);
  Cells& cells = known.metadata.cells;
  if (before == known_.end() ||
      before->second.metadata.incarnation.number != known.metadata.incarnation.number) {
    cells.find_order();
  } else {
    cells.order = before->second.metadata.cells.order;
    known.declared = known.declared || before->second.declared;
  }
  if (before == known_.end() && known_.size() >= known_max) known_.erase(known_.begin());
  known_[variable] = known;
  return known;
}

void Catalog::forget(const std::string& variable) {
  std::lock_guard lock(mutex_);
  known_.erase(variable);
}

/// The first put to a variable tells its metadata server; so does one that lies outside the domain,
/// which may have grown, and one that does not fit, since the variable may be another by now.
Result<Catalog::KnownVariable> Catalog::declare(const PutRequest& request, std::int64_t end_ns) {
  {
    std::lock_guard lock(mutex_);
    const auto known = known_.find(request.variable);
    if (known != known_.end() && known->second.declared) {
      const VariableMetadata& metadata = known->second.metadata;
      const Status fits =
          check_fits(request, metadata.type, metadata.element_bytes, metadata.first.rank);
      if (fits && check_within(request, metadata)) return known->second;
    }
  }
  ReplyBuffer reply(end_ns);
  auto answer =
      ask(distribution_.metadata_server(request.variable), protocol::Declare{request}, reply);
  if (!answer) return answer.error();
  return remember(request.variable, {std::move(answer->metadata), true});
}

Result<protocol::Described> Catalog::ask_metadata_server(const std::string& variable, bool watch,
                                                         std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const int metadata_server = distribution_.metadata_server(variable);
  auto answer = ask_until_done(metadata_server, protocol::Describe{variable, watch}, reply, end_ns);
  if (!answer) return answer.error();
  return std::get<protocol::Described>(std::move(*answer));
}

/// Waits until somebody has put to the variable, if there are several servers.
Result<Catalog::IndexServers> Catalog::index_servers_of(const std::string& variable, const Box& box,
                                                        std::int64_t end_ns) {
  if (distribution_.servers() == 1) return IndexServers{{0}, {}};
  std::optional<KnownVariable> known;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(variable);
    if (found != known_.end()) known = found->second;
  }
  if (!known || known->metadata.cells.rank != box.rank) {
    const auto described = ask_metadata_server(variable, false, end_ns);
    if (!described) return described.error();
    known = remember(variable, {described->metadata, false});
  }
  if (known->metadata.cells.rank != box.rank)
    return wrong_rank(variable, known->metadata.cells.rank, box);
  return IndexServers{distribution_.index_servers(variable, known->metadata.cells, box),
                      known->metadata.incarnation};
}

Result<bool> Catalog::put(const PutRequest& request, const Data& data, std::int64_t end_ns) {
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const auto said = put_now(request, data, end_ns);
    if (!said) return said.error();
    if (*said != ReplyKind::stale) return *said == ReplyKind::done;
    forget(request.variable);
  }
  return deleted(request.variable);
}

/// What the server replied; anything but done or stale is left to others.
Result<ReplyKind> Catalog::put_now(const PutRequest& request, const Data& data,
                                   std::int64_t end_ns) {
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  const auto index_servers =
      distribution_.index_servers(request.variable, known->metadata.cells, request.box);
  if (index_servers.size() > 1) return ReplyKind::needs_other_servers;
  protocol::Put put;
  put.object = request;
  put.object.incarnation = known->metadata.incarnation;
  const auto fill = [&](std::span<std::byte> room) {
    Status status = data.fill(room.data());
    if (status && data.checksum) put.checksum = {1, crc32c(room)};
    return status;
  };
  put.data.length = data.bytes;
  put.data.write = std::ref(fill);
  ReplyBuffer reply(end_ns);
  const auto answer = distribution_.servers() == 1
                          ? ask_until_done(index_servers[0], put, reply, end_ns)
                          : ask(index_servers[0], put, reply);
  if (!answer) return answer.error();
  const auto* done = std::get_if<protocol::DoneWithOrphans>(&*answer);
  if (done != nullptr) pass_on(index_servers[0], done->orphans);
  return std::visit([](const auto& one) { return one.kind; }, *answer);
}

/// Tells the primaries of a server's orphans, which its reply named: nobody else will. A primary
/// that cannot be reached has lost them, or keeps them for longer.
void Catalog::pass_on(int server, const std::vector<Orphan>& orphans) {
  if (orphans.empty()) return;
  std::map<int, std::vector<Orphan>> by_primary;
  for (const Orphan& orphan : orphans) by_primary[orphan.primary].push_back(orphan);
  for (auto& [primary, its] : by_primary) {
    if (primary >= distribution_.servers()) continue;
    ReplyBuffer reply;
    (void)ask(primary, protocol::DropOrphans{server, std::move(its)}, reply);
  }
}

/// Asks one server for room; false if it has none, and why.
Result<bool> Catalog::ask_room(int server, Effort effort, const std::vector<int>& index_servers,
                               PreparedPut& room, std::string& why) {
  room.overflow =
      std::find(index_servers.begin(), index_servers.end(), server) == index_servers.end();
  ReplyBuffer reply(room.end_ns);
  protocol::Begin begin{room.request, effort, room.ready};
  if (room.overflow) begin.index_servers = index_servers;
  const auto answer = ask_undoable(server, std::move(begin), reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) {
    why = wait->why;
    return false;
  }
  room.stale = std::holds_alternative<protocol::Stale>(*answer);
  if (room.stale) return true;  // whoever looks for room begins anew
  const auto& here = std::get<protocol::RoomGranted>(*answer);
  room.primary = server;
  room.object = here.object;
  room.range = here.range;
  pass_on(server, here.orphans);
  return true;
}

/// The first of `primaries` decides: others only help it out, and their errors are not the put's.
/// Those that have no room say so when they have.
Status Catalog::find_room(const std::vector<int>& candidates, const std::vector<int>& index_servers,
                          PreparedPut& room, std::int64_t end_ns) {
  while (true) {
    const std::uint64_t seen = servers_.notices();
    std::string why;
    if (candidates.size() > 1) {
      const auto placed = ask_room(candidates[0], Effort::discard, index_servers, room, why);
      if (!placed) return placed.error();
      if (*placed) return {};
    }
    for (std::size_t k = 1; k < candidates.size() && servers_.now_ns() < end_ns; ++k) {
      const auto placed = ask_room(candidates[k], Effort::free_memory, index_servers, room, why);
      if (placed && *placed) return {};
    }
    const auto placed = ask_room(candidates[0], Effort::all, index_servers, room, why);
    if (!placed) return placed.error();
    if (*placed) return {};
    if (Status status = pause(seen, end_ns, why); !status) return status;
  }
}

Result<PreparedPut> Catalog::begin(const PutRequest& request, std::int64_t end_ns, bool ready) {
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    auto room = begin_now(request, end_ns, ready);
    if (!room || !room->stale) return room;
    forget(request.variable);
  }
  return deleted(request.variable);
}

/// The room, or that the variable was deleted since this client has asked for it.
Result<PreparedPut> Catalog::begin_now(const PutRequest& request, std::int64_t end_ns, bool ready) {
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  PreparedPut room;
  room.request = request;
  room.request.incarnation = known->metadata.incarnation;
  room.end_ns = end_ns;
  room.ready = ready;
  const auto candidates =
      distribution_.storage_servers(request.variable, known->metadata.cells, request.box);
  const auto index_servers =
      distribution_.index_servers(request.variable, known->metadata.cells, request.box);
  if (Status status = find_room(candidates, index_servers, room, end_ns); !status)
    return status.error();
  if (room.stale) return room;
  if (Status status = index_at(index_servers, room); !status || room.stale) {
    abort(room);
    if (!status) return status.error();
  }
  return room;
}

/// Has the other owners of the box index the object, or learns that the variable was deleted.
Status Catalog::index_at(const std::vector<int>& index_servers, PreparedPut& room) {
  ReplyBuffer reply(room.end_ns);
  const protocol::Index index{room.request, {room.primary, room.object}, room.overflow};
  for (const int index_server : index_servers) {
    if (index_server == room.primary) continue;
    room.indexed.push_back(index_server);  // it may be, even if no reply comes
    const auto answer = ask(index_server, index, reply);
    if (!answer) return answer.error();
    const auto* indexed = std::get_if<protocol::Ordered>(&*answer);
    room.stale = indexed == nullptr;
    if (room.stale) return {};
    room.order_before = std::max(room.order_before, indexed->order);
    pass_on(index_server, indexed->orphans);
  }
  return {};
}

Status Catalog::take_pages(const PreparedPut& room) {
  if (room.ready) return {};
  ReplyBuffer reply(room.end_ns);
  const auto taken = ask(room.primary, protocol::TakePages{room.object}, reply);
  return taken ? Status{} : Status(taken.error());
}

Status Catalog::commit(const PreparedPut& room, std::string_view path, const Checksum& checksum) {
  ReplyBuffer reply(room.end_ns);
  const PutRequest& put = room.request;
  protocol::Commit commit;
  commit.object = room.object;
  commit.order_before = room.order_before;
  commit.variable = put.variable;
  commit.bytes = put.box.points() * put.element_bytes;
  commit.path = path;
  commit.checksum = checksum;
  const auto committed = ask(room.primary, commit, reply);
  if (!committed) return committed.error();
  pass_on(room.primary, committed->orphans);
  // It is visible. A server that is lost here has lost its own objects, and not this one.
  const protocol::Entry entry{put.variable, put.version, {room.primary, room.object}};
  for (const int server : room.indexed) {
    const auto confirmed = ask(server, protocol::Confirm{entry, committed->order}, reply);
    if (confirmed) pass_on(server, confirmed->orphans);
  }
  return {};
}

void Catalog::abort(const PreparedPut& room) {
  servers_.tell(room.primary, message_of(protocol::Abort{room.object}));
  const PutRequest& put = room.request;
  const protocol::Entry entry{put.variable, put.version, {room.primary, room.object}};
  for (const int server : room.indexed) {
    servers_.tell(server, message_of(protocol::Unindex{entry}));
  }
}

Result<LeasedBox> Catalog::get(const GetRequest& request, ReplyBuffer& reply, std::int64_t end_ns) {
  reply.end_ns = end_ns;
  auto held = look_until_whole(request, true, reply, end_ns);
  if (held) held->variable = request.variable;
  return held;
}

Result<std::int64_t> Catalog::wait(const GetRequest& request, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const auto held = look_until_whole(request, false, reply, end_ns);
  if (!held) return held.error();
  if (Status status = release(*held); !status) return status.error();
  return held->version;
}

Result<LeasedBox> Catalog::look_until_whole(const GetRequest& request, bool wants_data,
                                            ReplyBuffer& reply, std::int64_t end_ns) {
  auto look = look_in_life(request, wants_data, reply, end_ns);
  for (int attempt = 0; look && !*look && attempt < attempts_max; ++attempt) {
    forget(request.variable);
    look = look_in_life(request, wants_data, reply, end_ns);
  }
  if (!look) return look.error();
  if (!*look) return deleted(request.variable);
  return std::move(**look);
}

/// Nothing if the variable was deleted since this client has asked for it.
Result<std::optional<LeasedBox>> Catalog::look_in_life(const GetRequest& asked, bool wants_data,
                                                       ReplyBuffer& reply, std::int64_t end_ns) {
  const auto known = index_servers_of(asked.variable, asked.box, end_ns);
  if (!known) return known.error();
  const std::vector<int>* index_servers = &known->servers;
  GetRequest request = asked;
  request.incarnation = known->incarnation;
  const int metadata_server = distribution_.metadata_server(request.variable);
  bool alone = index_servers->size() == 1;
  bool watch = false;
  while (true) {
    const std::uint64_t seen = servers_.notices();
    // The metadata server is asked first: what producers had put before they ended is seen below. A
    // server that is metadata server and only owner says itself that nothing will come any more.
    std::optional<VariableMetadata> metadata;
    if (watch && !(alone && index_servers->front() == metadata_server)) {
      const auto known = ask_metadata_server(request.variable, true, end_ns);
      if (!known) return known.error();
      metadata = known->metadata;
    }
    auto look = !alone       ? ask_all(request, *index_servers, watch, reply)
                : wants_data ? ask_one(request, index_servers->front(), reply)
                             : ask_version(request, index_servers->front(), reply);
    if (!look) return look.error();
    if (std::holds_alternative<Stale>(*look)) return std::optional<LeasedBox>();
    if (auto* held = std::get_if<LeasedBox>(&*look))
      return std::optional<LeasedBox>(std::move(*held));
    if (std::holds_alternative<NeedsOtherServers>(*look)) {
      alone = false;
      continue;
    }
    const std::string& why = std::get<Waiting>(*look).why;
    if (metadata && metadata->ended()) return never_complete(*metadata, why);
    // Whoever is not told of changes asks to be, and looks once more.
    const bool told = alone && index_servers->front() == metadata_server;
    if (watch || told) {
      if (Status status = pause(seen, end_ns, why); !status) return status.error();
    }
    watch = true;
  }
}

Catalog::LookResult Catalog::ask_version(const GetRequest& request, int server,
                                         ReplyBuffer& reply) {
  using Outcome = std::variant<LeasedBox, Waiting, NeedsOtherServers, Stale>;
  const auto answer = ask_undoable(server, protocol::QueryVersion{request}, reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return Outcome(Waiting{wait->why});
  if (std::holds_alternative<protocol::NeedsOtherServers>(*answer))
    return Outcome(NeedsOtherServers{});
  if (std::holds_alternative<protocol::Stale>(*answer)) return Outcome(Stale{});
  LeasedBox held;
  held.end_ns = reply.end_ns;
  held.version = std::get<protocol::VersionFound>(*answer).version;
  if (!fits(request, held.version)) return not_a_server();
  return Outcome(std::move(held));
}

Catalog::LookResult Catalog::ask_one(const GetRequest& request, int server, ReplyBuffer& reply) {
  using Outcome = std::variant<LeasedBox, Waiting, NeedsOtherServers, Stale>;
  auto answer = ask_undoable(server, protocol::Get{request}, reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return Outcome(Waiting{wait->why});
  if (std::holds_alternative<protocol::NeedsOtherServers>(*answer))
    return Outcome(NeedsOtherServers{});
  if (std::holds_alternative<protocol::Stale>(*answer)) return Outcome(Stale{});
  if (auto* objects = std::get_if<protocol::Objects>(&*answer)) {
    return hold_objects(server, request, std::move(*objects), reply);
  }
  auto& inside = std::get<protocol::InlineData>(*answer);
  std::int64_t bytes = 0;
  const bool countable =
      !__builtin_mul_overflow(request.box.points(), inside.element_bytes, &bytes);
  if (!countable || bytes != std::ssize(inside.data.bytes) || !fits(request, inside.version)) {
    return not_a_server();
  }
  LeasedBox held;
  held.end_ns = reply.end_ns;
  held.version = inside.version;
  held.type = std::move(inside.type);
  held.element_bytes = inside.element_bytes;
  held.data = inside.data.bytes;
  return Outcome(std::move(held));
}

/// The objects of one server, which are to cover the box.
Catalog::LookResult Catalog::hold_objects(int server, const GetRequest& request,
                                          protocol::Objects objects, ReplyBuffer& reply) {
  FoundObjects& found = objects.found;
  if (Status status = read_found(server, request, objects, reply); !status) {
    return given_up(server, found, status);
  }
  LeasedBox held;
  held.version = found.version;
  held.type = std::move(found.type);
  held.element_bytes = found.element_bytes;
  held.objects = std::move(found.objects);
  held.end_ns = reply.end_ns;
  held.leases.emplace_back(server, found.lease);
  for (StoredObject& seen : held.objects) seen.lease = found.lease;
  Box missing;
  if (!find_parts(request.box, held.objects, held.parts, missing)) {
    (void)release(held);
    return not_a_server();
  }
  return std::variant<LeasedBox, Waiting, NeedsOtherServers, Stale>(std::move(held));
}

/// Ends the lease of an answer that could not be read whole; returns why.
Error Catalog::given_up(int server, const FoundObjects& found, const Status& why) {
  LeasedBox held;
  if (found.lease != 0) held.leases.emplace_back(server, found.lease);
  (void)release(held, {});
  return why.error();
}

/// Asks for the objects that a reply had no room for. All are of servers that there are, in boxes
/// of as many dimensions as were asked for, and of a version that may be named.
Status Catalog::read_found(int server, const GetRequest& request, protocol::Objects& objects,
                           ReplyBuffer& reply) {
  FoundObjects& found = objects.found;
  const std::size_t all = found.objects.size() + objects.left;
  while (found.objects.size() < all) {
    const protocol::More more{found.lease, found.objects.size()};
    const auto answer = ask(server, more, reply);
    if (!answer) return answer.error();
    const auto& page = answer->found.objects;
    if (page.empty() || found.objects.size() + page.size() + answer->left != all) {
      return not_a_server();
    }
    found.objects.insert(found.objects.end(), page.begin(), page.end());
  }
  const auto usable = [&](const StoredObject& one) {
    return one.primary < distribution_.servers() && one.box.rank == request.box.rank;
  };
  const bool well = fits(request, found.version) &&
                    std::all_of(found.objects.begin(), found.objects.end(), usable);
  return well ? Status{} : Status(not_a_server());
}

Catalog::LookResult Catalog::ask_all(const GetRequest& request,
                                     const std::vector<int>& index_servers, bool watch,
                                     ReplyBuffer& reply) {
  using Outcome = std::variant<LeasedBox, Waiting, NeedsOtherServers, Stale>;
  GetRequest bounded = request;
  for (int rounds = 0;; ++rounds) {
    FindOutcome heard;
    auto gathered = gather(bounded, index_servers, watch, reply, heard);
    if (heard.stale) return Outcome(Stale{});
    if (!gathered) return gathered.error();
    if (!*gathered) return Outcome(Waiting{heard.why});
    LeasedBox& held = **gathered;
    Status status = lease_others(request, watch, heard.named_by, held, reply);
    Box missing;
    const bool whole = status && find_parts(request.box, held.objects, held.parts, missing);
    if (whole) return Outcome(std::move(held));
    (void)release(held);
    const bool vanished = !status && status.error().code == ErrorCode::not_found;
    if (!status && (!vanished || request.choice == VersionChoice::exact)) return status.error();
    if (request.choice == VersionChoice::latest && held.version > INT64_MIN) {
      bounded.version = held.version - 1;  // an older one may be whole
    } else if (vanished && request.choice == VersionChoice::next) {
      bounded.version = held.version;
    } else {
      return Outcome(
          Waiting{version_of(request.variable, held.version) + " lacks " + missing.text()});
    }
    const std::string why = "no version of " + in_quotes(request.variable) + " is whole yet";
    if (Status more = go_on(rounds, reply.end_ns, why); !more) return more.error();
  }
}

/// Asks servers for the objects that meet the box.
Status Catalog::find_at(const std::vector<int>& servers, const GetRequest& request, bool watch,
                        ReplyBuffer& reply, Answers& answers, FindOutcome& heard) {
  const protocol::Find find{request, watch};
  for (const int server : servers) {
    auto answer = ask_undoable(server, find, reply);
    if (!answer) return answer.error();
    if (std::holds_alternative<protocol::Stale>(*answer)) {
      heard.stale = true;
      return Error{ErrorCode::not_found, in_quotes(request.variable) + " was deleted"};
    }
    if (auto* wait = std::get_if<protocol::Wait>(&*answer)) {
      heard.why = std::move(wait->why);
      continue;
    }
    auto& objects = std::get<protocol::Objects>(*answer);
    Status status = read_found(server, request, objects, reply);
    if (!status) return given_up(server, objects.found, status);
    answers.emplace_back(server, std::move(objects.found));
  }
  return {};
}

/// Asks all owners for the objects that meet the box, at one version. Nothing if none has any.
Result<std::optional<LeasedBox>> Catalog::gather(const GetRequest& request,
                                                 const std::vector<int>& index_servers, bool watch,
                                                 ReplyBuffer& reply, FindOutcome& heard) {
  GetRequest bounded = request;
  for (int rounds = 0;; ++rounds) {
    auto gathered = gather_version(bounded, index_servers, watch, reply, heard);
    if (!gathered) return gathered.error();
    if (!gathered->vanished) return std::move(gathered->held);
    const std::int64_t vanished = *gathered->vanished;
    const bool highest = request.choice == VersionChoice::latest;
    if (highest && vanished == INT64_MIN) return std::optional<LeasedBox>();
    bounded.version = highest ? vanished - 1 : vanished;
    const std::string why = version_of(request.variable, vanished) + " was discarded meanwhile";
    if (Status status = go_on(rounds, reply.end_ns, why); !status) return status.error();
  }
}

Result<Catalog::GatheredVersion> Catalog::gather_version(const GetRequest& request,
                                                         const std::vector<int>& index_servers,
                                                         bool watch, ReplyBuffer& reply,
                                                         FindOutcome& heard) {
  Answers answers;
  Status status = find_at(index_servers, request, watch, reply, answers, heard);
  const bool highest = request.choice == VersionChoice::latest;
  LeasedBox held;
  held.end_ns = reply.end_ns;
  bool any = false;
  for (const auto& [index_server, found] : answers) {
    if (any && (highest ? found.version <= held.version : found.version >= held.version)) continue;
    held.version = found.version;
    held.type = found.type;
    held.element_bytes = found.element_bytes;
    any = true;
  }
  if (status && any && request.choice != VersionChoice::exact) {
    // Owners that named another version may know that this one was discarded.
    std::vector<int> others = index_servers;
    for (const auto& [index_server, found] : answers) {
      if (found.version == held.version) std::erase(others, index_server);
    }
    GetRequest exact = request;
    exact.choice = VersionChoice::exact;
    exact.version = held.version;
    status = find_at(others, exact, watch, reply, answers, heard);
  }
  for (const auto& [index_server, found] : answers)
    held.leases.emplace_back(index_server, found.lease);
  if (!status) {
    (void)release(held);
    const bool vanished = any && !heard.stale && status.error().code == ErrorCode::not_found;
    if (!vanished || request.choice == VersionChoice::exact) return status.error();
    return GatheredVersion{{}, held.version};
  }
  if (!any) return GatheredVersion{};
  std::map<std::pair<int, std::uint64_t>, StoredObject> objects;
  for (const auto& [index_server, found] : answers) {
    if (found.version != held.version) continue;
    for (const StoredObject& seen : found.objects) {
      const std::pair key(seen.primary, seen.object);
      // An object's primary knows more of it than others do.
      if (seen.order > 0) {
        objects.insert_or_assign(key, seen);
        objects[key].lease = found.lease;
      }
      if (seen.order == 0 && objects.emplace(key, seen).second)
        heard.named_by.emplace(key, index_server);
    }
  }
  for (const auto& [key, seen] : objects) held.objects.push_back(seen);
  return GatheredVersion{std::move(held), {}};
}

/// Asks the primaries of what only others have named; leaves the objects that are visible.
Status Catalog::lease_others(const GetRequest& request, bool watch, const NamedBy& named_by,
                             LeasedBox& held, ReplyBuffer& reply) {
  int last = -1;
  for (std::size_t k = 0; k < held.objects.size(); ++k) {  // they are sorted by primary
    const int primary = held.objects[k].primary;
    if (held.objects[k].order > 0 || primary == last) continue;
    last = primary;
    if (Status status = lease_at(primary, request, watch, named_by, held, reply); !status) {
      return status;
    }
  }
  std::erase_if(held.objects, [](const StoredObject& seen) { return seen.order == 0; });
  sort_newest_first(held.objects);
  return {};
}

Status Catalog::lease_at(int primary, const GetRequest& request, bool watch,
                         const NamedBy& named_by, LeasedBox& held, ReplyBuffer& reply) {
  std::vector<StoredObject*> asked;
  for (StoredObject& seen : held.objects) {
    if (seen.primary == primary && seen.order == 0) asked.push_back(&seen);
  }
  const std::size_t together =
      std::max<std::size_t>(static_cast<std::size_t>(servers_.message_bytes()) / 64, 1);
  for (std::size_t first = 0; first < asked.size(); first += together) {
    const std::size_t count = std::min(together, asked.size() - first);
    protocol::Lease request_lease{request.variable, held.version, watch, {}};
    for (std::size_t k = first; k < first + count; ++k) {
      request_lease.objects.push_back(asked[k]->object);
    }
    const auto answer = ask_undoable(primary, std::move(request_lease), reply);
    if (!answer) return answer.error();
    held.leases.emplace_back(primary, answer->lease);
    if (answer->objects.size() != count) return not_a_server();
    for (std::size_t k = 0; k < count; ++k) {
      const LeasedObject& leased = answer->objects[k];
      StoredObject& seen = *asked[first + k];
      if (leased.state == LeasedObject::State::here) {
        seen.order = leased.order;
        seen.range = leased.range;
        seen.checksum = leased.checksum;
        seen.lease = answer->lease;
      }
      if (leased.state != LeasedObject::State::gone) continue;
      // Its writer has died. Nobody needs to ask for it again.
      const protocol::Unindex unindex{{request.variable, held.version, {primary, seen.object}}};
      servers_.tell(named_by.at({primary, seen.object}), message_of(unindex));
    }
  }
  return {};
}

Status Catalog::take(const LeasedBox& held, std::int64_t end_ns,
                     const std::function<Status(const LeasedBox&)>& copy) {
  const auto is_away = [&](const Part& part) {
    return held.objects[part.object].range.segment < 0;
  };
  std::vector<Part> away;
  std::copy_if(held.parts.begin(), held.parts.end(), std::back_inserter(away), is_away);
  if (away.empty()) return copy(held);
  LeasedBox here = held;
  std::erase_if(here.parts, is_away);
  if (Status status = here.parts.empty() ? Status{} : copy(here); !status) return status;
  for (const auto& [server, lease] : held.leases) {
    if (const auto loosened = recall(server, lease, 0, end_ns); !loosened) return loosened.error();
  }
  return take_back(here, away, end_ns, copy);
}

/// Brings back the objects of the parts that are `away`, one at a time: each has its parts side by
/// side.
Status Catalog::take_back(LeasedBox& here, std::span<const Part> away, std::int64_t end_ns,
                          const std::function<Status(const LeasedBox&)>& copy) {
  const StoredObject* before = nullptr;
  for (auto first = away.begin(); first != away.end();) {
    const auto last = std::find_if(first, away.end(),
                                   [&](const Part& part) { return part.object != first->object; });
    StoredObject& seen = here.objects[first->object];
    if (before != nullptr && (before->primary != seen.primary || before->lease != seen.lease)) {
      const auto loosened = recall(before->primary, before->lease, 0, end_ns);
      if (!loosened) return loosened.error();
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

/// Where an object is, once it is back in memory. Object 0: nothing of the lease has to be.
Result<Range> Catalog::recall(int server, std::uint64_t lease, std::uint64_t object,
                              std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const auto answer = ask_until_done(server, protocol::Recall{lease, object}, reply, end_ns);
  if (!answer) return answer.error();
  const Range range = std::get<protocol::Recalled>(*answer).range;
  const bool well = object == 0 || range.segment >= 0;
  return well ? Result<Range>(range) : Result<Range>(not_a_server());
}

/// Each primary hears once how many bytes were read from it, and one server that it was a get.
Status Catalog::release(const LeasedBox& held, std::string_view path) {
  Status status;
  ReplyBuffer reply(held.end_ns);
  std::map<int, std::int64_t> bytes;
  for (const Part& part : held.parts) {
    if (path.empty()) break;
    bytes[held.objects[part.object].primary] += part.box.points() * held.element_bytes;
  }
  // A server that holds some of it counts the get: others list what they hold, and not this.
  bool counted = path.empty();
  for (const auto& [server, lease] : held.leases) {
    const std::int64_t moved = std::exchange(bytes[server], 0);
    const bool counts = !counted && moved > 0;
    counted = counted || counts;
    const protocol::Release end{lease, held.variable, counts, moved, std::string(path)};
    const auto answer = ask(server, end, reply);
    if (!answer && status) status = answer.error();
  }
  return status;
}

}  // namespace tranship::staging
