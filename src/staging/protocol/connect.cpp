#include "staging/protocol/connect.hpp"

#include <algorithm>
#include <thread>

#include "base/unless_interrupted.hpp"

namespace tranship::staging {
namespace {

/// Least time of the last attempt to connect.
constexpr std::chrono::milliseconds connect_least{250};
/// Pause between two attempts.
constexpr std::chrono::milliseconds look_again{20};

Result<fabric::PeerId> connect_once(const std::shared_ptr<Processes>& processes,
                                    const std::string& contact, std::chrono::milliseconds timeout,
                                    const std::function<bool()>& interrupted) {
  if (!interrupted) return processes->connect(contact, timeout);
  auto peer = unless_interrupted<fabric::PeerId>(
      [=] { return processes->connect(contact, timeout); }, interrupted,
      [processes](fabric::PeerId unwanted) { (void)processes->disconnect(unwanted); });
  return peer ? std::move(*peer) : interruption();
}

}  // namespace

Error interruption() { return {ErrorCode::cancelled, "interrupted"}; }

Result<fabric::PeerId> connect_when_there(const std::shared_ptr<Processes>& processes,
                                          const std::string& contact, const Patience& patience) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience.timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    auto peer =
        connect_once(processes, contact, std::max(left, connect_least), patience.interrupted);
    if (peer || peer.error().code != ErrorCode::not_found || Clock::now() >= end) return peer;
    if (patience.interrupted && patience.interrupted()) return interruption();
    std::this_thread::sleep_for(look_again);
  }
}

}  // namespace tranship::staging
