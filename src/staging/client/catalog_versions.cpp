// Versions by their own bounds, and boxes without elements.
#include <algorithm>
#include <tuple>

#include "base/text.hpp"
#include "staging/client/catalog.hpp"

namespace tranship::staging {
namespace {

bool contains(const Box& outer, const Box& inner) { return intersection(outer, inner) == inner; }

/// Returns whether a server may name that version, with that extent, of a variable of so many
/// dimensions.
bool fits(const VersionQuery& query, const Extent& here, int rank) {
  const bool well = (here.bounds || here.empty) && (!here.bounds || here.bounds->rank == rank) &&
                    (!here.empty || here.empty->rank == rank);
  switch (query.choice) {
    case VersionChoice::exact: return well && here.version == query.version;
    case VersionChoice::next: return well && here.version > query.version;
    case VersionChoice::latest: return well && here.version <= query.version;
  }
  return false;
}

/// Adds what one server has of the chosen version to what others have.
void add(VersionChoice choice, const Extent& here, std::optional<Extent>& all) {
  if (!all) {
    all = here;
  } else if (choice == VersionChoice::next) {
    all->version = std::min(all->version, here.version);
  } else if (choice == VersionChoice::latest) {
    all->version = std::max(all->version, here.version);
  } else {
    if (here.bounds) all->bounds = all->bounds ? around(*all->bounds, *here.bounds) : here.bounds;
    if (here.empty) all->empty = here.empty;
    if (here.empty) all->empty_dimensions = here.empty_dimensions;
  }
}

VersionExtent extent_with(const VariableMetadata& metadata, std::int64_t version, const Box& box,
                          std::uint32_t empty_dimensions = 0) {
  return {version, metadata.type, metadata.element_bytes, box, empty_dimensions};
}

/// Returns the reason why clients are still awaited.
std::string why_awaited(const VersionQuery& query, std::int64_t version, int awaited) {
  const std::string of = version_of(query.variable, version);
  if (awaited == 0) return of + " lacks what a process that put to the variable had of it";
  return of + " waits for " + std::to_string(awaited) + " of the processes that put to it";
}

}  // namespace

Status Catalog::nothing(const std::string& variable, std::int64_t first, std::int64_t last) {
  ReplyBuffer reply;
  const protocol::Finish finish{variable, first, last, true, true};
  const auto answer = requester_.ask(distribution_.metadata_server(variable), finish, reply);
  return answer ? Status{} : Status(answer.error());
}

Status Catalog::put_empty(const PutRequest& request, std::uint32_t empty_dimensions,
                          std::int64_t end_ns) {
  progress_.begin(request.variable, request.version);
  const bool finishes = progress_.finishes(request.variable, request.version);
  Result<ReplyKind> said = ReplyKind::stale;
  for (int attempt = 0; said && *said == ReplyKind::stale && attempt < attempts_max; ++attempt) {
    if (attempt > 0) known_.forget(request.variable);
    said = put_empty_now(request, empty_dimensions, end_ns, finishes);
  }
  if (said && *said == ReplyKind::done) {
    report_left(request, finishes);
    return {};
  }
  progress_.give_up(request.variable, request.version);
  return said ? Status(often_deleted(request.variable)) : Status(said.error());
}

Result<ReplyKind> Catalog::put_empty_now(const PutRequest& request, std::uint32_t empty_dimensions,
                                         std::int64_t end_ns, bool finishes) {
  const auto known = declare(request, end_ns, true);
  if (!known) return known.error();
  protocol::PutEmpty put{request, empty_dimensions, finishes};
  put.object.incarnation = known->metadata.incarnation;
  ReplyBuffer reply(end_ns);
  const int metadata_server = distribution_.metadata_server(request.variable);
  const auto answer = requester_.ask(metadata_server, put, reply);
  if (!answer) return answer.error();
  const auto* done = std::get_if<protocol::DoneWithOrphans>(&*answer);
  if (done == nullptr) return ReplyKind::stale;
  requester_.report_orphans(metadata_server, done->orphans);
  return ReplyKind::done;
}

/// Asks all servers for a version, all at once, and returns what is there of the one that is
/// chosen: complete for `exact`, with its number alone otherwise.
Result<std::optional<Extent>> Catalog::extent_on_all(const VersionQuery& query,
                                                     const VariableMetadata& metadata, Look& look,
                                                     std::int64_t end_ns) {
  std::optional<Extent> all;
  const protocol::FindExtent find{query.variable, query.choice, query.version, metadata.incarnation,
                                  true};
  SentRequests<protocol::FindExtent> sent(end_ns);
  for (int server = 0; server < distribution_.servers(); ++server) {
    if (Status status = requester_.send(server, find, sent); !status) return status.error();
  }
  Status status;
  const int rank = metadata.first.rank;
  sent.take_replies([&](int, const Result<protocol::FindExtent::Reply>& answer) {
    if (!answer) {
      status = answer.error();
    } else if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) {
      look.why = wait->why;
      look.step = std::max(look.step, wait->step);
    } else if (std::holds_alternative<protocol::Stale>(*answer)) {
      look.stale = true;
    } else {
      const Extent& here = std::get<protocol::ExtentFound>(*answer).extent;
      look.step = std::max(look.step, here.step);
      if (!fits(query, here, rank)) status = not_a_server();
      if (status) add(query.choice, here, all);
    }
    return status && !look.stale;
  });
  if (!status) return status.error();
  return look.stale ? std::optional<Extent>() : all;
}

