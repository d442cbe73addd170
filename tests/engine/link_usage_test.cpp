// Links that are left to other processes: shares, hints that expire, copies that are planned.
#include "engine/link_usage.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/at.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

using Numbers = std::vector<int>;

/// Returns the links that are closed for each process.
std::vector<Numbers> all_closed(int count, const std::vector<LinkUse>& uses) {
  std::vector<Numbers> closed;
  for (const LinkUse& use : uses) closed.push_back(closed_links(count, use.process, uses));
  return closed;
}

/// A machine with GPUs that reach each other.
Profile machine(int gpus) {
  Profile profile;
  profile.memories = {{"node0/pinned0", MemoryKind::pinned, 1 << 30}};
  const auto add = [&](ChannelKind kind, int source, int target) {
    ChannelSpec spec;
    spec.name = std::string(to_string(kind)) + " " + std::to_string(profile.channels.size());
    spec.kind = kind;
    spec.source = source;
    spec.target = target;
    profile.channels.push_back(spec);
  };
  for (int k = 0; k < gpus; ++k) {
    profile.memories.push_back({"node0/device" + std::to_string(k), MemoryKind::device, 1 << 30});
    add(ChannelKind::gpu_write, 0, k + 1);
    add(ChannelKind::gpu_read, k + 1, 0);
  }
  for (int k = 0; k < gpus; ++k) add(ChannelKind::gpu_peer, k + 1, (k + 1) % gpus + 1);
  return profile;
}

std::vector<GpuInfo> gpus_of(int count) {
  std::vector<GpuInfo> gpus(at(count));
  for (int k = 0; k < count; ++k) gpus[at(k)].bus = "bus " + std::to_string(k);
  return gpus;
}

