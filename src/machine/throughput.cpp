#include "machine/throughput.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tranship {
namespace {

/// Tolerance, in log2, with which a rate counts as reached, so that rounding never makes run_for()
/// return a byte more than the run from which a rate was computed.
constexpr double slack = 1e-12;

double log_of(std::int64_t bytes) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

}  // namespace

Throughput::Axis Throughput::axis_of(std::vector<std::int64_t> bytes) {
  Axis axis;
  for (std::int64_t& one : bytes) one = std::max<std::int64_t>(one, 1);
  std::sort(bytes.begin(), bytes.end());
  bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
  for (const std::int64_t one : bytes) axis.logs.push_back(log_of(one));
  axis.bytes = std::move(bytes);
  return axis;
}

Throughput::AxisPosition Throughput::position_on(const Axis& axis, std::int64_t bytes) {
  const std::size_t last = axis.bytes.size() - 1;
  if (bytes >= axis.bytes[last]) return {last, last, 0, 0};
  if (bytes <= axis.bytes[0]) return {0, 0, 0, log_of(bytes) - axis.logs[0]};
  const auto above = std::upper_bound(axis.bytes.begin(), axis.bytes.end(), bytes);
  const auto high = static_cast<std::size_t>(above - axis.bytes.begin());
  const double low = axis.logs[high - 1];
  return {high - 1, high, (log_of(bytes) - low) / (axis.logs[high] - low), 0};
}

Throughput::Throughput(std::vector<Sample> samples) {
  auto table = std::make_shared<Table>();
  std::vector<std::int64_t> requests;
  std::vector<std::int64_t> runs;
  double smallest = std::numeric_limits<double>::infinity();
  const auto counts = [](double rate) { return rate > 0 && std::isfinite(rate); };
  for (const Sample& sample : samples) {
    if (!counts(sample.bytes_per_second)) continue;
    requests.push_back(sample.request_bytes);
    runs.push_back(sample.run_bytes);
    smallest = std::min(smallest, sample.bytes_per_second);
  }
  if (!requests.empty()) {
    table->requests = axis_of(std::move(requests));
    table->runs = axis_of(std::move(runs));
    table->rates.assign(table->requests.bytes.size() * table->runs.bytes.size(), smallest);
    for (const Sample& sample : samples) {
      if (!counts(sample.bytes_per_second)) continue;
      double& here =
          table->rates[table->index(position_on(table->requests, sample.request_bytes).low,
                                    position_on(table->runs, sample.run_bytes).low)];
      here = std::max(here, sample.bytes_per_second);
    }
    table->raise();
  }
  table->samples = std::move(samples);
  table_ = std::move(table);
}

void Throughput::Table::raise() {
  for (std::size_t run = 0; run < runs.bytes.size(); ++run) {
    for (std::size_t request = 0; request < requests.bytes.size(); ++request) {
      double& here = rates[index(request, run)];
      if (request > 0) here = std::max(here, rates[index(request - 1, run)]);
      if (run > 0) here = std::max(here, rates[index(request, run - 1)]);
    }
  }
  for (const double rate : rates) log_rates.push_back(std::log2(rate));
}

double Throughput::at(std::int64_t request_bytes, std::int64_t run_bytes) const {
  if (empty()) return 0;
  const Table& table = *table_;
  const AxisPosition request = position_on(table.requests, request_bytes);
  const AxisPosition run = position_on(table.runs, run_bytes);
  const double low = table.rates[table.index(request.low, run.low)];
  const double high = table.rates[table.index(request.high, run.high)];
  // A request below the smallest that was measured takes that one's time: most of it is overhead.
  // Likewise for runs: a run below the shortest takes as long as that one.
  const bool inside = request.below == 0 && run.below == 0;
  if (low == high && inside) return low;
  const double rate = std::exp2(table.log_at(request, run) + request.below);
  return inside ? std::clamp(rate, low, high) : rate;
}

std::int64_t Throughput::run_for(std::int64_t request_bytes, double bytes_per_second) const {
  if (empty()) return never;
  const Table& table = *table_;
  if (bytes_per_second <= 0) return 1;
  const AxisPosition request = position_on(table.requests, request_bytes);
  const double wanted = std::log2(bytes_per_second) - request.below - slack;
  std::size_t first = 0;  // first measured run that is long enough
  std::size_t last = table.runs.bytes.size();
  while (first < last) {
    const std::size_t middle = (first + last) / 2;
    if (table.log_rate(request, middle) >= wanted) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  if (first == table.runs.bytes.size()) return never;
  const double reached = table.log_rate(request, first);
  double log_run =
      table.runs.logs[first] - (reached - wanted);  // below the shortest: in proportion
  if (first > 0) {
    const double missed = table.log_rate(request, first - 1);
    const double low = table.runs.logs[first - 1];
    log_run = low + (table.runs.logs[first] - low) * (wanted - missed) / (reached - missed);
  }
  const double exact = std::exp2(log_run);
  const double ceiling = std::ceil(exact);
  // Compared as doubles: rounding up near 2^63 would leave the integers.
  const auto measured = table.runs.bytes[first];
  const bool whole = ceiling >= static_cast<double>(measured);
  const auto run = std::max<std::int64_t>(whole ? measured : static_cast<std::int64_t>(ceiling), 1);
  // A value just above a whole number may be that number with a rounding error.
  const bool doubtful = run > 1 && ceiling - 1 >= exact * (1 - 1e-9);
  return doubtful && table.log_at(request, position_on(table.runs, run - 1)) >= wanted ? run - 1
                                                                                       : run;
}

double Throughput::peak() const { return empty() ? 0 : table_->rates.back(); }

const std::vector<Sample>& Throughput::samples() const {
  static const std::vector<Sample> none;
  return table_ == nullptr ? none : table_->samples;
}

}  // namespace tranship
