// Plans as text and as JSON.
#include <nlohmann/json.hpp>

#include "base/at.hpp"

#include "base/units.hpp"
#include "plan/plan.hpp"

namespace tranship {
namespace {

using Json = nlohmann::ordered_json;

std::string box_text(const Mapping& mapping, const Point& extents) {
  std::string text;
  for (int k = 0; k < mapping.rank(); ++k) {
    text += (k ? ", " : "") + mapping.space()[at(k)].name + "=" + std::to_string(extents[at(k)]);
  }
  return text.empty() ? "one point" : text;
}

/// Returns the blocks of the intermediate layout, which are the tile's extents, such as "x:512,
/// y:256".
Json blocking_of(const Plan& plan) {
  Json factors = Json::object();
  const Mapping& mapping = *plan.hops[0].source;
  for (int k = 0; k < mapping.rank(); ++k) factors[mapping.space()[at(k)].name] = plan.tile[at(k)];
  return factors;
}

/// Returns the types of an array's fields, such as "f4" or "f4, i8".
std::string types_of(const Mapping& mapping) {
  std::string text;
  for (const Placement& one : mapping.fields()) {
    text += (text.empty() ? "" : ", ") + one.field.type;
  }
  return text;
}

std::string hops_text(const Plan& plan, std::size_t lane, const Profile& profile) {
  std::string text;
  for (int k = 0; k < plan.lanes[lane].hop_count; ++k) {
    const Hop& hop = plan.hops[at(plan.lanes[lane].first_hop + k)];
    text += "  ";
    if (plan.lanes.size() > 1) text += "lane " + std::to_string(lane + 1) + ", ";
    text += "hop " + std::to_string(k + 1) + ": " + profile.channels[at(hop.channel)].name + ", <" +
            hop.source->layout().to_string() + "> to <" + hop.target->layout().to_string() + ">" +
            (hop.casts ? " (casts " + types_of(*hop.source) + " to " + types_of(*hop.target) + ")"
             : hop.converts ? " (converts)"
                            : "") +
            ", runs of " + format_bytes(hop.run_bytes) + ", predicted " +
            format_rate(hop.bytes_per_second) + "\n";
  }
  return text;
}

/// Returns the memories in order, with a mark where the layout changes.
std::string path_text(const Alternative& other, const Profile& profile) {
  std::string text = profile.memories[at(other.memories[0])].name;
  for (std::size_t k = 1; k < other.memories.size(); ++k) {
    text += static_cast<int>(k) - 1 == other.converting_hop ? " >* " : " > ";
    text += profile.memories[at(other.memories[k])].name;
  }
  return text;
}

}  // namespace

const char* to_string(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::automatic: return "automatic";
    case PlannerKind::full: return "full";
    case PlannerKind::simple: return "simple";
    case PlannerKind::spsl: return "spsl";
    case PlannerKind::spdl: return "spdl";
  }
  return "unknown";
}

Result<PlannerKind> planner_kind_from(const std::string& text) {
  for (const PlannerKind kind : {PlannerKind::automatic, PlannerKind::full, PlannerKind::simple,
                                 PlannerKind::spsl, PlannerKind::spdl}) {
    if (text == to_string(kind)) return kind;
  }
  return Error{ErrorCode::invalid_argument, "\"" + text + "\" is no planner",
               "use automatic, full, simple, spsl or spdl"};
}

std::string Plan::path(const Profile& profile, std::size_t lane) const {
  if (hops.empty() || (lane > 0 && lane >= lanes.size())) return "";
  const Lane whole{0, static_cast<int>(hops.size()), 0};
  const Lane& way = lanes.empty() ? whole : lanes[lane];
  std::string text = profile.memories[at(hops[at(way.first_hop)].source_memory)].name;
  for (int k = 0; k < way.hop_count; ++k) {
    text += " > " + profile.memories[at(hops[at(way.first_hop + k)].target_memory)].name;
  }
  return text;
}

