#include "datatypes/datatype.hpp"

#include <numeric>

#include "random_types.hpp"
#include "support/test.hpp"

using namespace tranship;
using Numbers = std::vector<std::int64_t>;
using Kind = Distribution::Kind;

namespace {

Datatype element(const char* type) { return Datatype::element(type).value(); }

std::vector<std::int64_t> offsets_of(const Datatype& type) {
  std::vector<TypeRun> runs;
  append_runs(type.tree(), runs);
  std::vector<std::int64_t> offsets;
  for (const TypeRun& run : runs) {
    for (std::int64_t k = 0; k < run.bytes; ++k) offsets.push_back(run.offset + k);
  }
  return offsets;
}

void expect_error(const Result<Datatype>& made, ErrorCode code, const char* message) {
  REQUIRE(!made.ok());
  EXPECT(made.error().code == code);
  if (made.error().message.find(message) == std::string::npos) {
    test::record_failure(__FILE__, __LINE__, made.error().message + " lacks: " + message);
  }
}

}  // namespace

TEST(signatures_are_equal_for_the_same_elements_alone) {
  std::vector<TypeAndMap> types;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    types.push_back(random_type(random, static_cast<int>(random.between(0, 3)), 6));
  }
  int equal = 0;
  for (const TypeAndMap& one : types) {
    for (const TypeAndMap& other : types) {
      // Raw bytes count one by one.
      const auto split = [](const TypeAndMap& type) {
        std::vector<std::string> all;
        for (const auto& entry : type.map) {
          const bool raw = entry.element[0] == 'V';
          all.insert(all.end(), raw ? static_cast<std::size_t>(entry.bytes) : 1,
                     raw ? "V1" : entry.element);
        }
        return all;
      };
      const bool same = split(one) == split(other);
      EXPECT_EQ(one.type.signature() == other.type.signature(), same);
      equal += same ? 1 : 0;
    }
  }
  EXPECT(equal > 1000);
}

TEST(elements_of_both_types_must_agree) {
  const Datatype doubles = Datatype::contiguous(4, element("f8")).value();
  EXPECT(check_elements(doubles, Datatype::vector(2, 2, 3, element("f8")).value()).ok());
  EXPECT(check_elements(doubles, Datatype::contiguous(32, element("V1")).value()).ok());
  const Status fewer = check_elements(doubles, element("f8"));
  REQUIRE(!fewer.ok());
  EXPECT_EQ(fewer.error().message,
            "the source's type contiguous(4, f8) has 32 bytes and the target's type f8 8");
  const Status others = check_elements(doubles, Datatype::contiguous(4, element("i8")).value());
  REQUIRE(!others.ok());
  EXPECT_EQ(
      others.error().message,
      "the elements of the source's type contiguous(4, f8) are not those of the target's type "
      "contiguous(4, i8)");
}

TEST(structures_end_where_c_ends_them) {
  const std::vector<Datatype> members{element("i4"), element("f8"), element("u1")};
  const Datatype record = Datatype::structure(Numbers{1, 1, 1}, Numbers{0, 8, 16}, members).value();
  EXPECT_EQ(record.extent(), 24);
  EXPECT_EQ(record.bytes(), 13);
  const std::vector<Datatype> sized{Datatype::resized(0, 10, element("f8")).value(), element("i4")};
  EXPECT_EQ(Datatype::structure(Numbers{1, 1}, Numbers{0, 12}, sized)->extent(), 10);
}

TEST(bounds_that_were_set_count_alone) {
  const Datatype wide = Datatype::resized(-4, 20, element("f4")).value();
  const std::vector<Datatype> bases{element("f8"), wide, element("f8")};
  const Datatype made = Datatype::structure(Numbers{1, 2, 1}, Numbers{-100, 0, 100}, bases).value();
  EXPECT_EQ(made.lower_bound(), -4);
  EXPECT_EQ(made.extent(), 40);
  EXPECT_EQ(made.true_lower_bound(), -100);
  EXPECT_EQ(made.true_upper_bound(), 108);
}

TEST(a_subarray_is_a_box_of_the_array) {
  for (const ArrayOrder order : {ArrayOrder::c, ArrayOrder::fortran}) {
    const Numbers sizes{4, 5, 3};
    const Numbers subsizes{2, 3, 2};
    const Numbers starts{1, 2, 0};
    const Datatype box = Datatype::subarray(sizes, subsizes, starts, order, element("i2")).value();
    EXPECT_EQ(box.lower_bound(), 0);
    EXPECT_EQ(box.extent(), 4 * 5 * 3 * 2);
    std::vector<std::int64_t> offsets;
    const bool c = order == ArrayOrder::c;
    const Numbers steps = c ? Numbers{15, 3, 1} : Numbers{1, 4, 20};
    const std::size_t slow = c ? 0 : 2;
    const std::size_t fast = c ? 2 : 0;
    for (std::int64_t i = 0; i < subsizes[slow]; ++i) {
      for (std::int64_t j = 0; j < subsizes[1]; ++j) {
        for (std::int64_t k = 0; k < subsizes[fast]; ++k) {
          const std::int64_t at = (starts[slow] + i) * steps[slow] + (starts[1] + j) * steps[1] +
                                  (starts[fast] + k) * steps[fast];
          offsets.push_back(2 * at);
          offsets.push_back(2 * at + 1);
        }
      }
    }
    EXPECT(offsets_of(box) == offsets);
  }
}

