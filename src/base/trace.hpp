// What happened when, for looking at: Chrome trace JSON (opens in Perfetto).
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

struct Span {
  std::string name;      ///< of a request: the path of the transfer
  std::string category;  ///< of a request: the channel
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;
  std::int64_t tile = -1;  ///< -1: it is none
  int thread = 0;          ///< the row in which it is drawn
  /// What else is shown with it.
  std::vector<std::pair<std::string, std::string>> notes{};
  bool overlaps = false;  ///< it may begin within another one of its row, and end after it
};

/// Rows of workers; those of threads that call lie above.
constexpr int worker_row(int channel, int thread) { return 100 * channel + thread; }

/// The row of the calling thread: the same for all its spans, so that they lie inside each other.
int own_row();

/// Whose a trace is, and how its clock stands to the time of day.
struct TraceProcess {
  std::int64_t number = 0;
  std::string program;
  std::string host;
  std::string boot;  ///< processes of one boot have one clock
  std::int64_t wall_minus_clock_ns = 0;
};

/// Keeps the first `spans_max` spans and counts the rest. Any thread may call any member.
class Trace {
 public:
  explicit Trace(std::size_t spans_max) : spans_max_(spans_max) {}

  void add(Span span);
  /// What the process is called from now on; else by its program and number.
  void call_process(std::string name);
  std::string process_name() const;
  std::string to_json(const TraceProcess& process) const;
  std::vector<Span> spans() const;

 private:
  const std::size_t spans_max_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<Span> spans_;
  std::string process_name_;
  std::int64_t dropped_ = 0;
};

/// Adds a span, from its making to its end, to the row of the calling thread. Without a trace it
/// does nothing, and `describe` is not called.
class Timed {
 public:
  /// `describe` makes the span but for its times and row.
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

  /// Something that was not known before.
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
