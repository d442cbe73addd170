// The conformance suite: what every channel must do, whatever carries the bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/channel.hpp"

namespace tranship::test {

/// A channel under test, and functions that make its two ends.
struct Backend {
  std::string name;
  Channel* channel = nullptr;
  /// Returns a source that holds `content`, valid until the next call.
  std::function<Place(const std::vector<std::byte>& content)> make_source;
  /// Returns a target that holds `content`.
  std::function<Place(const std::vector<std::byte>& content)> make_target;
  /// Returns the bytes that the target holds now.
  std::function<std::vector<std::byte>()> read_target;
};

/// Runs the suite; failures are recorded under the backend's name.
void conforms(const Backend& backend);

}  // namespace tranship::test
