#include "engine/recipe/starting_order.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "support/test.hpp"

#include "engine/array.hpp"

using namespace tranship;

namespace {

using Devices = std::vector<std::pair<int, int>>;

/// Pairs from one GPU to another; -1: host memory.
std::vector<CopyPair> pairs_between(const Devices& devices) {
  const auto on = [](int device) {
    Array array;
    array.device = device;
    array.memory_kind = device < 0 ? MemoryKind::host : MemoryKind::device;
    return array;
  };
  std::vector<CopyPair> pairs;
  for (const auto& [source, target] : devices) pairs.push_back({on(source), on(target)});
  return pairs;
}

std::vector<std::size_t> order_of(const Devices& devices) {
  return starting_order(pairs_between(devices));
}

TEST(all_to_all_gives_each_gpu_one_source_at_each_turn) {
  Devices devices;
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from != to) devices.emplace_back(from, to);
    }
  }
  const auto order = order_of(devices);
  EXPECT_EQ(order.size(), std::size_t{12});
  for (std::size_t turn = 0; turn < 3; ++turn) {
    std::vector<int> received(4);
    std::vector<int> sent(4);
    for (std::size_t k = 0; k < 4; ++k) {
      const auto& [from, to] = devices[order[turn * 4 + k]];
      ++sent[static_cast<std::size_t>(from)];
      ++received[static_cast<std::size_t>(to)];
    }
    EXPECT(received == std::vector<int>({1, 1, 1, 1}));
    EXPECT(sent == std::vector<int>({1, 1, 1, 1}));
  }
}

TEST(copies_between_the_same_gpus_come_one_in_each_round) {
  const auto order = order_of({{0, 1}, {0, 1}, {0, 2}, {1, 2}, {1, 0}, {0, 2}});
  EXPECT(order == std::vector<std::size_t>({0, 3, 2, 4, 1, 5}));
}

TEST(all_other_copies_keep_their_order) {
  EXPECT(order_of({}).empty());
  EXPECT(order_of({{1, 3}, {1, 0}, {1, 2}}).empty());      // from one GPU
  EXPECT(order_of({{1, 0}, {2, 0}, {3, 0}}).empty());      // to one GPU
  EXPECT(order_of({{1, 0}, {0, -1}, {0, 1}}).empty());     // with host memory
  EXPECT(order_of({{1, 0}, {0, 1}, {0, 50000}}).empty());  // with a GPU that no machine has
}

}  // namespace
