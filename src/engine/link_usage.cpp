#include "engine/link_usage.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/at.hpp"
#include "engine/gpu_side.hpp"

namespace tranship {
namespace {

/// Shortest copy that is marked, in bytes: shorter ones have too few tiles for lanes.
constexpr std::int64_t marked_bytes_least = std::int64_t{4} << 20;

/// How long a link counts as used after a copy, at least: the next one may follow.
constexpr std::int64_t kept_least_ns = 100'000'000;
/// A program that copies in steps of up to this time keeps its link from one step to the next.
constexpr std::int64_t step_most_ns = 1'000'000'000;
/// Factor for times that come from a prediction or from the last step: the next may be longer.
constexpr int spare = 2;

/// Returns how long a link is kept that was marked `since_ns` ago.
std::int64_t kept_ns(std::int64_t since_ns) {
  return since_ns > step_most_ns ? kept_least_ns : std::max(kept_least_ns, spare * since_ns);
}

/// Returns the channels of a profile that cross one direction of a GPU's link.
std::vector<int> channels_over(const Profile& profile, const GpuLink& link) {
  std::vector<int> found;
  for (std::size_t k = 0; k < profile.channels.size(); ++k) {
    const ChannelSpec& channel = profile.channels[k];
    const Memory& source = profile.memories[at(channel.source)];
    const Memory& target = profile.memories[at(channel.target)];
    const bool crosses = (source.kind == MemoryKind::device) != (target.kind == MemoryKind::device);
    const Memory& end = link.to_gpu ? target : source;
    if (crosses && GpuSide::device_of(end) == link.device) found.push_back(static_cast<int>(k));
  }
  return found;
}

}  // namespace

std::optional<GpuLink> link_of(const Array& source, const Array& target, std::int64_t bytes) {
  if (bytes < marked_bytes_least) return {};
  const bool up = target.memory_kind == MemoryKind::device;
  const Array& on_gpu = up ? target : source;
  const Array& on_host = up ? source : target;
  if (on_gpu.memory_kind != MemoryKind::device || !cpu_reaches(on_host.memory_kind)) return {};
  return on_gpu.device < 0 ? std::nullopt : std::optional(GpuLink{on_gpu.device, up});
}

std::vector<int> closed_links(int count, int process, std::span<const LinkUse> uses) {
  std::vector<char> taken(at(count), 0);  // by other processes
  std::vector<char> idle(at(count), 1);
  std::vector<LinkUse> processes;  // each with its first link
  for (const LinkUse& use : uses) {
    idle[at(use.link)] = 0;
    if (use.process != process) taken[at(use.link)] = 1;
    const auto known = std::find_if(processes.begin(), processes.end(), [&](const LinkUse& other) {
      return other.process == use.process;
    });
    if (known == processes.end()) {
      processes.push_back(use);
    } else {
      known->link = std::min(known->link, use.link);
    }
  }
  std::sort(processes.begin(), processes.end(), [](const LinkUse& a, const LinkUse& b) {
    return std::pair(a.link, a.process) < std::pair(b.link, b.process);
  });
  const auto own = std::find_if(processes.begin(), processes.end(),
                                [&](const LinkUse& use) { return use.process == process; });
  const auto place = own - processes.begin();
  const auto sharing = static_cast<std::ptrdiff_t>(processes.size());
  const std::ptrdiff_t idle_count = std::count(idle.begin(), idle.end(), 1);
  const std::ptrdiff_t begin = place * idle_count / sharing;
  const std::ptrdiff_t end = (place + 1) * idle_count / sharing;
  std::vector<int> closed;
  std::ptrdiff_t seen = 0;  // idle links
  for (int link = 0; link < count; ++link) {
    const bool is_share = idle[at(link)] != 0 && seen >= begin && seen < end;
    if (taken[at(link)] != 0 || (idle[at(link)] != 0 && !is_share)) closed.push_back(link);
    seen += idle[at(link)];
  }
  return closed;
}

std::unique_ptr<LinkUsage> LinkUsage::open(const Config& config, std::uint64_t process,
                                           const std::vector<GpuInfo>& gpus, const Profile& profile,
                                           const Clock& clock) {
  if (config.link_usage == "off") return nullptr;
  auto table = UsageTable::open(config.link_usage, process);
  if (!table) return nullptr;
  std::unique_ptr<LinkUsage> usage(new LinkUsage(std::move(table), clock));
  for (const bool to_gpu : {false, true}) {
    Direction& direction = usage->directions_[to_gpu ? 1 : 0];
    direction.marks = std::vector<std::atomic<std::int64_t>>(gpus.size());
    for (std::size_t k = 0; k < gpus.size(); ++k) {
      const std::string name = gpus[k].bus + (to_gpu ? " up" : " down");
      direction.columns.push_back(usage->table_->column_of(name));
      direction.channels.push_back(channels_over(profile, {static_cast<int>(k), to_gpu}));
    }
  }
  return usage;
}

void LinkUsage::mark(const GpuLink& link, double seconds) {
  const Direction& direction = direction_of(link);
  if (at(link.device) >= direction.columns.size()) return;
  const std::int64_t now_ns = clock_.now_ns();
  auto& last = directions_[link.to_gpu ? 1 : 0].marks[at(link.device)];
  const std::int64_t since_ns = now_ns - last.load(std::memory_order_relaxed);
  last.store(now_ns, std::memory_order_relaxed);
  const auto most = static_cast<double>(UsageTable::ahead_max_ns);
  const auto busy_ns = static_cast<std::int64_t>(std::min(spare * seconds * 1e9, most));
  table_->mark(direction.columns[at(link.device)], now_ns, now_ns + busy_ns + kept_ns(since_ns));
}

std::vector<int> LinkUsage::closed_channels(const GpuLink& link) const {
  const Direction& direction = direction_of(link);
  const std::vector<int>& columns = direction.columns;
  if (at(link.device) >= columns.size()) return {};
  const std::int64_t now_ns = clock_.now_ns();
  std::vector<UsageTable::Use> others;
  table_->find_others(columns, now_ns, others);
  if (others.empty()) return {};
  // A process without a row has marked nothing yet: it comes last among those of its link.
  const int process = table_->row() < 0 ? UsageTable::rows_max : table_->row();
  std::vector<LinkUse> uses{{process, link.device}};
  for (std::size_t k = 0; k < columns.size(); ++k) {
    if (table_->has_marked(columns[k], now_ns)) uses.push_back({process, static_cast<int>(k)});
  }
  for (const UsageTable::Use& use : others) {
    const auto column = std::find(columns.begin(), columns.end(), use.column);
    uses.push_back({use.row, static_cast<int>(column - columns.begin())});
  }
  std::vector<int> channels;
  for (const int closed : closed_links(static_cast<int>(columns.size()), process, uses)) {
    if (closed == link.device) continue;  // its own link is the copy's in any case
    const std::vector<int>& over = direction.channels[at(closed)];
    channels.insert(channels.end(), over.begin(), over.end());
  }
  std::sort(channels.begin(), channels.end());
  return channels;
}

}  // namespace tranship
