#include "engine/recipe/recipe_cache.hpp"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

namespace {

std::vector<std::int64_t> key_of(std::int64_t number, std::size_t length = 12) {
  std::vector<std::int64_t> key(length, 7);
  key.back() = number;
  return key;
}

std::shared_ptr<KnownRecipe> recipe_of(const std::vector<std::int64_t>& key) {
  auto known = std::make_shared<KnownRecipe>();
  known->key = key;
  known->source_begin = key.back();  // marks it
  return known;
}

TEST(a_recipe_is_found_by_its_key_alone) {
  RecipeCache cache;
  for (const std::size_t length : {std::size_t{12}, std::size_t{2000}}) {
    const auto key = key_of(1, length);
    EXPECT(cache.find(key) == nullptr);
    cache.add(recipe_of(key));
    EXPECT(cache.find(key) != nullptr);
    EXPECT(cache.find(key_of(2, length)) == nullptr);
    EXPECT(cache.find(key_of(1, length + 1)) == nullptr);
    EXPECT(cache.find(key) != nullptr);  // after another was looked for
  }
}

TEST(a_key_is_new_once) {
  RecipeCache cache;
  EXPECT(!cache.seen_before(key_of(1)));
  EXPECT(cache.seen_before(key_of(1)));
  EXPECT(!cache.seen_before(key_of(2)));
}

TEST(keys_that_come_once_do_not_drive_out_recipes) {
  RecipeCache cache;
  cache.add(recipe_of(key_of(0)));
  for (std::int64_t k = 1; k < 100'000; ++k) (void)cache.seen_before(key_of(k));
  EXPECT(cache.find(key_of(0)) != nullptr);
}

TEST(the_cache_is_bounded) {
  RecipeCache cache;
  std::vector<std::weak_ptr<KnownRecipe>> all;
  for (std::int64_t k = 0; k < 20'000; ++k) {
    auto known = recipe_of(key_of(k));
    all.push_back(known);
    (void)cache.seen_before(known->key);
    cache.add(std::move(known));
  }
  std::size_t kept = 0;
  for (const auto& one : all) kept += one.expired() ? 0 : 1;
  EXPECT(kept <= 4096u);
  EXPECT(kept > 2000u);
}

TEST(a_thread_keeps_no_recipe_of_a_cache_that_is_gone) {
  auto cache = std::make_unique<RecipeCache>();
  std::weak_ptr<const KnownRecipe> known;
  {
    auto made = recipe_of(key_of(1));
    known = made;
    cache->add(std::move(made));
  }
  EXPECT(cache->find(key_of(1)) != nullptr);
  cache.reset();
  EXPECT(known.expired());
  const RecipeCache next;
  RecipeCache other;
  EXPECT(other.find(key_of(1)) == nullptr);
}

TEST(threads_find_what_belongs_to_their_keys) {
  RecipeCache cache;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t turn = 0; turn < 5000; ++turn) {
        const std::int64_t number = (turn * 31 + thread) % 97;
        const auto key = key_of(number);
        if (const auto known = cache.find(key)) {
          wrong += known->source_begin == number && known->key == key ? 0 : 1;
        } else if (cache.seen_before(key)) {
          cache.add(recipe_of(key));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
