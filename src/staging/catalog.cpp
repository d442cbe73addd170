#include "staging/catalog.hpp"

#include <algorithm>
#include <iterator>

#include "base/crc32c.hpp"
#include "base/text.hpp"

namespace tranship::staging {
namespace {

Error late(const std::string& why) {
  return {ErrorCode::timeout, "the wait for the staging server has ended: " + why +
                                  "; wait longer, or look with: tranship ls"};
}

/// Times that a call begins anew because its variable was deleted meanwhile.
constexpr int lives_max = 8;
/// Variables that a client remembers; what it forgets it asks for again.
constexpr std::size_t known_max = 1024;

Error deleted(const std::string& variable) {
  return {ErrorCode::not_found, quoted(variable) + " is deleted again and again meanwhile"};
}

std::uint32_t flag(bool value) { return value ? 1 : 0; }

}  // namespace

Error not_a_server() {
  return {ErrorCode::unsupported,
          "what answers there is no staging server; start one with: tranship serve"};
}

/// For what a server grants: the question gets a ticket, by which that is given up if nobody waits
/// for the answer any more.
Catalog::Answer Catalog::ask_for(int server, MessageWriter question, ReplyBuffer& reply) {
  const Ticket ticket = ++last_ticket_;
  question.add(ticket);
  auto answer = servers_.ask(server, question, reply);
  const bool in_doubt = !answer && (answer.error().code == ErrorCode::timeout ||
                                    answer.error().code == ErrorCode::cancelled);
  if (in_doubt) {
    servers_.tell(server, question_of(Ask::undo).add(ticket));
  }
  return answer;
}

Catalog::Answer Catalog::ask_until_done(int server, const MessageWriter& question,
                                        ReplyBuffer& reply, std::int64_t end_ns) {
  while (true) {
    const std::uint64_t seen = servers_.notices();
    auto answer = servers_.ask(server, question, reply);
    if (!answer) return answer;
    MessageReader in(*answer);
    if (in.get<Said>() != Said::waiting) return answer;
    if (Status status = pause(seen, end_ns, read_why(in)); !status) return status.error();
  }
}

Status Catalog::pause(std::uint64_t seen, std::int64_t end_ns, const std::string& why) {
  const std::int64_t now = servers_.now_ns();
  if (now >= end_ns) return late(why);
  if (interrupted_ && interrupted_()) return Error{ErrorCode::cancelled, "interrupted"};
  servers_.wait(seen, std::min(end_ns, now + look_again_ns));
  return {};
}

Status Catalog::define(const PutRequest& domain, int writers) {
  MessageWriter question = question_of(Ask::define);
  add(question, domain);
  question.add(writers);
  ReplyBuffer reply;
  const auto answer = servers_.ask(distribution_.keeper(domain.variable), question, reply);
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
  MessageWriter question = question_of(Ask::declare);
  add(question, request);
  ReplyBuffer reply(end_ns);
  const auto answer = servers_.ask(distribution_.keeper(request.variable), question, reply);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  Known known;
  if (!read(in, known.facts)) return not_a_server();
  known.declared = true;
  return remember(request.variable, std::move(known));
}

Result<Catalog::Described> Catalog::ask_keeper(const std::string& variable, bool watch,
                                               std::int64_t end_ns) {
  MessageWriter question = question_of(Ask::describe);
  question.text(variable).add(flag(watch));
  ReplyBuffer reply(end_ns);
  const auto answer = ask_until_done(distribution_.keeper(variable), question, reply, end_ns);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  Described described;
  bool ok = read(in, described.facts);
  if (ok) described.bounds = read_optional_bounds(in, ok);
  ok = ok && (!described.bounds || described.bounds->rank == described.facts.first.rank);
  return ok && in.ok() ? Result<Described>(described) : Result<Described>(not_a_server());
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
    if (*said != Said::stale) return *said == Said::done;
    forget(request.variable);
  }
  return deleted(request.variable);
}

