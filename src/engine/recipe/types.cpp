#include <algorithm>
#include <string>
#include <utility>

#include "datatypes/type_form.hpp"
#include "datatypes/type_lowering.hpp"
#include "engine/checks.hpp"
#include "engine/recipe/byte_blocks.hpp"
#include "engine/recipe/lent_lists.hpp"
#include "engine/recipe/recipes.hpp"
#include "engine/same_bytes.hpp"

namespace tranship {
namespace {

/// Whether one list can name places of both arrays: of other processes only those of one export.
bool in_one_memory(const Array& a, const Array& b) {
  return same_place(a, b) && a.liveness == b.liveness;
}

/// Checks that the type lies within the block. @error out_of_range
Status check_reach(const Datatype& type, const Array& block, const char* side) {
  if (type.bytes() == 0) return {};
  const std::int64_t low = type.true_lower_bound();
  const std::int64_t high = type.true_upper_bound();
  if (low >= 0 && high <= block.view.bytes()) return {};
  return Error{ErrorCode::out_of_range,
               std::string("the type of the ") + side + " " + type.text() + " reaches from byte " +
                   std::to_string(low) + " to byte " + std::to_string(high) +
                   ", and the array has " + std::to_string(block.view.bytes()) + " bytes",
               "give a longer array, or a type of fewer items"};
}

/// Checks that types fit two blocks.
Status check_blocks(const CopyPair& blocks, const TypePair& pair) {
  const auto& [source, target] = blocks;
  if (Status s = check_elements(pair.source, pair.target); !s) return s;
  if (Status s = check_reach(pair.source, source, "source"); !s) return s;
  if (Status s = check_reach(pair.target, target, "target"); !s) return s;
  if (!pair.target.disjoint()) {
    return invalid("elements of the target's type " + pair.target.text() + " share bytes",
                   "give a type that names each byte once");
  }
  auto distance = distance_between(source, target);
  if (!distance || pair.source.bytes() == 0) return {};
  *distance += begin_of(target) - begin_of(source);
  const bool apart = pair.source.true_upper_bound() <= *distance + pair.target.true_lower_bound() ||
                     *distance + pair.target.true_upper_bound() <= pair.source.true_lower_bound();
  if (apart || !share_bytes(pair.source.form(), pair.target.form(), *distance)) return {};
  return invalid("source and target overlap (" + source.name + ")",
                 "copy to an array of its own first");
}

/// Returns how many pairs from `first` on one copy of an indexed nest carries: those whose sources
/// lie in one memory, and whose targets do. Arrays of other processes are groups of their own.
std::size_t group_at(std::span<const CopyPair> pairs, std::size_t first) {
  std::size_t count = 1;
  while (first + count < pairs.size() &&
         in_one_memory(pairs[first].source, pairs[first + count].source) &&
         in_one_memory(pairs[first].target, pairs[first + count].target)) {
    ++count;
  }
  return count;
}

/// Copies the pairs of one group; `RecipeStep::base` counts within it.
Result<RecipeStep> step_of(RecipeMaker& maker, std::span<const CopyPair> pairs,
                           std::span<const TypePair> types, const CopyOptions& options,
                           RecipeUse use) {
  std::vector<CopyPair> blocks;
  blocks.reserve(pairs.size());
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    auto made = as_bytes(pairs[k].source, pairs[k].target);
    if (!made) return made.error();
    if (Status s = check_blocks(*made, types[k]); !s) return s.error();
    blocks.push_back(std::move(*made));
    bytes += types[k].source.bytes();
  }
  // Offsets count from the ends of the pair with most bytes; a pair without may have no memory.
  const auto largest = std::max_element(
      types.begin(), types.end(),
      [](const TypePair& a, const TypePair& b) { return a.source.bytes() < b.source.bytes(); });
  const auto base = static_cast<std::size_t>(largest - types.begin());
  const CopyPair& ends = blocks[base];
  auto query = byte_query(maker, ends, bytes, options, use);
  if (!query) return query.error();
  auto path = path_of_list(maker, *query);
  if (!path) return path.error();
  auto lists = lent_lists();
  for (std::size_t k = 0; k < types.size(); ++k) {
    if (types[k].source.bytes() == 0) continue;  // its arrays may have no memory
    const auto& [source, target] = blocks[k];
    const std::int64_t source_begin =
        source.place.address - ends.source.place.address + begin_of(source);
    const std::int64_t target_begin =
        target.place.address - ends.target.place.address + begin_of(target);
    Status lowered = lower_types(types[k].source.form(), types[k].target.form(), source_begin,
                                 target_begin, path->tile_bytes, *lists);
    if (!lowered) return lowered.error();
  }
  RecipeStep step = maker.list_step(*path, ends, options, std::move(lists));
  step.base = base;
  step.pair_count = pairs.size();
  return step;
}

}  // namespace

Status check_types(const CopyPair& ends, const TypePair& types) {
  const auto blocks = as_bytes(ends.source, ends.target);
  return blocks ? check_blocks(*blocks, types) : Status(blocks.error());
}

Result<Recipe> types_recipe(RecipeMaker& maker, std::span<const CopyPair> pairs,
                            std::span<const TypePair> types, const CopyOptions& options,
                            RecipeUse use) {
  Recipe recipe;
  for (std::size_t first = 0; first < pairs.size();) {
    const std::size_t count = group_at(pairs, first);
    auto step =
        step_of(maker, pairs.subspan(first, count), types.subspan(first, count), options, use);
    if (!step) return step.error();
    step->first_pair = first;
    step->base += first;
    recipe.steps.push_back(std::move(*step));
    first += count;
  }
  return recipe;
}

}  // namespace tranship
