// The simple planner and the two baselines (Isometry 4.4 and 6.3), with predicted time.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "data/lowering.hpp"
#include "plan/plan.hpp"
#include "plan/tile.hpp"

namespace tranship {
namespace {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
/// Tile sizes that are tried. They bound what a more urgent transfer may have to wait for.
constexpr std::array<std::int64_t, 11> tile_sizes{16 * KiB,  32 * KiB,  64 * KiB, 128 * KiB,
                                                  256 * KiB, 512 * KiB, 1 * MiB,  2 * MiB,
                                                  4 * MiB,   8 * MiB,   16 * MiB};
constexpr int slots_most = 8;
/// The largest tile of a copy in one hop of memory: an urgent copy waits for one of them.
constexpr std::int64_t memory_tile_max = 1 * MiB;
/// A smaller tile is preferred while it costs at most this much more predicted time.
constexpr double tile_tolerance = 1.02;

using Path = std::vector<int>;  // channels, in order

std::size_t at(int index) { return static_cast<std::size_t>(index); }

double narrowest(const Path& path, const Profile& profile) {
  double narrow = INFINITY;
  for (const int c : path) narrow = std::min(narrow, profile.channels[at(c)].throughput.peak());
  return narrow;
}

/// The path of the fewest hops; among those, the one of the widest narrowest channel.
Path shortest_path(const Profile& profile, int source, int target) {
  std::map<int, Path> reached;  // the best path to each memory at this depth
  std::map<int, bool> done;
  std::map<int, Path> frontier{{source, {}}};
  for (std::size_t depth = 0; depth < profile.memories.size() + 1; ++depth) {
    reached.clear();
    for (const auto& [memory, path] : frontier) {
      for (std::size_t c = 0; c < profile.channels.size(); ++c) {
        const ChannelSpec& channel = profile.channels[c];
        const bool loops = channel.source == channel.target;
        if (channel.source != memory || (loops && channel.target != target)) continue;
        if (done[channel.target]) continue;
        Path longer = path;
        longer.push_back(static_cast<int>(c));
        auto [found, added] = reached.try_emplace(channel.target, longer);
        if (!added && narrowest(longer, profile) > narrowest(found->second, profile)) {
          found->second = longer;
        }
      }
    }
    if (reached.count(target)) return reached[target];
    if (reached.empty()) return {};
    for (const auto& [memory, path] : frontier) done[memory] = memory != target;
    frontier = reached;
  }
  return {};
}

bool carries_conversions(const ChannelSpec& channel) {
  return channel.kind == ChannelKind::memcpy || channel.kind == ChannelKind::gpu_copy;
}

/// Adds a self-loop after the first host memory on the path that has one (Isometry 4.4).
Path with_conversion_hop(const Profile& profile, const Path& path) {
  for (const int c : path) {
    if (carries_conversions(profile.channels[at(c)])) return path;
  }
  for (std::size_t hops = 0; hops <= path.size(); ++hops) {
    const int memory = hops < path.size() ? profile.channels[at(path[hops])].source
                                          : profile.channels[at(path.back())].target;
    for (std::size_t c = 0; c < profile.channels.size(); ++c) {
      const ChannelSpec& channel = profile.channels[c];
      if (channel.source != memory || channel.target != memory) continue;
      if (channel.kind != ChannelKind::memcpy) continue;
      Path longer = path;
      longer.insert(longer.begin() + static_cast<std::ptrdiff_t>(hops), static_cast<int>(c));
      return longer;
    }
  }
  return path;
}

/// Layouts are compared over the dimensions that have more than one index.
bool same_order(const Mapping& a, const Mapping& b) {
  const auto terms_of = [](const Mapping& mapping) {
    std::vector<std::pair<int, std::int64_t>> terms;
    for (const Term& term : mapping.layout().terms()) {
      if (term.dimension.empty()) {
        if (mapping.fields().size() > 1) terms.push_back({-1, 0});
        continue;
      }
      for (int k = 0; k < mapping.rank(); ++k) {
        const Dimension& dimension = mapping.space()[at(k)];
        if (dimension.name == term.dimension && dimension.extent > 1) {
          terms.push_back({k, term.block});
        }
      }
    }
    return terms;
  };
  return terms_of(a) == terms_of(b);
}

/// A dense mapping of a tile in the order of `like`.
Result<std::shared_ptr<const Mapping>> slot_mapping(const Mapping& like, const Point& tile) {
  IndexSpace space = like.space();
  for (std::size_t k = 0; k < space.size(); ++k) space[k].extent = tile[k];
  FieldSpace fields;
  for (const Placement& placement : like.fields()) fields.push_back(placement.field);
  return Mapping::make(std::move(space), std::move(fields), like.layout());
}

/// The run that a channel sees when it moves a tile between the two mappings.
std::int64_t channel_run(const ChannelSpec& channel, const Hop& hop, const Point& tile) {
  const std::int64_t source = contiguous_run(*hop.source, tile);
  const std::int64_t target = contiguous_run(*hop.target, tile);
  if (channel.kind == ChannelKind::file_read) return source;
  if (channel.kind == ChannelKind::file_write) return target;
  if (!hop.converts) return std::min(source, target);
  std::vector<LoopNest> nests;
  lower({hop.source.get(), {}}, {hop.target.get(), {}}, tile, hop.fields, nests);
  std::int64_t bytes = 0;
  std::int64_t elements = 0;
  for (const LoopNest& nest : nests) {
    bytes += nest.bytes();
    elements += nest.bytes() / nest.element_bytes;
  }
  return elements > 0 ? bytes / elements : 0;
}

/// A path with the number of its converting hop, to be filled in.
struct Draft {
  PlannerKind planner = PlannerKind::simple;
  Path path;
  std::size_t converting_hop = 0;
};

Result<Plan> lay_out(const PlanQuery& query, const Profile& profile, const Draft& draft,
                     const Point& tile) {
  Plan plan;
  plan.planner = draft.planner;
  plan.tile = tile;
  std::shared_ptr<const Mapping> before = query.source.mapping;
  for (std::size_t hop = 0; hop < draft.path.size(); ++hop) {
    const ChannelSpec& channel = profile.channels[at(draft.path[hop])];
    Hop step;
    step.channel = draft.path[hop];
    step.source_memory = channel.source;
    step.target_memory = channel.target;
    step.source = before;
    if (hop + 1 == draft.path.size()) {
      step.target = query.target.mapping;
    } else {
      const bool converted = hop >= draft.converting_hop;
      auto slot = slot_mapping(converted ? *query.target.mapping : *query.source.mapping, tile);
      if (!slot) return slot.error();
      step.target = *slot;
    }
    auto fields = match_fields(*step.source, *step.target);
    if (!fields) return fields.error();
    step.fields = *fields;
    step.converts = !same_order(*step.source, *step.target);
    before = step.target;
    plan.hops.push_back(std::move(step));
  }
  return plan;
}

bool is_file(const ChannelSpec& channel) {
  return channel.kind == ChannelKind::file_read || channel.kind == ChannelKind::file_write;
}

/// A file channel measures whole runs. Converting, its threads copy in memory as well, between one
/// read or write and the next: at the rate that the host's own channel converts with.
double conversion_rate(const Hop& hop, const Plan& plan, const Profile& profile) {
  std::vector<LoopNest> nests;
  lower({hop.source.get(), {}}, {hop.target.get(), {}}, plan.tile, hop.fields, nests);
  std::int64_t elements = 0;
  for (const LoopNest& nest : nests) elements += nest.bytes() / nest.element_bytes;
  const std::int64_t run = plan.tile_bytes / std::max<std::int64_t>(elements, 1);
  for (const ChannelSpec& channel : profile.channels) {
    const bool at_host = channel.source == hop.source_memory || channel.target == hop.target_memory;
    if (channel.source == channel.target && at_host && carries_conversions(channel)) {
      return channel.throughput.at(plan.tile_bytes, run);
    }
  }
  return INFINITY;
}

/// Predicted time of all tiles: the first through every hop, then one per beat of the slowest
/// channel or shared resource.
void predict(Plan& plan, const Profile& profile) {
  std::vector<double> resource_s(profile.resources.size(), 0);
  double fill_s = 0;
  double beat_s = 0;
  const auto bytes = static_cast<double>(plan.tile_bytes);
  for (Hop& hop : plan.hops) {
    const ChannelSpec& channel = profile.channels[at(hop.channel)];
    hop.run_bytes = channel_run(channel, hop, plan.tile);
    hop.bytes_per_second = channel.throughput.at(plan.tile_bytes, hop.run_bytes);
    hop.tile_s = hop.bytes_per_second > 0 ? bytes / hop.bytes_per_second : INFINITY;
    if (hop.converts && is_file(channel)) {
      hop.tile_s += bytes / conversion_rate(hop, plan, profile);
      hop.bytes_per_second = bytes / hop.tile_s;
    }
    fill_s += channel.latency_s + hop.tile_s;
    if (hop.tile_s > beat_s) {
      beat_s = hop.tile_s;
      plan.binding = channel.name;
    }
    for (const int r : channel.resources) {
      const double capacity = profile.resources[at(r)].bytes_per_second;
      resource_s[at(r)] += capacity > 0 ? bytes / capacity : hop.tile_s;
    }
  }
  for (std::size_t r = 0; r < resource_s.size(); ++r) {
    if (resource_s[r] > beat_s) {
      beat_s = resource_s[r];
      plan.binding = profile.resources[r].name;
    }
  }
  const double whole = static_cast<double>(plan.bytes) / std::max(bytes, 1.0);
  plan.seconds = fill_s + std::max(whole - 1, 0.0) * beat_s;
  plan.bytes_per_second = plan.seconds > 0 ? static_cast<double>(plan.bytes) / plan.seconds : 0;
}

/// What the rings of this path may take in all; nothing needed without rings.
std::int64_t ring_bytes_max(const PlanQuery& query, const Profile& profile, const Path& path) {
  std::int64_t least = INT64_MAX;
  for (std::size_t hop = 0; hop + 1 < path.size(); ++hop) {
    const int memory = profile.channels[at(path[hop])].target;
    least = std::min(least, profile.memories[at(memory)].buffer_bytes_max);
  }
  if (least == INT64_MAX) return 0;
  const auto rings = static_cast<std::int64_t>(path.size()) - 1;
  if (query.buffer_bytes_max > 0) least = std::min(least, query.buffer_bytes_max);
  return least / rings;
}

/// How many slots each ring gets, from 2 to slots_most; 0 if not even two fit.
int count_slots(const Plan& plan, std::int64_t ring_bytes) {
  std::int64_t slots = slots_most;
  for (std::size_t hop = 0; hop + 1 < plan.hops.size(); ++hop) {
    const std::int64_t slot = std::max<std::int64_t>(plan.hops[hop].target->end_bytes(), 1);
    slots = std::min(slots, ring_bytes / slot);
  }
  return static_cast<int>(std::min(slots, std::max<std::int64_t>(plan.tiles, 2)));
}

/// The best plan along one path, over the sizes of tiles.
Result<Plan> best_tiling(const PlanQuery& query, const Profile& profile, const Draft& draft) {
  // Runs in memory cost a file channel nothing, and the other way about.
  const ChannelSpec& first = profile.channels[at(draft.path.front())];
  const ChannelSpec& last = profile.channels[at(draft.path.back())];
  const TileEnd source{query.source.mapping.get(),
                       first.kind == ChannelKind::file_write ? nullptr : &first.throughput};
  const TileEnd target{query.target.mapping.get(),
                       last.kind == ChannelKind::file_read ? nullptr : &last.throughput};
  const std::int64_t ring_bytes = ring_bytes_max(query, profile, draft.path);
  std::optional<Plan> best;
  std::optional<Error> failure;
  std::int64_t last_tile_bytes = -1;
  const bool in_memory = draft.path.size() == 1 && carries_conversions(first);
  for (const std::int64_t size : tile_sizes) {
    if (in_memory && size > memory_tile_max) break;
    const Point tile = choose_tile(source, target, query.source.extents, size);
    auto plan = lay_out(query, profile, draft, tile);
    if (!plan) {
      failure = plan.error();
      break;
    }
    plan->corner_source = query.source.lower;
    plan->corner_target = query.target.lower;
    plan->extents = query.source.extents;
    plan->bytes = query.source.bytes();
    plan->tiles = tile_count(plan->extents, tile, query.source.mapping->rank());
    plan->tile_bytes = query.source.mapping->point_bytes();
    for (int k = 0; k < query.source.mapping->rank(); ++k) plan->tile_bytes *= tile[at(k)];
    if (plan->tile_bytes == last_tile_bytes) break;
    last_tile_bytes = plan->tile_bytes;
    plan->slots = draft.path.size() > 1 ? count_slots(*plan, ring_bytes) : 0;
    if (draft.path.size() > 1 && plan->slots < 2 && best) break;
    if (draft.path.size() > 1 && plan->slots < 1) {
      failure = Error{ErrorCode::out_of_memory,
                      "the intermediate buffers may take " + format_bytes(ring_bytes) +
                          " each, which does not hold one tile; allow more memory"};
      break;
    }
    predict(*plan, profile);
    if (!best || plan->seconds * tile_tolerance < best->seconds) best = std::move(*plan);
  }
  if (best) return std::move(*best);
  return *failure;
}

std::vector<Draft> drafts_of(const PlanQuery& query, const Profile& profile, bool converts) {
  const Path shortest = shortest_path(profile, query.source_memory, query.target_memory);
  if (shortest.empty()) return {};
  std::vector<Draft> drafts;
  const auto wanted = [&](PlannerKind kind) {
    return query.planner == kind || query.planner == PlannerKind::automatic;
  };
  if (wanted(PlannerKind::simple)) {
    Draft draft{PlannerKind::simple, converts ? with_conversion_hop(profile, shortest) : shortest,
                0};
    for (std::size_t hop = 0; hop < draft.path.size(); ++hop) {
      if (carries_conversions(profile.channels[at(draft.path[hop])])) draft.converting_hop = hop;
    }
    drafts.push_back(draft);
  }
  const bool distinct = converts || query.planner != PlannerKind::automatic;
  if (distinct && wanted(PlannerKind::spsl)) {
    drafts.push_back({PlannerKind::spsl, shortest, shortest.size() - 1});
  }
  if (distinct && wanted(PlannerKind::spdl)) {
    drafts.push_back({PlannerKind::spdl, shortest, 0});
  }
  return drafts;
}

Error no_route(const PlanQuery& query, const Profile& profile) {
  return Error{ErrorCode::no_route,
               "no chain of channels leads from " + profile.memories[at(query.source_memory)].name +
                   " to " + profile.memories[at(query.target_memory)].name +
                   "; see the channels that there are with: tranship topology"};
}

/// A transfer shorter than a hand-off runs where it is called.
void mark_direct(Plan& plan, const Profile& profile) {
  if (plan.hops.size() != 1) return;
  const ChannelSpec& channel = profile.channels[at(plan.hops[0].channel)];
  const bool at_once = channel.kind == ChannelKind::memcpy ||
                       channel.kind == ChannelKind::remote_write ||
                       channel.kind == ChannelKind::remote_read;
  plan.direct = at_once && plan.seconds - channel.latency_s < profile.handoff_s;
  if (!plan.direct) return;
  lower({plan.hops[0].source.get(), plan.corner_source},
        {plan.hops[0].target.get(), plan.corner_target}, plan.extents, plan.hops[0].fields,
        plan.nests);
}

}  // namespace

Result<Plan> plan(const PlanQuery& query, const Profile& profile) {
  if (auto fields = match_fields(*query.source.mapping, *query.target.mapping); !fields) {
    return fields.error();
  }
  const bool converts = !same_order(*query.source.mapping, *query.target.mapping);
  const auto drafts = drafts_of(query, profile, converts);
  if (drafts.empty()) return no_route(query, profile);
  std::vector<Plan> plans;
  std::optional<Error> failure;
  for (const Draft& draft : drafts) {
    auto candidate = best_tiling(query, profile, draft);
    if (candidate) {
      plans.push_back(std::move(*candidate));
    } else {
      failure = candidate.error();
    }
  }
  if (plans.empty()) return *failure;
  const auto best = std::min_element(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.seconds < b.seconds;
  });
  Plan chosen = *best;
  for (const Plan& other : plans) {
    if (&other == &*best) continue;
    chosen.alternatives.push_back(
        {std::string(to_string(other.planner)) + ": " + other.path(profile), other.seconds});
  }
  mark_direct(chosen, profile);
  return chosen;
}

}  // namespace tranship
