#include "channels/host/copy.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sstream>
#include <vector>

#include "base/random.hpp"
#include "channels/host/box.hpp"
#include "channels/host/kernels.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::byte guard{0xa5};

/// Copies element by element, as an oracle.
void copy_slowly(const LoopNest& nest, const std::byte* source, std::byte* target, int loop) {
  if (loop == 0) {
    for (std::int64_t k = 0; k < nest.element_bytes; ++k) target[k] = source[k];
    return;
  }
  const Loop& turns = nest.loops[static_cast<std::size_t>(loop - 1)];
  for (std::int64_t i = 0; i < turns.extent; ++i) {
    copy_slowly(nest, source + i * turns.source_stride, target + i * turns.target_stride, loop - 1);
  }
}

/// The bytes that one side of a nest touches, counted from its base.
struct Span {
  std::int64_t low;
  std::int64_t high;
};

Span span_of(const LoopNest& nest, bool source) {
  Span span{source ? nest.source_offset : nest.target_offset, 0};
  span.high = span.low + nest.element_bytes;
  for (int k = 0; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    if (loop.extent == 0) continue;
    const std::int64_t reach =
        (loop.extent - 1) * (source ? loop.source_stride : loop.target_stride);
    (reach < 0 ? span.low : span.high) += reach;
  }
  return span;
}

Span span_of(const std::vector<LoopNest>& nests, bool source) {
  Span span = span_of(nests[0], source);
  for (const LoopNest& nest : nests) {
    const Span next = span_of(nest, source);
    span = {std::min(span.low, next.low), std::max(span.high, next.high)};
  }
  return span;
}

std::string describe(const std::vector<LoopNest>& nests, bool cold) {
  std::ostringstream out;
  out << (cold ? "cold" : "warm");
  for (const LoopNest& nest : nests) {
    out << " {" << nest.element_bytes << " from " << nest.source_offset << " to "
        << nest.target_offset;
    for (int k = 0; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
      out << " (" << loop.extent << ", " << loop.source_stride << ", " << loop.target_stride << ")";
    }
    out << "}";
  }
  return out.str();
}

/// Copies `nests` in both directions, with arrays of exactly the size that the nests reach (so that
/// sanitizers see an access beyond it) at a random alignment, and compares every byte, guards
/// included.
void check_copy(Random& random, const std::vector<LoopNest>& nests, bool cold) {
  const Span from = span_of(nests, true);
  const Span to = span_of(nests, false);
  const std::int64_t source_shift = random.below(64);
  const std::int64_t target_shift = 64 + random.below(64);
  std::vector<std::byte> source(static_cast<std::size_t>(source_shift + from.high - from.low));
  for (std::byte& byte : source) byte = static_cast<std::byte>(random.next());
  std::vector<std::byte> target(static_cast<std::size_t>(target_shift + to.high - to.low + 128),
                                guard);
  std::vector<std::byte> expected = target;
  const std::byte* source_base = source.data() + source_shift - from.low;
  for (const LoopNest& nest : nests) {
    copy_slowly(nest, source_base + nest.source_offset,
                expected.data() + target_shift - to.low + nest.target_offset, nest.rank);
  }
  copy_nests(nests, source_base, target.data() + target_shift - to.low, cold);
  if (target == expected) return;
  const auto at = std::mismatch(target.begin(), target.end(), expected.begin()).first;
  test::record_failure(__FILE__, __LINE__,
                       "byte " + std::to_string(at - target.begin() - target_shift + to.low) +
                           " of the target is wrong: " + describe(nests, cold));
}

std::vector<int> random_order(Random& random, int rank) {
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t k = order.size(); k > 1; --k) {
    std::swap(order[k - 1],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k)))]);
  }
  return order;
}

/// Returns the strides of a dense array whose dimensions lie in `order`, sometimes with gaps.
std::vector<std::int64_t> random_strides(Random& random, std::int64_t element_bytes,
                                         const std::vector<std::int64_t>& extents,
                                         const std::vector<int>& order) {
  std::vector<std::int64_t> strides(extents.size());
  const double gaps = random.chance(0.5) ? 0.0 : 0.3;
  std::int64_t stride = element_bytes;
  for (int k : order) {
    if (random.chance(gaps)) stride += random.below(random.chance(0.5) ? 4 * element_bytes : 70);
    strides[static_cast<std::size_t>(k)] = stride;
    stride *= std::max<std::int64_t>(extents[static_cast<std::size_t>(k)], 1);
  }
  return strides;
}

