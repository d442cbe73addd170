// What every channel must do, whatever carries the bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/channel.hpp"

namespace tranship::test {

/// A channel under test and how to make its two ends.
struct Backend {
  std::string name;
  Channel* channel = nullptr;
  /// A source that holds `content`; it stays until the next call.
  std::function<Place(const std::vector<std::byte>& content)> make_source;
  /// A target that holds `content`.
  std::function<Place(const std::vector<std::byte>& content)> make_target;
  /// What the target holds now.
  std::function<std::vector<std::byte>()> read_target;
};

/// Runs the suite; failures are recorded under the backend's name.
void conforms(const Backend& backend);

}  // namespace tranship::test
