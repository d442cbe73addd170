// Profiles as JSON. Errors name the entry and what to write, for profiles written by hand.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "machine/profile.hpp"

namespace tranship {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format = "tranship-profile-1";

/// Says why a text is no profile. It leaves this file as an Error.
struct Refusal : std::runtime_error {
  Refusal(const std::string& message, std::string what_to_do)
      : std::runtime_error(message), hint(std::move(what_to_do)) {}
  std::string hint;
};

template <typename T>
T unwrap(Result<T> result, const std::string& where) {
  if (!result) throw Refusal(where + ": " + result.error().message, "write one of these");
  return *std::move(result);
}

std::string shortened(const Json& json) {
  constexpr std::size_t length_max = 40;
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > length_max) text = text.substr(0, length_max) + "...";
  return text;
}

/// One JSON object of a profile, read key by key.
class ProfileObject {
 public:
  ProfileObject(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
    if (!json.is_object()) throw Refusal(what_ + " is " + shortened(json), "write an object");
    if (json.contains("name") && json["name"].is_string()) {
      name_ = " \"" + json["name"].get<std::string>() + "\"";
    }
  }

  /// Returns the entry's name for messages, such as `channel 3 "node0/memcpy"`; counted from 0.
  std::string where() const { return what_ + name_; }

  const Json& need(const char* key) const {
    if (!json_.contains(key)) throw Refusal(where() + " has no \"" + key + "\"", "add it");
    return json_[key];
  }

  std::string text(const char* key) const {
    const Json& value = need(key);
    if (!value.is_string()) refuse(key, value, "a text");
    return value.get<std::string>();
  }
  std::string text_or_none(const char* key) const { return json_.contains(key) ? text(key) : ""; }

  double number(const char* key) const {
    const Json& value = need(key);
    if (!value.is_number()) refuse(key, value, "a number");
    return value.get<double>();
  }
  double number_or_zero(const char* key) const { return json_.contains(key) ? number(key) : 0; }

  bool truth_or_false(const char* key) const {
    if (!json_.contains(key)) return false;
    if (!json_[key].is_boolean()) refuse(key, json_[key], "true or false");
    return json_[key].get<bool>();
  }

  std::int64_t whole_or_zero(const char* key) const {
    if (!json_.contains(key)) return 0;
    const auto value = whole(json_[key]);
    if (!value) refuse(key, json_[key], "a whole number");
    return *value;
  }

  const Json& list(const char* key) const {
    const Json& value = need(key);
    if (!value.is_array()) refuse(key, value, "a list");
    return value;
  }
  const Json& list_or_none(const char* key) const {
    static const Json none = Json::array();
    return json_.contains(key) ? list(key) : none;
  }

  /// Returns the whole number that `json` is, also if it is written as 4.096e3.
  static std::optional<std::int64_t> whole(const Json& json) {
    constexpr double exact_max = 0x1.0p53;
    if (json.is_number_unsigned() && json.get<std::uint64_t>() >> 63 != 0) return std::nullopt;
    if (json.is_number_integer()) return json.get<std::int64_t>();
    if (!json.is_number_float()) return std::nullopt;
    const double value = json.get<double>();
    if (!(std::abs(value) <= exact_max) || value != std::floor(value)) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }

 private:
  [[noreturn]] void refuse(const char* key, const Json& value, const char* wanted) const {
    throw Refusal("\"" + std::string(key) + "\" of " + where() + " is " + shortened(value),
                  std::string("write ") + wanted);
  }

  const Json& json_;
  std::string what_;
  std::string name_;
};

Json json_of(const Profile& profile, const ChannelSpec& channel) {
  Json samples = Json::array();
  for (const Sample& sample : channel.throughput.samples()) {
    samples.push_back({sample.request_bytes, sample.run_bytes, sample.bytes_per_second});
  }
  Json resources = Json::array();
  for (const int k : channel.resources) {
    resources.push_back(profile.resources[static_cast<std::size_t>(k)].name);
  }
  Json json{{"name", channel.name},
            {"kind", to_string(channel.kind)},
            {"source", profile.memories[static_cast<std::size_t>(channel.source)].name},
            {"target", profile.memories[static_cast<std::size_t>(channel.target)].name},
            {"latency_s", channel.latency_s},
            {"width", channel.width}};
  if (channel.gathers) json["gathers"] = true;
  json["resources"] = resources;
  json["samples"] = samples;
  return json;
}

Sample sample_from(const Json& json, std::size_t number, const ProfileObject& channel) {
  const bool triple = json.is_array() && json.size() == 3 && json[2].is_number();
  const auto request = triple ? ProfileObject::whole(json[0]) : std::nullopt;
  const auto run = triple ? ProfileObject::whole(json[1]) : std::nullopt;
  if (!request || !run) {
    throw Refusal(
        "sample " + std::to_string(number) + " of " + channel.where() + " is " + shortened(json),
        "write [request bytes, run bytes, bytes per second]");
  }
  return {*request, *run, json[2].get<double>()};
}

int memory_at(const Profile& profile, const ProfileObject& channel, const char* key) {
  const std::string name = channel.text(key);
  const int found = profile.find_memory(name);
  if (found < 0) {
    throw Refusal("the " + std::string(key) + " of " + channel.where() + ", \"" + name +
                      "\", is no memory of this profile",
                  "list it under \"memories\", or correct it");
  }
  return found;
}