std::int64_t random_extent(Random& random, std::int64_t room) {
  static constexpr std::int64_t usual[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100};
  const std::int64_t extent = random.chance(0.7) ? usual[random.below(std::ssize(usual))]
                                                 : random.between(1, random.chance(0.5) ? 20 : 700);
  return std::max<std::int64_t>(1, std::min(extent, room));
}

LoopNest random_nest(Random& random, std::int64_t element_bytes, int rank, std::int64_t bytes) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  nest.source_offset = random.between(-50, 50);
  nest.target_offset = random.between(-50, 50);
  nest.rank = rank;
  std::vector<std::int64_t> extents;
  std::int64_t room = std::max<std::int64_t>(1, bytes / element_bytes);
  for (int k = 0; k < rank; ++k) {
    extents.push_back(random_extent(random, room));
    room /= extents.back();
    if (random.chance(0.005)) extents.back() = 0;
  }
  const auto source = random_strides(random, element_bytes, extents, random_order(random, rank));
  const auto target = random_strides(random, element_bytes, extents, random_order(random, rank));
  const double backward = random.chance(0.7) ? 0.0 : 0.4;
  const double broadcast = random.chance(0.8) ? 0.0 : 0.3;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    nest.loops[k] = {extents[k], source[k], target[k]};
    if (random.chance(backward)) nest.loops[k].source_stride *= -1;
    if (random.chance(backward)) nest.loops[k].target_stride *= -1;
    if (random.chance(broadcast)) nest.loops[k].source_stride = 0;
  }
  return nest;
}

std::int64_t random_element_bytes(Random& random) {
  static constexpr std::int64_t usual[] = {1, 2, 4, 8, 16, 12, 24, 32, 48, 64};
  if (random.chance(0.8)) return usual[random.below(std::ssize(usual))];
  return random.between(1, random.chance(0.7) ? 70 : 6000);
}

/// Returns nests between the fields of records and one array for each field, in either direction.
std::vector<LoopNest> random_fields(Random& random, std::int64_t records, bool to_records) {
  static constexpr std::int64_t widths[] = {1, 2, 4, 8, 16, 12, 24, 3};
  const std::int64_t fields = random.between(2, 20);
  const std::int64_t outer = random.chance(0.3) ? random.between(2, 5) : 1;
  std::vector<LoopNest> nests;
  std::int64_t record = 0;
  std::int64_t array = 0;
  const bool gaps = random.chance(0.4);
  for (std::int64_t k = 0; k < fields; ++k) {
    const std::int64_t width = widths[random.below(std::ssize(widths))];
    if (gaps) record += random.below(4);
    LoopNest nest;
    nest.element_bytes = width;
    nest.source_offset = array;
    nest.target_offset = record;
    nest.loops[0] = {records, width, 0};
    nest.rank = 1;
    if (random.chance(0.2)) {  // several fields of one width
      const std::int64_t count = random.between(2, 4);
      nest.loops[static_cast<std::size_t>(nest.rank++)] = {count, width * records * outer, width};
      array += (count - 1) * width * records * outer;
      record += (count - 1) * width;
    }
    if (outer > 1) {
      nest.loops[static_cast<std::size_t>(nest.rank++)] = {outer, width * records, 0};
    }
    nests.push_back(nest);
    record += width;
    array += width * records * outer;
  }
  if (gaps) record += random.below(8);
  for (LoopNest& nest : nests) {
    nest.loops[0].target_stride = record;
    if (outer > 1) {
      nest.loops[static_cast<std::size_t>(nest.rank - 1)].target_stride = record * records + 5;
    }
    if (to_records) continue;
    std::swap(nest.source_offset, nest.target_offset);
    for (Loop& loop : nest.loops) std::swap(loop.source_stride, loop.target_stride);
  }
  return nests;
}

LoopNest nest_of(std::int64_t element_bytes, std::vector<Loop> loops) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  for (const Loop& loop : loops) nest.loops[static_cast<std::size_t>(nest.rank++)] = loop;
  return nest;
}

