// How an engine is opened.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tranship {

/// How an engine is opened.
struct EngineOptions {
  /// Settings of `tranship config` by name, such as {"threads", "4"}. They override the variables
  /// of the environment.
  std::vector<std::pair<std::string, std::string>> settings{};
  /// A file with the machine's profile as JSON. Empty: this machine's, which is measured once (some
  /// four seconds) and kept.
  std::string profile{};
  /// A file to write, by which other processes find this engine. Empty: none.
  std::string contact_file{};
  /// Whether other processes may connect by Engine::contact() alone.
  bool accept = false;
  /// A file for the trace, written at close as Chrome trace JSON. Empty: none.
  std::string trace_file{};
};

}  // namespace tranship
