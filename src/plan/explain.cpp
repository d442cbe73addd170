// Plans in words and as JSON.
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "plan/plan.hpp"

namespace tranship {
namespace {

using Json = nlohmann::ordered_json;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::string box_text(const Mapping& mapping, const Point& extents) {
  std::string text;
  for (int k = 0; k < mapping.rank(); ++k) {
    text += (k ? ", " : "") + mapping.space()[at(k)].name + "=" + std::to_string(extents[at(k)]);
  }
  return text.empty() ? "one point" : text;
}

/// Blocks of the intermediate layout: the tile's extents, as "x:512, y:256".
Json blocking_of(const Plan& plan) {
  Json factors = Json::object();
  const Mapping& mapping = *plan.hops[0].source;
  for (int k = 0; k < mapping.rank(); ++k) factors[mapping.space()[at(k)].name] = plan.tile[at(k)];
  return factors;
}

}  // namespace

const char* to_string(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::automatic: return "automatic";
    case PlannerKind::simple: return "simple";
    case PlannerKind::spsl: return "spsl";
    case PlannerKind::spdl: return "spdl";
  }
  return "unknown";
}

Result<PlannerKind> planner_kind_from(const std::string& text) {
  for (const PlannerKind kind :
       {PlannerKind::automatic, PlannerKind::simple, PlannerKind::spsl, PlannerKind::spdl}) {
    if (text == to_string(kind)) return kind;
  }
  return Error{ErrorCode::invalid_argument,
               "\"" + text + "\" is no planner; take automatic, simple, spsl or spdl"};
}

std::string Plan::path(const Profile& profile) const {
  if (hops.empty()) return "";
  std::string text = profile.memories[at(hops[0].source_memory)].name;
  for (const Hop& hop : hops) text += " > " + profile.memories[at(hop.target_memory)].name;
  return text;
}

std::string explain(const Plan& plan, const Profile& profile) {
  const Mapping& source = *plan.hops[0].source;
  std::string text = plan.path(profile) + "\n";
  text += "  moves " + format_bytes(plan.bytes) + " (" + box_text(source, plan.extents) + ")";
  text += " in " + std::to_string(plan.tiles) + (plan.tiles == 1 ? " tile" : " tiles");
  text += " of " + format_bytes(plan.tile_bytes) + " (" + box_text(source, plan.tile) + ")";
  if (plan.slots > 0) text += ", " + std::to_string(plan.slots) + " slots between two hops";
  text += "\n";
  for (std::size_t k = 0; k < plan.hops.size(); ++k) {
    const Hop& hop = plan.hops[k];
    const ChannelSpec& channel = profile.channels[at(hop.channel)];
    text += "  hop " + std::to_string(k + 1) + ": " + channel.name + ", <" +
            hop.source->layout().to_string() + "> to <" + hop.target->layout().to_string() + ">" +
            (hop.converts ? " (converts)" : "") + ", runs of " + format_bytes(hop.run_bytes) +
            ", predicted " + format_rate(hop.bytes_per_second) + "\n";
  }
  text += "  predicted " + format_seconds(plan.seconds) + ", " +
          format_rate(plan.bytes_per_second) + "; bound by " + plan.binding + "; planner " +
          to_string(plan.planner) + (plan.direct ? "; runs on the caller's thread" : "") + "\n";
  for (const Alternative& other : plan.alternatives) {
    text += "  beaten: " + other.path + ", predicted " + format_seconds(other.seconds) + "\n";
  }
  return text;
}

std::string explain_json(const Plan& plan, const Profile& profile) {
  Json json{{"path", plan.path(profile)},    {"planner", to_string(plan.planner)},
            {"bytes", plan.bytes},           {"throughput_gbps", plan.bytes_per_second / 1e9},
            {"time_s", plan.seconds},        {"binding", plan.binding},
            {"direct", plan.direct},         {"tiles", plan.tiles},
            {"tile_bytes", plan.tile_bytes}, {"slots", plan.slots},
            {"hops", Json::array()},         {"alternatives", Json::array()}};
  for (const Hop& hop : plan.hops) {
    const ChannelSpec& channel = profile.channels[at(hop.channel)];
    json["hops"].push_back({{"source", profile.memories[at(hop.source_memory)].name},
                            {"target", profile.memories[at(hop.target_memory)].name},
                            {"channel", channel.name},
                            {"source_layout", hop.source->layout().to_string()},
                            {"target_layout", hop.target->layout().to_string()},
                            {"converts", hop.converts},
                            {"blocking", blocking_of(plan)},
                            {"request_bytes", plan.tile_bytes},
                            {"run_bytes", hop.run_bytes},
                            {"gbps", hop.bytes_per_second / 1e9}});
  }
  for (const Alternative& other : plan.alternatives) {
    json["alternatives"].push_back({{"path", other.path}, {"time_s", other.seconds}});
  }
  return json.dump(2);
}

}  // namespace tranship
