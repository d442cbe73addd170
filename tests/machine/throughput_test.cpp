// The throughput function and its inverse, compared with slow and simple versions.
#include "machine/throughput.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

double log_of(std::int64_t bytes) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

/// The function by its definition: samples on a full grid, raised to be monotone, and interpolated
/// in two steps.
class SlowThroughput {
 public:
  explicit SlowThroughput(const std::vector<Sample>& samples) {
    for (const Sample& sample : samples) {
      requests_.insert(sample.request_bytes);
      runs_.insert(sample.run_bytes);
    }
    double smallest = samples.front().bytes_per_second;
    for (const Sample& s : samples) smallest = std::min(smallest, s.bytes_per_second);
    for (const std::int64_t request : requests_) {
      for (const std::int64_t run : runs_) {
        double best = smallest;
        for (const Sample& s : samples) {
          if (s.request_bytes <= request && s.run_bytes <= run) {
            best = std::max(best, s.bytes_per_second);
          }
        }
        grid_[{request, run}] = best;
      }
    }
  }

  double at(std::int64_t request, std::int64_t run) const {
    const auto [low, high, share] = around(runs_, run);
    const double rate = mix(at_run(request, low), at_run(request, high), share);
    const double below = std::exp2(std::min(0.0, log_of(request) - log_of(*requests_.begin())));
    return rate * below * std::exp2(std::min(0.0, log_of(run) - log_of(*runs_.begin())));
  }

 private:
  struct Around {
    std::int64_t low;
    std::int64_t high;
    double share;
  };
  static Around around(const std::set<std::int64_t>& axis, std::int64_t value) {
    if (value <= *axis.begin()) return {*axis.begin(), *axis.begin(), 0};
    if (value >= *axis.rbegin()) return {*axis.rbegin(), *axis.rbegin(), 0};
    const std::int64_t high = *axis.upper_bound(value);
    const std::int64_t low = *std::prev(axis.upper_bound(value));
    return {low, high, (log_of(value) - log_of(low)) / (log_of(high) - log_of(low))};
  }
  static double mix(double low, double high, double share) {
    return std::pow(low, 1 - share) * std::pow(high, share);
  }
  double at_run(std::int64_t request, std::int64_t run) const {
    const auto [low, high, share] = around(requests_, request);
    return mix(grid_.at({low, run}), grid_.at({high, run}), share);
  }

  std::set<std::int64_t> requests_;
  std::set<std::int64_t> runs_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> grid_;
};

std::vector<Sample> random_samples(Random& random) {
  std::vector<std::int64_t> requests;
  std::vector<std::int64_t> runs;
  for (std::int64_t k = random.between(1, 5); k > 0; --k)
    requests.push_back(random.between(1, 9000));
  for (std::int64_t k = random.between(1, 6); k > 0; --k) runs.push_back(random.between(1, 3000));
  std::vector<Sample> samples;
  for (const std::int64_t request : requests) {
    for (const std::int64_t run : runs) {
      if (!samples.empty() && random.chance(0.2)) continue;  // a grid with holes
      const double rate = std::exp2(static_cast<double>(random.between(0, 4000)) / 100);
      samples.push_back({request, run, random.chance(0.1) ? 1e9 : rate});
    }
  }
  return samples;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

}  // namespace

TEST(throughput_agrees_with_its_definition) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Sample> samples = random_samples(random);
    const Throughput fast(samples);
    const SlowThroughput slow(samples);
    for (int k = 0; k < 100; ++k) {
      const std::int64_t request = random.between(0, 10000);
      const std::int64_t run = random.between(0, 4000);
      EXPECT(near(fast.at(request, run), slow.at(request, run)));
    }
    EXPECT_EQ(fast.at(1 << 30, 1 << 30), fast.peak());
  }
}

TEST(throughput_never_falls_with_size_or_run) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const Throughput rates(random_samples(random));
    for (int k = 0; k < 100; ++k) {
      const std::int64_t request = random.between(1, 10000);
      const std::int64_t run = random.between(1, 4000);
      const double here = rates.at(request, run) * (1 - 1e-12);
      EXPECT(rates.at(request + random.below(100), run) >= here);
      EXPECT(rates.at(request, run + random.below(100)) >= here);
    }
  }
}

TEST(slow_large_requests_are_raised_to_what_smaller_ones_make) {  // Isometry, footnote 2
  const Throughput rates({{1024, 4, 3e9},
                          {65536, 4, 1e9},  // measured lower than for smaller requests
                          {1024, 4096, 2e9},
                          {65536, 4096, 8e9}});
  EXPECT_EQ(rates.at(65536, 4), 3e9);
  EXPECT_EQ(rates.at(1024, 4096), 3e9);
  EXPECT_EQ(rates.peak(), 8e9);
}

TEST(throughput_interpolates_on_logarithmic_scales) {
  const Throughput rates({{1, 1, 1e6}, {100, 1, 1e8}});
  EXPECT(near(rates.at(10, 1), 1e7));
  const Throughput runs({{1, 64, 1e6}, {1, 128, 1e8}});
  EXPECT(near(runs.at(1, 32), 5e5));  // the time of the shortest run measured
}

TEST(the_shortest_run_for_a_rate_is_found_by_trying_all) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const Throughput rates(random_samples(random));
    const std::int64_t request = random.between(1, 10000);
    const double top = rates.at(request, 1 << 20);
    for (int k = 0; k < 10; ++k) {
      const double wanted = top * std::exp2(-static_cast<double>(random.between(0, 1200)) / 100);
      std::int64_t shortest = 1;
      while (rates.at(request, shortest) < wanted * (1 - 1e-12)) ++shortest;
      EXPECT_EQ(rates.run_for(request, wanted), shortest);
    }
    EXPECT_EQ(rates.run_for(request, top * 1.000001), Throughput::never);
  }
}

TEST(a_run_is_long_enough_for_the_rate_that_it_makes) {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const Throughput rates(random_samples(random));
    for (int k = 0; k < 100; ++k) {
      const std::int64_t request = random.between(1, 10000);
      const std::int64_t run = random.between(1, 4000);
      const double made = rates.at(request, run);
      const std::int64_t found = rates.run_for(request, made);
      EXPECT(found <= run);
      EXPECT(rates.at(request, found) >= made * (1 - 1e-9));
      EXPECT(found <= 1 || rates.at(request, found - 1) < made);
    }
  }
}

TEST(runs_for_rates_at_the_ends) {
  EXPECT_EQ(Throughput().at(1, 1), 0.0);
  EXPECT_EQ(Throughput().peak(), 0.0);
  EXPECT_EQ(Throughput().run_for(1, 1), Throughput::never);
  EXPECT(Throughput({{1, 1, 0}, {1, 2, std::nan("")}, {1, 4, -3}}).empty());
  const std::int64_t longest = Throughput::never;
  const Throughput rates({{1, 16, 1e9}, {1, longest, 2e9}});
  EXPECT_EQ(rates.run_for(1, 0), 1);
  EXPECT_EQ(rates.run_for(1, -1), 1);
  EXPECT_EQ(rates.run_for(1, 1e9), 16);
  EXPECT_EQ(rates.run_for(1, 0.5e9), 8);
  EXPECT(near(static_cast<double>(rates.run_for(1, 2e9)), 0x1.0p63));
  EXPECT_EQ(rates.run_for(1, 2.1e9), Throughput::never);
  EXPECT_EQ(rates.run_for(1, std::numeric_limits<double>::infinity()), Throughput::never);
  EXPECT_EQ(rates.run_for(1, std::nan("")), Throughput::never);
}
