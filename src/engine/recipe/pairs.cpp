#include <algorithm>
#include <limits>
#include <utility>

#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/recipe/byte_blocks.hpp"
#include "engine/recipe/lent_lists.hpp"
#include "engine/recipe/recipes.hpp"
#include "engine/recipe/starting_order.hpp"

namespace tranship {
namespace {

/// Fewest bytes of pairs that several threads may share.
constexpr std::int64_t shared_bytes_least = 1 << 20;
/// Such a list may have pairs that are worth several threads by themselves if it has as many bytes
/// as so many of them.
constexpr std::int64_t shared_pairs_least = 4;
/// Tiles that one of its boxes may have which is carried by one thread.
constexpr std::int64_t whole_tiles_max = 4;

/// Whether the nests differ from those of `group` in where they begin alone, all by as much.
bool same_shapes(std::span<const IndexedNest> group, std::span<const LoopNest> nests) {
  if (group.size() != nests.size()) return false;
  const std::int64_t source = nests[0].source_offset - group[0].nest.source_offset;
  const std::int64_t target = nests[0].target_offset - group[0].nest.target_offset;
  for (std::size_t k = 0; k < nests.size(); ++k) {
    const LoopNest& a = group[k].nest;
    const LoopNest& b = nests[k];
    const bool same = a.element_bytes == b.element_bytes && a.rank == b.rank &&
                      b.source_offset - a.source_offset == source &&
                      b.target_offset - a.target_offset == target &&
                      std::equal(a.loops.begin(), a.loops.begin() + a.rank, b.loops.begin());
    if (!same) return false;
  }
  return true;
}

bool same_view(const View& a, const View& b) {
  return a.mapping == b.mapping && a.lower == b.lower && a.extents == b.extents;
}

/// The nests of a pair, which count from its own addresses. Pairs of the same shapes that follow
/// each other are checked and lowered once.
class LoweredPair {
 public:
  /// @error as check_pair() and check_overlap()
  Status set(const CopyPair& pair) {
    const auto& [source, target] = pair;
    const bool known = like_ != nullptr && same_view(source.view, like_->source.view) &&
                       same_view(target.view, like_->target.view) && target.writable &&
                       source.named == like_->source.named && target.named == like_->target.named;
    if (!known) {
      if (Status s = lower_anew(pair); !s) return s;
    } else if (Status s = check_liveness(source.liveness, target.liveness); !s) {
      return s;
    }
    return check_overlap(source, target, target_view_);
  }

  std::span<const LoopNest> nests() const { return nests_; }

 private:
  Status lower_anew(const CopyPair& pair) {
    like_ = nullptr;
    auto view = check_pair(pair.source, pair.target);
    if (!view) return view.error();
    target_view_ = std::move(*view);
    const View& source = pair.source.view;
    auto fields = match_fields(*source.mapping, *target_view_.mapping);
    if (!fields) return fields.error();
    nests_.clear();
    lower({source.mapping.get(), source.lower}, {target_view_.mapping.get(), target_view_.lower},
          source.extents, *fields, nests_);
    like_ = &pair;
    return {};
  }