/// What the server said; anything but done or stale is left to others.
Result<Said> Catalog::put_now(const PutRequest& request, const Data& data, std::int64_t end_ns) {
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  const auto owners = distribution_.owners(request.variable, known->facts.cells, request.box);
  if (owners.size() > 1) return Said::spread;
  MessageWriter question = question_of(Ask::put);
  PutRequest asked = request;
  asked.life = known->facts.life;
  add(question, asked);
  const std::span<std::byte> room = question.room(data.bytes);
  if (Status status = data.fill(room.data()); !status) return status.error();
  Checksum checksum;
  if (data.checksum) checksum = {1, crc32c(room)};
  question.add(checksum);
  ReplyBuffer reply(end_ns);
  const auto answer = distribution_.servers() == 1
                          ? ask_until_done(owners[0], question, reply, end_ns)
                          : servers_.ask(owners[0], question, reply);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  const auto said = in.get<Said>();
  if (said == Said::done) pass_on_strays(owners[0], in);
  return said;
}

/// Says it to the homes of a server's strays, which the rest of its answer names: nobody else will.
/// A home that cannot be reached has lost them, or keeps them for longer.
void Catalog::pass_on_strays(int server, MessageReader& in) {
  std::vector<Stray> strays;
  if (!read(in, strays)) return;
  std::map<int, std::vector<Stray>> by_home;
  for (const Stray& stray : strays) by_home[stray.home].push_back(stray);
  for (const auto& [home, its] : by_home) {
    if (home < 0 || home >= distribution_.servers()) continue;
    MessageWriter question = question_of(Ask::forget);
    question.add(server);
    add(question, its);
    ReplyBuffer reply;
    (void)servers_.ask(home, question, reply);
  }
}

