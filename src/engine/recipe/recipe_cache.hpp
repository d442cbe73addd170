// The one cache of recipes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/recipe/recipe.hpp"
#include "engine/recipe/recipe_key.hpp"

namespace tranship {

/// A recipe with its key and what the key refers to.
struct KnownRecipe {
  Recipe recipe;
  /// Bytes between the first and the last of the arrays of the first pair, from their addresses.
  std::int64_t source_begin = 0;
  std::int64_t source_end = 0;
  std::int64_t target_begin = 0;
  std::int64_t target_end = 0;

  std::vector<std::int64_t> key;
  /// The key has addresses of these objects, which therefore must not be given to others.
  std::vector<std::shared_ptr<const Mapping>> mappings;
  std::vector<TypePair> types;

  /// Returns whether no byte of the first pair's arrays can be in both, if they lie at these
  /// addresses of one memory.
  bool apart(const std::byte* source, const std::byte* target) const {
    return source + source_end <= target + target_begin ||
           target + target_end <= source + source_begin;
  }
};

/// Remembers a recipe when its key comes for the second time. Set-associative: a new recipe
/// replaces the oldest of its set, so that the cache is bounded. Keys of long lists have sets of
/// their own. Threads: all. A lookup costs one hash of the key, one comparison, and a lock that is
/// held for a few nanoseconds; a thread that finds the lock taken gets no recipe.
class RecipeCache {
 public:
  RecipeCache();

  /// Returns the recipe of a key; null if it is not known. Each thread looks first at the one that
  /// it found last, which takes neither a hash nor a lock.
  std::shared_ptr<const KnownRecipe> find(std::span<const std::int64_t> key);

  /// Notes a key whose recipe was not found. Returns whether it has come before.
  bool seen_before(std::span<const std::int64_t> key);

  void add(std::shared_ptr<const KnownRecipe> known);

 private:
  struct Entry {
    std::uint64_t seen = 0;  ///< hash of the key that came last and was not found
    std::uint64_t hash = 0;
    std::shared_ptr<const KnownRecipe> known;
  };
  struct Set {
    std::atomic_flag taken = ATOMIC_FLAG_INIT;
    std::array<Entry, 4> entries;
    std::size_t next = 0;
  };
  /// Longest key, in numbers, of a short list: some forty pairs.
  static constexpr std::size_t short_most = 512;

  Set& set_of(std::span<const std::int64_t> key, std::uint64_t hash) {
    return key.size() <= short_most ? short_[hash % short_.size()] : long_[hash % long_.size()];
  }

  const std::uint64_t number_;  ///< no other cache of this process has or had it
  std::vector<Set> short_ = std::vector<Set>(1024);
  std::array<Set, 4> long_;
};

}  // namespace tranship
