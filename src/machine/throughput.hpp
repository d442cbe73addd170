// Bytes per second of a channel as a function of the request's size and of its contiguous runs
// (Isometry, section 4.1; made monotone, as its footnote 2 says), and its inverse (section 4.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace tranship {

struct Sample {
  std::int64_t request_bytes = 0;
  std::int64_t run_bytes = 0;
  double bytes_per_second = 0;
  bool operator==(const Sample&) const = default;
};

/// Interpolates between samples, on logarithmic scales; outside them the nearest one holds, except
/// that requests below the smallest, and runs below the shortest, take its time. A value that
/// never changes: copies share its tables, and any thread may ask it. Asking costs some ten
/// nanoseconds and allocates nothing.
class Throughput {
 public:
  /// No run is long enough.
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  /// Of a channel that carries nothing.
  Throughput() = default;

  /// Samples form a grid: every request size with every run length. Missing points take the
  /// nearest lower sample; values are raised so that the function never falls with size or run.
  /// Samples whose rate is no positive number are passed over.
  explicit Throughput(std::vector<Sample> samples);

  double at(std::int64_t request_bytes, std::int64_t run_bytes) const;

  /// The shortest run with which a request of that size makes that rate (to a relative 1e-12), or
  /// `never`.
  std::int64_t run_for(std::int64_t request_bytes, double bytes_per_second) const;

  double peak() const;
  bool empty() const { return table_ == nullptr || table_->rates.empty(); }

  /// The samples as they were measured.
  const std::vector<Sample>& samples() const;

 private:
  /// Sizes that were measured, ascending, and their log2.
  struct Axis {
    std::vector<std::int64_t> bytes;
    std::vector<double> logs;
  };
  /// The neighbours of a size on an axis and how far it lies between them.
  struct Place {
    std::size_t low = 0;
    std::size_t high = 0;
    double share = 0;
    double below = 0;  ///< log2 of the share of the smallest size; 0 from there on
  };
  struct Table {
    std::vector<Sample> samples;
    Axis requests;
    Axis runs;
    std::vector<double> rates;      ///< request fastest
    std::vector<double> log_rates;  ///< log2 of them

    void raise();

    std::size_t index(std::size_t request, std::size_t run) const {
      return run * requests.bytes.size() + request;
    }
    /// log2 of the rate at a measured run length.
    double log_rate(const Place& request, std::size_t run) const {
      const double low = log_rates[index(request.low, run)];
      return low + (log_rates[index(request.high, run)] - low) * request.share;
    }
    /// log2 of the rate, as if the request were not below the smallest.
    double log_at(const Place& request, const Place& run) const {
      const double low = log_rate(request, run.low);
      return low + (log_rate(request, run.high) - low) * run.share + run.below;
    }
  };

  static Axis axis_of(std::vector<std::int64_t> bytes);
  static Place place_on(const Axis& axis, std::int64_t bytes);

  std::shared_ptr<const Table> table_;
};

}  // namespace tranship
