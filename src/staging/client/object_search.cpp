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

/// Most messages that are asked for at once, of objects that did not fit into the first replies.
constexpr std::size_t pages_together = 32;

/// Objects of one server that did not fit into its first reply.
struct Page {
  std::size_t answer = 0;  ///< The reply that they belong to.
  std::size_t first = 0;
  std::vector<StoredObject> objects{};
};

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
  return read_got(request, server, answer, reply.end_ns);
}

Result<SearchOutcome> ObjectSearch::read_got(const GetRequest& request, int server,
                                             Result<protocol::Get::Reply>& answer,
                                             std::int64_t end_ns) {
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) return waiting_for(*wait);
  if (std::holds_alternative<protocol::NeedsOtherServers>(*answer))
    return SearchOutcome(NeedsOtherServers{});
  if (std::holds_alternative<protocol::Stale>(*answer)) return SearchOutcome(StaleVariable{});
  if (auto* objects = std::get_if<protocol::Objects>(&*answer)) {
    return hold_objects(request, {server, std::move(objects->found), objects->left}, end_ns);
  }
  auto& inside = std::get<protocol::InlineData>(*answer);
  std::int64_t bytes = 0;
  const bool countable =
      !__builtin_mul_overflow(request.box.points(), inside.element_bytes, &bytes);
  if (!countable || bytes != std::ssize(inside.data.bytes) || !fits(request, inside.version)) {
    return not_a_server();
  }
  LeasedBox held;
  held.end_ns = end_ns;
  held.version = inside.version;
  held.type = std::move(inside.type);
  held.element_bytes = inside.element_bytes;
  held.data = inside.data.bytes;
  held.step = inside.step;
  return SearchOutcome(std::move(held));
}

/// Leases the objects that one server has named: they must cover the box, unless other servers hold
/// some of them.
Result<SearchOutcome> ObjectSearch::hold_objects(const GetRequest& request, Answer answer,
                                                 std::int64_t end_ns) {
  LeasedBox held;
  held.version = answer.found.version;
  held.step = answer.found.step;
  held.type = answer.found.type;
  held.element_bytes = answer.found.element_bytes;
  held.end_ns = end_ns;
  held.leases.emplace_back(answer.server, answer.found.lease);
  if (Status status = read_found(request, {&answer, 1}, end_ns); !status) {
    release(held);
    return status.error();
  }
  FindOutcome outcome;
  held = merge({std::move(answer)}, std::move(held), outcome);
  const bool alone = outcome.named_by.empty();
  const Status status = alone ? Status{} : lease_others(request, false, outcome, held);
  held.step = std::max(held.step, outcome.step);
  sort_newest_first(held.objects);
  Box missing;
  // What has gone may have been hidden by an object that is not among these: on_all() looks again.
  if (status && !outcome.gone && find_parts(request.box, held.objects, held.parts, missing)) {
    return SearchOutcome(std::move(held));
  }
  release(held);
  if (alone) return not_a_server();
  const bool vanished = !status && status.error().code == ErrorCode::not_found;
  if (!status && !vanished) return status.error();
  return SearchOutcome(NeedsOtherServers{});
}

