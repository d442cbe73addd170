// The planners: full (Isometry 4.2), simple (4.4) and the two baselines (6.3).
#include "plan/planner.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/at.hpp"
#include "base/units.hpp"
#include "data/lowering.hpp"
#include "plan/cost.hpp"
#include "plan/lanes.hpp"
#include "plan/search.hpp"
#include "plan/tile.hpp"

namespace tranship {
namespace {

/// Largest number of alternatives that a plan lists.
constexpr std::size_t alternatives_most = 4;
/// Number of candidates whose tiles are refined, and their largest distance to the best.
constexpr std::size_t refined_most = 3;
constexpr double refined_span = 1.5;
/// Factor by which candidates of the other planners may seem slower and are still examined.
constexpr double known_slack = 2;

/// Inserts a self-loop after the path's first host memory that has one (Isometry 4.4), unless the
/// path already contains a memcpy-class channel, or any that casts if that is what is needed.
Path with_conversion_hop(const Graph& graph, const Path& path, bool to_cast) {
  const Profile& profile = graph.profile();
  for (int k = 0; k < path.count; ++k) {
    const ChannelTraits& traits = traits_of(profile.channels[at(path.channels[at(k)])].kind);
    if (to_cast ? traits.casts : traits.converts_well) return path;
  }
  if (path.count == hops_max) return path;
  for (int hops = 0; hops <= path.count; ++hops) {
    const int memory = hops < path.count
                           ? profile.channels[at(path.channels[at(hops)])].source
                           : profile.channels[at(path.channels[at(path.count - 1)])].target;
    const int loop = graph.self_loop(memory);
    const bool at_host = loop >= 0 && profile.channels[at(loop)].kind == ChannelKind::memcpy;
    if (!at_host || profile.memories[at(memory)].buffer_bytes_max <= 0) continue;
    Path longer;
    for (int k = 0; k < hops; ++k) longer.add(path.channels[at(k)]);
    longer.add(loop);
    for (int k = hops; k < path.count; ++k) longer.add(path.channels[at(k)]);
    return longer;
  }
  return path;
}

/// Returns the number of the hop that converts: the last one whose channel converts well, else 0.
int conversion_hop(const Profile& profile, const Path& path) {
  for (int k = path.count - 1; k > 0; --k) {
    if (traits_of(profile.channels[at(path.channels[at(k)])].kind).converts_well) return k;
  }
  return 0;
}

/// Returns the hop nearest to number `wanted` whose channel may convert; -1 if none may.
int nearest_conversion_hop(const Task& task, const Profile& profile, const Path& path, int wanted) {
  int nearest = -1;
  for (int k = 0; k < path.count; ++k) {
    if (!task.may_convert(profile.channels[at(path.channels[at(k)])])) continue;
    if (nearest < 0 || std::abs(k - wanted) < std::abs(nearest - wanted)) nearest = k;
  }
  return nearest;
}

/// A path with its converting hop, without a tile.
struct Way {
  Path path;
  int converting_hop = -1;
};

/// Returns the path of a planner that uses the shortest path only; an empty path if there is none.
Way shortest_way(PlannerKind kind, const Graph& graph, const Task& task) {
  Way way{graph.shortest(task.query.source_memory, task.query.target_memory), -1};
  if (way.path.count == 0 || !task.converts) return way;
  const Profile& profile = graph.profile();
  int wanted = kind == PlannerKind::spsl ? way.path.count - 1 : 0;
  if (kind == PlannerKind::simple && task.reorders) {
    way.path = with_conversion_hop(graph, way.path, false);
  }
  if (task.casts) way.path = with_conversion_hop(graph, way.path, true);
  if (kind == PlannerKind::simple) wanted = conversion_hop(profile, way.path);
  way.converting_hop = nearest_conversion_hop(task, profile, way.path, wanted);
  if (way.converting_hop < 0) way.path = {};
  return way;
}

/// Returns the path with its best tile, or with a good one if `quick`.
std::optional<Candidate> along_shortest(PlannerKind kind, const Graph& graph, const Task& task,
                                        Costs& costs) {
  const Way way = shortest_way(kind, graph, task);
  if (way.path.count == 0) return std::nullopt;
  auto candidate = kind == PlannerKind::simple
                       ? costs.quick_tiling(way.path, way.converting_hop)
                       : costs.best_tiling(way.path, way.converting_hop, INFINITY);
  if (candidate) candidate->planner = kind;
  return candidate;
}

/// Returns the GPU's channel that joins the two memories, if `one_hop` asks for it and there is
/// one.
std::optional<Candidate> by_one_gpu(const Graph& graph, const Task& task, Costs& costs) {
  const PlanQuery& query = task.query;
  if (!query.one_hop || !query.through.empty()) return std::nullopt;
  const Path path = graph.shortest(query.source_memory, query.target_memory);
  const bool gpu =
      path.count == 1 && traits_of(graph.profile().channels[at(path.channels[0])].kind).gpu;
  if (!gpu || !task.may_convert(graph.profile().channels[at(path.channels[0])])) {
    return std::nullopt;
  }
  auto candidate = costs.quick_tiling(path, task.converts ? 0 : -1);
  if (candidate) candidate->planner = PlannerKind::simple;
  return candidate;
}

/// Returns the best candidates of all planners, the best first.
std::vector<Candidate> search_fully(const Graph& graph, const Task& task, Costs& costs,
                                    const std::optional<Candidate>& simple) {
  FullSearch search(graph, task, costs);
  if (simple) search.consider(*simple);
  search.run();
  if (task.query.through.empty()) {
    // The search prunes paths that would save little, so the other planners' paths are tried, too:
    // full planning is then never worse than they are.
    for (const PlannerKind kind : {PlannerKind::simple, PlannerKind::spsl, PlannerKind::spdl}) {
      const Way way = shortest_way(kind, graph, task);
      if (way.path.count == 0) break;
      auto known = costs.best_tiling(way.path, way.converting_hop, known_slack * search.seconds());
      if (!known && task.converts && kind != PlannerKind::simple) {
        known = costs.quick_tiling(way.path, way.converting_hop);  // for the list of alternatives
      }
      if (!known) continue;
      known->planner = kind;
      search.consider(*known);
    }
  }
  std::vector<Candidate> ways = search.found();
  // Where extents are small, few tiles divide them well, and the choice of the path depends on it.
  const std::size_t refined = task.coarse ? refined_most : 1;
  for (std::size_t k = 0; k < ways.size() && k < refined; ++k) {
    if (ways[k].seconds < refined_span * ways[0].seconds) {
      costs.refine(ways[k], task.coarse ? 6 : 2);
    }
  }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return ways;
}

/// Returns whether a full search may save more time than it takes.
bool worth_searching(const Graph& graph, const Task& task, const Costs& costs,
                     const Candidate& simple) {
  const PlanQuery& query = task.query;
  if (query.full_from_bytes > 0) {
    return task.bytes >= static_cast<double>(query.full_from_bytes);
  }
  const auto& rest = graph.remaining(query.target_memory).from[at(query.source_memory)];
  const double least_s = costs.at_least(rest.sum_s, rest.beat_s);
  return simple.seconds - least_s > graph.profile().planning_s;
}

/// Returns the dense mappings of buffer slots for the tile, one for each order of the path.
class Slots {
 public:
  Slots(const Mapping& source, const Mapping& target, const Point& tile)
      : source_(source), target_(target), tile_(tile) {}

