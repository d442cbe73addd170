#include "staging/server/preallocator.hpp"

#include <system_error>
#include <utility>

#include "os/available_memory.hpp"
#include "os/pages.hpp"

namespace tranship::staging {
namespace {

/// Bytes of a part: some milliseconds of work, for which a server that closes has to wait.
constexpr std::int64_t part_bytes = std::int64_t{16} << 20;

}  // namespace

Preallocator::Preallocator(Callbacks callbacks, std::int64_t left_least, int threads)
    : callbacks_(std::move(callbacks)), left_least_(left_least + (threads - 1) * part_bytes) {
  threads_.reserve(static_cast<std::size_t>(threads));
  threads_.emplace_back([this] { run(); });
  try {
    while (std::ssize(threads_) < threads) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    return;  // fewer do the same in more time
  }
}

void Preallocator::stop() {
  stop_.store(true);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Preallocator::run() {
  lower_priority();
  const auto enough = [this] {
    const AvailableMemory left = available_memory();
    return left.bytes - left.swap_bytes >= left_least_ + part_bytes;
  };
  while (!stop_.load() && enough()) {
    const auto part = callbacks_.claim(part_bytes);
    if (!part) return;
    const Status status = callbacks_.take_pages(*part);
    callbacks_.give_back(*part, status.ok());
    if (!status) return;
  }
}

}  // namespace tranship::staging