/// Looks once whether objects cover a box of a version.
Result<SearchOutcome> Catalog::search_once(const GetRequest& asked, std::int64_t end_ns) {
  const auto known = index_servers_of(asked.variable, asked.box, end_ns);
  if (!known) return known.error();
  GetRequest request = asked;
  request.incarnation = known->incarnation;
  ReplyBuffer reply(end_ns);
  if (known->servers.size() == 1) {
    auto outcome = search_.version_on(request, known->servers.front(), reply);
    if (!outcome || !std::holds_alternative<NeedsOtherServers>(*outcome)) return outcome;
  }
  auto outcome = search_.on_all(request, known->servers, true, reply);
  if (outcome && std::holds_alternative<LeasedBox>(*outcome)) {
    release(std::get<LeasedBox>(*outcome));
  }
  return outcome;
}

/// Looks whether a version is whole. `described` is older than all that is asked for here.
Result<Catalog::Look> Catalog::look_at(const VersionQuery& query, std::int64_t version,
                                       const protocol::Described& described, std::int64_t end_ns) {
  const VariableMetadata& metadata = described.metadata;
  Look look;
  look.ending = metadata.ending();
  look.died = metadata.deaths > 0;
  const VersionQuery exact{query.variable, VersionChoice::exact, version};
  const auto extent = extent_on_all(exact, metadata, look, end_ns);
  if (!extent) return extent.error();
  if (look.stale || !*extent) return look;
  const auto& bounds = (*extent)->bounds;
  bool complete = described.awaited == 0 && !described.never;
  look.gap = version;
  look.never = look.ending != Ending::none;
  if (!metadata.domain) {
    look.never = look.never || (described.never && described.awaited == 0);
    // What a client puts that has put nothing yet is not among all that was put.
    if (!complete && bounds && described.fresh == 0) {
      const auto all = bounds_of_all(query.variable, described, end_ns);
      if (!all) return all.error();
      complete = *all && contains(*bounds, **all);
    }
    look.why = why_awaited(query, version, described.awaited);
    if (!complete) return look;
    if (!bounds) {
      look.whole = extent_with(metadata, version, *(*extent)->empty, (*extent)->empty_dimensions);
      return look;
    }
    look.never = look.ending != Ending::none;  // others may fill what is missing
  }
  const Box& box = metadata.domain ? *metadata.domain : *bounds;
  look.why = version_of(query.variable, version) + " has more points than 63 bits count";
  if (!is_countable(box)) return look;
  const auto found = search_once({query.variable, VersionChoice::exact, version, box}, end_ns);
  if (!found) return found.error();
  if (const auto* waiting = std::get_if<Waiting>(&*found)) {
    look.why = waiting->why;
    look.step = std::max(look.step, waiting->step);
  }
  look.stale = std::holds_alternative<StaleVariable>(*found);
  if (std::holds_alternative<LeasedBox>(*found)) look.whole = extent_with(metadata, version, box);
  return look;
}

/// Has all servers show, or drop, what they withhold beside a look, if that step has ended. Returns
/// whether it has: look again then.
Result<bool> Catalog::settle_beside(const Look& look, int rounds, std::int64_t end_ns) {
  if (look.step == 0) return false;
  auto settled = steps_.settle(look.step, end_ns);
  if (!settled || !*settled) return settled;
  Status more = requester_.continue_search(rounds, end_ns, step_was_settled);
  return more ? settled : more.error();
}