/// Asks one server for room; false if it has none, and why.
Result<bool> Catalog::ask_room(int server, Effort effort, const std::vector<int>& owners,
                               Room& room, std::string& why) {
  room.guest = std::find(owners.begin(), owners.end(), server) == owners.end();
  MessageWriter question = question_of(Ask::begin);
  add(question, room.request);
  question.add(effort).add(static_cast<std::uint32_t>(room.guest ? owners.size() : 0));
  for (std::size_t k = 0; room.guest && k < owners.size(); ++k) question.add(owners[k]);
  ReplyBuffer reply(room.end_ns);
  const auto answer = ask_for(server, std::move(question), reply);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  const auto said = in.get<Said>();
  if (said == Said::waiting) {
    why = read_why(in);
    return false;
  }
  room.stale = said == Said::stale;
  if (room.stale) return true;  // whoever looks for room begins anew
  room.home = server;
  room.object = in.get<std::uint64_t>();
  room.range = read_range(in);
  if (!in.ok()) return not_a_server();
  pass_on_strays(server, in);
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

Result<Room> Catalog::begin(const PutRequest& request, std::int64_t end_ns) {
  for (int life = 0; life < lives_max; ++life) {
    auto room = begin_now(request, end_ns);
    if (!room || !room->stale) return room;
    forget(request.variable);
  }
  return deleted(request.variable);
}

/// The room, or that the variable was deleted since this client has asked for it.
Result<Room> Catalog::begin_now(const PutRequest& request, std::int64_t end_ns) {
  const auto known = declare(request, end_ns);
  if (!known) return known.error();
  Room room;
  room.request = request;
  room.request.life = known->facts.life;
  room.end_ns = end_ns;
  const auto homes = distribution_.homes(request.variable, known->facts.cells, request.box);
  const auto owners = distribution_.owners(request.variable, known->facts.cells, request.box);
  if (Status status = find_room(homes, owners, room, end_ns); !status) return status.error();
  if (room.stale) return room;
  ReplyBuffer reply(end_ns);
  MessageWriter entry = question_of(Ask::enter);
  add(entry, room.request);
  entry.add(room.home).add(room.object).add(flag(room.guest));
  for (const int owner : owners) {
    if (owner == room.home) continue;
    room.entered.push_back(owner);  // it may be, even if no answer comes
    const auto entered = servers_.ask(owner, entry, reply);
    if (!entered) {
      abort(room);
      return entered.error();
    }
    MessageReader in(*entered);
    room.stale = in.get<Said>() == Said::stale;
    if (room.stale) {
      abort(room);
      return room;
    }
    room.order_before = std::max(room.order_before, in.get<std::uint64_t>());
    pass_on_strays(owner, in);
  }
  return room;
}

Status Catalog::commit(const Room& room, std::string_view path, const Checksum& checksum) {
  ReplyBuffer reply(room.end_ns);
  const PutRequest& put = room.request;
  MessageWriter question = question_of(Ask::commit);
  question.add(room.object).add(room.order_before);
  question.text(put.variable).add(put.box.points() * put.element_bytes).text(std::string(path));
  question.add(checksum);
  const auto answer = servers_.ask(room.home, question, reply);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  const auto order = in.get<std::uint64_t>();
  pass_on_strays(room.home, in);
  // It is visible. A server that is lost here has lost its own objects, and not this one.
  for (const int server : room.entered) {
    MessageWriter settle = question_of(Ask::settle);
    add_entry(settle, put.variable, put.version, {room.home, room.object});
    const auto settled = servers_.ask(server, settle.add(order), reply);
    if (!settled) continue;
    MessageReader said(*settled);
    (void)said.get<Said>();
    pass_on_strays(server, said);
  }
  return {};
}

void Catalog::abort(const Room& room) {
  servers_.tell(room.home, question_of(Ask::abort).add(room.object));
  for (const int server : room.entered) {
    MessageWriter question = question_of(Ask::leave);
    add_entry(question, room.request.variable, room.request.version, {room.home, room.object});
    servers_.tell(server, question);
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
    auto look = alone ? ask_one(request, wants_data, owners->front(), reply)
                      : ask_all(request, *owners, watch, reply);
    if (!look) return look.error();
    if (std::holds_alternative<Stale>(*look)) return std::optional<Held>();
    if (auto* held = std::get_if<Held>(&*look)) return std::optional<Held>(std::move(*held));
    if (std::holds_alternative<Spread>(*look)) {
      alone = false;
      continue;
    }
    const std::string& why = std::get<Waiting>(*look).why;
    if (facts && facts->ended()) return never(*facts, why);
    // Whoever is not told of changes asks to be, and looks once more.
    const bool told = alone && owners->front() == keeper;
    if (watch || told) {
      if (Status status = pause(seen, end_ns, why); !status) return status.error();
    }
    watch = true;
  }
}

Catalog::Look Catalog::ask_one(const GetRequest& request, bool wants_data, int server,
                               ReplyBuffer& reply) {
  using Outcome = std::variant<Held, Waiting, Spread, Stale>;
  MessageWriter question = question_of(wants_data ? Ask::get : Ask::wait);
  add(question, request);
  const auto answer = ask_for(server, std::move(question), reply);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  const auto said = in.get<Said>();
  if (said == Said::waiting) return Outcome(Waiting{read_why(in)});
  if (said == Said::spread) return Outcome(Spread{});
  if (said == Said::stale) return Outcome(Stale{});
  Held held;
  held.end_ns = reply.end_ns;
  if (said == Said::done) {
    held.version = in.get<std::int64_t>();
    return in.ok() ? Look(Outcome(std::move(held))) : Look(not_a_server());
  }
  if (said == Said::data) {
    held.version = in.get<std::int64_t>();
    held.type = in.text();
    held.element_bytes = in.get<std::int64_t>();
    std::int64_t bytes = 0;
    const bool countable =
        possible_element_bytes(held.element_bytes) &&
        !__builtin_mul_overflow(request.box.points(), held.element_bytes, &bytes);
    if (!in.ok() || !countable || bytes > static_cast<std::int64_t>(answer->size())) {
      return not_a_server();
    }
    held.data = answer->last(static_cast<std::size_t>(bytes));
    return Outcome(std::move(held));
  }
  Found found;
  if (said != Said::objects) return not_a_server();
  if (Status s = read_found(server, *answer, request.box.rank, found, reply); !s) {
    return given_up(server, found, s);
  }
  held.version = found.version;
  held.type = found.type;
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
  return Outcome(std::move(held));
}

/// Ends the lease of an answer that could not be read whole; returns why.
Error Catalog::given_up(int server, const Found& found, const Status& why) {
  Held held;
  if (found.lease != 0) held.leases.emplace_back(server, found.lease);
  (void)release(held, {});
  return why.error();
}

/// Reads the objects of an answer, and those that it had no room for.
/// Objects of servers that there are, in boxes of as many dimensions as were asked for.
Status Catalog::read_found(int server, std::span<const std::byte> answer, int rank, Found& found,
                           ReplyBuffer& reply) {
  std::size_t left = 0;
  MessageReader in(answer);
  if (in.get<Said>() != Said::objects || !read(in, found, left)) return not_a_server();
  while (left > 0) {
    const std::size_t before = found.objects.size();
    MessageWriter question = question_of(Ask::more);
    question.add(found.lease).add(static_cast<std::uint64_t>(before));
    const auto more = servers_.ask(server, question, reply);
    if (!more) return more.error();
    MessageReader next(*more);
    if (next.get<Said>() != Said::objects || !read(next, found, left)) return not_a_server();
    if (found.objects.size() == before) return not_a_server();
  }
  const bool usable = std::all_of(found.objects.begin(), found.objects.end(), [&](const Seen& one) {
    return one.home >= 0 && one.home < distribution_.servers() && one.box.rank == rank;
  });
  return usable ? Status{} : Status(not_a_server());
}

Catalog::Look Catalog::ask_all(const GetRequest& request, const std::vector<int>& owners,
                               bool watch, ReplyBuffer& reply) {
  using Outcome = std::variant<Held, Waiting, Spread, Stale>;
  GetRequest bounded = request;
  while (true) {
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
      return Outcome(Waiting{"version " + std::to_string(held.version) + " of \"" +
                             request.variable + "\" lacks " + missing.text()});
    }
  }
}

