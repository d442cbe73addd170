// The full planner, compared with an exhaustive oracle on thousands of small machines, and with the
// other planners on many thousands of transfers on larger ones. A failing case prints the command
// that replays it: the name of the test and the seed.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "plan/oracle.hpp"
#include "plan/planner.hpp"
#include "plan/random_cases.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::oracle;

namespace {

constexpr std::uint64_t small_machines = 5000;
constexpr std::uint64_t large_machines = 200;
/// Number of machines with "all" on the command line: a hundred thousand transfers, in half a
/// minute.
constexpr std::uint64_t large_machines_all = 1000;
constexpr std::uint64_t transfers_each = 100;

/// Share of the time that the planner trades for less planning work and smaller tiles.
constexpr double gap_most = 0.02;
/// The planner finds tiles by a few searches, not by trying all of them, and drops paths that are
/// slow with their first tile. So it misses a better path on one machine of a hundred; most of
/// these machines have buffers of a few points, or a tile of a few points that needs no conversion.
constexpr double missed_share_most = 0.01;

Sequence dense(Sequence order) {
  for (Part& part : order.parts) part.gap_before = false;
  return order;
}

/// Converts a plan to the oracle's types.
Way way_of(const Case& one, const Plan& plan) {
  Way way;
  bool converted = false;
  for (std::size_t k = 0; k < plan.hops.size(); ++k) {
    way.channels.push_back(plan.hops[k].channel);
    converted = converted || plan.hops[k].converts;
    if (k + 1 < plan.hops.size()) way.buffers.push_back(dense(converted ? one.target : one.source));
  }
  way.tile = plan.tile;
  way.seconds = plan.seconds;
  return way;
}

struct Seed {
  const char* test = "";
  std::uint64_t number = 0;
  std::string further;  ///< arguments that say which transfer of the machine it was
};

void fail(const Seed& seed, const std::string& text) {
  test::record_failure(
      __FILE__, __LINE__,
      text + "\nreplay: test_plan " + seed.test + " " + std::to_string(seed.number) + seed.further);
}

/// Runs the body for each number, or for the one on the command line.
template <typename Body>
void for_seeds(const char* test, std::uint64_t count, Body body) {
  const std::string only = test::argument(2);
  if (only == "all") count = large_machines_all;
  if (!only.empty() && only != "all") return body(Seed{test, std::stoull(only), ""}, true);
  for (std::uint64_t number = 0; number < count; ++number) body(Seed{test, number, ""}, false);
}

/// Counts by how much plans are slower than the best ones.
class Gaps {
 public:
  void add(double gap) {
    ++count_;
    worst_ = std::max(worst_, gap);
    for (std::size_t k = 0; k < limits_.size(); ++k) {
      if (gap <= limits_[k]) ++within_[k];
    }
  }

  double missed_share() const {
    return count_ > 0 ? static_cast<double>(count_ - within_[2]) / count_ : 0;
  }

  void print() const {
    std::printf(
        "%d plans: %d as fast as the best, %d within 0.5 %%, %d within 2 %%, worst %.0f %%\n",
        count_, within_[0], within_[1], within_[2], worst_ * 100);
  }

 private:
  static constexpr std::array<double, 3> limits_{0, 0.005, gap_most};
  std::array<int, 3> within_{};
  int count_ = 0;
  double worst_ = 0;
};

/// Returns whether a plan's buffers are within the budgets of the memories and the query.
bool within_budget(const Case& one, const Plan& plan) {
  std::vector<std::int64_t> used(one.profile.memories.size(), 0);
  std::int64_t all = 0;
  for (std::size_t k = 0; k + 1 < plan.hops.size(); ++k) {
    const std::int64_t bytes = plan.slots * plan.hops[k].target->end_bytes();
    used[static_cast<std::size_t>(plan.hops[k].target_memory)] += bytes;
    all += bytes;
    if (plan.slots < 1) return false;
  }
  for (std::size_t m = 0; m < used.size(); ++m) {
    if (used[m] > one.profile.memories[m].buffer_bytes_max) return false;
  }
  return one.query.buffer_bytes_max == 0 || all <= one.query.buffer_bytes_max;
}

}  // namespace