/// Looks for the chosen version. `latest` goes on to lower ones, `next` to the lowest one.
Result<Catalog::Look> Catalog::look_for(VersionQuery& query, std::int64_t end_ns) {
  const bool finished = query.choice == VersionChoice::next;
  VersionQuery bounded = query;
  // The next version is the lowest one that is there after the metadata server has said whom it
  // waits for: they may put lower ones until then. It is asked for the likely one first.
  std::int64_t version = query.version;
  if (finished && version < INT64_MAX) ++version;
  for (int rounds = 0;; ++rounds) {
    const std::int64_t likely = finished ? version : bounded.version;
    auto described = ask_metadata_server({query.variable, true, finished, likely}, end_ns);
    if (!described) return described.error();
    version = likely;
    if (query.choice != VersionChoice::exact) {
      Look none;
      none.ending = described->metadata.ending();
      const auto named = extent_on_all(bounded, described->metadata, none, end_ns);
      if (!named) return named.error();
      const auto settled = settle_beside(none, rounds, end_ns);
      if (!settled) return settled.error();
      if (*settled) continue;
      if (!*named && rounds > 0) {
        none.why = "no version of " + in_quotes(query.variable) + " is whole";
      }
      if (!*named) return none;
      version = (*named)->version;
      if (version != likely && finished) {
        const std::string why = version_of(query.variable, version) + " is not known yet";
        if (Status more = requester_.continue_search(rounds, end_ns, why); !more)
          return more.error();
        continue;
      }
      if (!finished) {
        described = ask_metadata_server({query.variable, true, finished, version}, end_ns);
        if (!described) return described.error();
      }
    }
    auto look = look_at(query, version, *described, end_ns);
    const auto settled = look ? settle_beside(*look, rounds, end_ns) : Result<bool>(false);
    if (!settled) return settled.error();
    if (*settled) continue;
    const bool vanished = !look && look.error().code == ErrorCode::not_found;
    if (query.choice == VersionChoice::exact || (!look && !vanished)) return look;
    if (look && (look->stale || look->whole)) return look;
    if (query.choice == VersionChoice::next) {
      if (look && look->gap) return look;
      if (vanished) bounded.version = version;
    } else {
      if (version == INT64_MIN) return look;
      bounded.version = version - 1;
    }
    const std::string why = "no version of " + in_quotes(query.variable) + " is whole yet";
    if (Status more = requester_.continue_search(rounds, end_ns, why); !more) return more.error();
  }
}

Result<VersionExtent> Catalog::find_version(const VersionQuery& asked, std::int64_t end_ns,
                                            std::vector<SkippedVersion>* skipped) {
  VersionQuery query = asked;
  int skips = 0;
  for (int stale = 0; stale < attempts_max;) {
    const std::uint64_t seen = requester_.notices();
    auto look = look_for(query, end_ns);
    if (!look) return look.error();
    if (look->whole) return std::move(*look->whole);
    if (look->stale) {
      known_.forget(query.variable);
      ++stale;
      continue;
    }
    Ending ending = look->ending;
    if (ending == Ending::none && look->never) ending = look->died ? Ending::died : Ending::closed;
    if (look->gap && look->never && query.choice == VersionChoice::next) {
      Status more = requester_.continue_search(skips++, end_ns, look->why);
      if (!more) return more.error();
      if (skipped != nullptr) {
        skipped->push_back({*look->gap, never_complete(ending, look->why).message});
      }
      query.version = *look->gap;
      continue;
    }
    if (look->never || look->ending != Ending::none) return never_complete(ending, look->why);
    if (Status status = requester_.pause(seen, end_ns, look->why); !status) return status.error();
  }
  return often_deleted(query.variable);
}

Result<VersionExtent> Catalog::extent_of(const std::string& variable, std::int64_t version,
                                         std::int64_t end_ns) {
  const VersionQuery query{variable, VersionChoice::exact, version};
  int stale = 0;
  for (int rounds = 0; stale < attempts_max; ++rounds) {
    const std::uint64_t seen = requester_.notices();
    const auto described = ask_metadata_server({variable, true}, end_ns);
    if (!described) return described.error();
    Look look;
    const auto extent = extent_on_all(query, described->metadata, look, end_ns);
    if (!extent) return extent.error();
    stale += look.stale ? 1 : 0;
    if (look.stale) continue;
    const auto settled = settle_beside(look, rounds, end_ns);
    if (!settled) return settled.error();
    if (*settled) continue;
    if (*extent && (*extent)->bounds) {
      return extent_with(described->metadata, version, *(*extent)->bounds);
    }
    if (*extent) {
      return extent_with(described->metadata, version, *(*extent)->empty,
                         (*extent)->empty_dimensions);
    }
    const Ending ending = described->metadata.ending();
    if (ending != Ending::none) return never_complete(ending, look.why);
    if (Status status = requester_.pause(seen, end_ns, look.why); !status) return status.error();
  }
  return often_deleted(variable);
}

Result<std::vector<Box>> Catalog::boxes_of(const std::string& variable, std::int64_t version,
                                           std::int64_t end_ns) {
  const auto extent = extent_of(variable, version, end_ns);
  if (!extent) return extent.error();
  if (extent->empty_dimensions != 0) return std::vector<Box>();
  if (!is_countable(extent->box)) {
    return Error{ErrorCode::out_of_range,
                 version_of(variable, version) + " has more points than 63 bits count",
                 "ask for its bounds"};
  }
  const auto known = index_servers_of(variable, extent->box, end_ns);
  if (!known) return known.error();
  ReplyBuffer reply(end_ns);
  auto boxes =
      search_.boxes({variable, VersionChoice::exact, version, extent->box, known->incarnation},
                    known->servers, reply);
  if (!boxes) return boxes.error();
  std::sort(boxes->begin(), boxes->end(), [](const Box& a, const Box& b) {
    return std::tie(a.lower, a.upper) < std::tie(b.lower, b.upper);
  });
  return boxes;
}

}  // namespace tranship::staging
