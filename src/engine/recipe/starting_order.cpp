#include "engine/recipe/starting_order.hpp"

#include <algorithm>
#include <compare>

#include "base/at.hpp"
#include "engine/array.hpp"

namespace tranship {
namespace {

/// More GPUs than a machine has; a pair that names another number is refused when it is started.
constexpr int gpus_most = 64;

bool between_gpus(const CopyPair& pair) {
  const auto on_gpu = [](const Array& array) {
    return array.memory_kind == MemoryKind::device && array.device >= 0 && array.device < gpus_most;
  };
  return on_gpu(pair.source) && on_gpu(pair.target);
}

/// When a pair is started: by the number of earlier pairs of the same two GPUs, then by how far the
/// target's number lies after the source's.
struct Turn {
  std::size_t earlier = 0;
  int distance = 0;
  auto operator<=>(const Turn&) const = default;
};

}  // namespace

std::vector<std::size_t> starting_order(std::span<const CopyPair> pairs) {
  int gpus = 0;
  bool several_sources = false;
  bool several_targets = false;
  for (const CopyPair& pair : pairs) {
    if (!between_gpus(pair)) return {};
    gpus = std::max({gpus, pair.source.device + 1, pair.target.device + 1});
    several_sources = several_sources || pair.source.device != pairs[0].source.device;
    several_targets = several_targets || pair.target.device != pairs[0].target.device;
  }
  if (!several_sources || !several_targets) return {};
  std::vector<std::size_t> counts(at(gpus) * at(gpus));  // of pairs, by their two GPUs
  std::vector<Turn> turns;
  turns.reserve(pairs.size());
  for (const auto& [source, target] : pairs) {
    const std::size_t earlier = counts[at(source.device) * at(gpus) + at(target.device)]++;
    turns.push_back({earlier, (target.device - source.device + gpus) % gpus});
  }
  std::vector<std::size_t> order(pairs.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return turns[a] < turns[b]; });
  return order;
}

}  // namespace tranship
