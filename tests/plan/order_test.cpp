// Orders, compared with brute force: the elements of mappings, walked one by one.
#include "plan/order.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/at.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::uint64_t seeds = 4000;

/// One value of an array: its offset in the array, and in another mapping of the same tile.
struct Element {
  std::int64_t offset = 0;
  std::int64_t other = 0;
  std::int64_t bytes = 0;
  std::size_t field = 0;
};

std::int64_t offset_of(const Mapping& mapping, std::size_t field, const Point& point) {
  const Placement& placement = mapping.fields()[field];
  std::int64_t offset = placement.offset;
  for (int k = 0; k < mapping.rank(); ++k) {
    offset += placement.dimension[at(k)].offset(point[at(k)]);
  }
  return offset;
}

std::size_t field_named(const Mapping& mapping, const std::string& name) {
  std::size_t k = 0;
  while (mapping.fields()[k].field.name != name) ++k;
  return k;
}

/// Returns all elements of a tile at the array's first point, in the order of their offsets.
std::vector<Element> elements_of(const Mapping& mapping, const Mapping& other, const Point& tile) {
  std::vector<Element> all;
  const std::int64_t points = points_of(tile, mapping.rank());
  for (std::size_t f = 0; f < mapping.fields().size(); ++f) {
    const Field& field = mapping.fields()[f].field;
    const std::size_t of_other = field_named(other, field.name);
    for (std::int64_t number = 0; number < points; ++number) {
      Point point{};
      std::int64_t rest = number;
      for (int k = 0; k < mapping.rank(); ++k) {
        point[at(k)] = rest % tile[at(k)];
        rest /= tile[at(k)];
      }
      all.push_back(
          {offset_of(mapping, f, point), offset_of(other, of_other, point), field.bytes, f});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Element& a, const Element& b) { return a.offset < b.offset; });
  return all;
}

/// Returns the contiguous bytes from the first element on, in both mappings. Where a run holds
/// values of one field alone, it is counted in values of the mean field. same_fields: Whether a run
/// may continue from one field to the next.
std::int64_t walked_run(const Mapping& mapping, const Mapping& other, const Point& tile,
                        bool same_fields) {
  const std::vector<Element> all = elements_of(mapping, other, tile);
  std::int64_t bytes = all[0].bytes;
  bool one_field = true;
  std::size_t k = 1;
  for (; k < all.size(); ++k) {
    const Element& last = all[k - 1];
    if (all[k].offset != last.offset + last.bytes || all[k].other != last.other + last.bytes) break;
    if (!same_fields && all[k].field != last.field) break;
    bytes += all[k].bytes;
    one_field = one_field && all[k].field == all[0].field;
  }
  const auto fields = static_cast<std::int64_t>(mapping.fields().size());
  return one_field ? static_cast<std::int64_t>(k) * (mapping.point_bytes() / fields) : bytes;
}

/// Returns the bytes from the first element on up to a gap of a cache line.
std::int64_t walked_span(const Mapping& mapping, const Point& tile) {
  constexpr std::int64_t line_bytes = 64;
  const std::vector<Element> all = elements_of(mapping, mapping, tile);
  std::int64_t end = all[0].offset + all[0].bytes;
  for (const Element& element : all) {
    if (element.offset >= end + line_bytes) break;
    end = element.offset + element.bytes;
  }
  return end - all[0].offset;
}

template <typename T>
void shuffle(Random& random, std::vector<T>& all) {
  for (std::size_t k = all.size(); k > 1; --k) {
    std::swap(all[k - 1], all[static_cast<std::size_t>(random.below(static_cast<int>(k)))]);
  }
}

/// An array, and a tile of it whose extents are multiples of the array's blocks.
struct Sample {
  IndexSpace space;
  FieldSpace fields;
  Point blocks{};
  Point tile{};
};

Sample random_sample(Random& random) {
  Sample sample;
  const char* const names[] = {"x", "y", "z"};
  const auto rank = random.between(1, 3);
  sample.blocks.fill(1);
  for (int k = 0; k < rank; ++k) {
    const std::int64_t tiles = random.between(1, 3);
    if (random.chance(0.3)) sample.blocks[at(k)] = random.between(2, 3);
    sample.tile[at(k)] = sample.blocks[at(k)] * random.between(1, 3);
    sample.space.push_back({names[k], sample.tile[at(k)] * tiles});
  }
  for (auto k = random.between(1, 3); k > 0; --k) {
    const std::int64_t bytes = std::int64_t{1} << random.below(4);
    sample.fields.push_back({"f" + std::to_string(k), "V" + std::to_string(bytes), bytes});
  }
  return sample;
}

