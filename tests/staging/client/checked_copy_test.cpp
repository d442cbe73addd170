// Copies that take checksums: their bytes, and their checksums, against copies element by element.
#include "staging/client/checked_copy.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "base/crc32c.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

using Extents = std::vector<std::int64_t>;

/// An array with gaps between its elements, in random order of its dimensions, some of them
/// reversed, and the bytes around it.
struct Scattered {
  std::vector<std::byte> memory;
  Array array;

  Scattered(const Extents& extents, std::int64_t element_bytes, bool dense, std::mt19937& random) {
    std::vector<std::size_t> order(extents.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::reverse(order.begin(), order.end());
    if (!dense) std::shuffle(order.begin(), order.end(), random);
    Extents strides(extents.size());
    std::int64_t stride = element_bytes;
    std::int64_t offset = 0;
    IndexSpace space;
    for (const std::size_t k : order) {
      if (!dense && random() % 3 == 0) stride += element_bytes;
      strides[k] = stride;
      stride *= extents[k];
      if (dense || random() % 4 != 0) continue;
      offset += strides[k] * (extents[k] - 1);
      strides[k] = -strides[k];
    }
    for (std::size_t k = 0; k < extents.size(); ++k) {
      space.push_back({"d" + std::to_string(k), extents[k]});
    }
    memory.resize(static_cast<std::size_t>(stride));
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    auto mapping = Mapping::make_strided(
        std::move(space), {{Field{.name = "x", .bytes = element_bytes}, offset, strides}});
    REQUIRE(mapping.ok());
    array.view = View::whole(*mapping);
    array.place.address = memory.data();
    strides_ = strides;
    offset_ = offset;
    extents_ = extents;
    element_bytes_ = static_cast<std::size_t>(element_bytes);
  }

  /// Returns the elements in the order of a dense array.
  std::vector<std::byte> elements() const {
    std::vector<std::byte> all;
    Extents index(extents_.size());
    for (bool more = true; more;) {
      const std::int64_t at =
          std::inner_product(index.begin(), index.end(), strides_.begin(), offset_);
      const auto first = memory.begin() + at;
      all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(element_bytes_));
      more = false;
      for (std::size_t k = index.size(); k-- > 0 && !more;) {
        more = ++index[k] < extents_[k];
        if (!more) index[k] = 0;
      }
    }
    return all;
  }

 private:
  Extents strides_;
  Extents extents_;
  std::int64_t offset_ = 0;
  std::size_t element_bytes_ = 0;
};

Status goes_on() { return {}; }

/// Copies between random arrays of one shape, one of them dense, and checks bytes and checksums.
void check(const std::vector<Extents>& shapes, std::int64_t element_bytes, int threads,
           std::uint32_t seed) {
  std::mt19937 random(seed);
  for (const auto side : {CheckedCopy::Side::source, CheckedCopy::Side::target}) {
    std::vector<Scattered> sources;
    std::vector<Scattered> targets;
    std::vector<CheckedCopy> copies;
    for (const Extents& extents : shapes) {
      const bool from_dense = side == CheckedCopy::Side::target;
      sources.emplace_back(extents, element_bytes, from_dense || random() % 2 == 0, random);
      targets.emplace_back(extents, element_bytes, !from_dense || random() % 2 == 0, random);
    }
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      copies.push_back({{sources[k].array, targets[k].array}, side});
    }
    REQUIRE(copy_checked(copies, threads, random() % 2 == 0, goes_on).ok());
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const auto elements = sources[k].elements();
      EXPECT(targets[k].elements() == elements);
      EXPECT_EQ(copies[k].crc, crc32c(elements));
    }
  }
}

}  // namespace

TEST(checked_copies_of_any_shape_have_the_checksum_of_their_dense_elements) {
  std::mt19937 random(1);
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::vector<Extents> shapes;
    for (auto count = 1 + random() % 3; count > 0; --count) {
      Extents& extents = shapes.emplace_back(random() % 5);
      for (std::int64_t& extent : extents) extent = 1 + static_cast<std::int64_t>(random() % 9);
    }
    check(shapes, 1 + static_cast<std::int64_t>(random() % 12), 1 + static_cast<int>(seed % 3),
          seed);
  }
}

TEST(checked_copies_of_several_threads_have_the_checksum_of_the_whole) {
  const std::vector<std::vector<Extents>> lists = {
      {{1'500'001}},                        // slabs are parts of the only dimension
      {{16'000, 100}},                      // and whole rows
      {{3, 2, 250'009}},                    // and parts of rows
      {{9}, {1'000'003}, {}, {300, 4001}},  // several copies together
  };
  std::uint32_t seed = 0;
  for (const auto& shapes : lists) {
    for (const int threads : {1, 4}) check(shapes, 3, threads, seed++);
  }
  check({{3, 2}}, 1 << 20, 3, seed);  // an element is larger than a slab
}

TEST(a_checked_copy_ends_when_its_caller_gives_up) {
  std::mt19937 random(1);
  Scattered source({20'000'000}, 1, true, random);
  Scattered target({20'000'000}, 1, true, random);
  for (const int threads : {1, 4}) {
    const int last = threads == 1 ? 3 : 1;  // others may have copied all before a later call
    int calls = 0;
    const auto check = [&]() -> Status {
      if (++calls < last) return {};
      return Error{ErrorCode::cancelled, "interrupted"};
    };
    CheckedCopy copy{{source.array, target.array}};
    const Status status = copy_checked({&copy, 1}, threads, true, check);
    EXPECT(!status && status.error().code == ErrorCode::cancelled);
    EXPECT_EQ(calls, last);
  }
}
