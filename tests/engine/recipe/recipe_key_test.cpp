#include "engine/recipe/recipe_key.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/type_numbers.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::int64_t rows = 4;
constexpr std::int64_t columns = 6;

struct Shape {
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;  ///< bytes
};

Array array_of(const Shape& shape, std::byte* address, const char* type = "f4") {
  IndexSpace space;
  Mapping::StridedField field{{"f0", type, 4}, 0, shape.strides};
  for (std::size_t k = 0; k < shape.extents.size(); ++k) {
    space.push_back({"d" + std::to_string(k), shape.extents[k]});
  }
  Array array;
  array.view = View::whole(*Mapping::make_strided(std::move(space), {field}));
  array.place.address = address;
  return array;
}

std::vector<std::int64_t> key_of(const CopyPair& pair, const CopyOptions& options = {}) {
  const auto key = RecipeKey::of({{&pair, 1}, {}, options});
  if (!key) return {};
  return {key->numbers().begin(), key->numbers().end()};
}

const Shape dense{{rows, columns}, {4 * columns, 4}};
const Shape transposed{{rows, columns}, {4, 4 * rows}};

alignas(256) std::array<std::byte, 4096> memory;

CopyPair pair_at(std::int64_t source, std::int64_t target, const Shape& of_source = dense) {
  return {array_of(of_source, memory.data() + source), array_of(dense, memory.data() + target)};
}

TEST(arrays_at_other_addresses_have_the_same_key) {
  EXPECT(!key_of(pair_at(0, 1024)).empty());
  EXPECT(key_of(pair_at(0, 1024)) == key_of(pair_at(512, 2048)));
}

TEST(whatever_a_recipe_depends_on_is_in_the_key) {
  const auto usual = key_of(pair_at(0, 1024));
  EXPECT(key_of(pair_at(0, 1024, transposed)) != usual);
  CopyPair other = pair_at(0, 1024);
  other.source = array_of(dense, memory.data(), "i4");
  EXPECT(key_of(other) != usual);
  other = pair_at(0, 1024);
  other.source.memory_kind = MemoryKind::pinned;
  EXPECT(key_of(other) != usual);
  other = pair_at(0, 1024);
  other.source.memory_kind = MemoryKind::device;
  other.source.device = 0;
  const auto on_gpu = key_of(other);
  EXPECT(on_gpu != usual);
  other.source.device = 1;
  EXPECT(key_of(other) != on_gpu);
  other.source.device = 0;
  other.source.place.address += 4;  // kernels are planned for how addresses are aligned
  EXPECT(key_of(other) != on_gpu);
  CopyOptions options;
  options.priority = 1;
  EXPECT(key_of(pair_at(0, 1024), options) != usual);
  options = {};
  options.planner = PlannerKind::simple;
  EXPECT(key_of(pair_at(0, 1024), options) != usual);
  options = {};
  options.buffer_bytes_max = 1 << 20;
  EXPECT(key_of(pair_at(0, 1024), options) != usual);
  options = {};
  options.start.stream = 1;
  EXPECT(key_of(pair_at(0, 1024), options) != usual);
}

TEST(parts_of_arrays_differ_by_where_they_begin) {
  const auto part_at = [](std::int64_t row) {
    CopyPair pair = pair_at(0, 1024);
    for (Array* array : {&pair.source, &pair.target}) {
      array->view.lower[0] = row;
      array->view.extents[0] = 1;
    }
    return key_of(pair);
  };
  EXPECT(part_at(0) != part_at(1));
  EXPECT(part_at(1) == part_at(1));
  EXPECT(part_at(rows).empty());  // outside the array: it has to be refused
}

TEST(what_is_refused_has_no_key) {
  CopyPair pair = pair_at(0, 1024);
  pair.target.writable = false;
  EXPECT(key_of(pair).empty());
  pair = pair_at(0, 1024);
  pair.source.memory_kind = MemoryKind::file;
  EXPECT(key_of(pair).empty());
}

TEST(pairs_of_a_list_are_known_by_how_far_they_lie_apart) {
  const auto list_at = [](std::int64_t first, std::int64_t second) {
    const std::vector<CopyPair> pairs{pair_at(first, first + 1024), pair_at(second, second + 1024)};
    const auto key = RecipeKey::of({pairs});
    return std::vector<std::int64_t>(key->numbers().begin(), key->numbers().end());
  };
  EXPECT(list_at(0, 128) == list_at(256, 384));
  EXPECT(list_at(0, 128) != list_at(0, 256));
}

TEST(lists_of_places_are_in_the_key) {
  const CopyPair pair = pair_at(0, 1024);
  const auto pages_key = [&](std::vector<std::int64_t> from, std::vector<std::int64_t> to) {
    const auto key = RecipeKey::of({{&pair, 1}, PageLists{from, to}});
    return std::vector<std::int64_t>(key->numbers().begin(), key->numbers().end());
  };
  EXPECT(pages_key({0, 1}, {2, 3}) == pages_key({0, 1}, {2, 3}));
  EXPECT(pages_key({0, 1}, {2, 3}) != pages_key({1, 0}, {2, 3}));
  EXPECT(pages_key({0, 1}, {2, 3}) != pages_key({0}, {2}));
  const std::vector<std::int64_t> many(5000, 0);
  EXPECT(!RecipeKey::of({{&pair, 1}, PageLists{many, many}}).has_value());
}