std::shared_ptr<const Mapping> laid_out(Random& random, const Sample& sample) {
  std::vector<Term> terms{Term{}};
  for (const Dimension& dimension : sample.space) terms.push_back({dimension.name, 0});
  shuffle(random, terms);
  for (std::size_t k = 0; k < sample.space.size(); ++k) {
    if (sample.blocks[k] < 2) continue;
    // A block's term lies anywhere before the last term of its dimension.
    const auto rest = std::find(terms.begin(), terms.end(), Term{sample.space[k].name, 0});
    const auto place = random.between(0, rest - terms.begin());
    terms.insert(terms.begin() + place, Term{sample.space[k].name, sample.blocks[k]});
  }
  FieldSpace fields = sample.fields;
  if (random.chance(0.3)) shuffle(random, fields);
  return Mapping::make(sample.space, fields, Layout(terms)).value();
}

/// Returns a view whose dimensions lie in any order, with gaps between them.
std::shared_ptr<const Mapping> strided(Random& random, const Sample& sample) {
  std::vector<int> order(sample.space.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(random, order);
  std::int64_t record = 0;
  for (const Field& field : sample.fields) record += field.bytes;
  std::vector<Mapping::StridedField> fields;
  std::int64_t offset = 0;
  for (const Field& field : sample.fields) {
    fields.push_back({field, offset, std::vector<std::int64_t>(sample.space.size(), 0)});
    offset += field.bytes;
  }
  std::int64_t stride = record * (random.chance(0.3) ? 2 : 1);
  for (const int k : order) {
    for (auto& field : fields) field.strides[at(k)] = stride;
    stride *= sample.space[at(k)].extent + (random.chance(0.3) ? random.between(1, 4) : 0);
  }
  return Mapping::make_strided(sample.space, fields).value();
}

std::string text_of(const Mapping& mapping, const Point& tile) {
  std::string text = mapping.layout().to_string() + (mapping.strided() ? " strided" : "") + ", of";
  for (int k = 0; k < mapping.rank(); ++k) {
    text += " " + mapping.space()[at(k)].name + "=" + std::to_string(tile[at(k)]) + "/" +
            std::to_string(mapping.space()[at(k)].extent);
  }
  for (const Placement& placement : mapping.fields()) {
    text += " " + placement.field.name + ":" + placement.field.type + "@" +
            std::to_string(placement.offset);
  }
  return text;
}

template <typename Body>
void for_samples(const char* test, Body body) {
  const std::string only = test::argument(2);
  const std::uint64_t first = only.empty() ? 0 : std::stoull(only);
  const std::uint64_t last = only.empty() ? seeds : first + 1;
  for (std::uint64_t seed = first; seed < last; ++seed) {
    Random random(seed);
    const Sample sample = random_sample(random);
    const std::string wrong = body(random, sample);
    if (wrong.empty()) continue;
    test::record_failure(__FILE__, __LINE__,
                         wrong + "\nreplay: test_plan " + test + " " + std::to_string(seed));
  }
}

}  // namespace

TEST(runs_of_a_tile_are_those_that_a_walk_finds) {
  for_samples("runs_of_a_tile", [](Random& random, const Sample& sample) -> std::string {
    const auto mapping = random.chance(0.3) ? strided(random, sample) : laid_out(random, sample);
    const std::int64_t run = Order::of(*mapping).run_bytes(sample.tile);
    const std::int64_t walked = walked_run(*mapping, *mapping, sample.tile, true);
    if (run == walked) return "";
    return text_of(*mapping, sample.tile) + ": says " + std::to_string(run) + ", walked " +
           std::to_string(walked);
  });
}

TEST(common_runs_are_those_that_a_walk_of_both_orders_finds) {
  for_samples("common_runs", [](Random& random, const Sample& sample) -> std::string {
    const auto a = random.chance(0.2) ? strided(random, sample) : laid_out(random, sample);
    const auto b = laid_out(random, sample);
    bool same_fields = true;
    for (std::size_t f = 0; f < a->fields().size(); ++f) {
      same_fields = same_fields && a->fields()[f].field == b->fields()[f].field;
    }
    const Order of_a = Order::of(*a);
    const std::int64_t bytes = common_bytes(of_a, Order::of(*b), sample.tile, same_fields);
    const std::int64_t walked =
        walked_run(*a->slot(sample.tile), *b->slot(sample.tile), sample.tile, same_fields);
    if (bytes == walked) return "";
    return text_of(*a, sample.tile) + " and " + text_of(*b, sample.tile) + ": says " +
           std::to_string(bytes) + ", walked " + std::to_string(walked);
  });
}

