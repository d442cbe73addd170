// Random runs of processes that export memory to each other: handshakes, links, slots, leases and
// fences under stalls, silence, partitions, broken connections, deaths and restarts. No process
// touches a byte that it does not own any more, and every operation ends. A failing seed prints the
// command that replays it.
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>

#include "sim/fabric_world.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;

namespace {

constexpr std::uint64_t seeds = test::seed_count(10000);

std::int64_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace

/// Arguments: a seed, to replay it; or the first seed and one past the last, for a longer run.
TEST(fabric_runs) {
  const auto from = test::argument(2);
  const auto to = test::argument(3);
  const std::uint64_t first = from.empty() ? 0 : std::stoull(from);
  const std::uint64_t last = !to.empty() ? std::stoull(to) : from.empty() ? seeds : first + 1;
  FabricWorld::Counts counts;
  const std::int64_t descriptors = open_descriptors();
  for (std::uint64_t seed = first; seed < last; ++seed) {
    FabricWorld world(seed, counts);
    const std::string wrong = world.run();
    if (wrong.empty()) continue;
    test::record_failure(__FILE__, __LINE__,
                         wrong + "; replay: test_sim fabric_runs " + std::to_string(seed));
    return;
  }
  EXPECT(open_descriptors() == descriptors);
  if (last - first >= 10000) {  // long runs must cover every kind of event
    EXPECT(counts.written > 10000 && counts.read > 10000 && counts.mapped > 5000);
    EXPECT(counts.outlived > 200 && counts.straight > 10000);
    EXPECT(counts.executed > 10000 && counts.loans > 10000);
    EXPECT(counts.withdrawn > 5000 && counts.refused_withdrawals > 10 && counts.fenced > 500);
    EXPECT(counts.resumed > 1000 && counts.killed > 1000 && counts.closed > 1000);
  }
  const auto print = [](const char* what, std::int64_t count) {
    std::printf("%s %lld, ", what, static_cast<long long>(count));
  };
  print("links", counts.links);
  print("written", counts.written);
  print("read", counts.read);
  print("mapped", counts.mapped);
  print("outlived", counts.outlived);
  print("straight", counts.straight);
  print("executed", counts.executed);
  print("loans", counts.loans);
  print("failed", counts.failed);
  print("withdrawn", counts.withdrawn);
  print("not withdrawn at once", counts.refused_withdrawals);
  print("fenced", counts.fenced);
  print("resumed", counts.resumed);
  print("killed", counts.killed);
  print("closed", counts.closed);
  print("steps", counts.steps);
  std::printf("seeds %llu\n", static_cast<unsigned long long>(last - first));
}
