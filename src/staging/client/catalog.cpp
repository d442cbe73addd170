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
constexpr int lives_max = 8;
/// Variables that a client remembers; what it forgets it asks for again.
constexpr std::size_t known_max = 1024;

Error deleted(const std::string& variable) {
  return {ErrorCode::not_found, in_quotes(variable) + " is deleted again and again meanwhile"};
}

/// A look goes on to so many other versions before the time of its call counts.
constexpr int versions_free = 1024;

/// Whether a server may name that version for the request.
bool fits(const GetRequest& request, std::int64_t version) {
  switch (request.which) {
    case Which::exact: return version == request.version;
    case Which::next: return version > request.version;
    case Which::latest: return version <= request.version;
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
  const auto answer = ask(distribution_.keeper(domain.variable), define, reply);
  return answer ? Status{} : Status(answer.error());
}

/// The cells of a variable never change: their order is found once.
Catalog::Known Catalog::remember(const std::string& variable, Known known) {
  std::lock_guard lock(mutex_);
  const auto before = known_.find(variable);
  Cells& cells = known.facts.cells;
  if (before == known_.end() || before->second.facts.life.life != known.facts.life.life) {
    cells.find_order();
  } else {
    cells.order = before->second.facts.cells.order;
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

/// The first put to a variable tells its keeper; so does one that lies outside the domain, which
/// may have grown, and one that does not fit, since the variable may be another by now.
Result<Catalog::Known> Catalog::declare(const PutRequest& request, std::int64_t end_ns) {
  {
    std::lock_guard lock(mutex_);
    const auto known = known_.find(request.variable);
    if (known != known_.end() && known->second.declared) {
      const Facts& facts = known->second.facts;
      const Status fits = check_fits(request, facts.type, facts.element_bytes, facts.first.rank);
      if (fits && check_within(request, facts)) return known->second;
    }
  }
  ReplyBuffer reply(end_ns);
  auto answer = ask(distribution_.keeper(request.variable), protocol::Declare{request}, reply);
  if (!answer) return answer.error();
  return remember(request.variable, {std::move(answer->facts), true});
}

Result<protocol::Described> Catalog::ask_keeper(const std::string& variable, bool watch,
                                                std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const int keeper = distribution_.keeper(variable);
  auto answer = ask_until_done(keeper, protocol::Describe{variable, watch}, reply, end_ns);
  if (!answer) return answer.error();
  return std::get<protocol::Described>(std::move(*answer));
}

/// Waits until somebody has put to the variable, if there are several servers.
Result<Catalog::Owners> Catalog::owners_of(const std::string& variable, const Box& box,
                                           std::int64_t end_ns) {
  if (distribution_.servers() == 1) return Owners{{0}, {}};
  std::optional<Known> known;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(variable);
    if (found != known_.end()) known = found->second;
  }
  if (!known || known->facts.cells.rank != box.rank) {
    const auto described = ask_keeper(variable, false, end_ns);
    if (!described) return described.error();
    known = remember(variable, {described->facts, false});
  }
  if (known->facts.cells.rank != box.rank)
    return wrong_rank(variable, known->facts.cells.rank, box);
  return Owners{distribution_.owners(variable, known->facts.cells, box), known->facts.life};
}

Result<bool> Catalog::put(const PutRequest& request, const Data& data, std::int64_t end_ns) {
  for (int life = 0; life < lives_max; ++life) {
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
  const auto owners = distribution_.owners(request.variable, known->facts.cells, request.box);
  if (owners.size() > 1) return ReplyKind::spread;
  protocol::Put put;
  put.object = request;
  put.object.life = known->facts.life;
  const auto fill = [&](std::span<std::byte> room) {
    Status status = data.fill(room.data());
    if (status && data.checksum) put.checksum = {1, crc32c(room)};
    return status;
  };
  put.data.length = data.bytes;
  put.data.write = std::ref(fill);
  ReplyBuffer reply(end_ns);
  const auto answer = distribution_.servers() == 1 ? ask_until_done(owners[0], put, reply, end_ns)
                                                   : ask(owners[0], put, reply);
  if (!answer) return answer.error();
  const auto* done = std::get_if<protocol::DoneWithOrphans>(&*answer);
  if (done != nullptr) pass_on(owners[0], done->orphans);
  return std::visit([](const auto& one) { return one.kind; }, *answer);
}

/// Tells the homes of a server's orphans, which its reply named: nobody else will. A home that
/// cannot be reached has lost them, or keeps them for longer.
void Catalog::pass_on(int server, const std::vector<Orphan>& orphans) {
  if (orphans.empty()) return;
  std::map<int, std::vector<Orphan>> by_home;
  for (const Orphan& orphan : orphans) by_home[orphan.home].push_back(orphan);
  for (auto& [home, its] : by_home) {
    if (home >= distribution_.servers()) continue;
    ReplyBuffer reply;
    (void)ask(home, protocol::DropOrphans{server, std::move(its)}, reply);
  }
}

/// Asks one server for room; false if it has none, and why.
Result<bool> Catalog::ask_room(int server, Effort effort, const std::vector<int>& owners,
                               Room& room, std::string& why) {
  room.guest = std::find(owners.begin(), owners.end(), server) == owners.end();
  ReplyBuffer reply(room.end_ns);
  protocol::Begin begin{room.request, effort, room.ready};
  if (room.guest) begin.owners = owners;
  const auto answer = ask_with_ticket(server, std::move(begin), reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) {
    why = wait->why;
    return false;
  }
  room.stale = std::holds_alternative<protocol::Stale>(*answer);
  if (room.stale) return true;  // whoever looks for room begins anew
  const auto& here = std::get<protocol::RoomHere>(*answer);
  room.home = server;
  room.object = here.object;
  room.range = here.range;
  pass_on(server, here.orphans);
  return true;
}

/// The first of `homes` decides: others only help it out, and their errors are not the put's. Those
/// that have no room say so when they have.
Status Catalog::find_room(const std::vector<int>& homes, const std::vector<int>& owners, Room& room,
                          std::int64_t end_ns) {
  while (true) {
    const std::uint64_t seen = servers_.notices();
    std::string why;
    if (homes.size() > 1) {
      const auto placed = ask_room(homes[0], Effort::home, owners, room, why);
      if (!placed) return placed.error();
      if (*placed) return {};
    }
    for (std::size_t k = 1; k < homes.size() && servers_.now_ns() < end_ns; ++k) {
      const auto placed = ask_room(homes[k], Effort::guest, owners, room, why);
      if (placed && *placed) return {};
    }
    const auto placed = ask_room(homes[0], Effort::all, owners, room, why);
    if (!placed) return placed.error();
    if (*placed) return {};
    if (Status status = pause(seen, end_ns, why); !status) return status;
  }
}

Result<Room> Catalog::begin(const PutRequest& request, std::int64_t end_ns, bool ready) {
  for (int life = 0; life < lives_max; ++life) {
    auto room = begin_now(request, end_ns, ready);
    if (!room || !room->stale) return room;
    forget(request.variable);
  }
  return deleted(request.variable);
}

/// The room, or that the variable was deleted since this client has asked for it.
Result<Room> Catalog::begin_now(const PutRequest& request, std::int64_t end_ns, bool ready) {
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  Room room;
  room.request = request;
  room.request.life = known->facts.life;
  room.end_ns = end_ns;
  room.ready = ready;
  const auto homes = distribution_.homes(request.variable, known->facts.cells, request.box);
  const auto owners = distribution_.owners(request.variable, known->facts.cells, request.box);
  if (Status status = find_room(homes, owners, room, end_ns); !status) return status.error();
  if (room.stale) return room;
  if (Status status = index_at(owners, room); !status || room.stale) {
    abort(room);
    if (!status) return status.error();
  }
  return room;
}

/// Has the other owners of the box index the object, or learns that the variable was deleted.
Status Catalog::index_at(const std::vector<int>& owners, Room& room) {
  ReplyBuffer reply(room.end_ns);
  const protocol::Index index{room.request, {room.home, room.object}, room.guest};
  for (const int owner : owners) {
    if (owner == room.home) continue;
    room.indexed.push_back(owner);  // it may be, even if no reply comes
    const auto answer = ask(owner, index, reply);
    if (!answer) return answer.error();
    const auto* indexed = std::get_if<protocol::Ordered>(&*answer);
    room.stale = indexed == nullptr;
    if (room.stale) return {};
    room.order_before = std::max(room.order_before, indexed->order);
    pass_on(owner, indexed->orphans);
  }
  return {};
}

Status Catalog::take_pages(const Room& room) {
  if (room.ready) return {};
  ReplyBuffer reply(room.end_ns);
  const auto taken = ask(room.home, protocol::TakePages{room.object}, reply);
  return taken ? Status{} : Status(taken.error());
}

Status Catalog::commit(const Room& room, std::string_view path, const Checksum& checksum) {
  ReplyBuffer reply(room.end_ns);
  const PutRequest& put = room.request;
  protocol::Commit commit;
  commit.object = room.object;
  commit.order_before = room.order_before;
  commit.variable = put.variable;
  commit.bytes = put.box.points() * put.element_bytes;
  commit.path = path;
  commit.checksum = checksum;
  const auto committed = ask(room.home, commit, reply);
  if (!committed) return committed.error();
  pass_on(room.home, committed->orphans);
  // It is visible. A server that is lost here has lost its own objects, and not this one.
  const protocol::Entry entry{put.variable, put.version, {room.home, room.object}};
  for (const int server : room.indexed) {
    const auto confirmed = ask(server, protocol::Confirm{entry, committed->order}, reply);
    if (confirmed) pass_on(server, confirmed->orphans);
  }
  return {};
}

void Catalog::abort(const Room& room) {
  servers_.tell(room.home, message_of(protocol::Abort{room.object}));
  const PutRequest& put = room.request;
  const protocol::Entry entry{put.variable, put.version, {room.home, room.object}};
  for (const int server : room.indexed) {
    servers_.tell(server, message_of(protocol::Unindex{entry}));
  }
}

Result<Held> Catalog::get(const GetRequest& request, ReplyBuffer& reply, std::int64_t end_ns) {
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

Result<Held> Catalog::look_until_whole(const GetRequest& request, bool wants_data,
                                       ReplyBuffer& reply, std::int64_t end_ns) {
  auto look = look_in_life(request, wants_data, reply, end_ns);
  for (int life = 0; look && !*look && life < lives_max; ++life) {
    forget(request.variable);
    look = look_in_life(request, wants_data, reply, end_ns);
  }
  if (!look) return look.error();
  if (!*look) return deleted(request.variable);
  return std::move(**look);
}

/// Nothing if the variable was deleted since this client has asked for it.
Result<std::optional<Held>> Catalog::look_in_life(const GetRequest& asked, bool wants_data,
                                                  ReplyBuffer& reply, std::int64_t end_ns) {
  const auto known = owners_of(asked.variable, asked.box, end_ns);
  if (!known) return known.error();
  const std::vector<int>* owners = &known->servers;
  GetRequest request = asked;
  request.life = known->life;
  const int keeper = distribution_.keeper(request.variable);
  bool alone = owners->size() == 1;
  bool watch = false;
  while (true) {
    const std::uint64_t seen = servers_.notices();
    // The keeper is asked first: what producers had put before they ended is seen below. A server
    // that is keeper and only owner says itself that nothing will come any more.
    std::optional<Facts> facts;
    if (watch && !(alone && owners->front() == keeper)) {
      const auto known = ask_keeper(request.variable, true, end_ns);
      if (!known) return known.error();
      facts = known->facts;
    }
    auto look = !alone       ? ask_all(request, *owners, watch, reply)
                : wants_data ? ask_one(request, owners->front(), reply)
                             : ask_version(request, owners->front(), reply);
    if (!look) return look.error();
    if (std::holds_alternative<Stale>(*look)) return std::optional<Held>();
    if (auto* held = std::get_if<Held>(&*look)) return std::optional<Held>(std::move(*held));
    if (std::holds_alternative<Spread>(*look)) {
      alone = false;
      continue;
    }
    const std::string& why = std::get<Waiting>(*look).why;
    if (facts && facts->ended()) return never_complete(*facts, why);
    // Whoever is not told of changes asks to be, and looks once more.
    const bool told = alone && owners->front() == keeper;
    if (watch || told) {
      if (Status status = pause(seen, end_ns, why); !status) return status.error();
    }
    watch = true;
  }
}

Catalog::Look Catalog::ask_version(const GetRequest& request, int server, ReplyBuffer& reply) {
  using Outcome = std::variant<Held, Waiting, Spread, Stale>;
  const auto answer = ask_with_ticket(server, protocol::AskVersion{request}, reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return Outcome(Waiting{wait->why});
  if (std::holds_alternative<protocol::AskOthers>(*answer)) return Outcome(Spread{});
  if (std::holds_alternative<protocol::Stale>(*answer)) return Outcome(Stale{});
  Held held;
  held.end_ns = reply.end_ns;
  held.version = std::get<protocol::VersionThere>(*answer).version;
  if (!fits(request, held.version)) return not_a_server();
  return Outcome(std::move(held));
}

Catalog::Look Catalog::ask_one(const GetRequest& request, int server, ReplyBuffer& reply) {
  using Outcome = std::variant<Held, Waiting, Spread, Stale>;
  auto answer = ask_with_ticket(server, protocol::Get{request}, reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return Outcome(Waiting{wait->why});
  if (std::holds_alternative<protocol::AskOthers>(*answer)) return Outcome(Spread{});
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
  Held held;
  held.end_ns = reply.end_ns;
  held.version = inside.version;
  held.type = std::move(inside.type);
  held.element_bytes = inside.element_bytes;
  held.data = inside.data.bytes;
  return Outcome(std::move(held));
}

/// The objects of one server, which are to cover the box.
Catalog::Look Catalog::hold_objects(int server, const GetRequest& request,
                                    protocol::Objects objects, ReplyBuffer& reply) {
  Found& found = objects.found;
  if (Status status = read_found(server, request, objects, reply); !status) {
    return given_up(server, found, status);
  }
  Held held;
  held.version = found.version;
  held.type = std::move(found.type);
  held.element_bytes = found.element_bytes;
  held.objects = std::move(found.objects);
  held.end_ns = reply.end_ns;
  held.leases.emplace_back(server, found.lease);
  for (Seen& seen : held.objects) seen.lease = found.lease;
  Box missing;
  if (!cut(request.box, held.objects, held.parts, missing)) {
    (void)release(held);
    return not_a_server();
  }
  return std::variant<Held, Waiting, Spread, Stale>(std::move(held));
}

/// Ends the lease of an answer that could not be read whole; returns why.
Error Catalog::given_up(int server, const Found& found, const Status& why) {
  Held held;
  if (found.lease != 0) held.leases.emplace_back(server, found.lease);
  (void)release(held, {});
  return why.error();
}

/// Asks for the objects that a reply had no room for. All are of servers that there are, in boxes
/// of as many dimensions as were asked for, and of a version that may be named.
Status Catalog::read_found(int server, const GetRequest& request, protocol::Objects& objects,
                           ReplyBuffer& reply) {
  Found& found = objects.found;
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
  const auto usable = [&](const Seen& one) {
    return one.home < distribution_.servers() && one.box.rank == request.box.rank;
  };
  const bool well = fits(request, found.version) &&
                    std::all_of(found.objects.begin(), found.objects.end(), usable);
  return well ? Status{} : Status(not_a_server());
}

Catalog::Look Catalog::ask_all(const GetRequest& request, const std::vector<int>& owners,
                               bool watch, ReplyBuffer& reply) {
  using Outcome = std::variant<Held, Waiting, Spread, Stale>;
  GetRequest bounded = request;
  for (int rounds = 0;; ++rounds) {
    Heard heard;
    auto gathered = gather(bounded, owners, watch, reply, heard);
    if (heard.stale) return Outcome(Stale{});
    if (!gathered) return gathered.error();
    if (!*gathered) return Outcome(Waiting{heard.why});
    Held& held = **gathered;
    Status status = lease_others(request, watch, heard.named_by, held, reply);
    Box missing;
    const bool whole = status && cut(request.box, held.objects, held.parts, missing);
    if (whole) return Outcome(std::move(held));
    (void)release(held);
    const bool vanished = !status && status.error().code == ErrorCode::not_found;
    if (!status && (!vanished || request.which == Which::exact)) return status.error();
    if (request.which == Which::latest && held.version > INT64_MIN) {
      bounded.version = held.version - 1;  // an older one may be whole
    } else if (vanished && request.which == Which::next) {
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
                        ReplyBuffer& reply, Answers& answers, Heard& heard) {
  const protocol::Find find{request, watch};
  for (const int server : servers) {
    auto answer = ask_with_ticket(server, find, reply);
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
Result<std::optional<Held>> Catalog::gather(const GetRequest& request,
                                            const std::vector<int>& owners, bool watch,
                                            ReplyBuffer& reply, Heard& heard) {
  GetRequest bounded = request;
  for (int rounds = 0;; ++rounds) {
    auto gathered = gather_version(bounded, owners, watch, reply, heard);
    if (!gathered) return gathered.error();
    if (!gathered->vanished) return std::move(gathered->held);
    const std::int64_t vanished = *gathered->vanished;
    const bool highest = request.which == Which::latest;
    if (highest && vanished == INT64_MIN) return std::optional<Held>();
    bounded.version = highest ? vanished - 1 : vanished;
    const std::string why = version_of(request.variable, vanished) + " was discarded meanwhile";
    if (Status status = go_on(rounds, reply.end_ns, why); !status) return status.error();
  }
}

Result<Catalog::Gathered> Catalog::gather_version(const GetRequest& request,
                                                  const std::vector<int>& owners, bool watch,
                                                  ReplyBuffer& reply, Heard& heard) {
  Answers answers;
  Status status = find_at(owners, request, watch, reply, answers, heard);
  const bool highest = request.which == Which::latest;
  Held held;
  held.end_ns = reply.end_ns;
  bool any = false;
  for (const auto& [owner, found] : answers) {
    if (any && (highest ? found.version <= held.version : found.version >= held.version)) continue;
    held.version = found.version;
    held.type = found.type;
    held.element_bytes = found.element_bytes;
    any = true;
  }
  if (status && any && request.which != Which::exact) {
    // Owners that named another version may know that this one was discarded.
    std::vector<int> others = owners;
    for (const auto& [owner, found] : answers) {
      if (found.version == held.version) std::erase(others, owner);
    }
    GetRequest exact = request;
    exact.which = Which::exact;
    exact.version = held.version;
    status = find_at(others, exact, watch, reply, answers, heard);
  }
  for (const auto& [owner, found] : answers) held.leases.emplace_back(owner, found.lease);
  if (!status) {
    (void)release(held);
    const bool vanished = any && !heard.stale && status.error().code == ErrorCode::not_found;
    if (!vanished || request.which == Which::exact) return status.error();
    return Gathered{{}, held.version};
  }
  if (!any) return Gathered{};
  std::map<std::pair<int, std::uint64_t>, Seen> objects;
  for (const auto& [owner, found] : answers) {
    if (found.version != held.version) continue;
    for (const Seen& seen : found.objects) {
      const std::pair key(seen.home, seen.object);
      // An object's home knows more of it than others do.
      if (seen.order > 0) {
        objects.insert_or_assign(key, seen);
        objects[key].lease = found.lease;
      }
      if (seen.order == 0 && objects.emplace(key, seen).second) heard.named_by.emplace(key, owner);
    }
  }
  for (const auto& [key, seen] : objects) held.objects.push_back(seen);
  return Gathered{std::move(held), {}};
}

/// Asks the homes of what only others have named; leaves the objects that are visible.
Status Catalog::lease_others(const GetRequest& request, bool watch, const NamedBy& named_by,
                             Held& held, ReplyBuffer& reply) {
  int last = -1;
  for (std::size_t k = 0; k < held.objects.size(); ++k) {  // they are sorted by home
    const int home = held.objects[k].home;
    if (held.objects[k].order > 0 || home == last) continue;
    last = home;
    if (Status status = lease_at(home, request, watch, named_by, held, reply); !status) {
      return status;
    }
  }
  std::erase_if(held.objects, [](const Seen& seen) { return seen.order == 0; });
  sort_newest_first(held.objects);
  return {};
}

Status Catalog::lease_at(int home, const GetRequest& request, bool watch, const NamedBy& named_by,
                         Held& held, ReplyBuffer& reply) {
  std::vector<Seen*> asked;
  for (Seen& seen : held.objects) {
    if (seen.home == home && seen.order == 0) asked.push_back(&seen);
  }
  const std::size_t together =
      std::max<std::size_t>(static_cast<std::size_t>(servers_.message_bytes()) / 64, 1);
  for (std::size_t first = 0; first < asked.size(); first += together) {
    const std::size_t count = std::min(together, asked.size() - first);
    protocol::Lease request_lease{request.variable, held.version, watch, {}};
    for (std::size_t k = first; k < first + count; ++k) {
      request_lease.objects.push_back(asked[k]->object);
    }
    const auto answer = ask_with_ticket(home, std::move(request_lease), reply);
    if (!answer) return answer.error();
    held.leases.emplace_back(home, answer->lease);
    if (answer->objects.size() != count) return not_a_server();
    for (std::size_t k = 0; k < count; ++k) {
      const Leased& leased = answer->objects[k];
      Seen& seen = *asked[first + k];
      if (leased.state == Leased::State::here) {
        seen.order = leased.order;
        seen.range = leased.range;
        seen.checksum = leased.checksum;
        seen.lease = answer->lease;
      }
      if (leased.state != Leased::State::gone) continue;
      // Its writer has died. Nobody needs to ask for it again.
      const protocol::Unindex unindex{{request.variable, held.version, {home, seen.object}}};
      servers_.tell(named_by.at({home, seen.object}), message_of(unindex));
    }
  }
  return {};
}

Status Catalog::take(const Held& held, std::int64_t end_ns,
                     const std::function<Status(const Held&)>& copy) {
  const auto is_away = [&](const Part& part) {
    return held.objects[part.object].range.segment < 0;
  };
  std::vector<Part> away;
  std::copy_if(held.parts.begin(), held.parts.end(), std::back_inserter(away), is_away);
  if (away.empty()) return copy(held);
  Held here = held;
  std::erase_if(here.parts, is_away);
  if (Status status = here.parts.empty() ? Status{} : copy(here); !status) return status;
  for (const auto& [server, lease] : held.leases) {
    if (const auto loosened = recall(server, lease, 0, end_ns); !loosened) return loosened.error();
  }
  return take_back(here, away, end_ns, copy);
}

/// Brings back the objects of the parts that are `away`, one at a time: each has its parts side by
/// side.
Status Catalog::take_back(Held& here, std::span<const Part> away, std::int64_t end_ns,
                          const std::function<Status(const Held&)>& copy) {
  const Seen* before = nullptr;
  for (auto first = away.begin(); first != away.end();) {
    const auto last = std::find_if(first, away.end(),
                                   [&](const Part& part) { return part.object != first->object; });
    Seen& seen = here.objects[first->object];
    if (before != nullptr && (before->home != seen.home || before->lease != seen.lease)) {
      const auto loosened = recall(before->home, before->lease, 0, end_ns);
      if (!loosened) return loosened.error();
    }
    const auto range = recall(seen.home, seen.lease, seen.object, end_ns);
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

/// Each home hears once how many bytes were read from it, and one server that it was a get.
Status Catalog::release(const Held& held, std::string_view path) {
  Status status;
  ReplyBuffer reply(held.end_ns);
  std::map<int, std::int64_t> bytes;
  for (const Part& part : held.parts) {
    if (path.empty()) break;
    bytes[held.objects[part.object].home] += part.box.points() * held.element_bytes;
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