int resource_at(const Profile& profile, const ProfileObject& channel, const Json& name) {
  for (std::size_t k = 0; k < profile.resources.size(); ++k) {
    if (name == profile.resources[k].name) return static_cast<int>(k);
  }
  throw Refusal(
      "the resource " + shortened(name) + " of " + channel.where() + " is none of this profile",
      "list it under \"resources\", or correct it");
}

ChannelSpec channel_from(const Profile& profile, const ProfileObject& entry) {
  ChannelSpec channel;
  channel.name = entry.text("name");
  channel.kind = unwrap(channel_kind_from(entry.text("kind")), "the kind of " + entry.where());
  channel.source = memory_at(profile, entry, "source");
  channel.target = memory_at(profile, entry, "target");
  channel.latency_s = entry.number_or_zero("latency_s");
  channel.width = std::max(static_cast<int>(entry.number_or_zero("width")), 1);
  channel.gathers = entry.truth_or_false("gathers");
  for (const Json& name : entry.list_or_none("resources")) {
    channel.resources.push_back(resource_at(profile, entry, name));
  }
  std::vector<Sample> samples;
  for (const Json& sample : entry.list("samples")) {
    samples.push_back(sample_from(sample, samples.size(), entry));
  }
  channel.throughput = Throughput(std::move(samples));
  return channel;
}

Profile profile_from(const Json& json) {
  const ProfileObject top(json, "the profile");
  if (!json.contains("format") || json["format"] != format) {
    throw Refusal("\"format\" must be \"" + std::string(format) + "\"",
                  "measure a new one with: tranship calibrate");
  }
  Profile profile;
  profile.host = top.text_or_none("host");
  profile.date = top.text_or_none("date");
  profile.comment = top.text_or_none("comment");
  const std::int64_t nodes = top.whole_or_zero("nodes");
  constexpr std::int64_t nodes_max = std::int64_t{1} << 30;
  if (nodes > nodes_max) {
    throw Refusal("\"nodes\" is " + std::to_string(nodes),
                  "write " + std::to_string(nodes_max) + " at most");
  }
  profile.nodes = static_cast<int>(std::max(nodes, -nodes_max));
  profile.handoff_s = top.number_or_zero("handoff_s");
  profile.planning_s = top.number_or_zero("planning_s");
  profile.others_share = top.number_or_zero("others_share");
  profile.cache_bytes = top.whole_or_zero("cache_bytes");
  for (const Json& one : top.list("memories")) {
    const ProfileObject memory(one, "memory " + std::to_string(profile.memories.size()));
    profile.memories.push_back(
        {memory.text("name"),
         unwrap(memory_kind_from(memory.text("kind")), "the kind of " + memory.where()),
         memory.whole_or_zero("buffer_bytes_max"), memory.whole_or_zero("threshold_bytes")});
  }
  for (const Json& one : top.list_or_none("resources")) {
    const ProfileObject resource(one, "resource " + std::to_string(profile.resources.size()));
    profile.resources.push_back({resource.text("name"), resource.number("bytes_per_second")});
  }
  for (const Json& one : top.list("channels")) {
    const ProfileObject channel(one, "channel " + std::to_string(profile.channels.size()));
    profile.channels.push_back(channel_from(profile, channel));
  }
  return profile;
}

}  // namespace

std::string Profile::to_json() const {
  Json json{{"format", format}, {"host", host}, {"date", date}, {"comment", comment}};
  if (nodes != 0) json["nodes"] = nodes;
  json["handoff_s"] = handoff_s;
  if (planning_s != 0) json["planning_s"] = planning_s;
  if (others_share != 0) json["others_share"] = others_share;
  json["cache_bytes"] = cache_bytes;
  json["memories"] = Json::array();
  for (const Memory& memory : memories) {
    json["memories"].push_back({{"name", memory.name},
                                {"kind", to_string(memory.kind)},
                                {"buffer_bytes_max", memory.buffer_bytes_max}});
    if (memory.threshold_bytes != 0) {
      json["memories"].back()["threshold_bytes"] = memory.threshold_bytes;
    }
  }
  json["resources"] = Json::array();
  for (const Resource& resource : resources) {
    json["resources"].push_back(
        {{"name", resource.name}, {"bytes_per_second", resource.bytes_per_second}});
  }
  json["channels"] = Json::array();
  for (const ChannelSpec& channel : channels) json["channels"].push_back(json_of(*this, channel));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Profile> Profile::from_json(const std::string& text) {
  const auto error = [](const std::string& why, const std::string& hint) {
    return Error{ErrorCode::invalid_argument, "this machine profile cannot be used: " + why, hint};
  };
  try {
    Profile profile = profile_from(Json::parse(text));
    if (Status status = profile.check(); !status) return status.error();
    return profile;
  } catch (const Refusal& refusal) {
    return error(refusal.what(), refusal.hint);
  } catch (const Json::exception& parsing) {
    return error(std::string("it is no JSON (") + parsing.what() + ")",
                 "correct the text there, or measure a new one with: tranship calibrate");
  }
}

}  // namespace tranship
