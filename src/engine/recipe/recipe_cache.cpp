#include "engine/recipe/recipe_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.hpp"

namespace tranship {
namespace {

/// Takes the lock of a set, unless another thread has it.
class Taken {
 public:
  explicit Taken(std::atomic_flag& flag)
      : flag_(flag), taken_(!flag.test_and_set(std::memory_order_acquire)) {}
  ~Taken() {
    if (taken_) flag_.clear(std::memory_order_release);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  explicit operator bool() const { return taken_; }

 private:
  std::atomic_flag& flag_;
  bool taken_;
};

bool is_key(std::span<const std::int64_t> known, std::span<const std::int64_t> key) {
  return known.size() == key.size() && std::memcmp(known.data(), key.data(), key.size_bytes()) == 0;
}

}  // namespace

RecipeCache::RecipeCache()
    : number_([] {
        static std::atomic<std::uint64_t> made{0};
        return ++made;
      }()) {}

std::shared_ptr<const KnownRecipe> RecipeCache::find(std::span<const std::int64_t> key) {
  struct LastHit {
    std::uint64_t cache = 0;
    std::weak_ptr<const KnownRecipe> known;  // weak: a closed engine's recipes are destroyed
  };
  thread_local LastHit last;
  if (last.cache == number_) {
    auto known = last.known.lock();
    if (known && is_key(known->key, key)) return known;
  }
  const std::uint64_t hash = hash_of(key);
  Set& set = set_of(key, hash);
  std::shared_ptr<const KnownRecipe> found;
  {
    const Taken taken(set.taken);
    if (!taken) return nullptr;
    for (const Entry& entry : set.entries) {
      if (entry.hash == hash && entry.known && is_key(entry.known->key, key)) found = entry.known;
    }
  }
  if (found) last = {number_, found};
  return found;
}

bool RecipeCache::seen_before(std::span<const std::int64_t> key) {
  const std::uint64_t hash = hash_of(key);
  Set& set = set_of(key, hash);
  const Taken taken(set.taken);
  if (!taken) return false;
  const auto seen = std::ranges::find(set.entries, hash, &Entry::seen);
  if (seen != set.entries.end()) return true;
  set.entries[set.next].seen = hash;
  set.next = (set.next + 1) % set.entries.size();
  return false;
}

void RecipeCache::add(std::shared_ptr<const KnownRecipe> known) {
  const std::uint64_t hash = hash_of(known->key);
  Set& set = set_of(known->key, hash);
  std::shared_ptr<const KnownRecipe> replaced;  // ends without the lock
  const Taken taken(set.taken);
  if (!taken) return;
  const auto seen = std::ranges::find(set.entries, hash, &Entry::seen);
  Entry& entry = seen != set.entries.end() ? *seen : set.entries[set.next];
  entry.hash = hash;
  replaced = std::exchange(entry.known, std::move(known));
}

}  // namespace tranship
