#include "base/trace.hpp"

#include <nlohmann/json.hpp>

namespace tranship {

void Trace::add(Span span) {
  std::lock_guard lock(mutex_);
  if (spans_.size() < spans_max_) {
    spans_.push_back(std::move(span));
  } else {
    ++dropped_;
  }
}

std::vector<Span> Trace::spans() const {
  std::lock_guard lock(mutex_);
  return spans_;
}

std::string Trace::to_json(int process, const std::string& process_name) const {
  using Json = nlohmann::ordered_json;
  std::lock_guard lock(mutex_);
  Json events = Json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", process},
                    {"args", {{"name", process_name}}}});
  for (const Span& span : spans_) {
    events.push_back({{"name", span.name},
                      {"cat", span.category},
                      {"ph", "X"},
                      {"ts", static_cast<double>(span.begin_ns) / 1e3},
                      {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1e3},
                      {"pid", process},
                      {"tid", span.thread},
                      {"args", {{"bytes", span.bytes}, {"tile", span.tile}}}});
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}, {"dropped_spans", dropped_}}
             .dump() +
         "\n";
}

}  // namespace tranship
