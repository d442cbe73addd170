#include "simulator/routes.hpp"

#include <algorithm>
#include <cmath>

#include "base/at.hpp"
#include "base/hash.hpp"
#include "base/units.hpp"

namespace tranship {
namespace {

void append(std::string& key, std::int64_t number) {
  key += std::to_string(number);
  key += ',';
}

std::string key_of(const RouteQuery& query) {
  std::string key;
  append(key, query.source.node != query.target.node);
  append(key, query.source.index);
  append(key, query.target.index);
  append(key, static_cast<int>(query.planner));
  append(key, query.lanes_max);
  append(key, query.whole);
  for (const MemoryOfNode& memory : query.through) {
    append(key, memory.node == query.source.node);
    append(key, memory.index);
  }
  return key + ';' + query.source_mapping->key() + ';' + query.target_mapping->key();
}

void add_plan(Routes::PerNode& counts, PlannerKind kind) {
  if (kind == PlannerKind::full) {
    ++counts.full;
  } else if (kind == PlannerKind::simple) {
    ++counts.simple;
  } else {
    ++counts.other;
  }
}

std::vector<int> memories_of(const Plan& plan) {
  std::vector<int> memories{plan.hops[0].source_memory};
  for (int k = 0; k < plan.lanes[0].hop_count; ++k) {
    memories.push_back(plan.hops[at(plan.lanes[0].first_hop + k)].target_memory);
  }
  return memories;
}

/// Returns whether instances of that size fit the memories between the ends at the same time.
bool whole_fits(const std::vector<int>& path, const Profile& profile, std::int64_t bytes) {
  for (std::size_t k = 1; k + 1 < path.size(); ++k) {
    const auto there = std::count(path.begin() + 1, path.end() - 1, path[k]);
    if (there * bytes > profile.memories[at(path[k])].buffer_bytes_max) return false;
  }
  return true;
}

/// Returns the path with the fewest hops whose instances fit; among several, the one whose
/// narrowest channel is widest. Empty if there is no such path.
std::vector<int> shortest_that_fits(const PlanQuery& query, const Profile& profile,
                                    std::int64_t bytes) {
  struct Reached {
    std::vector<int> path;
    double rate = 0;
  };
  std::map<int, Reached> frontier{{query.source_memory, {{query.source_memory}, INFINITY}}};
  std::vector<bool> done(profile.memories.size(), false);
  while (!frontier.empty()) {
    if (frontier.count(query.target_memory) && frontier[query.target_memory].path.size() > 1) {
      return frontier[query.target_memory].path;
    }
    std::map<int, Reached> further;
    for (const auto& [memory, reached] : frontier) done[at(memory)] = true;
    for (const ChannelSpec& channel : profile.channels) {
      const auto from = frontier.find(channel.source);
      const bool end = channel.target == query.target_memory;
      if (from == frontier.end() || (done[at(channel.target)] && !end)) continue;
      if (!end && profile.memories[at(channel.target)].buffer_bytes_max < bytes) continue;
      const double rate = std::min(from->second.rate, channel.throughput.peak());
      Reached& there = further[channel.target];
      if (rate <= there.rate) continue;
      there = from->second;
      there.path.push_back(channel.target);
      there.rate = rate;
    }
    frontier = std::move(further);
  }
  return {};
}

}  // namespace

Routes::Routes(const Hardware& hardware, const Clock& clock, std::int64_t full_from_bytes)
    : hardware_(hardware), clock_(clock), full_from_bytes_(full_from_bytes) {
  inside_node_.emplace(hardware.profile(false));
  if (!hardware.profile(true).memories.empty()) between_nodes_.emplace(hardware.profile(true));
}

NodePair Routes::nodes_of(const RouteQuery& query) {
  if (query.source.node == query.target.node) return {query.source.node, -1};
  return {query.source.node, query.target.node};
}

Result<const Route*> Routes::find(const RouteQuery& query) {
  std::string key = key_of(query);
  auto found = routes_.find(key);
  if (found == routes_.end()) {
    const std::int64_t begin_ns = clock_.now_ns();
    auto made = make(query);
    counters_.planning_s += static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
    if (!made) return made.error();
    made->number = routes_.size();
    add_plan(counters_.planned, made->plans[0]->planner);
    found = routes_.emplace(std::move(key), std::make_unique<const Route>(std::move(*made))).first;
  } else {
    ++counters_.cached;
  }
  count(query, *found->second);
  return found->second.get();
}

void Routes::count(const RouteQuery& query, const Route& route) {
  std::uint64_t seen =
      mixed(mixed(0, route.number + 1), static_cast<std::uint64_t>(query.source.node));
  seen = mixed(seen, static_cast<std::uint64_t>(query.target.node));
  if (!seen_.insert(seen).second) return;
  add_plan(counters_.by_node[query.source.node], route.plans[0]->planner);
}

Result<PlanQuery> Routes::plan_query(const RouteQuery& query) const {
  const NodePair nodes = nodes_of(query);
  PlanQuery asked;
  asked.source = View::whole(query.source_mapping);
  asked.target = View::whole(query.target_mapping);
  if (asked.source.bytes() == 0) {
    return Error{ErrorCode::invalid_argument, "a copy of nothing takes no time",
                 "give every dimension an extent"};
  }
  asked.source_memory = hardware_.index_in(nodes, query.source);
  asked.target_memory = hardware_.index_in(nodes, query.target);
  asked.planner = query.planner;
  asked.lanes_max = query.whole ? 1 : query.lanes_max;
  asked.full_from_bytes = full_from_bytes_;
  for (const MemoryOfNode& memory : query.through) {
    if (memory.node != nodes.first && memory.node != nodes.second) {
      return Error{ErrorCode::invalid_argument,
                   "the path names a memory of node" + std::to_string(memory.node),
                   "it can pass the nodes of its ends alone"};
    }
    asked.through.push_back(hardware_.index_in(nodes, memory));
  }
  return asked;
}

Result<Route> Routes::make(const RouteQuery& query) {
  const bool two_nodes = nodes_of(query).second >= 0;
  auto asked = plan_query(query);
  if (!asked) return asked.error();
  auto plan = planner(two_nodes).plan(*asked);
  if (!plan) return plan.error();
  if (query.whole) return make_whole(*asked, two_nodes, std::move(*plan));
  Route route;
  route.bytes = plan->bytes;
  route.plans.push_back(std::make_shared<const Plan>(std::move(*plan)));
  return route;
}

/// Makes the route of a whole copy. The layout is converted on the hop on which the plan along the
/// same path first converts it.
Result<Route> Routes::make_whole(const PlanQuery& query, bool two_nodes, Plan along) {
  const Profile& profile = hardware_.profile(two_nodes);
  std::vector<int> path = memories_of(along);
  const PlannerKind kind = along.planner;
  if (!whole_fits(path, profile, along.bytes)) {
    PlanQuery other = query;
    other.through = shortest_that_fits(query, profile, along.bytes);
    if (other.through.empty()) {
      return Error{ErrorCode::out_of_memory,
                   "a whole instance of " + format_bytes(along.bytes) +
                       " fits the buffers of no memory on the path",
                   "allow more memory"};
    }
    auto fitting = planner(two_nodes).plan(other);
    if (!fitting) return fitting.error();
    along = std::move(*fitting);
    path = other.through;
  }
  Route route;
  route.whole = true;
  route.bytes = along.bytes;
  route.instances.assign(path.begin() + 1, path.end() - 1);
  View before = query.source;
  for (std::size_t hop = 0; hop + 1 < path.size(); ++hop) {
    PlanQuery step;
    step.source = before;
    const bool last = hop + 2 == path.size();
    step.target = last || along.hops[hop].converts ? query.target : before;
    step.source_memory = path[hop];
    step.target_memory = path[hop + 1];
    step.planner = PlannerKind::simple;
    step.through = {path[hop], path[hop + 1]};
    auto one = planner(two_nodes).plan(step);
    if (!one) return one.error();
    one->planner = kind;
    route.plans.push_back(std::make_shared<const Plan>(std::move(*one)));
    before = step.target;
  }
  return route;
}

}  // namespace tranship