/// Returns nests that carry the fields of whole records, whose fields lie in random order on each
/// side, with gaps at times. The records are those of a random nest.
std::vector<LoopNest> random_whole_records(Random& random, std::int64_t bytes) {
  static constexpr std::int64_t widths[] = {1, 2, 4, 8, 16, 3};
  const auto fields = static_cast<int>(random.between(2, 7));
  std::vector<std::int64_t> field_bytes;
  for (int k = 0; k < fields; ++k) field_bytes.push_back(widths[random.below(std::ssize(widths))]);
  const double gaps = random.chance(0.6) ? 0.0 : 0.4;
  const auto place = [&](const std::vector<int>& order, std::vector<std::int64_t>& offsets) {
    std::int64_t end = 0;
    for (int k : order) {
      if (random.chance(gaps)) end += random.below(5);
      offsets[static_cast<std::size_t>(k)] = end;
      end += field_bytes[static_cast<std::size_t>(k)];
    }
    return end;
  };
  std::vector<std::int64_t> sources(field_bytes.size());
  std::vector<std::int64_t> targets(field_bytes.size());
  std::vector<int> order = random_order(random, fields);
  const std::int64_t source_bytes = place(order, sources);
  if (random.chance(0.7)) order = random_order(random, fields);
  const std::int64_t record_bytes = std::max(source_bytes, place(order, targets));
  const int rank = static_cast<int>(random.between(1, 4));
  const LoopNest record = random_nest(random, record_bytes, rank, bytes);
  std::vector<LoopNest> nests;
  for (std::size_t k = 0; k < field_bytes.size(); ++k) {
    nests.push_back(record);
    nests.back().element_bytes = field_bytes[k];
    nests.back().source_offset += sources[k];
    nests.back().target_offset += targets[k];
  }
  return nests;
}

/// Returns the copy of a slice with steps of a random array, its dimensions in random order, to a
/// dense array, or the other way.
LoopNest random_slice(Random& random, std::int64_t element_bytes, std::int64_t bytes) {
  const auto rank = static_cast<int>(random.between(2, 5));
  LoopNest nest = nest_of(element_bytes, {});
  nest.rank = rank;
  std::int64_t room = bytes / element_bytes;
  for (int k = 0; k < rank; ++k) {
    const std::int64_t most = std::max<std::int64_t>(1, k + 1 == rank ? room : room / 3);
    const std::int64_t extent =
        random.chance(0.6) ? random.between(2, 41) : random.between(1, 1400);
    nest.loops[static_cast<std::size_t>(k)].extent = std::min(extent, most);
    room /= std::min(extent, most);
  }
  std::int64_t view = element_bytes;
  for (int k : random_order(random, rank)) {
    Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    const std::int64_t step = random.chance(0.2) ? random.between(2, 3) : 1;
    loop.source_stride = view * step * (random.chance(0.1) ? -1 : 1);
    view *= loop.extent * step + (random.chance(0.4) ? random.below(9) : 0);
    if (random.chance(0.05)) view = (view + 4095) / 4096 * 4096;
  }
  std::int64_t plain = element_bytes;
  for (int k = 0; k < rank; ++k) {
    Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    loop.target_stride = plain;
    plain *= loop.extent;
  }
  if (random.chance(0.3)) {
    for (Loop& loop : nest.loops) std::swap(loop.source_stride, loop.target_stride);
  }
  return nest;
}

/// Copies a nest of two loops with the plan of one box.
void copy_grid(const host::Kernels& set, const LoopNest& nest, const std::byte* source,
               std::byte* target) {
  host::Shape shape;
  REQUIRE(host::normalise(nest, source, target, shape));
  static host::BoxPlan plan;
  plan.make(shape, set, true);
  host::Prefetcher none;
  plan.copy(shape.source, shape.target, host::source_range(shape), none);
}

}  // namespace

TEST(random_nests_of_all_shapes) {
  Random random(20240611);
  for (int k = 0; k < 6000; ++k) {
    const std::int64_t bytes = random.chance(0.9) ? random.between(1, 20000) : 500000;
    const int rank = static_cast<int>(random.chance(0.95) ? random.below(6) : random.below(25));
    const LoopNest nest = random_nest(random, random_element_bytes(random), rank, bytes);
    check_copy(random, {nest}, random.chance(0.5));
  }
}

