// The rate of a channel as a function of the request's size and of the length of its contiguous
// runs (Isometry, section 4.1; made monotone, as its footnote 2 says), and the inverse of that
// function (section 4.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace tranship {

/// One measured rate.
struct Sample {
  std::int64_t request_bytes = 0;
  std::int64_t run_bytes = 0;
  double bytes_per_second = 0;
  bool operator==(const Sample&) const = default;
};

/// Interpolates between samples on logarithmic scales. Outside the samples the nearest one is used,
/// except that requests below the smallest, and runs below the shortest, take the time of that
/// one. An immutable value: copies share its tables. Threads: all. A call costs some ten
/// nanoseconds and allocates nothing.
class Throughput {
 public:
  /// Result of run_for() if no run is long enough.
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  /// Makes the function of a channel that carries nothing.
  Throughput() = default;

  /// Makes a function from samples on a grid: every request size with every run length. Missing
  /// points take the value of the nearest lower sample, and values are raised so that the function
  /// never falls with size or run. Samples whose rate is no positive number are ignored.
  explicit Throughput(std::vector<Sample> samples);

  /// Returns the rate in bytes per second.
  double at(std::int64_t request_bytes, std::int64_t run_bytes) const;

  /// Returns the shortest run with which a request of that size reaches that rate (to a relative
  /// 1e-12), or `never`.
  std::int64_t run_for(std::int64_t request_bytes, double bytes_per_second) const;

  /// Returns the highest rate.
  double peak() const;
  bool empty() const { return table_ == nullptr || table_->rates.empty(); }

  /// Returns the samples as they were measured.
  const std::vector<Sample>& samples() const;

 private:
  /// Sizes that were measured, ascending, and their log2.
  struct Axis {
    std::vector<std::int64_t> bytes;
    std::vector<double> logs;
  };
  /// The position of a size on an axis: its neighbours, and its share of the way between them.
  struct AxisPosition {
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
    /// Returns log2 of the rate at a measured run length.
    double log_rate(const AxisPosition& request, std::size_t run) const {
      const double low = log_rates[index(request.low, run)];
      return low + (log_rates[index(request.high, run)] - low) * request.share;
    }
    /// Returns log2 of the rate without the correction for requests below the smallest sample.
    double log_at(const AxisPosition& request, const AxisPosition& run) const {
      const double low = log_rate(request, run.low);
      return low + (log_rate(request, run.high) - low) * run.share + run.below;
    }
  };

  static Axis axis_of(std::vector<std::int64_t> bytes);
  static AxisPosition position_on(const Axis& axis, std::int64_t bytes);

  std::shared_ptr<const Table> table_;
};

}  // namespace tranship