/// Some processes' views of one table, on one clock that a test sets.
class Processes {
 public:
  Processes() : profile(machine(4)) {
    std::string name = (std::filesystem::temp_directory_path() / "links-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    config.link_usage = name;
    pass(1000);
  }
  ~Processes() { std::filesystem::remove_all(config.link_usage); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  std::unique_ptr<LinkUsage> open() const {
    auto usage = LinkUsage::open(config, ++count_, gpus_of(4), profile, clock);
    REQUIRE(usage != nullptr);
    return usage;
  }
  void pass(double seconds) {
    clock.set_ns(clock.now_ns() + static_cast<std::int64_t>(seconds * 1e9));
  }

  Config config;
  Profile profile;
  ManualClock clock;

 private:
  mutable std::uint64_t count_ = 0;
};

constexpr GpuLink up(int device) { return {device, true}; }
constexpr GpuLink down(int device) { return {device, false}; }

}  // namespace

TEST(a_process_alone_may_use_all_links) {
  EXPECT(closed_links(4, 7, std::vector<LinkUse>{{7, 2}}).empty());
  EXPECT(closed_links(4, 7, std::vector<LinkUse>{{7, 2}, {7, 0}}).empty());
}

TEST(idle_links_are_dealt_out_to_neighbours) {
  EXPECT(all_closed(4, {{0, 0}, {1, 1}}) == (std::vector<Numbers>{{1, 3}, {0, 2}}));
  EXPECT(all_closed(4, {{5, 0}, {3, 2}}) == (std::vector<Numbers>{{2, 3}, {0, 1}}));
  EXPECT(all_closed(8, {{0, 0}, {1, 4}}) == (std::vector<Numbers>{{4, 5, 6, 7}, {0, 1, 2, 3}}));
  EXPECT(all_closed(4, {{0, 0}, {1, 1}, {2, 2}, {3, 3}}) ==
         (std::vector<Numbers>{{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}}));
}

TEST(processes_of_one_gpu_share_the_idle_links) {
  EXPECT(all_closed(4, {{0, 0}, {1, 0}, {2, 0}}) ==
         (std::vector<Numbers>{{0, 2, 3}, {0, 1, 3}, {0, 1, 2}}));
}

/// Two processes never have a link both, unless both copy over it: for each set of uses of 4 links.
TEST(no_link_is_open_for_two_processes_unless_both_use_it_themselves) {
  constexpr int links = 4;
  for (int uses_of_three = 1; uses_of_three < 1 << (3 * links); ++uses_of_three) {
    std::vector<LinkUse> uses;
    std::set<int> processes;
    for (int k = 0; k < 3 * links; ++k) {
      if ((uses_of_three >> k & 1) == 0) continue;
      uses.push_back({k / links, k % links});
      processes.insert(k / links);
    }
    Numbers open(links, 0);
    Numbers users(links, 0);
    for (const LinkUse& use : uses) ++users[at(use.link)];
    for (const int process : processes) {
      const Numbers closed = closed_links(links, process, uses);
      for (int link = 0; link < links; ++link) {
        if (std::find(closed.begin(), closed.end(), link) == closed.end()) ++open[at(link)];
      }
    }
    for (int link = 0; link < links; ++link) {
      EXPECT(open[at(link)] == (users[at(link)] > 1 ? 0 : 1));
    }
  }
}

TEST(a_link_in_use_is_closed_for_others_and_opens_again) {
  Processes processes;
  const auto one = processes.open();
  const auto other = processes.open();
  EXPECT(one->closed_channels(up(0)).empty());
  other->mark(up(3), 0);
  // The other's link, and its share of the idle ones; channels are in the order of machine().
  EXPECT(one->closed_channels(up(0)) == (Numbers{4, 6}));
  EXPECT(one->closed_channels(down(0)).empty());
  EXPECT(other->closed_channels(up(3)).empty());
  one->mark(up(0), 0);
  EXPECT(other->closed_channels(up(3)) == (Numbers{0, 2}));
  processes.pass(0.2);
  EXPECT(one->closed_channels(up(0)).empty());
  other->mark(down(1), 3);
  processes.pass(6);
  EXPECT(one->closed_channels(down(0)) == (Numbers{3, 7}));
  other->leave();
  EXPECT(one->closed_channels(down(0)).empty());
}

TEST(a_program_that_copies_in_steps_keeps_its_link_between_them) {
  Processes processes;
  const auto one = processes.open();
  const auto other = processes.open();
  other->mark(up(1), 0);
  processes.pass(0.5);
  EXPECT(one->closed_channels(up(0)).empty());
  for (int step = 0; step < 3; ++step) {
    other->mark(up(1), 0);
    other->mark(up(1), 0.001);
    processes.pass(0.9);
    EXPECT(!one->closed_channels(up(0)).empty());
  }
  processes.pass(1);
  EXPECT(one->closed_channels(up(0)).empty());
}

TEST(without_a_table_there_is_no_usage) {
  Processes processes;
  Config config = processes.config;
  config.link_usage = "off";
  EXPECT(!LinkUsage::open(config, 1, gpus_of(4), processes.profile, processes.clock));
  config.link_usage = processes.config.link_usage + "/missing";
  EXPECT(!LinkUsage::open(config, 1, gpus_of(4), processes.profile, processes.clock));
}

TEST(short_copies_and_those_within_one_memory_use_no_link) {
  const auto array = [](MemoryKind kind, int device) {
    Array made;
    made.memory_kind = kind;
    made.device = device;
    return made;
  };
  constexpr std::int64_t large = 64 << 20;
  const Array pageable = array(MemoryKind::host, -1);
  const Array on_gpu = array(MemoryKind::device, 2);
  const auto to_gpu = link_of(pageable, on_gpu, large);
  REQUIRE(to_gpu.has_value());
  EXPECT(to_gpu->device == 2 && to_gpu->to_gpu);
  const auto from_gpu = link_of(on_gpu, array(MemoryKind::pinned, -1), large);
  EXPECT(from_gpu && from_gpu->device == 2 && !from_gpu->to_gpu);
  EXPECT(!link_of(pageable, on_gpu, 1 << 20));
  EXPECT(!link_of(pageable, pageable, large));
  EXPECT(!link_of(on_gpu, array(MemoryKind::device, 1), large));
  EXPECT(!link_of(array(MemoryKind::file, -1), on_gpu, large));
}

TEST(marks_and_looks_are_cheap) {
  Processes processes;
  const SteadyClock clock;
  std::vector<std::unique_ptr<LinkUsage>> all;
  const auto open = [&] {
    return LinkUsage::open(processes.config, 1 + all.size(), gpus_of(4), processes.profile, clock);
  };
  for (int k = 0; k < 8; ++k) all.push_back(open());
  for (int k = 1; k < 8; ++k) all[at(k)]->mark(down(k % 4), 1);
  constexpr int turns = 5'000;
  std::size_t closed = 0;
  double each_ns = 1e9;  // the least of 20 batches: others may have stood still
  for (int batch = 0; batch < 20; ++batch) {
    const std::int64_t begin = clock.now_ns();
    for (int k = 0; k < turns; ++k) {
      all[0]->mark(up(0), 1e-3);
      closed += all[0]->closed_channels(up(0)).size();
      all[0]->mark(up(0), 1e-3);
    }
    each_ns = std::min(each_ns, static_cast<double>(clock.now_ns() - begin) / turns);
  }
  std::printf("two marks and one look: %.0f ns\n", each_ns);
  EXPECT_EQ(closed, 0u);
  EXPECT(each_ns < 5000 * (test::sanitized ? 20 : 1));  // some 150 on a quiet machine
}