TEST(a_plain_array_has_the_key_of_the_same_array_of_the_engine) {
  const CopyPair pair = pair_at(0, 1024);
  for (const bool in_bytes : {true, false}) {
    const std::int64_t unit = in_bytes ? 1 : 4;
    const std::array<std::int64_t, 2> shape{rows, columns};
    const std::array<std::int64_t, 2> strides{4 * columns / unit, 4 / unit};
    PlainArray plain;
    plain.type = type_number_of("f4", 4);
    plain.rank = 2;
    plain.shape = shape.data();
    plain.strides = strides.data();
    plain.stride_unit = unit;
    plain.item_bytes = 4;
    RecipeKey key(CopyOptions{}, 1);
    key.add_end(plain);
    key.add_end(plain);
    EXPECT(key.end_pair(memory.data(), memory.data() + 1024, false));
    EXPECT(std::ranges::equal(key.numbers(), key_of(pair)));
    plain.strides = nullptr;  // dense
    RecipeKey again(CopyOptions{}, 1);
    again.add_end(plain);
    again.add_end(plain);
    EXPECT(again.end_pair(memory.data(), memory.data() + 1024, false));
    EXPECT(std::ranges::equal(again.numbers(), key_of(pair)));
  }
}

std::vector<std::int64_t> numbers_of(const std::optional<RecipeKey>& key) {
  if (!key) return {};
  return {key->numbers().begin(), key->numbers().end()};
}

std::vector<std::int64_t> types_key(const CopyPair& pair, const TypePair& types) {
  const CopyRequest request{{&pair, 1}, std::span<const TypePair>(&types, 1)};
  return numbers_of(RecipeKey::of(request));
}

TEST(types_are_known_by_the_blocks_of_their_arrays_wherever_these_lie_apart) {
  const Datatype type = *Datatype::vector(rows, 1, columns, *Datatype::element("f4"));
  const TypePair types{type, *Datatype::raw(type.bytes())};
  const auto usual = types_key(pair_at(0, 1024), types);
  EXPECT(!usual.empty());
  EXPECT(types_key(pair_at(2048, 512), types) == usual);
  const Shape flat{{rows * columns}, {4}};
  EXPECT(types_key(pair_at(0, 1024, flat), types) == usual);  // the same block of bytes
  EXPECT(types_key(pair_at(0, 1024, {{rows, 2}, {8, 4}}), types) != usual);
  EXPECT(types_key(pair_at(0, 1024, {{rows, 2}, {16, 4}}), types).empty());  // no block
  EXPECT(types_key(pair_at(0, 64), types) != usual);                         // they overlap
  EXPECT(types_key(pair_at(0, 64), types) != types_key(pair_at(0, 32), types));
  CopyPair fixed = pair_at(0, 1024);
  fixed.target.writable = false;
  EXPECT(types_key(fixed, types).empty());
}

TEST(raw_bytes_have_one_key_however_their_type_was_made) {
  const Datatype type = *Datatype::vector(rows, 1, columns, *Datatype::element("f4"));
  const Datatype byte = *Datatype::element("V1");
  const std::int64_t bytes = type.bytes();
  const CopyPair pair = pair_at(0, 1024);
  const auto usual = types_key(pair, {type, *Datatype::raw(bytes)});
  EXPECT(types_key(pair, {type, *Datatype::contiguous(bytes, byte)}) == usual);
  EXPECT(types_key(pair, {type, *Datatype::contiguous(rows, *Datatype::element("f4"))}) != usual);
  const std::array<std::int64_t, 1> behind{8};
  EXPECT(types_key(pair, {type, *Datatype::hindexed_block(bytes, behind, byte)}) != usual);
  const Datatype other = *Datatype::vector(rows, 1, columns, *Datatype::element("f4"));
  EXPECT(types_key(pair, {other, *Datatype::raw(bytes)}) != usual);  // another object's address
}

TEST(a_pack_has_the_key_of_the_same_request_of_the_engine) {
  const Datatype type = *Datatype::vector(rows, 1, columns, *Datatype::element("f4"));
  const std::int64_t bytes = type.bytes();
  CopyPair pair = pair_at(0, 1024);
  pair.target = array_of({{rows}, {4}}, memory.data() + 1024);
  const std::int64_t places_bytes = rows * columns * 4;
  EXPECT(numbers_of(RecipeKey::of(RecipeKey::Pack{type, places_bytes, bytes, false})) ==
         types_key(pair, {type, *Datatype::raw(bytes)}));
  std::swap(pair.source, pair.target);
  EXPECT(numbers_of(RecipeKey::of(RecipeKey::Pack{type, places_bytes, bytes, true})) ==
         types_key(pair, {*Datatype::raw(bytes), type}));
}

}  // namespace
