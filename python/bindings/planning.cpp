// Planning for any machine profile, of this machine or of another one.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>

#include "bindings.hpp"
#include "machine/cluster.hpp"
#include "plan/planner.hpp"

namespace tranship::python {
namespace {

int memory_at(const Profile& profile, const std::string& name) {
  const int found = profile.find_memory(name);
  if (found >= 0) return found;
  std::string known;
  for (const Memory& memory : profile.memories) known += (known.empty() ? "" : ", ") + memory.name;
  raise({ErrorCode::not_found, "the machine has no memory \"" + name + "\"", "it has " + known});
}

/// Returns the profile for a plan between these memories; for a cluster, that of their nodes only.
Profile part_of(const Profile& profile, const std::vector<std::string>& memories) {
  if (profile.nodes == 0) return profile;
  const Cluster cluster = unwrap(Cluster::make(profile));
  std::vector<int> nodes;
  for (const std::string& memory : memories) {
    const int node = cluster.node_of(memory);
    if (node < 0) {
      std::string each;
      for (int k = 0; k < cluster.memories_each(); ++k) {
        const std::string& name = profile.memories[static_cast<std::size_t>(k)].name;
        each += (each.empty() ? "" : ", ") + name.substr(name.find('/') + 1);
      }
      raise({ErrorCode::not_found, "the machine has no memory \"" + memory + "\"",
             "it has node0 to node" + std::to_string(cluster.nodes() - 1) + ", each with " + each});
    }
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  return unwrap(cluster.neighbourhood(nodes));
}

std::vector<double> waiting_in(const Profile& profile, const std::map<std::string, double>& named) {
  if (named.empty()) return {};
  std::vector<double> waiting_s(profile.channels.size(), 0);
  for (const auto& [name, seconds] : named) {
    const auto found = std::find_if(profile.channels.begin(), profile.channels.end(),
                                    [&](const ChannelSpec& c) { return c.name == name; });
    if (found == profile.channels.end()) {
      raise({ErrorCode::not_found, "the machine has no channel \"" + name + "\"",
             "see the channels that it has with: tranship topology"});
    }
    waiting_s[static_cast<std::size_t>(found - profile.channels.begin())] = seconds;
  }
  return waiting_s;
}

/// Options of a plan, as Python passes them.
struct PlanOptions {
  std::string planner = "automatic";
  std::int64_t buffer_bytes = 0;
  std::int64_t full_from_bytes = 0;
  int lanes = 1;
  std::vector<std::string> through;
  std::map<std::string, double> waiting_s;  ///< waiting time of each channel, in seconds
};

struct PlanEnd {
  std::string memory;
  std::string layout;
};

/// A plan's query, and the profile that it refers to.
struct Asked {
  Profile profile;
  PlanQuery query;
};

Asked asked(const std::string& profile_json, const PlanEnd& source, const PlanEnd& target,
            const Extents& extents, const Fields& fields, const PlanOptions& options) {
  const Profile whole = unwrap(Profile::from_json(profile_json));
  std::vector<std::string> named{source.memory, target.memory};
  named.insert(named.end(), options.through.begin(), options.through.end());
  Asked made{part_of(whole, named), {}};
  const Profile& profile = made.profile;
  PlanQuery& query = made.query;
  query.source = View::whole(mapping_of(extents, fields, source.layout));
  query.target = View::whole(mapping_of(extents, fields, target.layout));
  query.source_memory = memory_at(profile, source.memory);
  query.target_memory = memory_at(profile, target.memory);
  query.planner = unwrap(planner_kind_from(options.planner));
  query.buffer_bytes_max = options.buffer_bytes;
  query.full_from_bytes = options.full_from_bytes;
  query.lanes_max = options.lanes;
  query.waiting_s = waiting_in(profile, options.waiting_s);
  for (const std::string& name : options.through) query.through.push_back(memory_at(profile, name));
  return made;
}

/// The plan in words and as JSON, its profile, and the seconds that the planner took.
nb::tuple plan_on(const std::string& profile_json, const PlanEnd& source, const PlanEnd& target,
                  const Extents& extents, const Fields& fields, const PlanOptions& options) {
  const auto [profile, query] = asked(profile_json, source, target, extents, fields, options);
  const Planner planner(profile);
  const auto begin = std::chrono::steady_clock::now();
  const Plan made = unwrap(planner.plan(query));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return nb::make_tuple(explain(made, profile), explain_json(made, profile), profile.to_json(),
                        seconds.count());
}

}  // namespace

void bind_planning(nb::module_& module) {
  module.def(
      "plan_on",
      [](const std::string& profile, const std::pair<std::string, std::string>& source,
         const std::pair<std::string, std::string>& target, const Extents& extents,
         const Fields& fields, const std::string& planner, std::int64_t buffer_bytes,
         std::int64_t full_from_bytes, int lanes, const std::vector<std::string>& through,
         const std::map<std::string, double>& waiting_s) {
        return plan_on(profile, {source.first, source.second}, {target.first, target.second},
                       extents, fields,
                       {planner, buffer_bytes, full_from_bytes, lanes, through, waiting_s});
      },
      nb::arg("profile"), nb::arg("source"), nb::arg("target"), nb::arg("extents"),
      nb::arg("fields"), nb::kw_only(), nb::arg("planner") = "automatic",
      nb::arg("buffer_bytes") = 0, nb::arg("full_from_bytes") = 0, nb::arg("lanes") = 1,
      nb::arg("through") = std::vector<std::string>{},
      nb::arg("waiting_s") = std::map<std::string, double>{},
      nb::sig("def plan_on(profile: str, source: tuple[str, str], target: tuple[str, str], "
              "extents: Sequence[tuple[str, int]], fields: Sequence[tuple[str, str, int]], *, "
              "planner: str = ..., buffer_bytes: int = ..., full_from_bytes: int = ..., "
              "lanes: int = ..., through: Sequence[str] = ..., "
              "waiting_s: Mapping[str, float] = ...) -> tuple[str, str, str, float]"));
  module.def(
      "check_profile",
      [](const std::string& text) { return unwrap(Profile::from_json(text)).to_json(); },
      nb::arg("text"));
}

}  // namespace tranship::python