TEST(the_shares_of_a_grid_are_the_array) {
  Random random(7);
  for (int turn = 0; turn < 300; ++turn) {
    Numbers sizes;
    Numbers grid;
    std::vector<Distribution> distributions;
    std::int64_t processes = 1;
    for (std::int64_t k = random.between(1, 3); k > 0; --k) {
      sizes.push_back(random.between(1, 9));
      const auto kind = static_cast<Kind>(random.below(3));
      grid.push_back(kind == Kind::none ? 1 : random.between(1, 4));
      std::int64_t argument = 0;
      if (kind == Kind::cyclic) argument = random.between(0, 4);
      distributions.push_back({kind, argument});
      processes *= grid.back();
    }
    const auto order = random.chance(0.5) ? ArrayOrder::c : ArrayOrder::fortran;
    const std::int64_t points =
        std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<int> owner(static_cast<std::size_t>(points), -1);
    for (std::int64_t rank = 0; rank < processes; ++rank) {
      const Datatype share =
          Datatype::darray(rank, sizes, distributions, grid, order, element("u1")).value();
      EXPECT_EQ(share.extent(), points);
      const auto offsets = offsets_of(share);
      EXPECT(std::is_sorted(offsets.begin(), offsets.end()));
      for (const std::int64_t offset : offsets) {
        // Which process has an index follows from the definition.
        std::int64_t left = offset;
        Numbers index(sizes.size());
        for (std::size_t d = 0; d < sizes.size(); ++d) {
          const std::size_t k = order == ArrayOrder::c ? sizes.size() - 1 - d : d;
          index[k] = left % sizes[k];
          left /= sizes[k];
        }
        std::int64_t wanted = 0;
        for (std::size_t k = 0; k < sizes.size(); ++k) {
          const std::int64_t even = (sizes[k] + grid[k] - 1) / grid[k];
          const bool cyclic = distributions[k].kind == Kind::cyclic;
          const std::int64_t length = std::max<std::int64_t>(distributions[k].argument, 1);
          wanted = wanted * grid[k] + (cyclic ? index[k] / length % grid[k] : index[k] / even);
        }
        EXPECT_EQ(wanted, rank);
        EXPECT_EQ(owner[static_cast<std::size_t>(offset)], -1);
        owner[static_cast<std::size_t>(offset)] = static_cast<int>(rank);
      }
    }
    EXPECT(std::find(owner.begin(), owner.end(), -1) == owner.end());
  }
}