  const std::shared_ptr<const Mapping>& in_order_of(bool target) {
    auto& slot = target ? like_target_ : like_source_;
    if (!slot) slot = (target ? target_ : source_).slot(tile_);
    return slot;
  }

 private:
  const Mapping& source_;
  const Mapping& target_;
  const Point& tile_;
  std::shared_ptr<const Mapping> like_source_;
  std::shared_ptr<const Mapping> like_target_;
};

void add_lane(Plan& plan, const Candidate& lane, const Task& task, const Costs& costs,
              const Profile& profile, const std::vector<int>& fields, Slots& slots) {
  const PlanQuery& query = task.query;
  plan.lanes.push_back(
      {static_cast<int>(plan.hops.size()), lane.path.count, lane.bytes_per_second, lane.fill_s});
  for (int k = 0; k < lane.path.count; ++k) {
    const ChannelSpec& channel = profile.channels[at(lane.path.channels[at(k)])];
    const bool first = k == 0;
    const bool last = k + 1 == lane.path.count;
    const bool converted = lane.converting_hop >= 0 && k >= lane.converting_hop;
    Hop hop;
    hop.channel = lane.path.channels[at(k)];
    hop.source_memory = channel.source;
    hop.target_memory = channel.target;
    hop.source = first ? query.source.mapping : plan.hops.back().target;
    hop.target = last ? query.target.mapping : slots.in_order_of(converted);
    hop.converts = k == lane.converting_hop;
    hop.casts = hop.converts && task.casts;
    // Slots have the fields of what they are like; only one hop joins the two sequences.
    const bool meets = lane.converting_hop >= 0 ? hop.converts : last;
    if (meets) hop.fields = fields;
    const HopCost cost = costs.hop(lane, k);
    hop.run_bytes = cost.run_bytes;
    hop.tile_s = cost.tile_s;
    hop.bytes_per_second = static_cast<double>(lane.tile_bytes) / cost.tile_s;
    plan.hops.push_back(std::move(hop));
  }
}

/// Returns whether the plan copies to or from a GPU through a pinned bounce buffer.
bool is_bounced(const Plan& plan, const Profile& profile) {
  if (plan.hops.size() != 2 || plan.lanes.size() != 1) return false;
  const ChannelKind first = profile.channels[at(plan.hops[0].channel)].kind;
  const ChannelKind last = profile.channels[at(plan.hops[1].channel)].kind;
  return (first == ChannelKind::memcpy && last == ChannelKind::gpu_write) ||
         (first == ChannelKind::gpu_read && last == ChannelKind::memcpy);
}

/// Lets the caller's thread run the copy as one tile if it takes less than a hand-off to workers.
void mark_bounced(Plan& plan, const Profile& profile) {
  const Hop& first = plan.hops[0];
  const Hop& last = plan.hops[1];
  const double moving_s = (first.tile_s + last.tile_s) * static_cast<double>(plan.tiles);
  if (moving_s >= profile.handoff_s) return;
  retile(plan, plan.extents);
  plan.direct = true;
}

/// Largest copy that is sent to another process within one message, in bytes.
constexpr std::int64_t message_bytes = 8 * 1024;

/// How many hand-offs a copy may take on the caller's thread, by the measured rate of long copies,
/// if the caches hold its data: it then runs at several times that rate.
constexpr double near_handoffs = 8;

/// Lets the caller's thread run a transfer that is shorter than a hand-off, or that the caches
/// hold.
void mark_direct(Plan& plan, const Profile& profile) {
  if (is_bounced(plan, profile)) mark_bounced(plan, profile);
  if (plan.hops.size() != 1) return;
  const ChannelSpec& channel = profile.channels[at(plan.hops[0].channel)];
  const bool remote = traits_of(channel.kind).remote;
  const bool at_once = channel.kind == ChannelKind::memcpy || remote;
  // The caller is one thread, while the channel's rate is that of all its threads.
  const double moving_s = plan.seconds - channel.latency_s;
  const bool near = !remote && 2 * plan.bytes <= profile.cache_bytes;
  const double handoff_s = (near ? near_handoffs : 1) * profile.handoff_s;
  plan.direct = at_once && moving_s < handoff_s && channel.width * moving_s < handoff_s + moving_s;
  // A message to another process and its answer: two hand-offs more would be most of the time.
  if (remote && plan.bytes <= message_bytes) plan.direct = true;
  // A GPU works by itself: the caller only starts it. Urgent copies use streams of higher priority,
  // so that other copies need no tiles.
  if (traits_of(channel.kind).gpu) plan.direct = true;
  if (!plan.direct) return;
  lower({plan.hops[0].source.get(), plan.corner_source},
        {plan.hops[0].target.get(), plan.corner_target}, plan.extents, plan.hops[0].fields,
        plan.nests, plan.hops[0].numbers());
}

std::vector<int> memories_of(const Profile& profile, const Path& path) {
  std::vector<int> memories{profile.channels[at(path.channels[0])].source};
  for (int k = 0; k < path.count; ++k) {
    memories.push_back(profile.channels[at(path.channels[at(k)])].target);
  }
  return memories;
}

void name_alternatives(Plan& plan, const std::vector<Candidate>& ways, const Profile& profile) {
  for (std::size_t k = 1; k < ways.size(); ++k) {
    if (plan.alternatives.size() == alternatives_most) break;
    Alternative other{ways[k].planner, memories_of(profile, ways[k].path), ways[k].converting_hop,
                      ways[k].seconds};
    const auto same = [&](const Alternative& known) {
      return known.memories == other.memories && known.converting_hop == other.converting_hop;
    };
    const bool taken = other.memories == memories_of(profile, ways[0].path) &&
                       other.converting_hop == ways[0].converting_hop;
    if (taken || std::any_of(plan.alternatives.begin(), plan.alternatives.end(), same)) continue;
    plan.alternatives.push_back(std::move(other));
  }
}

Plan make_plan(const Graph& graph, const Task& task, Costs& costs,
               const std::vector<Candidate>& ways, const std::vector<int>& fields, int lanes_max) {
  const PlanQuery& query = task.query;
  const Profile& profile = graph.profile();
  const LaneChoice choice = choose_lanes(graph, task, costs, ways[0], lanes_max);
  const Candidate& first = choice.lanes[0];
  Plan plan;
  plan.planner = first.planner;
  plan.corner_source = query.source.lower;
  plan.corner_target = query.target.lower;
  plan.extents = query.source.extents;
  plan.tile = first.tile;
  plan.tile_bytes = first.tile_bytes;
  plan.bytes = query.source.bytes();
  plan.tiles = tile_count(plan.extents, plan.tile, task.rank);
  plan.slots = 0;  // lanes share the memories' budgets, so that each may have fewer than alone
  plan.seconds = choice.seconds;
  plan.bytes_per_second = choice.bytes_per_second;
  plan.binding = choice.binding;
  Slots slots(*query.source.mapping, *query.target.mapping, plan.tile);
  plan.hops.reserve(at(first.path.count));
  for (const Candidate& lane : choice.lanes) {
    plan.slots = std::max(plan.slots, lane.slots);
    add_lane(plan, lane, task, costs, profile, fields, slots);
  }
  if (lanes_max > 1) plan.closed_channels = query.closed_channels;
  name_alternatives(plan, ways, profile);
  mark_direct(plan, profile);
  return plan;
}

/// Returns whether numbers change their types and no channel on the shortest way can do that.
bool lacks_casting_hop(const Graph& graph, const Task& task, const Path& path) {
  if (!task.casts || path.count == 0) return false;
  return nearest_conversion_hop(task, graph.profile(), with_conversion_hop(graph, path, true), 0) <
         0;
}

Error no_plan(const Graph& graph, const Task& task) {
  const PlanQuery& query = task.query;
  const Profile& profile = graph.profile();
  const std::string from = profile.memories[at(query.source_memory)].name;
  const std::string to = profile.memories[at(query.target_memory)].name;
  const Path path = graph.shortest(query.source_memory, query.target_memory);
  if (path.count == 0 || !query.through.empty()) {
    return {ErrorCode::no_route,
            "no chain of channels leads from " + from + " to " + to +
                (query.through.empty() ? "" : " through the memories of `through`"),
            "see the channels with: tranship topology"};
  }
  if (lacks_casting_hop(graph, task, path)) {
    return {
        ErrorCode::no_route,
        "no channel on the way from " + from + " to " + to + " converts numbers, as cast= asks for",
        "copy to an array of the other type in host memory first"};
  }
  return {ErrorCode::out_of_memory,
          "the intermediate buffers between " + from + " and " + to +
              " may not even hold two tiles of one point (" +
              format_bytes(task.source.point_bytes) + ")",
          "allow them more memory, or raise threshold_bytes in the machine profile"};
}

Status check_query(const PlanQuery& query, const Profile& profile) {
  const auto known = [&](int memory) {
    return memory >= 0 && at(memory) < profile.memories.size();
  };
  bool all = known(query.source_memory) && known(query.target_memory);
  for (const int memory : query.through) all = all && known(memory);
  if (!all) {
    return Error{ErrorCode::invalid_argument,
                 "a memory of the request is not in the machine profile",
                 "see the memories that it has with: tranship topology"};
  }
  for (const int channel : query.closed_channels) {
    if (channel >= 0 && at(channel) < profile.channels.size()) continue;
    return Error{ErrorCode::invalid_argument,
                 "a closed channel of the request is not in the machine profile"};
  }
  const auto& through = query.through;
  if (!through.empty() && (through.size() < 2 || through.front() != query.source_memory ||
                           through.back() != query.target_memory)) {
    return Error{
        ErrorCode::invalid_argument,
        "the memories of `through` must begin with the source's and end with the target's"};
  }
  const bool baseline = query.planner == PlannerKind::spsl || query.planner == PlannerKind::spdl;
  if (baseline && !through.empty()) {
    return Error{
        ErrorCode::invalid_argument,
        "the planners spsl and spdl take the shortest path, and not one through the memories "
        "of `through`",
        "use the planner full"};
  }
  return {};
}

}  // namespace

void retile(Plan& plan, const Point& tile) {
  const Mapping& source = *plan.hops.front().source;
  const Mapping& target = *plan.hops.back().target;
  const int rank = source.rank();
  plan.tile = tile;
  plan.tiles = tile_count(plan.extents, tile, rank);
  plan.tile_bytes = points_of(tile, rank) * source.point_bytes();
  plan.direct = false;
  plan.nests.clear();
  Slots slots(source, target, plan.tile);
  for (const Lane& lane : plan.lanes) {
    bool converted = false;
    for (int k = lane.first_hop; k + 1 < lane.first_hop + lane.hop_count; ++k) {
      Hop& hop = plan.hops[at(k)];
      converted |= hop.converts;
      hop.target = plan.hops[at(k + 1)].source = slots.in_order_of(converted);
    }
  }
}

Planner::Planner(const Profile& profile)
    : profile_(&profile), graph_(std::make_unique<Graph>(profile)) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

Result<Plan> Planner::plan(const PlanQuery& query) const {
  if (Status status = check_query(query, *profile_); !status) return status.error();
  auto matched = match_fields(*query.source.mapping, *query.target.mapping, query.casting);
  if (!matched) return matched.error();
  bool in_sequence = true;
  for (std::size_t k = 0; k < matched->size(); ++k) {
    in_sequence = in_sequence && (*matched)[k] == static_cast<int>(k);
  }
  if (in_sequence) matched->clear();
  const Task task(query, in_sequence,
                  casts_fields(*query.source.mapping, *query.target.mapping, *matched));
  Costs costs(*graph_, task);
  std::vector<Candidate> ways;
  const bool baseline = query.planner == PlannerKind::spsl || query.planner == PlannerKind::spdl;
  const auto settled = by_one_gpu(*graph_, task, costs);
  if (settled) {
    ways.push_back(*settled);
  } else if (baseline) {
    if (auto way = along_shortest(query.planner, *graph_, task, costs)) ways.push_back(*way);
  } else {
    std::optional<Candidate> simple;
    if (query.through.empty()) {
      simple = along_shortest(PlannerKind::simple, *graph_, task, costs);
    }
    const bool search = query.planner == PlannerKind::full || !query.through.empty() ||
                        (query.planner == PlannerKind::automatic &&
                         (!simple || worth_searching(*graph_, task, costs, *simple)));
    if (search) {
      ways = search_fully(*graph_, task, costs, simple);
    } else if (simple) {
      ways.push_back(*simple);
    }
  }
  if (ways.empty()) return no_plan(*graph_, task);
  if (query.planner == PlannerKind::full && !settled) ways[0].planner = PlannerKind::full;
  return make_plan(*graph_, task, costs, ways, *matched, settled ? 1 : query.lanes_max);
}

Result<Plan> plan(const PlanQuery& query, const Profile& profile) {
  return Planner(profile).plan(query);
}

}  // namespace tranship