TEST(slots_have_room_for_their_tile) {
  for_samples("slots_have_room", [](Random& random, const Sample& sample) -> std::string {
    Sample smaller = sample;
    if (random.chance(0.2)) smaller.space[0].extent = 1;
    const auto mapping = laid_out(random, smaller);
    Point tile = sample.tile;
    tile[0] = std::min(tile[0], smaller.space[0].extent);
    for (int k = 0; k < mapping->rank(); ++k) tile[at(k)] = random.between(1, tile[at(k)]);
    const std::int64_t said = Order::of(*mapping).slot_bytes(tile);
    const std::int64_t needed = mapping->slot(tile)->end_bytes();
    if (said == needed) return "";
    return text_of(*mapping, tile) + ": says " + std::to_string(said) + ", needs " +
           std::to_string(needed);
  });
}

TEST(enlarging_gives_the_least_box_with_such_runs) {
  for_samples("enlarging", [](Random& random, const Sample& sample) -> std::string {
    const bool blocked = sample.blocks != Sample().blocks && random.chance(0.5);
    Sample plain = sample;
    if (!blocked) plain.blocks.fill(1);
    const auto mapping = random.chance(0.3) ? strided(random, plain) : laid_out(random, plain);
    const Order order = Order::of(*mapping);
    const Point extents = View::whole(mapping).extents;
    const std::int64_t bytes = random.between(1, 2 * order.run_bytes(extents));
    Point tile{};
    for (int k = 0; k < mapping->rank(); ++k) tile[at(k)] = 1;
    const bool enough = order.enlarge(bytes, extents, tile);
    const std::string where = text_of(*mapping, tile) + ", asked for " + std::to_string(bytes);
    if (enough != (order.run_bytes(extents) >= bytes)) {
      return where + ": says " + (enough ? "yes" : "no");
    }
    if (order.run_bytes(tile) < std::min(bytes, order.run_bytes(extents))) {
      return where + ": has " + std::to_string(order.run_bytes(tile));
    }
    for (int k = 0; enough && !blocked && k < mapping->rank(); ++k) {
      Point less = tile;
      if (--less[at(k)] > 0 && order.run_bytes(less) >= bytes) return where + ": not the least";
    }
    return "";
  });
}

TEST(enlarging_a_span_reaches_it_where_some_box_does) {
  for_samples("enlarging_a_span", [](Random& random, const Sample& sample) -> std::string {
    const auto mapping = strided(random, sample);
    const Order order = Order::of(*mapping);
    const Point extents = View::whole(mapping).extents;
    const std::int64_t most = walked_span(*mapping, extents);
    const std::int64_t bytes = random.between(1, 2 * most);
    Point tile{};
    for (int k = 0; k < mapping->rank(); ++k) tile[at(k)] = 1;
    const bool enough = order.enlarge_span(bytes, extents, tile);
    const std::string where = text_of(*mapping, tile) + ", asked for " + std::to_string(bytes);
    if (enough != (most >= bytes)) return where + ": says " + (enough ? "yes" : "no");
    if (walked_span(*mapping, tile) < std::min(bytes, most)) {
      return where + ": spans " + std::to_string(walked_span(*mapping, tile));
    }
    return "";
  });
}

TEST(the_runs_of_a_reversed_view_are_single_values) {
  // Neighbours in memory come in the opposite order to that of any dense buffer.
  const IndexSpace space{{"x", 100}};
  const auto mapping = Mapping::make_strided(space, {{{"f", "f4", 4}, 99 * 4, {-4}}}).value();
  EXPECT_EQ(Order::of(*mapping).run_bytes({100}), 4);
}

TEST(a_view_that_repeats_has_runs_of_single_values) {
  const IndexSpace space{{"x", 100}, {"y", 3}};
  const auto mapping = Mapping::make_strided(space, {{{"f", "f4", 4}, 0, {0, 4}}}).value();
  EXPECT_EQ(Order::of(*mapping).run_bytes({100, 3}), 4);
}
