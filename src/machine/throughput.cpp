#include "machine/throughput.hpp"

#include <algorithm>
#include <cmath>

namespace tranship {
namespace {

double log_of(std::int64_t bytes) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

std::vector<double> distinct(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// The neighbours of `value` on `axis` and how far it lies between them.
struct Between {
  std::size_t low = 0;
  std::size_t high = 0;
  double share = 0;
};

Between locate(const std::vector<double>& axis, double value) {
  if (value <= axis.front()) return {0, 0, 0};
  if (value >= axis.back()) return {axis.size() - 1, axis.size() - 1, 0};
  const auto above = std::upper_bound(axis.begin(), axis.end(), value);
  const auto high = static_cast<std::size_t>(above - axis.begin());
  return {high - 1, high, (value - axis[high - 1]) / (axis[high] - axis[high - 1])};
}

double mix(double low, double high, double share) {
  return std::exp2(std::log2(low) * (1 - share) + std::log2(high) * share);
}

}  // namespace

Throughput::Throughput(std::vector<Sample> samples) : samples_(std::move(samples)) {
  for (const Sample& sample : samples_) {
    requests_.push_back(log_of(sample.request_bytes));
    runs_.push_back(log_of(sample.run_bytes));
  }
  requests_ = distinct(std::move(requests_));
  runs_ = distinct(std::move(runs_));
  rates_.assign(requests_.size() * runs_.size(), 0);
  for (const Sample& sample : samples_) {
    const auto request = locate(requests_, log_of(sample.request_bytes)).low;
    const auto run = locate(runs_, log_of(sample.run_bytes)).low;
    rate(request, run) = std::max(rate(request, run), sample.bytes_per_second);
  }
  double smallest = 0;
  for (const double one : rates_) {
    if (one > 0) smallest = smallest > 0 ? std::min(smallest, one) : one;
  }
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    for (std::size_t request = 0; request < requests_.size(); ++request) {
      double& here = rate(request, run);
      if (request > 0) here = std::max(here, rate(request - 1, run));
      if (run > 0) here = std::max(here, rate(request, run - 1));
      here = std::max(here, smallest);
    }
  }
}

double Throughput::at(std::int64_t request_bytes, std::int64_t run_bytes) const {
  if (rates_.empty()) return 0;
  const Between request = locate(requests_, log_of(request_bytes));
  const Between run = locate(runs_, log_of(run_bytes));
  const double low = mix(rate(request.low, run.low), rate(request.high, run.low), request.share);
  const double high = mix(rate(request.low, run.high), rate(request.high, run.high), request.share);
  // A request below the smallest that was measured takes that one's time: most of it is overhead.
  const double below = std::min(1.0, std::exp2(log_of(request_bytes) - requests_.front()));
  // Likewise for runs: a run below the shortest takes as long as that one.
  const double shorter = std::min(1.0, std::exp2(log_of(run_bytes) - runs_.front()));
  return mix(low, high, run.share) * below * shorter;
}

double Throughput::peak() const { return rates_.empty() ? 0 : rates_.back(); }

}  // namespace tranship