/// Asks for the objects that did not fit into replies, all at once. Checks that all belong to
/// servers of the group, have boxes of the right dimensions, and a version that may be named.
Status ObjectSearch::read_found(const GetRequest& request, std::span<Answer> answers,
                                std::int64_t end_ns) {
  std::vector<std::size_t> page_objects;  // all pages of a server but the last one have as many
  for (const Answer& one : answers) {
    page_objects.push_back(one.found.objects.size());
    if (one.left > 0 && page_objects.back() == 0) return not_a_server();
  }
  while (true) {
    std::vector<Page> pages;
    SentRequests<protocol::More> sent(end_ns);
    for (std::size_t k = 0; k < answers.size(); ++k) {
      const std::size_t known = answers[k].found.objects.size();
      for (std::size_t first = known; first < known + answers[k].left; first += page_objects[k]) {
        if (pages.size() == pages_together) break;
        pages.push_back({k, first});
        const protocol::More more{answers[k].found.lease, first};
        if (Status status = requester_.send(answers[k].server, more, sent); !status) return status;
      }
    }
    if (pages.empty()) break;
    Status status;
    std::size_t untaken = pages.size();
    sent.take_replies([&](int, Result<protocol::Objects>& more) {
      if (!more) {
        status = more.error();
        return false;
      }
      Page& page = pages[--untaken];
      const Answer& one = answers[page.answer];
      const std::size_t behind = one.found.objects.size() + one.left - page.first;
      const std::size_t count = std::min(page_objects[page.answer], behind);
      page.objects = std::move(more->found.objects);
      const bool well = page.objects.size() == count && more->left == behind - count;
      if (!well) status = not_a_server();
      return well;
    });
    if (!status) return status;
    for (const Page& page : pages) {
      Answer& one = answers[page.answer];
      one.left -= page.objects.size();
      one.found.objects.insert(one.found.objects.end(), page.objects.begin(), page.objects.end());
    }
  }
  const auto usable = [&](const StoredObject& one) {
    return one.primary < requester_.servers() && one.box.rank == request.box.rank;
  };
  const bool well = std::all_of(answers.begin(), answers.end(), [&](const Answer& one) {
    return fits(request, one.found.version) &&
           std::all_of(one.found.objects.begin(), one.found.objects.end(), usable);
  });
  return well ? Status{} : Status(not_a_server());
}

