#include "staging/client/object_search.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

/// Returns whether a server may name that version for the request.
bool fits(const GetRequest& request, std::int64_t version) {
  switch (request.choice) {
    case VersionChoice::exact: return version == request.version;
    case VersionChoice::next: return version > request.version;
    case VersionChoice::latest: return version <= request.version;
  }
  return false;
}

SearchOutcome waiting_for(const protocol::Wait& wait) {
  return Waiting{wait.why, wait.gap ? std::optional(wait.version) : std::nullopt, wait.ending,
                 wait.step};
}

/// Times that a search begins again because an object went while it was asked for: a later one, or
/// the end of its version, may have taken its place.
constexpr int looks_max = 8;

}  // namespace

Result<SearchOutcome> ObjectSearch::version_on(const GetRequest& request, int server,
                                               ReplyBuffer& reply) {
  const auto answer = requester_.ask_undoable(server, protocol::QueryVersion{request}, reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return waiting_for(*wait);
  if (std::holds_alternative<protocol::NeedsOtherServers>(*answer))
    return SearchOutcome(NeedsOtherServers{});
  if (std::holds_alternative<protocol::Stale>(*answer)) return SearchOutcome(StaleVariable{});
  LeasedBox held;
  held.end_ns = reply.end_ns;
  held.version = std::get<protocol::VersionFound>(*answer).version;
  held.step = std::get<protocol::VersionFound>(*answer).step;
  if (!fits(request, held.version)) return not_a_server();
  return SearchOutcome(std::move(held));
}

Result<SearchOutcome> ObjectSearch::on_one(const GetRequest& request, int server,
                                           ReplyBuffer& reply) {
  auto answer = requester_.ask_undoable(server, protocol::Get{request}, reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return waiting_for(*wait);
  if (std::holds_alternative<protocol::NeedsOtherServers>(*answer))
    return SearchOutcome(NeedsOtherServers{});
  if (std::holds_alternative<protocol::Stale>(*answer)) return SearchOutcome(StaleVariable{});
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
  held.step = inside.step;
  return SearchOutcome(std::move(held));
}

/// Leases the objects of one server, which must cover the box.
Result<SearchOutcome> ObjectSearch::hold_objects(int server, const GetRequest& request,
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
  held.step = found.step;
  held.end_ns = reply.end_ns;
  held.leases.emplace_back(server, found.lease);
  for (StoredObject& seen : held.objects) seen.lease = found.lease;
  Box missing;
  if (!find_parts(request.box, held.objects, held.parts, missing)) {
    (void)release(held);
    return not_a_server();
  }
  return SearchOutcome(std::move(held));
}

/// Ends the lease of an answer that could not be read completely, and returns the reason.
Error ObjectSearch::given_up(int server, const FoundObjects& found, const Status& why) {
  LeasedBox held;
  if (found.lease != 0) held.leases.emplace_back(server, found.lease);
  (void)release(held, {});
  return why.error();
}

/// Asks for the objects that did not fit into a reply. Checks that all belong to servers of the
/// group, have boxes of the right dimensions, and a version that may be named.
Status ObjectSearch::read_found(int server, const GetRequest& request, protocol::Objects& objects,
                                ReplyBuffer& reply) {
  FoundObjects& found = objects.found;
  const std::size_t all = found.objects.size() + objects.left;
  while (found.objects.size() < all) {
    const protocol::More more{found.lease, found.objects.size()};
    const auto answer = requester_.ask(server, more, reply);
    if (!answer) return answer.error();
    const auto& page = answer->found.objects;
    if (page.empty() || found.objects.size() + page.size() + answer->left != all) {
      return not_a_server();
    }
    found.objects.insert(found.objects.end(), page.begin(), page.end());
  }
  const auto usable = [&](const StoredObject& one) {
    return one.primary < requester_.servers() && one.box.rank == request.box.rank;
  };
  const bool well = fits(request, found.version) &&
                    std::all_of(found.objects.begin(), found.objects.end(), usable);
  return well ? Status{} : Status(not_a_server());
}

Result<SearchOutcome> ObjectSearch::on_all(const GetRequest& request,
                                           const std::vector<int>& index_servers, bool watch,
                                           ReplyBuffer& reply) {
  GetRequest bounded = request;
  int looks = 0;
  std::uint64_t step = 0;
  for (int rounds = 0;; ++rounds) {
    FindOutcome outcome;
    auto gathered = gather(bounded, index_servers, watch, reply, outcome);
    if (outcome.stale) return SearchOutcome(StaleVariable{});
    if (!gathered) return gathered.error();
    step = std::max(step, outcome.step);
    if (!*gathered) return SearchOutcome(Waiting{outcome.why, {}, Ending::none, step});
    LeasedBox& held = **gathered;
    Status status = lease_others(request, watch, outcome, held, reply);
    step = std::max(step, outcome.step);
    Box missing;
    const bool whole = status && find_parts(request.box, held.objects, held.parts, missing);
    // A version that is whole stays so, whatever is withheld of it.
    held.step = whole && request.choice == VersionChoice::exact ? 0 : step;
    if (whole) return SearchOutcome(std::move(held));
    (void)release(held);
    const bool vanished = !status && status.error().code == ErrorCode::not_found;
    if (!status && (!vanished || request.choice == VersionChoice::exact)) return status.error();
    if (status && outcome.gone && ++looks < looks_max) continue;
    if (request.choice == VersionChoice::latest && held.version > INT64_MIN) {
      bounded.version = held.version - 1;  // an older one may be whole
    } else if (vanished && request.choice == VersionChoice::next) {
      bounded.version = held.version;
    } else {
      const bool next = request.choice == VersionChoice::next;
      return SearchOutcome(
          Waiting{version_of(request.variable, held.version) + " lacks " + missing.text(),
                  next ? std::optional(held.version) : std::nullopt, Ending::none, step});
    }
    const std::string why = "no version of " + in_quotes(request.variable) + " is whole yet";
    if (Status more = requester_.continue_search(rounds, reply.end_ns, why); !more)
      return more.error();
  }
}

Result<std::vector<Box>> ObjectSearch::boxes(const GetRequest& request,
                                             const std::vector<int>& index_servers,
                                             ReplyBuffer& reply) {
  FindOutcome outcome;
  auto gathered = gather(request, index_servers, false, reply, outcome);
  if (!gathered) return gathered.error();
  std::vector<Box> boxes;
  if (!*gathered) return boxes;
  LeasedBox& held = **gathered;
  const Status status = lease_others(request, false, outcome, held, reply);
  (void)release(held);
  if (!status) return status.error();
  for (const StoredObject& object : held.objects) boxes.push_back(object.box);
  return boxes;
}

/// Asks servers for the objects that meet the box.
Status ObjectSearch::find_on(const std::vector<int>& servers, const GetRequest& request, bool watch,
                             ReplyBuffer& reply, Answers& answers, FindOutcome& outcome) {
  const protocol::Find find{request, watch};
  for (const int server : servers) {
    auto answer = requester_.ask_undoable(server, find, reply);
    if (!answer) return answer.error();
    if (std::holds_alternative<protocol::Stale>(*answer)) {
      outcome.stale = true;
      return Error{ErrorCode::not_found, in_quotes(request.variable) + " was deleted"};
    }
    if (auto* wait = std::get_if<protocol::Wait>(&*answer)) {
      outcome.why = std::move(wait->why);
      outcome.step = std::max(outcome.step, wait->step);
      continue;
    }
    auto& objects = std::get<protocol::Objects>(*answer);
    Status status = read_found(server, request, objects, reply);
    if (!status) return given_up(server, objects.found, status);
    outcome.step = std::max(outcome.step, objects.found.step);
    answers.emplace_back(server, std::move(objects.found));
  }
  return {};
}

/// Asks all index servers for the objects that meet the box, at one version. Returns nothing if
/// none has any.
Result<std::optional<LeasedBox>> ObjectSearch::gather(const GetRequest& request,
                                                      const std::vector<int>& index_servers,
                                                      bool watch, ReplyBuffer& reply,
                                                      FindOutcome& outcome) {
  GetRequest bounded = request;
  for (int rounds = 0;; ++rounds) {
    auto gathered = gather_version(bounded, index_servers, watch, reply, outcome);
    if (!gathered) return gathered.error();
    if (!gathered->vanished) return std::move(gathered->held);
    const std::int64_t vanished = *gathered->vanished;
    const bool highest = request.choice == VersionChoice::latest;
    if (highest && vanished == INT64_MIN) return std::optional<LeasedBox>();
    bounded.version = highest ? vanished - 1 : vanished;
    const std::string why = version_of(request.variable, vanished) + " was discarded meanwhile";
    if (Status status = requester_.continue_search(rounds, reply.end_ns, why); !status)
      return status.error();
  }
}

Result<ObjectSearch::GatheredVersion> ObjectSearch::gather_version(
    const GetRequest& request, const std::vector<int>& index_servers, bool watch,
    ReplyBuffer& reply, FindOutcome& outcome) {
  Answers answers;
  Status status = find_on(index_servers, request, watch, reply, answers, outcome);
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
    // Index servers that named another version may have discarded this one.
    std::vector<int> others = index_servers;
    for (const auto& [index_server, found] : answers) {
      if (found.version == held.version) std::erase(others, index_server);
    }
    GetRequest exact = request;
    exact.choice = VersionChoice::exact;
    exact.version = held.version;
    status = find_on(others, exact, watch, reply, answers, outcome);
  }
  for (const auto& [index_server, found] : answers)
    held.leases.emplace_back(index_server, found.lease);
  if (!status) {
    (void)release(held);
    const bool vanished = any && !outcome.stale && status.error().code == ErrorCode::not_found;
    if (!vanished || request.choice == VersionChoice::exact) return status.error();
    return GatheredVersion{{}, held.version};
  }
  if (!any) return GatheredVersion{};
  std::map<std::pair<int, std::uint64_t>, StoredObject> objects;
  for (const auto& [index_server, found] : answers) {
    if (found.version != held.version) continue;
    for (const StoredObject& seen : found.objects) {
      const std::pair key(seen.primary, seen.object);
      // The primary's own entry is the complete one.
      if (seen.order > 0) {
        objects.insert_or_assign(key, seen);
        objects[key].lease = found.lease;
      }
      if (seen.order == 0 && objects.emplace(key, seen).second)
        outcome.named_by.emplace(key, index_server);
    }
  }
  for (const auto& [key, seen] : objects) held.objects.push_back(seen);
  return GatheredVersion{std::move(held), {}};
}

/// Asks the primaries of the objects that only other servers have named. Keeps the visible objects.
Status ObjectSearch::lease_others(const GetRequest& request, bool watch, FindOutcome& outcome,
                                  LeasedBox& held, ReplyBuffer& reply) {
  int last = -1;
  for (std::size_t k = 0; k < held.objects.size(); ++k) {  // they are sorted by primary
    const int primary = held.objects[k].primary;
    if (held.objects[k].order > 0 || primary == last) continue;
    last = primary;
    if (Status status = lease_on(primary, request, watch, outcome, held, reply); !status) {
      return status;
    }
  }
  std::erase_if(held.objects, [](const StoredObject& seen) { return seen.order == 0; });
  sort_newest_first(held.objects);
  return {};
}

Status ObjectSearch::lease_on(int primary, const GetRequest& request, bool watch,
                              FindOutcome& outcome, LeasedBox& held, ReplyBuffer& reply) {
  std::vector<StoredObject*> asked;
  for (StoredObject& seen : held.objects) {
    if (seen.primary == primary && seen.order == 0) asked.push_back(&seen);
  }
  const std::size_t together =
      std::max<std::size_t>(static_cast<std::size_t>(requester_.message_bytes()) / 64, 1);
  for (std::size_t first = 0; first < asked.size(); first += together) {
    const std::size_t count = std::min(together, asked.size() - first);
    protocol::Lease request_lease{request.variable, held.version, watch, {}};
    for (std::size_t k = first; k < first + count; ++k) {
      request_lease.objects.push_back(asked[k]->object);
    }
    const auto answer = requester_.ask_undoable(primary, std::move(request_lease), reply);
    if (!answer) return answer.error();
    held.leases.emplace_back(primary, answer->lease);
    if (answer->objects.size() != count) return not_a_server();
    for (std::size_t k = 0; k < count; ++k) {
      const LeasedObject& leased = answer->objects[k];
      outcome.step = std::max(outcome.step, leased.step);
      StoredObject& seen = *asked[first + k];
      if (leased.state == LeasedObject::State::here) {
        seen.order = leased.order;
        seen.range = leased.range;
        seen.checksum = leased.checksum;
        seen.lease = answer->lease;
      }
      if (leased.state != LeasedObject::State::gone) continue;
      outcome.gone = true;
      // Unless it was hidden, its writer has died: the index entry is removed, so that no reader
      // asks for it again.
      const protocol::Unindex unindex{{request.variable, held.version, {primary, seen.object}}};
      requester_.send(outcome.named_by.at({primary, seen.object}), message_of(unindex));
    }
  }
  return {};
}

Status ObjectSearch::release(const LeasedBox& held, std::string_view path) {
  Status status;
  ReplyBuffer reply(held.end_ns);
  std::map<int, std::int64_t> bytes;
  for (const Part& part : held.parts) {
    if (path.empty()) break;
    bytes[held.objects[part.object].primary] += part.box.points() * held.element_bytes;
  }
  // A server that held some of the bytes counts the get: its list names the variable.
  bool counted = path.empty();
  for (const auto& [server, lease] : held.leases) {
    const std::int64_t moved = std::exchange(bytes[server], 0);
    const bool counts = !counted && moved > 0;
    counted = counted || counts;
    const protocol::Release end{lease, held.variable, counts, moved, std::string(path)};
    const auto answer = requester_.ask(server, end, reply);
    if (!answer && status) status = answer.error();
  }
  return status;
}

}  // namespace tranship::staging
