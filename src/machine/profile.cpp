#include "machine/profile.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <sstream>

#include "machine/cluster.hpp"

namespace tranship {
namespace {

std::string text_of(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// Keeps the first fault of a profile that is found.
class FirstFault {
 public:
  Status status() const {
    if (text_.empty()) return {};
    return Error{ErrorCode::invalid_argument, "this machine profile cannot be used: " + text_,
                 hint_};
  }

  void unless(bool right, const std::string& text, const std::string& hint) {
    if (right || !text_.empty()) return;
    text_ = text;
    hint_ = hint;
  }

  /// Checks a number that may be zero.
  template <typename T>
  void amount(T value, const char* key, const std::string& of, const std::string& wanted) {
    if (value >= T{0} && std::isfinite(static_cast<double>(value))) return;
    unless(false,
           "\"" + std::string(key) + "\"" + of + " is " + text_of(static_cast<double>(value)),
           "write " + wanted);
  }

  /// Checks that names are not empty and not used twice.
  template <typename Entry>
  void names(const std::vector<Entry>& entries, const std::string& what) {
    std::set<std::string> seen;
    for (std::size_t k = 0; k < entries.size(); ++k) {
      const std::string& name = entries[k].name;
      unless(!name.empty(), what + " " + std::to_string(k) + " has an empty name", "give it one");
      unless(seen.insert(name).second,
             std::string("there are two of ").append(what).append(" \"").append(name).append("\""),
             "give each its own name");
    }
  }

 private:
  std::string text_;
  std::string hint_;
};

/// Returns whether a sample can be a measurement.
bool counts(const Sample& sample) {
  return sample.request_bytes >= 1 && sample.run_bytes >= 1 && sample.bytes_per_second > 0 &&
         std::isfinite(sample.bytes_per_second);
}

void check_channel(FirstFault& fault, const Profile& profile, const ChannelSpec& channel) {
  const std::string name = "channel \"" + channel.name + "\"";
  const auto known = [](int index, std::size_t count) {
    return index >= 0 && static_cast<std::size_t>(index) < count;
  };
  fault.unless(known(channel.source, profile.memories.size()) &&
                   known(channel.target, profile.memories.size()),
               name + " joins memories that are not listed", "list them under \"memories\"");
  std::set<int> seen;
  for (const int resource : channel.resources) {
    fault.unless(known(resource, profile.resources.size()),
                 name + " uses a resource that is not listed", "list it under \"resources\"");
    fault.unless(seen.insert(resource).second, name + " names a resource twice", "name it once");
  }
  fault.amount(channel.latency_s, "latency_s", " of " + name, "seconds, 0 or more");
  const std::vector<Sample>& samples = channel.throughput.samples();
  fault.unless(!samples.empty(), name + " has no samples",
               "write [request bytes, run bytes, bytes per second] for one size at least");
  for (std::size_t k = 0; k < samples.size(); ++k) {
    if (counts(samples[k])) continue;
    fault.unless(false,
                 "sample " + std::to_string(k) + " of " + name + " is [" +
                     std::to_string(samples[k].request_bytes) + ", " +
                     std::to_string(samples[k].run_bytes) + ", " +
                     text_of(samples[k].bytes_per_second) + "]",
                 "write sizes of 1 byte or more, and a rate above 0");
  }
}

}  // namespace

Result<ChannelKind> channel_kind_from(const std::string& text) {
  return kind_named<ChannelKind>(std::span<const ChannelTraits>(channel_kinds), text);
}

int Profile::find_memory(const std::string& name) const {
  const auto found = std::find_if(memories.begin(), memories.end(),
                                  [&](const Memory& m) { return m.name == name; });
  return found == memories.end() ? -1 : static_cast<int>(found - memories.begin());
}

Status Profile::check() const {
  FirstFault fault;
  fault.amount(handoff_s, "handoff_s", "", "seconds, 0 or more");
  fault.amount(planning_s, "planning_s", "", "seconds, 0 or more");
  fault.amount(others_share, "others_share", "", "a part of the processors' time, from 0 to 1");
  fault.amount(cache_bytes, "cache_bytes", "", "a number of bytes, 0 if it is not known");
  fault.amount(nodes, "nodes", "",
               "how many nodes like node0 there are, or 0 if every node is listed");
  fault.unless(!memories.empty(), "it has no memories",
               "list one at least, such as node0/host0, under \"memories\"");
  fault.names(memories, "memory");
  fault.names(resources, "resource");
  fault.names(channels, "channel");
  for (const Memory& memory : memories) {
    const std::string where = " of memory \"" + memory.name + "\"";
    fault.amount(memory.buffer_bytes_max, "buffer_bytes_max", where,
                 "a number of bytes, or 0 if no intermediate buffer may be there");
    fault.amount(memory.threshold_bytes, "threshold_bytes", where,
                 "a number of bytes, or 0 for the planner's default");
  }
  for (const Resource& resource : resources) {
    fault.amount(resource.bytes_per_second, "bytes_per_second",
                 " of resource \"" + resource.name + "\"",
                 "its rate, or 0 if its channels take turns");
  }
  for (const ChannelSpec& channel : channels) check_channel(fault, *this, channel);
  const Status status = fault.status();
  return status ? check_nodes(*this) : status;
}

}  // namespace tranship