Result<SearchOutcome> ObjectSearch::on_all(const GetRequest& request,
                                           const std::vector<int>& index_servers, bool watch,
                                           ReplyBuffer& reply) {
  GetRequest bounded = request;
  int looks = 0;
  std::vector<ObjectId> seen_before;
  std::uint64_t step = 0;
  for (int rounds = 0;; ++rounds) {
    FindOutcome outcome;
    auto gathered = gather(bounded, index_servers, watch, reply.end_ns, outcome);
    if (outcome.stale) return SearchOutcome(StaleVariable{});
    if (!gathered) return gathered.error();
    step = std::max(step, outcome.step);
    if (!*gathered) return SearchOutcome(Waiting{outcome.why, {}, Ending::none, step});
    LeasedBox& held = **gathered;
    Status status = lease_others(request, watch, outcome, held);
    step = std::max(step, outcome.step);
    Box missing;
    const bool whole = status && find_parts(request.box, held.objects, held.parts, missing);
    held.step = step;
    // An object that has gone since it was named was given up, or is hidden by one that these looks
    // may have missed. Another look sees that one; if it sees the same objects, there is none.
    std::vector<ObjectId> seen;
    for (const StoredObject& one : held.objects) seen.push_back({one.primary, one.object});
    const bool certain = !outcome.gone || (looks > 0 && seen == seen_before);
    seen_before = std::move(seen);
    if (whole && certain) return SearchOutcome(std::move(held));
    release(held);
    const bool vanished = !status && status.error().code == ErrorCode::not_found;
    if (!status && (!vanished || request.choice == VersionChoice::exact)) return status.error();
    if (status && outcome.gone && ++looks < looks_max) continue;
    if (whole) {
      return SearchOutcome(
          Waiting{version_of(request.variable, held.version) + " changes again and again",
                  {},
                  Ending::none,
                  step});
    }
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
  auto gathered = gather(request, index_servers, false, reply.end_ns, outcome);
  if (!gathered) return gathered.error();
  std::vector<Box> boxes;
  if (!*gathered) return boxes;
  LeasedBox& held = **gathered;
  const Status status = lease_others(request, false, outcome, held);
  release(held);
  if (!status) return status.error();
  for (const StoredObject& object : held.objects) boxes.push_back(object.box);
  return boxes;
}

/// Asks servers for the objects that meet the box, all at once. What was found before an error is
/// among the answers, too.
Status ObjectSearch::find_on(const std::vector<int>& servers, const GetRequest& request, bool watch,
                             std::int64_t end_ns, std::vector<Answer>& answers,
                             FindOutcome& outcome) {
  const protocol::Find find{request, watch};
  const std::size_t before = answers.size();
  SentRequests<protocol::Find> sent(end_ns);
  for (const int server : servers) {
    if (Status status = requester_.send(server, find, sent); !status) return status;
  }
  Status status;
  sent.take_replies([&](int server, Result<protocol::Find::Reply>& answer) {
    if (!answer) {
      status = answer.error();
    } else if (std::holds_alternative<protocol::Stale>(*answer)) {
      outcome.stale = true;
      status = Error{ErrorCode::not_found, in_quotes(request.variable) + " was deleted"};
    } else if (auto* wait = std::get_if<protocol::Wait>(&*answer)) {
      outcome.why = std::move(wait->why);
      outcome.step = std::max(outcome.step, wait->step);
    } else {
      auto& objects = std::get<protocol::Objects>(*answer);
      outcome.step = std::max(outcome.step, objects.found.step);
      answers.push_back({server, std::move(objects.found), objects.left});
    }
    return status.ok();
  });
  if (!status) return status;
  return read_found(request, std::span(answers).subspan(before), end_ns);
}

/// Asks all index servers for the objects that meet the box, at one version. Returns nothing if
/// none has any.
Result<std::optional<LeasedBox>> ObjectSearch::gather(const GetRequest& request,
                                                      const std::vector<int>& index_servers,
                                                      bool watch, std::int64_t end_ns,
                                                      FindOutcome& outcome) {
  GetRequest bounded = request;
  for (int rounds = 0;; ++rounds) {
    auto gathered = gather_version(bounded, index_servers, watch, end_ns, outcome);
    if (!gathered) return gathered.error();
    if (!gathered->vanished) return std::move(gathered->held);
    const std::int64_t vanished = *gathered->vanished;
    const bool highest = request.choice == VersionChoice::latest;
    if (highest && vanished == INT64_MIN) return std::optional<LeasedBox>();
    bounded.version = highest ? vanished - 1 : vanished;
    const std::string why = version_of(request.variable, vanished) + " was discarded meanwhile";
    if (Status status = requester_.continue_search(rounds, end_ns, why); !status)
      return status.error();
  }
}

Result<ObjectSearch::GatheredVersion> ObjectSearch::gather_version(
    const GetRequest& request, const std::vector<int>& index_servers, bool watch,
    std::int64_t end_ns, FindOutcome& outcome) {
  std::vector<Answer> answers;
  Status status = find_on(index_servers, request, watch, end_ns, answers, outcome);
  const bool highest = request.choice == VersionChoice::latest;
  LeasedBox held;
  held.end_ns = end_ns;
  bool any = false;
  for (const auto& [index_server, found, left] : answers) {
    if (any && (highest ? found.version <= held.version : found.version >= held.version)) continue;
    held.version = found.version;
    held.type = found.type;
    held.element_bytes = found.element_bytes;
    any = true;
  }
  if (status && any && request.choice != VersionChoice::exact) {
    // Index servers that named another version may have discarded this one.
    std::vector<int> others = index_servers;
    for (const auto& [index_server, found, left] : answers) {
      if (found.version == held.version) std::erase(others, index_server);
    }
    GetRequest exact = request;
    exact.choice = VersionChoice::exact;
    exact.version = held.version;
    status = find_on(others, exact, watch, end_ns, answers, outcome);
  }
  for (const auto& [index_server, found, left] : answers)
    held.leases.emplace_back(index_server, found.lease);
  if (!status) {
    release(held);
    const bool vanished = any && !outcome.stale && status.error().code == ErrorCode::not_found;
    if (!vanished || request.choice == VersionChoice::exact) return status.error();
    return GatheredVersion{{}, held.version};
  }
  if (!any) return GatheredVersion{};
  return GatheredVersion{merge(answers, std::move(held), outcome), {}};
}

/// Adds the objects of the version that several servers have named.
LeasedBox ObjectSearch::merge(const std::vector<Answer>& answers, LeasedBox held,
                              FindOutcome& outcome) const {
  std::map<std::pair<int, std::uint64_t>, StoredObject> objects;
  for (const auto& [index_server, found, left] : answers) {
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
  return held;
}

/// Asks the primaries of the objects that only other servers have named, all at once. Keeps the
/// visible objects.
Status ObjectSearch::lease_others(const GetRequest& request, bool watch, FindOutcome& outcome,
                                  LeasedBox& held) {
  const std::size_t together =
      std::max<std::size_t>(static_cast<std::size_t>(requester_.message_bytes()) / 64, 1);
  std::vector<std::vector<StoredObject*>> asked;  // one list for each request
  for (StoredObject& seen : held.objects) {       // they are sorted by primary
    if (seen.order > 0) continue;
    const bool further = asked.empty() || asked.back().front()->primary != seen.primary ||
                         asked.back().size() == together;
    if (further) asked.emplace_back();
    asked.back().push_back(&seen);
  }
  SentRequests<protocol::Lease> sent(held.end_ns);
  for (const auto& some : asked) {
    protocol::Lease lease{request.variable, held.version, watch, {}};
    for (const StoredObject* seen : some) lease.objects.push_back(seen->object);
    const Status status = requester_.send(some.front()->primary, std::move(lease), sent);
    if (!status) return status;
  }
  Status status;
  sent.take_replies([&](int primary, const Result<protocol::LeaseGranted>& granted) {
    status = granted ? take_leased(primary, asked.back(), *granted, request.variable, outcome, held)
                     : Status(granted.error());
    asked.pop_back();
    return status.ok();
  });
  if (!status) return status;
  std::erase_if(held.objects, [](const StoredObject& seen) { return seen.order == 0; });
  sort_newest_first(held.objects);
  return {};
}

/// Completes the objects that one request has asked for.
Status ObjectSearch::take_leased(int primary, std::span<StoredObject* const> asked,
                                 const protocol::LeaseGranted& granted, const std::string& variable,
                                 FindOutcome& outcome, LeasedBox& held) {
  held.leases.emplace_back(primary, granted.lease);
  if (granted.objects.size() != asked.size()) return not_a_server();
  for (std::size_t k = 0; k < asked.size(); ++k) {
    const LeasedObject& leased = granted.objects[k];
    outcome.step = std::max(outcome.step, leased.step);
    StoredObject& seen = *asked[k];
    if (leased.state == LeasedObject::State::here) {
      seen.order = leased.order;
      seen.range = leased.range;
      seen.checksum = leased.checksum;
      seen.lease = granted.lease;
    }
    if (leased.state != LeasedObject::State::gone) continue;
    outcome.gone = true;
    // Unless it was hidden, its writer has died: the index entry is removed, so that no reader
    // asks for it again.
    const protocol::Unindex unindex{{variable, held.version, {primary, seen.object}}};
    requester_.send(outcome.named_by.at({primary, seen.object}), message_of(unindex));
  }
  return {};
}

std::vector<std::pair<int, protocol::Release>> ObjectSearch::releases_of(const LeasedBox& held,
                                                                         std::string_view path) {
  std::vector<std::pair<int, protocol::Release>> releases;
  std::map<int, std::int64_t> bytes;
  for (const Part& part : held.parts) {
    if (path.empty()) break;
    bytes[held.objects[part.object].primary] += part.box.points() * held.element_bytes;
  }
  // A server that held some of the bytes counts the get: its list names the variable.
  bool counted = path.empty();
  for (const auto& [server, lease] : held.leases) {
    if (lease == 0) continue;
    const std::int64_t moved = std::exchange(bytes[server], 0);
    const bool counts = !counted && moved > 0;
    counted = counted || counts;
    releases.emplace_back(
        server, protocol::Release{lease, held.variable, counts, moved, std::string(path)});
  }
  return releases;
}

void ObjectSearch::release(const LeasedBox& held, std::string_view path) {
  for (const auto& [server, release] : releases_of(held, path)) {
    requester_.send(server, message_of(release));
  }
}

void ObjectSearch::release_all(std::span<const LeasedBox> held, std::string_view path) {
  BatchedRequests<protocol::Release> told(requester_);
  for (const LeasedBox& one : held) {
    for (auto& [server, release] : releases_of(one, path)) {
      (void)told.add(server, std::move(release));
    }
  }
  told.tell();
}

}  // namespace tranship::staging