const std::string& Plan::bound_by(const Profile& profile) const {
  static const std::string nothing = "nothing";
  if (binding.channel >= 0) return profile.channels[at(binding.channel)].name;
  if (binding.resource >= 0) return profile.resources[at(binding.resource)].name;
  return nothing;
}

std::string explain(const Plan& plan, const Profile& profile) {
  if (plan.hops.empty()) return "  moves nothing\n";
  const Mapping& source = *plan.hops[0].source;
  std::string text;
  for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    text += plan.path(profile, lane) + "\n";
  }
  text += "  moves " + format_bytes(plan.bytes) + " (" + box_text(source, plan.extents) + ")";
  text += " in " + std::to_string(plan.tiles) + (plan.tiles == 1 ? " tile" : " tiles");
  text += " of " + format_bytes(plan.tile_bytes) + " (" + box_text(source, plan.tile) + ")";
  if (plan.slots > 0) text += ", " + std::to_string(plan.slots) + " slots between two hops";
  text += "\n";
  for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    text += hops_text(plan, lane, profile);
  }
  text += "  predicted " + format_seconds(plan.seconds) + ", " +
          format_rate(plan.bytes_per_second) + " steadily; bound by " + plan.bound_by(profile) +
          "; planner " + to_string(plan.planner) +
          (plan.direct ? "; runs on the caller's thread" : "") + "\n";
  for (std::size_t k = 0; k < plan.closed_channels.size(); ++k) {
    text += (k == 0 ? "  left to other processes: " : ", ") +
            profile.channels[at(plan.closed_channels[k])].name;
  }
  if (!plan.closed_channels.empty()) text += "\n";
  for (const Alternative& other : plan.alternatives) {
    text += "  beaten: " + std::string(to_string(other.planner)) + ", " +
            path_text(other, profile) + ", predicted " + format_seconds(other.seconds) + "\n";
  }
  return text;
}

std::string explain_json(const Plan& plan, const Profile& profile) {
  Json json{{"path", plan.path(profile)},    {"planner", to_string(plan.planner)},
            {"bytes", plan.bytes},           {"throughput_gbps", plan.bytes_per_second / 1e9},
            {"time_s", plan.seconds},        {"binding", plan.bound_by(profile)},
            {"direct", plan.direct},         {"tiles", plan.tiles},
            {"tile_bytes", plan.tile_bytes}, {"slots", plan.slots},
            {"lanes", Json::array()},        {"hops", Json::array()},
            {"alternatives", Json::array()}};
  for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    json["lanes"].push_back(
        {{"path", plan.path(profile, lane)}, {"gbps", plan.lanes[lane].bytes_per_second / 1e9}});
    for (int k = 0; k < plan.lanes[lane].hop_count; ++k) {
      const Hop& hop = plan.hops[at(plan.lanes[lane].first_hop + k)];
      json["hops"].push_back({{"lane", lane},
                              {"source", profile.memories[at(hop.source_memory)].name},
                              {"target", profile.memories[at(hop.target_memory)].name},
                              {"channel", profile.channels[at(hop.channel)].name},
                              {"source_layout", hop.source->layout().to_string()},
                              {"target_layout", hop.target->layout().to_string()},
                              {"converts", hop.converts},
                              {"blocking", blocking_of(plan)},
                              {"request_bytes", plan.tile_bytes},
                              {"run_bytes", hop.run_bytes},
                              {"gbps", hop.bytes_per_second / 1e9}});
      if (!hop.casts) continue;
      json["hops"].back()["source_types"] = types_of(*hop.source);
      json["hops"].back()["target_types"] = types_of(*hop.target);
    }
  }
  for (const Alternative& other : plan.alternatives) {
    json["alternatives"].push_back({{"planner", to_string(other.planner)},
                                    {"path", path_text(other, profile)},
                                    {"time_s", other.seconds}});
  }
  return json.dump(2);
}

}  // namespace tranship
