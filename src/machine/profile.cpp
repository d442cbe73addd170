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

/// Collects the first complaint about a profile.
class Complaint {
 public:
  Status status() const {
    if (text_.empty()) return {};
    return Error{ErrorCode::invalid_argument, "this machine profile cannot be used: " + text_};
  }

  void unless(bool right, const std::string& text) {
    if (!right && text_.empty()) text_ = text;
  }

  /// A number that may be zero.
  template <typename T>
  void amount(T value, const char* key, const std::string& where, const char* advice) {
    if (value >= T{0} && std::isfinite(static_cast<double>(value))) return;
    unless(false, "\"" + std::string(key) + "\"" + where + " is " +
                      text_of(static_cast<double>(value)) + "; write " + advice);
  }

  template <typename Entry>
  void names(const std::vector<Entry>& entries, const std::string& what) {
    std::set<std::string> seen;
    for (std::size_t k = 0; k < entries.size(); ++k) {
      const std::string& name = entries[k].name;
      if (name.empty()) {
        unless(false, what + " " + std::to_string(k) + " has an empty name; give it one");
      }
      if (!seen.insert(name).second) {
        unless(false, std::string("there are two of ").append(what).append(" \"").append(name) +
                          "\"; give each its own name");
      }
    }
  }

 private:
  std::string text_;
};

bool counts(const Sample& sample) {
  return sample.request_bytes >= 1 && sample.run_bytes >= 1 && sample.bytes_per_second > 0 &&
         std::isfinite(sample.bytes_per_second);
}

void check_channel(Complaint& complaint, const Profile& profile, const ChannelSpec& channel) {
  const std::string name = "channel \"" + channel.name + "\"";
  const auto known = [](int index, std::size_t count) {
    return index >= 0 && static_cast<std::size_t>(index) < count;
  };
  complaint.unless(known(channel.source, profile.memories.size()) &&
                       known(channel.target, profile.memories.size()),
                   name + " joins memories that are not listed; list them under \"memories\"");
  std::set<int> seen;
  for (const int resource : channel.resources) {
    complaint.unless(known(resource, profile.resources.size()),
                     name + " uses a resource that is not listed; list it under \"resources\"");
    complaint.unless(seen.insert(resource).second,
                     name + " names a resource twice; once is enough");
  }
  complaint.amount(channel.latency_s, "latency_s", " of " + name, "seconds, 0 or more");
  const std::vector<Sample>& samples = channel.throughput.samples();
  complaint.unless(!samples.empty(),
                   name +
                       " has no samples; write [request bytes, run bytes, bytes per second] "
                       "for one size at least");
  for (std::size_t k = 0; k < samples.size(); ++k) {
    if (counts(samples[k])) continue;
    complaint.unless(false, "sample " + std::to_string(k) + " of " + name + " is [" +
                                std::to_string(samples[k].request_bytes) + ", " +
                                std::to_string(samples[k].run_bytes) + ", " +
                                text_of(samples[k].bytes_per_second) +
                                "]; write sizes of 1 byte or more, and a rate above 0");
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
  Complaint complaint;
  complaint.amount(handoff_s, "handoff_s", "", "seconds, 0 or more");
  complaint.amount(planning_s, "planning_s", "", "seconds, 0 or more");
  complaint.amount(cache_bytes, "cache_bytes", "", "a number of bytes, 0 if it is not known");
  complaint.amount(nodes, "nodes", "",
                   "how many nodes like node0 there are, or 0 if every node is listed");
  complaint.unless(!memories.empty(),
                   "it has no memories; list one at least, such as node0/host0, under "
                   "\"memories\"");
  complaint.names(memories, "memory");
  complaint.names(resources, "resource");
  complaint.names(channels, "channel");
  for (const Memory& memory : memories) {
    const std::string where = " of memory \"" + memory.name + "\"";
    complaint.amount(memory.buffer_bytes_max, "buffer_bytes_max", where,
                     "a number of bytes, or 0 if no intermediate buffer may be there");
    complaint.amount(memory.threshold_bytes, "threshold_bytes", where,
                     "a number of bytes, or 0 for the planner's default");
  }
  for (const Resource& resource : resources) {
    complaint.amount(resource.bytes_per_second, "bytes_per_second",
                     " of resource \"" + resource.name + "\"",
                     "its rate, or 0 if its channels take turns");
  }
  for (const ChannelSpec& channel : channels) check_channel(complaint, *this, channel);
  const Status status = complaint.status();
  return status ? check_nodes(*this) : status;
}

}  // namespace tranship