TEST(a_plan_costs_what_it_says_and_keeps_to_its_budget) {
  int compared = 0;
  for_seeds("a_plan_costs", small_machines, [&](const Seed& seed, bool only) {
    const Case one = small_case(seed.number);
    const auto made = plan(one.query, one.profile);
    if (only) std::printf("%s\n", describe(one).c_str());
    if (!made) return;
    const Way way = way_of(one, *made);
    if (only)
      std::printf("%s%s\n", explain(*made, one.profile).c_str(), describe(one, way).c_str());
    if (!within_budget(one, *made)) fail(seed, "more buffers than allowed: " + describe(one, way));
    // Where blocks and tiles do not divide one another, runs have different lengths.
    if (!divides(one, made->tile)) return;
    ++compared;
    const double seconds = seconds_of(one, way, made->slots);
    if (std::abs(seconds - made->seconds) > 1e-9 * seconds) {
      fail(seed, "it costs " + std::to_string(seconds * 1e6) + " us and says " +
                     std::to_string(made->seconds * 1e6) + " us: " + describe(one, way));
    }
  });
  EXPECT(compared > 0);
}

TEST(no_way_is_faster_than_a_full_plan) {
  Gaps gaps;
  for_seeds("no_way_is", small_machines, [&](const Seed& seed, bool only) {
    const Case one = small_case(seed.number);
    const auto made = plan(one.query, one.profile);
    if (!made) return;
    const auto best = fastest(one, made->seconds * (1 - 1e-9), Orders::ends);
    const double gap = best ? made->seconds / best->seconds - 1 : 0;
    gaps.add(gap);
    if (!only && gap <= gap_most) return;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed.number),
                describe(one, way_of(one, *made)).c_str());
    if (best) std::printf("  %.1f %% slower than %s\n", gap * 100, describe(one, *best).c_str());
  });
  gaps.print();
  EXPECT(gaps.missed_share() <= missed_share_most);
}

TEST(without_a_plan_there_is_no_way) {
  int none = 0;
  for_seeds("without_a_plan", small_machines, [&](const Seed& seed, bool) {
    const Case one = small_case(seed.number);
    const auto made = plan(one.query, one.profile);
    if (made) return;
    ++none;
    const auto way = fastest(one, INFINITY, Orders::ends);
    if (way) fail(seed, made.error().text() + "\nbut there is " + describe(one, *way));
    const ErrorCode code = made.error().code;
    if (code != ErrorCode::no_route && code != ErrorCode::out_of_memory) {
      fail(seed, made.error().text());
    }
  });
  EXPECT(none > 0);
}

TEST(one_conversion_between_the_orders_of_the_ends_is_enough) {
  // The law that keeps the search small: buffers in the source's order up to one hop and in the
  // target's after it are as good as buffers in any orders.
  int ways = 0;
  for_seeds("one_conversion", small_machines / 5, [&](const Seed& seed, bool) {
    const Case one = small_case(seed.number);
    // Three dimensions and several fields have too many orders to try.
    const auto made = plan(one.query, one.profile);
    if (!made || (one.rank > 2 && one.fields > 1)) return;
    const auto best = fastest(one, made->seconds * (1 + 1e-9), Orders::ends);
    if (!best) return;  // no tile that divides the region is as fast as the planner's
    ++ways;
    const auto better = fastest(one, best->seconds * (1 - 1e-9), Orders::all);
    if (better) {
      fail(seed, describe(one) + "\n" + describe(one, *better) + " is faster than " +
                     describe(one, *best));
    }
  });
  EXPECT(ways > 0);
}

TEST(the_full_planner_is_never_worse_than_the_others) {
  std::uint64_t planned = 0;
  for_seeds("the_full_planner_is", large_machines, [&](const Seed& seed, bool only) {
    const Profile profile = large_machine(seed.number);
    const Planner planner(profile);
    const std::string one = test::argument(3);
    for (std::uint64_t k = 0; k < transfers_each; ++k) {
      if (!one.empty() && k != std::stoull(one)) continue;
      PlanQuery query = large_query(seed.number * transfers_each + k, profile);
      const auto ask = [&](PlannerKind kind) {
        query.planner = kind;
        return planner.plan(query);
      };
      const auto full = ask(PlannerKind::full);
      const auto simple = ask(PlannerKind::simple);
      if (only && full) std::printf("%s", explain(*full, profile).c_str());
      const auto compare = [&](const Result<Plan>& better, const Result<Plan>& worse) {
        if (!worse || (better && better->seconds <= worse->seconds * (1 + 1e-9))) return;
        fail({seed.test, seed.number, " " + std::to_string(k)},
             (better ? explain(*better, profile) : better.error().text() + "\n") + "against\n" +
                 explain(*worse, profile));
      };
      compare(full, simple);
      compare(full, ask(PlannerKind::spsl));
      compare(full, ask(PlannerKind::spdl));
      compare(ask(PlannerKind::automatic), simple);
      planned += full ? 1 : 0;
    }
  });
  EXPECT(planned > 0);
}
