#include "engine/copy_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/at.hpp"
#include "engine/array.hpp"

namespace tranship {
namespace {

bool on_gpus(const CopyPair& pair) {
  const auto& [source, target] = pair;
  return source.memory_kind == MemoryKind::device && target.memory_kind == MemoryKind::device &&
         source.device >= 0 && target.device >= 0;
}

}  // namespace

std::vector<std::size_t> starting_order(std::span<const CopyPair> pairs) {
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  int gpus = 0;
  bool several_sources = false;
  for (const CopyPair& pair : pairs) {
    if (!on_gpus(pair)) return order;
    gpus = std::max({gpus, pair.source.device + 1, pair.target.device + 1});
    several_sources = several_sources || pair.source.device != pairs[0].source.device;
  }
  if (!several_sources) return order;
  std::vector<std::size_t> pairs_before(at(gpus) * at(gpus));  // from one GPU to another
  std::vector<std::pair<std::size_t, int>> turns;
  turns.reserve(pairs.size());
  for (const auto& [source, target] : pairs) {
    const std::size_t round = pairs_before[at(source.device) * at(gpus) + at(target.device)]++;
    turns.emplace_back(round, (target.device - source.device + gpus) % gpus);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return turns[a] < turns[b]; });
  return order;
}

}  // namespace tranship
