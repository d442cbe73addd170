// What happened when, for looking at: Chrome trace JSON (opens in Perfetto).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tranship/error.hpp"

namespace tranship {

struct Span {
  std::string name;      ///< the path of the transfer
  std::string category;  ///< the channel
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;
  std::int64_t tile = 0;
  int thread = 0;
};

/// Keeps the first `spans_max` spans and counts the rest. Any thread may add.
class Trace {
 public:
  explicit Trace(std::size_t spans_max) : spans_max_(spans_max) {}

  void add(Span span);
  std::string to_json(int process, const std::string& process_name) const;
  std::vector<Span> spans() const;

 private:
  const std::size_t spans_max_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  std::int64_t dropped_ = 0;
};

}  // namespace tranship
