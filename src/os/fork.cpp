#include "os/fork.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace tranship {
namespace {

constexpr std::size_t bits_per_word = 64;
constexpr std::size_t descriptors_max = 65536;

std::atomic<std::uint64_t> generation{0};
std::array<std::atomic<std::uint64_t>, descriptors_max / bits_per_word> to_close{};

/// Memory that is not there in children. `bytes` is set last, and 0 while it is not guarded.
struct GuardedMemory {
  std::atomic<void*> address{nullptr};
  std::atomic<std::size_t> bytes{0};
};
constexpr std::size_t guarded_max = 4096;
std::array<GuardedMemory, guarded_max> guarded{};

/// Takes the addresses of guarded memory, so that nothing else comes to lie there.
void guard_addresses() {
  for (GuardedMemory& one : guarded) {
    const std::size_t bytes = one.bytes.exchange(0);
    if (bytes == 0) continue;
    (void)mmap(one.address.load(), bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  }
}

/// Runs in the child, where only async-signal-safe functions may be called.
void in_child() {
  generation.fetch_add(1);
  guard_addresses();
  for (std::size_t word = 0; word < to_close.size(); ++word) {
    std::uint64_t bits = to_close[word].exchange(0);
    for (std::size_t bit = 0; bits != 0; ++bit, bits >>= 1) {
      if ((bits & 1) != 0) (void)::close(static_cast<int>(word * bits_per_word + bit));
    }
  }
}

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
}

GuardedMemory* guard_of(void* address) {
  for (GuardedMemory& one : guarded) {
    if (one.address.load() == address) return &one;
  }
  return nullptr;
}

std::atomic<std::uint64_t>* word_of(int descriptor) {
  const auto index = static_cast<std::size_t>(descriptor);
  return descriptor < 0 || index >= descriptors_max ? nullptr : &to_close[index / bits_per_word];
}

std::uint64_t bit_of(int descriptor) {
  return std::uint64_t{1} << (static_cast<std::size_t>(descriptor) % bits_per_word);
}

}  // namespace

std::uint64_t fork_generation() {
  watch_forks();
  return generation.load(std::memory_order_relaxed);
}

void close_in_children(int descriptor) {
  watch_forks();
  if (auto* word = word_of(descriptor)) word->fetch_or(bit_of(descriptor));
}

void keep_in_children(int descriptor) {
  if (auto* word = word_of(descriptor)) word->fetch_and(~bit_of(descriptor));
}

bool guard_in_children(void* address, std::size_t bytes) {
  watch_forks();
  for (GuardedMemory& one : guarded) {
    void* none = nullptr;
    if (!one.address.compare_exchange_strong(none, address)) continue;
    one.bytes.store(bytes);
    return true;
  }
  return false;
}

void unguard_in_children(void* address) {
  GuardedMemory* const one = guard_of(address);
  if (one == nullptr) return;
  one->bytes.store(0);
  one->address.store(nullptr);
}

}  // namespace tranship
