#include "machine/profile.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace tranship {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<MemoryKind, const char*>, 5> memory_kinds{{
    {MemoryKind::host, "host"},
    {MemoryKind::pinned, "pinned"},
    {MemoryKind::registered, "registered"},
    {MemoryKind::device, "device"},
    {MemoryKind::file, "file"},
}};

constexpr std::array<std::pair<ChannelKind, const char*>, 9> channel_kinds{{
    {ChannelKind::memcpy, "memcpy"},
    {ChannelKind::gpu_read, "gpu_read"},
    {ChannelKind::gpu_write, "gpu_write"},
    {ChannelKind::gpu_copy, "gpu_copy"},
    {ChannelKind::gpu_peer, "gpu_peer"},
    {ChannelKind::file_read, "file_read"},
    {ChannelKind::file_write, "file_write"},
    {ChannelKind::remote_write, "remote_write"},
    {ChannelKind::remote_read, "remote_read"},
}};

template <typename Kind, std::size_t count>
const char* name_of(const std::array<std::pair<Kind, const char*>, count>& names, Kind kind) {
  for (const auto& [value, name] : names) {
    if (value == kind) return name;
  }
  return "unknown";
}

template <typename Kind, std::size_t count>
Result<Kind> kind_of(const std::array<std::pair<Kind, const char*>, count>& names,
                     const std::string& text) {
  std::string known;
  for (const auto& [value, name] : names) {
    if (text == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return Error{ErrorCode::invalid_argument, "\"" + text + "\" is none of " + known};
}

Json json_of(const Profile& profile, const ChannelSpec& channel) {
  Json samples = Json::array();
  for (const Sample& sample : channel.throughput.samples()) {
    samples.push_back({sample.request_bytes, sample.run_bytes, sample.bytes_per_second});
  }
  Json resources = Json::array();
  for (const int k : channel.resources) {
    resources.push_back(profile.resources[static_cast<std::size_t>(k)].name);
  }
  return {{"name", channel.name},
          {"kind", to_string(channel.kind)},
          {"source", profile.memories[static_cast<std::size_t>(channel.source)].name},
          {"target", profile.memories[static_cast<std::size_t>(channel.target)].name},
          {"latency_s", channel.latency_s},
          {"resources", resources},
          {"samples", samples}};
}

int memory_at(const Profile& profile, const std::string& name) {
  const int found = profile.find_memory(name);
  if (found < 0) throw std::runtime_error("memory \"" + name + "\" is not in the profile");
  return found;
}

template <typename T>
T unwrap(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *result;
}

ChannelSpec channel_from(const Profile& profile, const Json& json) {
  ChannelSpec channel;
  channel.name = json.at("name");
  channel.kind = unwrap(channel_kind_from(json.at("kind")));
  channel.source = memory_at(profile, json.at("source"));
  channel.target = memory_at(profile, json.at("target"));
  channel.latency_s = json.value("latency_s", 0.0);
  for (const std::string name : json.value("resources", Json::array())) {
    const auto found = std::find_if(profile.resources.begin(), profile.resources.end(),
                                    [&](const Resource& r) { return r.name == name; });
    if (found == profile.resources.end()) {
      throw std::runtime_error("resource \"" + name + "\" is not in the profile");
    }
    channel.resources.push_back(static_cast<int>(found - profile.resources.begin()));
  }
  std::vector<Sample> samples;
  for (const Json& sample : json.at("samples")) {
    samples.push_back({sample.at(0), sample.at(1), sample.at(2)});
  }
  if (samples.empty()) throw std::runtime_error("channel \"" + channel.name + "\" has no samples");
  channel.throughput = Throughput(std::move(samples));
  return channel;
}

}  // namespace

const char* to_string(MemoryKind kind) { return name_of(memory_kinds, kind); }
const char* to_string(ChannelKind kind) { return name_of(channel_kinds, kind); }
Result<MemoryKind> memory_kind_from(const std::string& text) { return kind_of(memory_kinds, text); }
Result<ChannelKind> channel_kind_from(const std::string& text) {
  return kind_of(channel_kinds, text);
}

int Profile::find_memory(const std::string& name) const {
  const auto found = std::find_if(memories.begin(), memories.end(),
                                  [&](const Memory& m) { return m.name == name; });
  return found == memories.end() ? -1 : static_cast<int>(found - memories.begin());
}

std::string Profile::to_json() const {
  Json json{{"format", "tranship-profile-1"},
            {"host", host},
            {"date", date},
            {"comment", comment},
            {"handoff_s", handoff_s},
            {"cache_bytes", cache_bytes}};
  for (const Memory& memory : memories) {
    json["memories"].push_back({{"name", memory.name},
                                {"kind", to_string(memory.kind)},
                                {"buffer_bytes_max", memory.buffer_bytes_max}});
  }
  json["resources"] = Json::array();
  for (const Resource& resource : resources) {
    json["resources"].push_back(
        {{"name", resource.name}, {"bytes_per_second", resource.bytes_per_second}});
  }
  json["channels"] = Json::array();
  for (const ChannelSpec& channel : channels) json["channels"].push_back(json_of(*this, channel));
  return json.dump(1) + "\n";
}

Result<Profile> Profile::from_json(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.value("format", "") != "tranship-profile-1") {
      return Error{ErrorCode::invalid_argument,
                   "this is not a machine profile of this version (\"format\" must be "
                   "\"tranship-profile-1\"); measure a new one with: tranship calibrate"};
    }
    Profile profile;
    profile.host = json.value("host", "");
    profile.date = json.value("date", "");
    profile.comment = json.value("comment", "");
    profile.handoff_s = json.value("handoff_s", 0.0);
    profile.cache_bytes = json.value("cache_bytes", std::int64_t{0});
    for (const Json& memory : json.at("memories")) {
      profile.memories.push_back({memory.at("name"), unwrap(memory_kind_from(memory.at("kind"))),
                                  memory.value("buffer_bytes_max", std::int64_t{0})});
    }
    for (const Json& resource : json.value("resources", Json::array())) {
      profile.resources.push_back({resource.at("name"), resource.at("bytes_per_second")});
    }
    for (const Json& channel : json.at("channels")) {
      profile.channels.push_back(channel_from(profile, channel));
    }
    return profile;
  } catch (const std::exception& error) {
    return Error{ErrorCode::invalid_argument,
                 std::string("the machine profile cannot be read: ") + error.what()};
  }
}

}  // namespace tranship
