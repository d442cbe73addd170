// Trace spans of one process, exported as Chrome trace JSON, which Perfetto opens.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace tranship {

/// One interval of time in which something happened, drawn as a bar.
struct Span {
  std::string name;      ///< for a request: the path of the transfer
  std::string category;  ///< for a request: the channel
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;
  std::int64_t tile = -1;  ///< -1: the span is not of one tile
  int thread = 0;          ///< number of the row in which it is drawn
  /// Further names and values that are shown with the span.
  std::vector<std::pair<std::string, std::string>> notes{};
  bool overlaps = false;  ///< it may begin inside another span of its row and end after it
};

/// Returns the row of a channel's worker thread. Callers' threads have rows of higher numbers.
constexpr int worker_row(int channel, int thread) { return 100 * channel + thread; }

/// Returns the row of the calling thread. All its spans go there and so nest in each other.
int own_row();

/// Identifies the process of a trace, and relates its clock to the time of day.
struct TraceProcess {
  std::int64_t number = 0;
  std::string program;
  std::string host;
  std::string boot;  ///< boot id of the system: processes of one boot share a clock
  std::int64_t wall_minus_clock_ns = 0;
};

/// Collects spans: keeps the first `spans_max` and counts the rest. Threads: all.
class Trace {
 public:
  explicit Trace(std::size_t spans_max) : spans_max_(spans_max) {}

  void add(Span span);
  /// Sets the process's name. Without it, the program's name and process id are shown.
  void call_process(std::string name);
  std::string process_name() const;
  /// Returns the spans as Chrome trace JSON.
  std::string to_json(const TraceProcess& process) const;
  std::vector<Span> spans() const;

 private:
  const std::size_t spans_max_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<Span> spans_;
  std::string process_name_;
  std::int64_t dropped_ = 0;
};

/// Records its own lifetime as a span in the row of the calling thread. Without a trace it does
/// nothing and does not call `describe`.
class Timed {
 public:
  /// trace: Collector of the span; null: nothing is recorded.
  /// describe: Function that returns the span without its times and row.
  template <typename Describe>
  Timed(Trace* trace, const Clock& clock, const Describe& describe) : trace_(trace), clock_(clock) {
    if (trace_ == nullptr) return;
    span_ = describe();
    span_->thread = own_row();
    span_->begin_ns = clock_.now_ns();
  }
  ~Timed() {
    if (trace_ == nullptr) return;
    span_->end_ns = clock_.now_ns();
    trace_->add(std::move(*span_));
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  /// Adds a name and a value that were not known when the span began.
  void note(const char* name, const std::string& text) {
    if (span_) span_->notes.emplace_back(name, text);
  }
  void note(const char* name, std::int64_t number) {
    if (span_) span_->notes.emplace_back(name, std::to_string(number));
  }

 private:
  Trace* trace_;
  const Clock& clock_;
  std::optional<Span> span_;
};

}  // namespace tranship
