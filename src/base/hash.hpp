// Hashes of numbers and of text. There are no others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tranship {

/// Returns a hash of a hash and a number. Its upper half is well mixed.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t number) {
  hash = (hash ^ number) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

/// Returns a hash of numbers. Two halves, whose steps do not wait for each other.
constexpr std::uint64_t hash_of(std::span<const std::int64_t> numbers) {
  std::uint64_t even = numbers.size();
  std::uint64_t odd = 1;
  std::size_t k = 0;
  for (; k + 1 < numbers.size(); k += 2) {
    even = mixed(even, static_cast<std::uint64_t>(numbers[k]));
    odd = mixed(odd, static_cast<std::uint64_t>(numbers[k + 1]));
  }
  if (k < numbers.size()) even = mixed(even, static_cast<std::uint64_t>(numbers[k]));
  return mixed(even, odd);
}

/// Returns the FNV-1a hash of a text (Fowler, Noll, Vo), which is the same in every process and
/// never 0.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace tranship
