#include "engine/recipe/recipe_key.hpp"

#include <utility>

#include "base/at.hpp"
#include "data/block.hpp"
#include "datatypes/type_form.hpp"
#include "engine/same_bytes.hpp"
#include "gpu/gpu_work.hpp"

namespace tranship {
namespace {

/// Most numbers of a list of pages or pieces in a key. Longer lists take longer to compare than is
/// gained.
constexpr std::size_t list_numbers_most = 1024;

/// What follows in a key.
enum Mark : std::int64_t { plain_end = 1, described_end, block_end, pages, pieces, types };

/// Returns one number for all that is short of an end.
std::int64_t end_number(Mark mark, int rank, MemoryKind kind, int device, int opened_for) {
  return mark | (std::int64_t{rank} << 4) | (static_cast<std::int64_t>(kind) << 12) |
         (std::int64_t{device + 1} << 20) | (std::int64_t{opened_for + 1} << 40);
}

std::int64_t number_of(const void* pointer) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// Whether the box lies inside its array.
bool is_inside(const View& view) {
  for (std::size_t k = 0; k < view.mapping->space().size(); ++k) {
    const bool inside = view.lower[k] >= 0 && view.extents[k] > 0 &&
                        view.lower[k] + view.extents[k] <= view.mapping->space()[k].extent;
    if (!inside) return false;
  }
  return true;
}

}  // namespace

RecipeKey::RecipeKey(const CopyOptions& options, std::size_t pairs) {
  const bool limits = options.buffer_bytes_max != 0 || options.together_bytes != 0;
  const auto planner = static_cast<std::int64_t>(options.planner);
  const auto casting = static_cast<std::int64_t>(options.casting);
  numbers_->assign({(std::int64_t{options.priority} << 32) | (casting << 8) | (planner << 2) |
                        (options.start.stream ? 2 : 0) | (limits ? 1 : 0),
                    static_cast<std::int64_t>(pairs)});
  if (limits) {
    numbers_->insert(numbers_->end(), {options.buffer_bytes_max, options.together_bytes});
  }
}

bool RecipeKey::end_pair(const std::byte* source, const std::byte* target, bool on_gpu) {
  std::vector<std::int64_t>& numbers = *numbers_;
  if (first_source_ != nullptr) {
    numbers.insert(numbers.end(), {source - first_source_, target - first_target_});
  } else {
    first_source_ = source;
    first_target_ = target;
    if (on_gpu) {
      numbers.insert(numbers.end(), {static_cast<std::int64_t>(GpuWork::alignment_of(source)),
                                     static_cast<std::int64_t>(GpuWork::alignment_of(target))});
    }
  }
  return numbers.size() <= numbers_most;
}

bool RecipeKey::add_distance(std::optional<std::int64_t> distance) {
  numbers_->insert(numbers_->end(), {distance ? 1 : 0, distance.value_or(0)});
  return numbers_->size() <= numbers_most;
}

bool RecipeKey::end_placed_pair(const std::byte* source, const std::byte* target) {
  return end_pair(source, target, true) && add_distance(target - source);
}

bool RecipeKey::add(const Array& source, const Array& target) {
  return add_ends(source, target, false);
}

bool RecipeKey::add_ends(const Array& source, const Array& target, bool as_blocks) {
  if (!target.writable) return false;
  if (as_blocks) {
    if (!add_block(source) || !add_block(target)) return false;
  } else if (!add_end(source) || !add_end(target)) {
    return false;
  }
  const bool on_gpu =
      source.memory_kind == MemoryKind::device || target.memory_kind == MemoryKind::device;
  return end_pair(source.place.address, target.place.address, on_gpu);
}

void RecipeKey::add_end(const PlainArray& array) {
  const auto rank = static_cast<std::size_t>(array.rank);
  std::vector<std::int64_t>& numbers = *numbers_;
  const std::size_t begin = numbers.size();
  numbers.resize(begin + 3 + 2 * rank);
  std::int64_t* number = numbers.data() + begin;
  *number++ = end_number(plain_end, array.rank, array.memory_kind, array.device, -1);
  *number++ = array.type;
  *number++ = 0;  // bytes from the address to the first element
  std::int64_t dense = array.item_bytes;
  for (std::size_t k = rank; k-- > 0;) {
    const std::int64_t extent = array.shape[k];
    const std::int64_t stride =
        array.strides != nullptr ? array.strides[k] * array.stride_unit : dense;
    number[2 * k] = extent;
    number[2 * k + 1] = extent > 1 ? stride : 0;
    dense *= extent;
  }
}

bool RecipeKey::add_end(const Array& array) {
  const Mapping& mapping = *array.view.mapping;
  if (array.memory_kind == MemoryKind::file || !is_inside(array.view)) return false;
  std::vector<std::int64_t>& numbers = *numbers_;
  const bool plain = mapping.type_number() != 0 && !array.named && array.liveness == nullptr;
  numbers.push_back(end_number(plain ? plain_end : described_end, mapping.rank(), array.memory_kind,
                               array.device, array.opened_for));
  if (plain) {
    const Placement& field = mapping.fields()[0];
    std::int64_t first = field.offset;
    for (std::size_t k = 0; k < at(mapping.rank()); ++k) {
      first += array.view.lower[k] * field.dimension[k].level[0].stride;
    }
    numbers.insert(numbers.end(), {mapping.type_number(), first});
    for (std::size_t k = 0; k < at(mapping.rank()); ++k) {
      const std::int64_t extent = array.view.extents[k];
      numbers.insert(numbers.end(), {extent, extent > 1 ? field.dimension[k].level[0].stride : 0});
    }
    return true;
  }
  numbers.insert(numbers.end(), {number_of(&mapping), number_of(array.place.attachment),
                                 (array.named ? 2 : 0) | (array.liveness != nullptr ? 1 : 0)});
  for (std::size_t k = 0; k < at(mapping.rank()); ++k) {
    numbers.insert(numbers.end(), {array.view.lower[k], array.view.extents[k]});
  }
  return true;
}

void RecipeKey::add_block(MemoryKind kind, int device, std::int64_t begin, std::int64_t bytes) {
  numbers_->insert(numbers_->end(), {end_number(block_end, 0, kind, device, -1), begin, bytes});
}

bool RecipeKey::add_block(const Array& array) {
  if (array.liveness != nullptr || array.place.attachment != nullptr) return add_end(array);
  const auto begin = is_inside(array.view) ? block_of(array.view) : std::nullopt;
  if (begin) add_block(array.memory_kind, array.device, *begin, array.view.bytes());
  return begin.has_value();
}

void RecipeKey::add_raw_bytes(std::int64_t offset, std::int64_t count) {
  numbers_->insert(numbers_->end(), {2 * count + 1, offset});  // odd, as no address of a form is
}

void RecipeKey::add_type(const Datatype& type) {
  const auto run = type.signature().raw() ? type.form().run_offset() : std::nullopt;
  if (run) return add_raw_bytes(*run, type.bytes());
  numbers_->insert(numbers_->end(), {number_of(&type.form()), 0});
}

bool RecipeKey::add_lists(std::initializer_list<std::span<const std::int64_t>> lists) {
  for (const auto list : lists) {
    if (list.size() > list_numbers_most) return false;
    numbers_->push_back(static_cast<std::int64_t>(list.size()));
    numbers_->insert(numbers_->end(), list.begin(), list.end());
  }
  return true;
}

std::optional<RecipeKey> RecipeKey::of(const CopyRequest& request) {
  if (request.pairs.empty() || std::holds_alternative<Blocks>(request.parts)) return {};
  RecipeKey key(request.options, request.pairs.size());
  const bool whole = std::holds_alternative<WholeArrays>(request.parts);
  const bool as_blocks = !whole && !std::holds_alternative<PageLists>(request.parts);
  const bool several = request.pairs.size() > 1;
  for (const auto& [source, target] : request.pairs) {
    if (!key.add_ends(source, target, as_blocks)) return {};
    if (whole && !several) continue;  // each copy checks whether the two overlap
    auto distance = distance_between(source, target);
    const bool apart = distance && lie_apart(*source.view.mapping, *target.view.mapping, *distance);
    if (apart && !several) distance.reset();
    if (!key.add_distance(distance)) return {};
  }
  std::vector<std::int64_t>& numbers = *key.numbers_;
  if (const auto* lists = std::get_if<PageLists>(&request.parts)) {
    numbers.push_back(pages);
    if (!key.add_lists({lists->source, lists->target})) return {};
  } else if (const auto* lists = std::get_if<PieceLists>(&request.parts)) {
    numbers.push_back(pieces);
    if (!key.add_lists({lists->source_offsets, lists->target_offsets, lists->lengths})) return {};
  } else if (const auto* all = std::get_if<std::span<const TypePair>>(&request.parts)) {
    numbers.push_back(types);
    for (const TypePair& pair : *all) {
      key.add_type(pair.source);
      key.add_type(pair.target);
    }
  }
  return key;
}

RecipeKey RecipeKey::of(const Pack& pack) {
  RecipeKey key(CopyOptions{}, 1);
  const auto [first, second] = pack.unpacks ? std::pair(pack.packed_bytes, pack.places_bytes)
                                            : std::pair(pack.places_bytes, pack.packed_bytes);
  key.add_block(MemoryKind::host, -1, 0, first);
  key.add_block(MemoryKind::host, -1, 0, second);
  (void)key.add_distance(std::nullopt);
  key.numbers_->push_back(types);
  if (pack.unpacks) key.add_raw_bytes(0, pack.type.bytes());
  key.add_type(pack.type);
  if (!pack.unpacks) key.add_raw_bytes(0, pack.type.bytes());
  return key;
}

}  // namespace tranship
