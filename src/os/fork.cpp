#include "os/fork.hpp"

#include <pthread.h>
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

/// Runs in the child, where only async-signal-safe functions may be called.
void in_child() {
  generation.fetch_add(1);
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

}  // namespace tranship
