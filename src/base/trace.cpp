#include "base/trace.hpp"

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

namespace tranship {
namespace {

using Json = nlohmann::ordered_json;

constexpr int own_rows_first = 100'000;

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

Json arguments_of(const Span& span) {
  Json arguments = Json::object();
  if (span.bytes > 0) arguments["bytes"] = span.bytes;
  if (span.tile >= 0) arguments["tile"] = span.tile;
  for (const auto& [name, text] : span.notes) arguments[name] = text;
  return arguments;
}

/// Appends the span as one complete event, or, if it may overlap its neighbours, as the two events
/// of an asynchronous span.
void add_events(Json& events, const Span& span, std::int64_t process) {
  Json event{{"name", span.name},
             {"cat", span.category},
             {"ph", span.overlaps ? "b" : "X"},
             {"ts", microseconds(span.begin_ns)},
             {"pid", process},
             {"tid", span.thread},
             {"args", arguments_of(span)}};
  if (!span.overlaps) {
    event["dur"] = microseconds(span.end_ns - span.begin_ns);
    events.push_back(std::move(event));
    return;
  }
  event["id2"] = {{"local", std::to_string(events.size())}};
  events.push_back(event);
  event["ph"] = "e";
  event["ts"] = microseconds(span.end_ns);
  event["args"] = Json::object();
  events.push_back(std::move(event));
}

std::string row_name(const Span& span) {
  if (span.thread >= own_rows_first) return "thread " + std::to_string(span.thread % 1000);
  return span.category + " " + std::to_string(span.thread % 100);
}

Json metadata(const char* what, std::int64_t process, int row, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", row}, {"args", {{"name", name}}}};
}

}  // namespace

int own_row() {
  static std::atomic<int> rows{own_rows_first};
  thread_local const int row = rows++;
  return row;
}

void Trace::add(Span span) {
  std::lock_guard lock(mutex_);
  if (spans_.size() < spans_max_) {
    spans_.push_back(std::move(span));
  } else {
    ++dropped_;
  }
}

void Trace::call_process(std::string name) {
  std::lock_guard lock(mutex_);
  process_name_ = std::move(name);
}

std::string Trace::process_name() const {
  std::lock_guard lock(mutex_);
  return process_name_;
}

std::vector<Span> Trace::spans() const {
  std::lock_guard lock(mutex_);
  return spans_;
}

std::string Trace::to_json(const TraceProcess& process) const {
  std::lock_guard lock(mutex_);
  const std::string program = process.program + " " + std::to_string(process.number);
  Json events = Json::array();
  events.push_back(
      metadata("process_name", process.number, 0, process_name_.empty() ? program : process_name_));
  std::map<int, std::string> rows;
  for (const Span& span : spans_) {
    if (rows.contains(span.thread)) continue;
    rows[span.thread] = row_name(span);
    events.push_back(metadata("thread_name", process.number, span.thread, rows[span.thread]));
  }
  for (const Span& span : spans_) add_events(events, span, process.number);
  return Json{{"traceEvents", std::move(events)},
              {"displayTimeUnit", "ms"},
              {"dropped_spans", dropped_},
              {"process",
               {{"number", process.number},
                {"program", process.program},
                {"host", process.host},
                {"boot", process.boot},
                {"wall_minus_clock_ns", process.wall_minus_clock_ns}}}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace tranship
