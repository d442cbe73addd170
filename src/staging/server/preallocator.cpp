#include "staging/server/preallocator.hpp"

#include <utility>

#include "os/available_memory.hpp"
#include "os/pages.hpp"

namespace tranship::staging {
namespace {

/// Bytes of a part: some milliseconds of work, for which a server that closes has to wait.
constexpr std::int64_t part_bytes = std::int64_t{16} << 20;

}  // namespace

Preallocator::Preallocator(Callbacks callbacks, std::int64_t left_least)
    : callbacks_(std::move(callbacks)), left_least_(left_least), thread_([this] { run(); }) {}

void Preallocator::stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

void Preallocator::run() {
  lower_priority();
  while (!stop_.load() && available_memory().bytes >= left_least_ + part_bytes) {
    const auto part = callbacks_.claim(part_bytes);
    if (!part) return;
    const Status status = callbacks_.take_pages(*part);
    callbacks_.give_back(*part, status.ok());
    if (!status) return;
  }
}

}  // namespace tranship::staging
