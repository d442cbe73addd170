// Bytes per second of a channel as a function of the request's size and of its contiguous runs
// (Isometry, section 4.1; made monotone, as its footnote 2 says).
#pragma once

#include <cstdint>
#include <vector>

namespace tranship {

struct Sample {
  std::int64_t request_bytes = 0;
  std::int64_t run_bytes = 0;
  double bytes_per_second = 0;
  bool operator==(const Sample&) const = default;
};

/// Interpolates between samples, on logarithmic scales; outside them the nearest one holds, except
/// that requests below the smallest, and runs below the shortest, take its time.
class Throughput {
 public:
  Throughput() = default;

  /// Samples form a grid: every request size with every run length. Missing points take the
  /// nearest lower sample; values are raised so that the function never falls with size or run.
  explicit Throughput(std::vector<Sample> samples);

  double at(std::int64_t request_bytes, std::int64_t run_bytes) const;
  double peak() const;
  bool empty() const { return rates_.empty(); }

  /// The samples as they were measured.
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  double& rate(std::size_t request, std::size_t run) {
    return rates_[run * requests_.size() + request];
  }
  double rate(std::size_t request, std::size_t run) const {
    return rates_[run * requests_.size() + request];
  }

  std::vector<Sample> samples_;
  std::vector<double> requests_;  ///< log2 of the request sizes, ascending
  std::vector<double> runs_;      ///< log2 of the run lengths, ascending
  std::vector<double> rates_;
};

}  // namespace tranship