TEST(what_is_no_type_is_refused_with_the_reason) {
  const Datatype one = element("f8");
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(Datatype::element("f3"), invalid, "\"f3\" is not a type of an element");
  expect_error(Datatype::element("x8"), invalid, "\"x8\" is not a type of an element");
  expect_error(Datatype::contiguous(-1, one), invalid, "count=-1 is negative");
  expect_error(Datatype::vector(2, -3, 1, one), invalid, "block_length=-3 is negative");
  expect_error(Datatype::indexed(Numbers{1, 2}, Numbers{0}, one), invalid,
               "there are 2 block lengths and 1 displacements");
  expect_error(Datatype::structure(Numbers{1}, Numbers{0}, {}), invalid,
               "there are 0 types and 1 block lengths");
  expect_error(Datatype::subarray(Numbers{4}, Numbers{3}, Numbers{2}, ArrayOrder::c, one), invalid,
               "the box of dimension 0 [2, 2 + 3) lies outside [0, 4)");
  expect_error(Datatype::subarray(Numbers{4}, Numbers{3, 1}, Numbers{2}, ArrayOrder::c, one),
               invalid, "sizes, subsizes and starts have 1, 2 and 1 dimensions");
  const std::vector<Distribution> block{{Kind::block, 2}};
  expect_error(Datatype::darray(0, Numbers{9}, block, Numbers{4}, ArrayOrder::c, one), invalid,
               "the blocks of dimension 0 of 2 indices do not cover 9 with 4 processes");
  expect_error(Datatype::darray(4, Numbers{8}, block, Numbers{4}, ArrayOrder::c, one), invalid,
               "rank=4 is not a process of a grid of 4");
  const std::vector<Distribution> whole{{Kind::none, 0}};
  expect_error(Datatype::darray(0, Numbers{8}, whole, Numbers{2}, ArrayOrder::c, one), invalid,
               "the grid of dimension 0 has 2 processes");
  expect_error(Datatype::contiguous(std::int64_t{1} << 60, one), ErrorCode::out_of_range,
               "the type reaches beyond 2^61 bytes");
  expect_error(Datatype::hvector(3, 1, INT64_MAX / 2, one), ErrorCode::out_of_range,
               "the type reaches beyond 2^61 bytes");
  expect_error(Datatype::resized(0, INT64_MAX, one), ErrorCode::out_of_range,
               "the type reaches beyond 2^61 bytes");
  const Datatype dense = Datatype::resized(0, 1, one).value();
  expect_error(Datatype::subarray(Numbers{std::int64_t{1} << 61}, Numbers{std::int64_t{1} << 61},
                                  Numbers{0}, ArrayOrder::c, dense),
               ErrorCode::out_of_range, "the type reaches beyond 2^61 bytes");
  const Datatype flat = Datatype::resized(0, 0, one).value();
  const Numbers huge{std::int64_t{1} << 61, std::int64_t{1} << 61};
  expect_error(Datatype::subarray(huge, huge, Numbers{0, 0}, ArrayOrder::c, flat),
               ErrorCode::out_of_range, "the type reaches beyond 2^61 bytes");
  Result<Datatype> deep = one;
  std::int64_t stride = 24;
  for (int k = 0; k < 30 && deep.ok(); ++k, stride *= 3) {
    deep = Datatype::hvector(2, 1, stride, *deep);
  }
  expect_error(deep, ErrorCode::unsupported, "the type is nested deeper than 20 levels");
}

TEST(a_grid_of_any_number_of_processes_has_shares) {
  const std::vector<Distribution> cyclic{{Kind::cyclic, 4}};
  const Datatype bytes = element("u1");
  for (const std::int64_t processes :
       {std::int64_t{1} << 61, std::int64_t{1} << 62, INT64_MAX / 2}) {
    const Numbers grid{processes};
    const auto first = Datatype::darray(0, Numbers{100}, cyclic, grid, ArrayOrder::c, bytes);
    EXPECT_EQ(first->bytes(), 4);
    const auto last =
        Datatype::darray(processes - 1, Numbers{100}, cyclic, grid, ArrayOrder::c, bytes);
    EXPECT_EQ(last->bytes(), 0);
    const std::vector<Distribution> block{{Kind::block, 0}};
    const auto one = Datatype::darray(7, Numbers{100}, block, grid, ArrayOrder::c, bytes);
    EXPECT_EQ(one->bytes(), 1);
  }
}

TEST(strides_that_wrap_around_are_refused) {
  const Datatype wide = Datatype::resized(0, std::int64_t{1} << 60, element("u1")).value();
  expect_error(Datatype::vector(17, 1, INT64_MIN, wide), ErrorCode::out_of_range,
               "the type reaches beyond 2^61 bytes");
  expect_error(Datatype::vector(257, 1, std::int64_t{1} << 62, wide), ErrorCode::out_of_range,
               "the type reaches beyond 2^61 bytes");
  EXPECT_EQ(Datatype::vector(0, INT64_MAX, 1, element("f8"))->bytes(), 0);
  EXPECT_EQ(Datatype::vector(INT64_MAX, 0, 1, element("f8"))->bytes(), 0);
}

TEST(texts_of_types_have_an_end) {
  Datatype type = element("f8");
  for (int k = 0; k < 18; ++k) {
    const Numbers places{0, type.extent(), 2 * type.extent()};
    type = Datatype::structure(Numbers{1, 1, 1}, places, std::vector<Datatype>(3, type)).value();
  }
  EXPECT(type.text().size() < 300);
}

TEST(elements_differ_by_byte_order_unit_and_name) {
  const std::vector<const char*> types{"f8",     ">f8",     "i8",           "M8[s]", "M8[ns]",
                                       "m8[ns]", ">M8[ns]", "V2[bfloat16]", "V2"};
  for (const char* one : types) {
    for (const char* other : types) {
      const bool same = std::string(one) == other;
      EXPECT_EQ(element(one).signature() == element(other).signature(), same);
    }
  }
  EXPECT(!element("V2[bfloat16]").signature().raw());
  EXPECT(element("V2").signature().raw());
  expect_error(Datatype::element("M8[ns"), ErrorCode::invalid_argument, "is not a type");
  expect_error(Datatype::element(">"), ErrorCode::invalid_argument, "is not a type");
}