  const CopyPair* like_ = nullptr;  ///< the pair that was lowered; null: none
  View target_view_;
  std::vector<LoopNest> nests_;
};

bool is_one_run(std::span<const LoopNest> nests) { return nests.size() == 1 && nests[0].rank == 0; }

/// Adds nests to `copy`. Neighbours of one shape share a list; those that are single runs share
/// entries of up to `entry_bytes_max`.
void append(std::span<const LoopNest> nests, std::int64_t entry_bytes_max, IndexedCopy& copy) {
  const bool one_run = is_one_run(nests);
  const auto group = copy.last_group();
  if (group.empty() || !same_shapes(group, nests)) {
    const std::int64_t step = one_run ? nests[0].element_bytes : 0;
    copy.begin_group(nests, step, step, false);  // neighbouring arrays are not joined
    copy.add_move(0, 0);
    return;
  }
  const LoopNest& first = group[0].nest;
  // Only single runs can be joined to longer ones; other moves stay entries of their own.
  const std::int64_t most =
      one_run ? std::max<std::int64_t>(entry_bytes_max / nests[0].element_bytes, 1) : 1;
  copy.add_move(nests[0].source_offset - first.source_offset,
                nests[0].target_offset - first.target_offset, most);
}

/// Adds nests to `copy` that count from the addresses of one pair, with offsets that count from
/// those of another pair. Long runs are cut, so that several threads may carry them. `nests` is
/// scratch.
void append(const CopyPair& pair, std::span<const LoopNest> lowered, const CopyPair& base,
            std::int64_t entry_bytes_max, std::vector<LoopNest>& nests, IndexedCopy& copy) {
  nests.assign(lowered.begin(), lowered.end());
  if (nests.empty()) return;
  for (LoopNest& nest : nests) {
    nest.source_offset += pair.source.place.address - base.source.place.address;
    nest.target_offset += pair.target.place.address - base.target.place.address;
  }
  LoopNest& run = nests[0];
  std::int64_t left = is_one_run(nests) ? run.element_bytes : 0;
  for (; left > entry_bytes_max; left -= entry_bytes_max) {
    run.element_bytes = entry_bytes_max;
    append(nests, entry_bytes_max, copy);
    run.source_offset += entry_bytes_max;
    run.target_offset += entry_bytes_max;
  }
  if (left > 0) run.element_bytes = left;
  append(nests, entry_bytes_max, copy);
}

const CopyPair& largest_of(std::span<const CopyPair> pairs) {
  return *std::max_element(pairs.begin(), pairs.end(), [](const CopyPair& a, const CopyPair& b) {
    return a.source.view.bytes() < b.source.view.bytes();
  });
}

/// Whether one step can carry all pairs, as it carries `one` of them.
bool are_alike(std::span<const CopyPair> pairs, const CopyPair& one) {
  return std::all_of(pairs.begin(), pairs.end(), [&](const CopyPair& pair) {
    return same_place(pair.source, one.source) && same_place(pair.target, one.target);
  });
}

/// Returns the step of all pairs, whose offsets count from the ends of the first; nothing if one of
/// more than `whole_bytes_max` is no single run, and so cannot be cut here.
Result<std::optional<RecipeStep>> step_of_all(RecipeMaker& maker, const ListPath& path,
                                              std::span<const CopyPair> pairs,
                                              const CopyOptions& options,
                                              std::int64_t whole_bytes_max) {
  auto lists = lent_lists();
  std::vector<LoopNest> nests;
  LoweredPair lowered;
  for (const CopyPair& pair : pairs) {
    if (Status s = lowered.set(pair); !s) return s.error();
    const bool fits = is_one_run(lowered.nests()) || pair.source.view.bytes() <= whole_bytes_max;
    if (!fits) return std::optional<RecipeStep>();
    append(pair, lowered.nests(), pairs[0], path.tile_bytes, nests, *lists);
  }
  RecipeStep step = maker.list_step(path, pairs[0], options, std::move(lists));
  step.pair_count = pairs.size();
  return std::optional(std::move(step));
}

/// Returns the step of all pairs if a single launch carries them.
Result<std::optional<RecipeStep>> launched_step(RecipeMaker& maker, std::span<const CopyPair> pairs,
                                                const CopyOptions& options, RecipeUse use) {
  const CopyPair& largest = largest_of(pairs);
  auto query = maker.planner().query_of(largest.source, largest.target, options, use.in_streams);
  if (!query) return query.error();
  auto path = path_of_list(maker, *query);
  if (!path) return path.error();
  if (!path->one_launch || !are_alike(pairs, largest)) return std::optional<RecipeStep>();
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  return step_of_all(maker, *path, pairs, options, any);
}

/// Returns the step of all pairs if they lie in memory that the caller reaches, and are worth
/// several threads together, but not each by itself, or only a few of many.
Result<std::optional<RecipeStep>> shared_step(RecipeMaker& maker, std::span<const CopyPair> pairs,
                                              const CopyOptions& options, RecipeUse use) {
  const std::optional<RecipeStep> none;
  std::int64_t bytes = 0;
  for (const CopyPair& pair : pairs) {
    if (!within_memory(pair.source, pair.target)) return none;
    bytes += pair.source.view.bytes();
  }
  const CopyPair& largest = largest_of(pairs);
  if (bytes < shared_bytes_least || !are_alike(pairs, largest)) return none;
  const auto alone = maker.planner().query_of(largest.source, largest.target, options, false);
  if (!alone) return alone.error();
  const auto plan = maker.planner().plan_of(*alone);
  if (!plan) return plan.error();
  const std::int64_t longest = largest.source.view.bytes();
  if (!(*plan)->direct && longest * shared_pairs_least > bytes) return none;
  CopyPair ends = largest;
  ends.source.named = ends.target.named = false;
  auto query = byte_query(maker, ends, bytes, options, use);
  if (!query) return query.error();
  auto path = path_of_list(maker, *query);
  if (!path) return path.error();
  if (path->plan->hops.size() != 1 || path->plan->direct) return none;
  const std::int64_t whole_bytes_max =
      (*plan)->direct ? longest : whole_tiles_max * path->tile_bytes;
  return step_of_all(maker, *path, pairs, options, whole_bytes_max);
}

}  // namespace

Result<Recipe> pairs_recipe(RecipeMaker& maker, std::span<const CopyPair> pairs,
                            const CopyOptions& options, RecipeUse use) {
  if (pairs.size() > 1 && options.casting == Casting::none) {
    for (const auto& make : {launched_step, shared_step}) {
      auto joined = make(maker, pairs, options, use);
      if (!joined) return joined.error();
      if (*joined) return Recipe{{std::move(**joined)}};
    }
  }
  Recipe recipe;
  recipe.steps.reserve(pairs.size());
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    auto step = maker.box_step(pairs[k], options, use);
    if (!step) return step.error();
    step->first_pair = step->base = k;
    recipe.steps.push_back(std::move(*step));
  }
  if (pairs.size() > 1) recipe.order = starting_order(pairs);
  return recipe;
}

}  // namespace tranship
