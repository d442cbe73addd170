#include "engine/copy_types.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "datatypes/type_form.hpp"
#include "datatypes/type_lowering.hpp"
#include "engine/byte_blocks.hpp"
#include "engine/checks.hpp"
#include "engine/copy_all.hpp"
#include "engine/same_bytes.hpp"
#include "engine/spare_copy.hpp"

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

/// The same as check_types(), of blocks.
Status check_blocks(const CopyPair& blocks, const TypedPair& pair) {
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

/// Gives the first pair's arrays the owners of all.
void own_all(CopyPair& first, std::span<const TypedPair> group) {
  if (group.size() < 2) return;
  const auto owners = std::make_shared<std::vector<std::shared_ptr<void>>>();
  for (const TypedPair& pair : group) {
    owners->push_back(pair.ends.source.owner);
    owners->push_back(pair.ends.target.owner);
  }
  first.source.owner = owners;
  first.target.owner = owners;
}

}  // namespace

Status check_types(const TypedPair& pair) {
  const auto blocks = as_bytes(pair.ends.source, pair.ends.target);
  return blocks ? check_blocks(*blocks, pair) : Status(blocks.error());
}

std::vector<std::span<const TypedPair>> groups_of(std::span<const TypedPair> pairs) {
  std::vector<std::span<const TypedPair>> groups;
  for (std::size_t k = 0; k < pairs.size();) {
    std::size_t count = 1;
    while (k + count < pairs.size() &&
           in_one_memory(pairs[k].ends.source, pairs[k + count].ends.source) &&
           in_one_memory(pairs[k].ends.target, pairs[k + count].ends.target)) {
      ++count;
    }
    groups.push_back(pairs.subspan(k, count));
    k += count;
  }
  return groups;
}

Result<ListPlan> plan_types(CopyRunner& runner, std::span<const TypedPair> group,
                            const CopyOptions& options, IndexedCopy& copy) {
  std::vector<CopyPair> blocks;
  blocks.reserve(group.size());
  std::int64_t bytes = 0;
  for (const TypedPair& pair : group) {
    auto made = as_bytes(pair.ends.source, pair.ends.target);
    if (!made) return made.error();
    if (Status s = check_blocks(*made, pair); !s) return s.error();
    blocks.push_back(std::move(*made));
    bytes += pair.source.bytes();
  }
  // Offsets count from the ends of the pair with most bytes; a pair without may have no memory.
  const auto largest = std::max_element(
      group.begin(), group.end(),
      [](const TypedPair& a, const TypedPair& b) { return a.source.bytes() < b.source.bytes(); });
  CopyPair ends = blocks[static_cast<std::size_t>(largest - group.begin())];
  auto query = byte_query(runner, ends, bytes, options);
  if (!query) return query.error();
  auto path = path_of_list(runner, *query);
  if (!path) return path.error();
  own_all(ends, group);
  if (bytes == 0) return ListPlan{std::move(path->plan), std::move(ends), {}};
  for (std::size_t k = 0; k < group.size(); ++k) {
    if (group[k].source.bytes() == 0) continue;
    const auto& [source, target] = blocks[k];
    const std::int64_t source_begin =
        source.place.address - ends.source.place.address + begin_of(source);
    const std::int64_t target_begin =
        target.place.address - ends.target.place.address + begin_of(target);
    Status lowered = lower_types(group[k].source.form(), group[k].target.form(), source_begin,
                                 target_begin, path->tile_bytes, copy);
    if (!lowered) return lowered.error();
  }
  return plan_list(*path, std::move(ends), options, copy);
}

Result<Event> copy_types(CopyRunner& runner, std::span<const TypedPair> pairs,
                         const CopyOptions& given) {
  const auto groups = groups_of(pairs);
  CopyOptions options = given;
  options.among_others = given.among_others || groups.size() > 1;
  const auto start = [&](std::size_t k) -> Result<Event> {
    SpareCopy spare;
    const auto plan = plan_types(runner, groups[k], options, spare.copy());
    if (!plan) return plan.error();
    return carry_list(runner, *plan, options, spare.copy());
  };
  return start_each(runner, options, groups.size(), start);
}

}  // namespace tranship