/// Asks servers for the objects that meet the box.
Status Catalog::find_at(const std::vector<int>& servers, const GetRequest& request, bool watch,
                        ReplyBuffer& reply, Answers& answers, Heard& heard) {
  MessageWriter question = question_of(Ask::find);
  add(question, request);
  question.add(flag(watch));
  for (const int server : servers) {
    const auto answer = ask_for(server, question, reply);
    if (!answer) return answer.error();
    MessageReader in(*answer);
    const auto said = in.get<Said>();
    if (said == Said::stale) {
      heard.stale = true;
      return Error{ErrorCode::not_found, quoted(request.variable) + " was deleted"};
    }
    if (said == Said::waiting) {
      heard.why = read_why(in);
      continue;
    }
    Found found;
    Status status = read_found(server, *answer, request.box.rank, found, reply);
    if (!status) return given_up(server, found, status);
    answers.emplace_back(server, std::move(found));
  }
  return {};
}

/// Asks all owners for the objects that meet the box, at one version. Nothing if none has any.
Result<std::optional<Held>> Catalog::gather(const GetRequest& request,
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
    if (highest && held.version == INT64_MIN) return std::optional<Held>();
    GetRequest beyond = request;
    beyond.version = highest ? held.version - 1 : held.version;
    return gather(beyond, owners, watch, reply, heard);
  }
  if (!any) return std::optional<Held>();
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
  return std::optional<Held>(std::move(held));
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
    MessageWriter question = question_of(Ask::lease);
    question.text(request.variable).add(held.version).add(flag(watch));
    question.add(static_cast<std::uint32_t>(count));
    for (std::size_t k = first; k < first + count; ++k) question.add(asked[k]->object);
    const auto answer = ask_for(home, std::move(question), reply);
    if (!answer) return answer.error();
    MessageReader in(*answer);
    (void)in.get<Said>();
    const auto lease = in.get<std::uint64_t>();
    held.leases.emplace_back(home, lease);
    for (std::size_t k = first; k < first + count; ++k) {
      Leased leased;
      if (!read(in, leased)) return not_a_server();
      Seen& seen = *asked[k];
      if (leased.state == Leased::State::here) {
        seen.order = leased.order;
        seen.range = leased.range;
        seen.checksum = leased.checksum;
        seen.lease = lease;
      }
      if (leased.state != Leased::State::gone) continue;
      // Its writer has died. Nobody needs to ask for it again.
      MessageWriter leave = question_of(Ask::leave);
      add_entry(leave, request.variable, held.version, {home, seen.object});
      servers_.tell(named_by.at({home, seen.object}), leave);
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
  const auto answer =
      ask_until_done(server, question_of(Ask::recall).add(lease).add(object), reply, end_ns);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  const Range range = read_range(in);
  return in.ok() && range.segment >= 0 ? Result<Range>(range) : Result<Range>(not_a_server());
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
    MessageWriter question = question_of(Ask::release).add(lease);
    question.text(held.variable).add(flag(counts)).add(moved).text(std::string(path));
    const auto answer = servers_.ask(server, question, reply);
    if (!answer && status) status = answer.error();
  }
  return status;
}

}  // namespace tranship::staging