TEST(elements_that_are_repeated_in_runs) {
  Random random(13);
  for (int k = 0; k < 4000; ++k) {
    static constexpr std::int64_t usual[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 31, 32, 48, 64, 512};
    LoopNest nest;
    nest.element_bytes =
        random.chance(0.9) ? usual[random.below(std::ssize(usual))] : random.between(1, 600);
    std::int64_t stride = nest.element_bytes + (random.chance(0.2) ? random.below(20) : 0);
    const auto add = [&](std::int64_t extent, std::int64_t source_stride) {
      nest.loops[static_cast<std::size_t>(nest.rank++)] = {extent, source_stride, stride};
      stride = stride * extent + (random.chance(0.3) ? random.below(70) : 0);
    };
    add(random.chance(0.7) ? random.between(2, 80) : random.between(2, 3000), 0);
    if (random.chance(0.7)) add(random.between(1, 9), nest.element_bytes * random.between(-3, 3));
    if (random.chance(0.3)) add(random.between(1, 5), random.below(100));
    check_copy(random, {nest}, random.chance(0.5));
  }
}

TEST(fields_of_records) {
  Random random(7);
  for (int k = 0; k < 600; ++k) {
    const std::int64_t records = random.chance(0.8) ? random.between(1, 600) : 9000;
    check_copy(random, random_fields(random, records, random.chance(0.5)), random.chance(0.7));
  }
}

TEST(records_that_are_whole_on_both_sides) {
  Random random(9);
  for (int k = 0; k < 800; ++k) {
    const std::int64_t bytes = random.chance(0.8) ? random.between(1, 60000) : 400000;
    check_copy(random, random_whole_records(random, bytes), random.chance(0.7));
  }
}

TEST(slices_of_several_blocks) {
  Random random(10);
  for (int k = 0; k < 500; ++k) {
    static constexpr std::int64_t widths[] = {1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 11, 16, 18, 25};
    const std::int64_t width = widths[random.below(std::ssize(widths))];
    const std::int64_t bytes = random.chance(0.5) ? random.between(9000, 60000) : 400000;
    check_copy(random, {random_slice(random, width, bytes)}, random.chance(0.7));
  }
}

TEST(long_axes_of_short_records) {
  Random random(11);
  for (int k = 0; k < 200; ++k) {  // longer than lists, and no multiple of their length
    const std::int64_t records = random.between(1, 6000);
    const std::int64_t fields = random.between(2, 17);
    const std::int64_t width = std::int64_t{1} << random.below(4);
    LoopNest nest =
        nest_of(width, {{fields, records * width, width}, {records, width, fields * width}});
    if (random.chance(0.5)) {
      for (Loop& loop : nest.loops) std::swap(loop.source_stride, loop.target_stride);
    }
    check_copy(random, {nest}, random.chance(0.7));
  }
}

TEST(unrelated_nests_in_one_request) {
  Random random(8);
  for (int k = 0; k < 300; ++k) {
    std::vector<LoopNest> nests;
    std::int64_t end = 0;
    for (std::int64_t n = random.between(2, 8); n > 0; --n) {
      nests.push_back(random_nest(random, random_element_bytes(random),
                                  static_cast<int>(random.below(4)), 30000));
      const Span span = span_of(nests.back(), false);
      nests.back().target_offset += end - span.low;
      end += span.high - span.low + random.below(3);
    }
    check_copy(random, nests, random.chance(0.5));
  }
}

TEST(nothing_is_copied_where_there_is_nothing) {
  Random random(1);
  check_copy(random, {nest_of(4, {{0, 4, 4}, {5, 40, 40}})}, true);
  check_copy(random, {nest_of(4, {{5, 4, 4}, {0, 40, 40}})}, false);
  copy_nests({}, nullptr, nullptr, true);
}

TEST(runs_of_every_length_and_alignment) {
  Random random(2);
  for (std::int64_t bytes = 1; bytes < 400; ++bytes) check_copy(random, {nest_of(bytes, {})}, true);
  for (int k = 0; k < 100; ++k) {
    check_copy(random, {nest_of(random.between(1000, 9000), {})}, random.chance(0.7));
    check_copy(random, {nest_of(random.between(2000, 5000), {{7, 6000, 5100}})}, true);
  }
}

TEST(transposes_at_every_edge_of_a_square) {
  Random random(3);
  for (std::int64_t element_bytes : {1, 2, 3, 4, 8, 16}) {
    for (int k = 0; k < 250; ++k) {
      const std::int64_t rows = random.between(1, 40);
      const std::int64_t columns = random.chance(0.8) ? random.between(1, 40) : 4096;
      const std::int64_t pitch = random.chance(0.5) ? columns : columns + random.below(9);
      const std::int64_t row_sign = random.chance(0.2) ? -1 : 1;
      const std::int64_t column_sign = random.chance(0.3) ? -1 : 1;
      check_copy(
          random,
          {nest_of(element_bytes, {{rows, row_sign * pitch * element_bytes, element_bytes},
                                   {columns, column_sign * element_bytes, rows * element_bytes}})},
          random.chance(0.5));
    }
  }
}

