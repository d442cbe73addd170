// How a process reaches a staging server that may be about to start.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/processes.hpp"

namespace tranship::staging {

/// How long to look for a server that may be about to start, and what ends the search earlier.
struct Patience {
  std::chrono::milliseconds timeout{};
  std::function<bool()> interrupted{};  ///< Called now and then; may be empty.
};

/// Connects; waits for the contact file if there is none yet.
/// @error cancelled if interrupted; else as Processes::connect()
Result<fabric::PeerId> connect_when_there(const std::shared_ptr<Processes>& processes,
                                          const std::string& contact, const Patience& patience);

/// Returns the error of a call that was interrupted.
Error interruption();

}  // namespace tranship::staging
