// Lets a caller abandon a wait for a call that cannot be interrupted itself.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace tranship {

/// Interval at which a waiting thread asks whether it is interrupted.
constexpr std::chrono::milliseconds interruption_look{50};

/// Runs `work` on a thread of its own, and calls `interrupted` on the caller's thread every 50 ms.
/// Returns what `work` returned, or nothing if the caller was interrupted. In that case `work`
/// continues (it must own what it uses and end by itself), and `undo` receives the value that it
/// returns, if it returns one.
template <typename T>
std::optional<Result<T>> unless_interrupted(std::function<Result<T>()> work,
                                            const std::function<bool()>& interrupted,
                                            std::function<void(T)> undo) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<Result<T>> result;
    bool given_up = false;
  };
  const auto shared = std::make_shared<Shared>();
  const auto body = [shared, work, undo = std::move(undo)] {
    auto result = work();
    std::unique_lock lock(shared->mutex);
    if (shared->given_up) {
      lock.unlock();
      if (result) undo(std::move(*result));
      return;
    }
    shared->result.emplace(std::move(result));
    shared->ended.notify_one();
  };
  try {
    std::thread(body).detach();
  } catch (const std::system_error&) {
    return work();  // the system has no thread left: the wait lasts as long as the work
  }
  std::unique_lock lock(shared->mutex);
  while (!shared->ended.wait_for(lock, interruption_look,
                                 [&] { return shared->result.has_value(); })) {
    lock.unlock();
    const bool give_up = interrupted();
    lock.lock();
    if (shared->result) break;
    if (give_up) {
      shared->given_up = true;
      return {};
    }
  }
  return std::move(shared->result);
}

}  // namespace tranship