TEST(transposes_of_crowded_rows) {
  Random random(4);
  for (std::int64_t element_bytes : {1, 2, 3, 4, 8, 16}) {
    const std::int64_t rows = 300;
    const std::int64_t columns = 2048 / element_bytes;
    check_copy(random,
               {nest_of(element_bytes, {{rows, 2048, element_bytes},
                                        {columns, element_bytes, rows * element_bytes}})},
               true);
  }
}

TEST(transposes_of_records_in_crowded_rows) {
  Random random(12);
  for (int k = 0; k < 60; ++k) {  // {8 bytes, 2 bytes, 4 bytes} with padding, in another order
    const std::int64_t pitch = random.chance(0.5) ? 4096 : 8192;
    const std::int64_t rows = random.between(1, 90);
    const std::int64_t record = random.between(14, 30);
    const std::int64_t columns = random.between(1, pitch / record);
    const std::int64_t sources[] = {0, 8, 10};
    const std::int64_t targets[] = {6, 0, 2};
    const std::int64_t bytes[] = {8, 2, 4};
    std::vector<LoopNest> nests;
    for (int f = 0; f < 3; ++f) {
      nests.push_back(nest_of(bytes[f], {{rows, pitch, 14}, {columns, record, rows * 14}}));
      nests.back().source_offset = sources[f];
      nests.back().target_offset = targets[f];
    }
    check_copy(random, nests, random.chance(0.7));
  }
}

TEST(kernels_of_every_instruction_set) {
  Random random(5);
  std::vector<std::byte> source(1 << 18);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random.next());
  for (const char* name : {"scalar", "sse2", "avx2", "avx512"}) {
    const host::Kernels* set = host::kernels_named(name);
    if (set == nullptr) continue;
    for (std::int64_t bytes : {1, 2, 3, 4, 8, 16, 5}) {
      for (int k = 0; k < 200; ++k) {
        const std::int64_t rows = random.between(1, random.chance(0.2) ? 100 : 20);
        const std::int64_t columns = random.between(1, random.chance(0.2) ? 100 : 20);
        const std::int64_t source_pitch = random.chance(0.1) ? 2048 : columns * bytes;
        const std::int64_t target_pitch = rows * bytes + random.below(2) * random.below(9);
        std::vector<std::byte> target(
            static_cast<std::size_t>((columns - 1) * target_pitch + rows * bytes + 64), guard);
        std::vector<std::byte> expected = target;
        const LoopNest nest =
            nest_of(bytes, {{rows, source_pitch, bytes}, {columns, bytes, target_pitch}});
        copy_slowly(nest, source.data() + 3, expected.data() + 7, 2);
        copy_grid(*set, nest, source.data() + 3, target.data() + 7);
        EXPECT(target == expected);
        std::fill(target.begin(), target.end(), guard);
        const auto run = static_cast<std::size_t>(random.below(std::ssize(target) - 8));
        set->stream(source.data() + 5, target.data() + 7, static_cast<std::int64_t>(run));
        host::fence_streams();
        EXPECT(std::memcmp(target.data() + 7, source.data() + 5, run) == 0);
        EXPECT(target[6] == guard);
        EXPECT(target[7 + run] == guard);
      }
    }
  }
}

TEST(neighbours_whose_axes_match_crosswise) {
  Random random(6);
  for (int k = 0; k < 200; ++k) {  // two fields of an array, each transposed in its own way
    const std::int64_t side = random.between(30, 70);
    const std::int64_t record = 16 * side;
    LoopNest first = nest_of(8, {{side, 16, 16}, {side, record, record}});
    LoopNest second = nest_of(8, {{side, record, 16}, {side, 16, record}});
    second.source_offset = random.chance(0.5) ? 0 : 8;
    second.target_offset = 8;
    std::vector<LoopNest> nests{first, second};
    if (random.chance(0.5)) std::swap(nests[0], nests[1]);
    check_copy(random, nests, random.chance(0.5));
  }
}
