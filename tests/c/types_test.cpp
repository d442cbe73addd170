// Types of the C API: every constructor against loops by hand, copies between types, prepared
// copies, and arguments that are refused.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "c/opened.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using tranship::test::last;
using tranship::test::Opened;
using tranship::test::patience;

namespace {

constexpr std::int64_t block_bytes = 1024;
using Bytes = std::vector<unsigned char>;
using Numbers = std::vector<std::int64_t>;

template <auto release>
struct Free {
  template <typename Handle>
  void operator()(Handle* handle) const {
    release(handle);
  }
};
using Type = std::unique_ptr<tranship_type, Free<tranship_type_free>>;
using Instance = std::unique_ptr<tranship_instance, Free<tranship_instance_free>>;
using Prepared = std::unique_ptr<tranship_prepared, Free<tranship_prepared_free>>;

/// Returns the type that a constructor writes.
Type made(const std::function<tranship_code(tranship_type**)>& make) {
  tranship_type* type = nullptr;
  REQUIRE(make(&type) == TRANSHIP_OK);
  REQUIRE(type != nullptr);
  return Type(type);
}

Type element(const char* name) {
  return made([&](tranship_type** type) { return tranship_type_element(name, type); });
}

Type contiguous(std::int64_t count, const Type& base) {
  return made(
      [&](tranship_type** type) { return tranship_type_contiguous(count, base.get(), type); });
}

Type vector(std::int64_t count, std::int64_t length, std::int64_t stride, const Type& base) {
  return made([&](tranship_type** type) {
    return tranship_type_vector(count, length, stride, base.get(), type);
  });
}

/// Bytes that differ from their neighbours.
Bytes counted(std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    bytes[k] = static_cast<unsigned char>(k * 7 + k / 256 + 1);
  }
  return bytes;
}

Instance instance_of(const Opened& engine, Bytes& bytes) {
  tranship_array array{};
  array.data = bytes.data();
  array.type = "u1";
  array.rank = 1;
  array.extents[0] = static_cast<std::int64_t>(bytes.size());
  tranship_instance* instance = nullptr;
  REQUIRE(tranship_instance_of_array(engine.get(), &array, &instance) == TRANSHIP_OK);
  return Instance(instance);
}

void finish(tranship_event* event) {
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  tranship_event_free(event);
}

/// One end of a copy between types; a null type stands for raw bytes.
struct TypedEnd {
  Bytes& bytes;
  const tranship_type* type;
};

tranship_code copy(const Opened& engine, TypedEnd source, TypedEnd target) {
  const Instance from = instance_of(engine, source.bytes);
  const Instance to = instance_of(engine, target.bytes);
  const tranship_typed_pair pair{from.get(), to.get(), source.type, target.type};
  tranship_event* event = nullptr;
  const tranship_code code = tranship_copy_types(engine.get(), &pair, 1, nullptr, &event);
  if (code == TRANSHIP_OK) finish(event);
  return code;
}

/// Some bytes of a type, one behind the other.
struct Run {
  std::int64_t begin;
  std::int64_t bytes;
};

/// Returns items of the same size at these bytes.
std::vector<Run> runs_at(const Numbers& begins, std::int64_t bytes) {
  std::vector<Run> runs;
  for (const std::int64_t begin : begins) runs.push_back({begin, bytes});
  return runs;
}

/// Returns how many runs there are when those that touch are one.
std::int64_t joined(const std::vector<Run>& runs) {
  std::int64_t count = 0;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    if (k == 0 || runs[k].begin != runs[k - 1].begin + runs[k - 1].bytes) ++count;
  }
  return count;
}

/// Checks the properties of a type whose bytes, in their order, are those of `runs`, and that it is
/// packed and unpacked as a loop does it.
void check(const Opened& engine, const Type& type, const std::vector<Run>& runs) {
  Bytes source = counted(block_bytes);
  Bytes expected;
  Bytes expected_back(source.size());
  std::int64_t low = block_bytes;
  std::int64_t high = 0;
  for (const Run& run : runs) {
    for (std::int64_t k = run.begin; k < run.begin + run.bytes; ++k) {
      const auto place = static_cast<std::size_t>(k);
      expected.push_back(source.at(place));
      expected_back.at(place) = source.at(place);
    }
    low = std::min(low, run.begin);
    high = std::max(high, run.begin + run.bytes);
  }
  EXPECT_EQ(tranship_type_bytes(type.get()), static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(tranship_type_true_lower_bound(type.get()), low);
  EXPECT_EQ(tranship_type_true_upper_bound(type.get()), high);
  EXPECT_EQ(tranship_type_disjoint(type.get()), 1);
  EXPECT_EQ(tranship_type_runs(type.get()), joined(runs));
  Bytes packed(expected.size());
  EXPECT_EQ(copy(engine, {source, type.get()}, {packed, nullptr}), TRANSHIP_OK);
  EXPECT(packed == expected);
  Bytes back(source.size());
  EXPECT_EQ(copy(engine, {packed, nullptr}, {back, type.get()}), TRANSHIP_OK);
  EXPECT(back == expected_back);
}

/// A structure as C lays it out: f8 at 0, i4 at 8, three bytes from 12 on, and one byte of padding.
Type record() {
  const std::array<Type, 3> elements{element("f8"), element("i4"), element("u1")};
  const std::array<const tranship_type*, 3> bases{elements[0].get(), elements[1].get(),
                                                  elements[2].get()};
  const Numbers lengths{1, 1, 3};
  const Numbers places{0, 8, 12};
  return made([&](tranship_type** type) {
    return tranship_type_struct(3, lengths.data(), places.data(), bases.data(), type);
  });
}

/// Returns whether the call fails with this code and message, and leaves no type.
bool refused(tranship_code expected, const std::string& words,
             const std::function<tranship_code(tranship_type**)>& make) {
  const Type before = element("u1");
  tranship_type* type = before.get();
  const bool right = make(&type) == expected && last() == words && type == nullptr;
  if (!right) tranship::test::record_failure(__FILE__, __LINE__, last());
  return right;
}

}  // namespace

TEST(vectors_are_loops) {
  const Opened engine;
  const Type number = element("i4");
  check(engine, contiguous(5, number), {{0, 20}});
  Numbers places;
  Numbers places_in_bytes;
  for (std::int64_t block = 0; block < 3; ++block) {
    for (std::int64_t item = 0; item < 2; ++item) {
      places.push_back(4 * (5 * block + item));
      places_in_bytes.push_back(18 * block + 4 * item);
    }
  }
  const Type strided = vector(3, 2, 5, number);
  check(engine, strided, runs_at(places, 4));
  EXPECT_EQ(tranship_type_extent(strided.get()), 48);
  EXPECT_EQ(std::string(tranship_type_text(strided.get())), "vector(3, 2, 5, i4)");
  const Type in_bytes = made(
      [&](tranship_type** type) { return tranship_type_hvector(3, 2, 18, number.get(), type); });
  check(engine, in_bytes, runs_at(places_in_bytes, 4));
  EXPECT_EQ(std::string(tranship_type_text(in_bytes.get())), "hvector(3, 2, 18, i4)");
}

TEST(indexed_types_are_lists) {
  const Opened engine;
  const Type number = element("i4");
  const Numbers lengths{2, 0, 3};
  const Numbers places{7, 100, 1};
  check(engine, made([&](tranship_type** type) {
          return tranship_type_indexed(3, lengths.data(), places.data(), number.get(), type);
        }),
        {{28, 8}, {4, 12}});
  const Numbers places_in_bytes{17, 3, 2};
  check(engine, made([&](tranship_type** type) {
          return tranship_type_hindexed(3, lengths.data(), places_in_bytes.data(), number.get(),
                                        type);
        }),
        {{17, 8}, {2, 12}});
}

TEST(blocks_of_one_length_are_lists) {
  const Opened engine;
  const Type number = element("i4");
  const Numbers places{16, 0, 8};
  check(engine, made([&](tranship_type** type) {
          return tranship_type_indexed_block(3, 2, places.data(), number.get(), type);
        }),
        runs_at({64, 0, 32}, 8));
  check(engine, made([&](tranship_type** type) {
          return tranship_type_hindexed_block(3, 2, places.data(), number.get(), type);
        }),
        runs_at({16, 0, 8}, 8));
  const Type back = vector(3, 1, -2, number);
  EXPECT_EQ(tranship_type_lower_bound(back.get()), -16);
  EXPECT_EQ(tranship_type_true_lower_bound(back.get()), -16);
  const Numbers begin{40};
  check(engine, made([&](tranship_type** type) {
          return tranship_type_hindexed_block(1, 1, begin.data(), back.get(), type);
        }),
        runs_at({40, 32, 24}, 4));
}

TEST(structures_have_the_extent_that_c_gives_them) {
  const Opened engine;
  const Type one = record();
  EXPECT_EQ(tranship_type_extent(one.get()), 16);
  EXPECT_EQ(tranship_type_lower_bound(one.get()), 0);
  check(engine, one, {{0, 15}});
  check(engine, vector(3, 1, 2, one), runs_at({0, 32, 64}, 15));
}

TEST(subarrays_are_boxes) {
  const Opened engine;
  const Type number = element("i4");
  const Numbers sizes{6, 5};
  const Numbers subsizes{2, 3};
  const Numbers starts{1, 2};
  for (const int order : {TRANSHIP_C_ORDER, TRANSHIP_FORTRAN_ORDER}) {
    const bool rows = order == TRANSHIP_C_ORDER;
    Numbers places;
    for (std::int64_t slow = 0; slow < (rows ? 2 : 3); ++slow) {
      for (std::int64_t fast = 0; fast < (rows ? 3 : 2); ++fast) {
        places.push_back(rows ? 4 * (5 * (1 + slow) + 2 + fast) : 4 * (6 * (2 + slow) + 1 + fast));
      }
    }
    const Type box = made([&](tranship_type** type) {
      return tranship_type_subarray(2, sizes.data(), subsizes.data(), starts.data(), order,
                                    number.get(), type);
    });
    check(engine, box, runs_at(places, 4));
    EXPECT_EQ(tranship_type_extent(box.get()), 120);
    EXPECT_EQ(tranship_type_lower_bound(box.get()), 0);
  }
}

TEST(darrays_are_the_shares_of_processes) {
  const Opened engine;
  const Type number = element("i2");
  const Numbers sizes{7, 10, 3};
  const Numbers grid{2, 3, 1};
  const std::array<tranship_distribution, 3> distributions{
      {{TRANSHIP_CYCLIC, 2}, {TRANSHIP_BLOCK, 0}, {TRANSHIP_UNDISTRIBUTED, 0}}};
  for (const int order : {TRANSHIP_C_ORDER, TRANSHIP_FORTRAN_ORDER}) {
    for (std::int64_t rank = 0; rank < 6; ++rank) {
      Numbers places;
      for (std::int64_t i = 0; i < 7; ++i) {
        for (std::int64_t j = 0; j < 10; ++j) {
          for (std::int64_t k = 0; k < 3; ++k) {
            if (i / 2 % 2 != rank / 3 || j / 4 != rank % 3) continue;
            places.push_back(order == TRANSHIP_C_ORDER ? 2 * (30 * i + 3 * j + k)
                                                       : 2 * (i + 7 * j + 70 * k));
          }
        }
      }
      std::ranges::sort(places);
      const Type share = made([&](tranship_type** type) {
        return tranship_type_darray(rank, 3, sizes.data(), distributions.data(), grid.data(), order,
                                    number.get(), type);
      });
      check(engine, share, runs_at(places, 2));
      EXPECT_EQ(tranship_type_extent(share.get()), 420);
    }
  }
}

TEST(resized_types_are_further_apart) {
  const Opened engine;
  const Type number = element("i4");
  const Type wide =
      made([&](tranship_type** type) { return tranship_type_resized(number.get(), -4, 12, type); });
  EXPECT_EQ(tranship_type_lower_bound(wide.get()), -4);
  EXPECT_EQ(tranship_type_extent(wide.get()), 12);
  check(engine, contiguous(4, wide), runs_at({0, 12, 24, 36}, 4));
}

TEST(types_without_elements_copy_nothing) {
  const Opened engine;
  Bytes source = counted(8);
  Bytes target(8);
  const Type none = made([](tranship_type** type) {
    return tranship_type_struct(0, nullptr, nullptr, nullptr, type);
  });
  EXPECT_EQ(tranship_type_bytes(none.get()), 0);
  EXPECT_EQ(copy(engine, {source, none.get()}, {target, nullptr}), TRANSHIP_OK);
  EXPECT(target == Bytes(8));
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy_types(engine.get(), nullptr, 0, nullptr, &event) == TRANSHIP_OK);
  finish(event);
}

TEST(elements_go_from_the_places_of_one_type_to_those_of_another) {
  const Opened engine;
  const Type number = element("i4");
  const Type column = vector(6, 1, 5, number);
  const Numbers places{50, 40, 30, 20, 10, 0};
  const Type scattered = made([&](tranship_type** type) {
    return tranship_type_indexed_block(6, 1, places.data(), number.get(), type);
  });
  Bytes matrix = counted(6 * 5 * 4);
  Bytes target(51 * 4);
  REQUIRE(copy(engine, {matrix, column.get()}, {target, scattered.get()}) == TRANSHIP_OK);
  Bytes expected(target.size());
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t k = 0; k < 4; ++k) {
      expected[4 * (50 - 10 * row) + k] = matrix[4 * 5 * row + k];
    }
  }
  EXPECT(target == expected);
}

TEST(several_pairs_are_one_call) {
  const Opened engine;
  const Type number = element("i4");
  const Type even = vector(8, 1, 2, number);
  Bytes source = counted(64);
  std::array<Bytes, 2> targets{Bytes(32), Bytes(64)};
  const Instance from = instance_of(engine, source);
  const std::array<Instance, 2> to{instance_of(engine, targets[0]),
                                   instance_of(engine, targets[1])};
  const std::array<tranship_typed_pair, 2> pairs{{{from.get(), to[0].get(), even.get(), nullptr},
                                                  {from.get(), to[1].get(), nullptr, even.get()}}};
  tranship_copy_options options{};
  options.size = sizeof options;
  options.priority = 1;
  tranship_event* first = nullptr;
  REQUIRE(tranship_copy_types(engine.get(), pairs.data(), 1, nullptr, &first) == TRANSHIP_OK);
  options.after = &first;
  options.after_count = 1;
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy_types(engine.get(), pairs.data(), 2, &options, &event) == TRANSHIP_OK);
  finish(event);
  finish(first);
  for (std::size_t k = 0; k < 32; ++k) {
    const std::size_t place = k / 4 * 8 + k % 4;
    EXPECT_EQ(targets[0][k], source[place]);
    EXPECT_EQ(targets[1][place], source[k]);
    EXPECT_EQ(targets[1][place + 4], 0);
  }
}

TEST(a_file_is_an_end_of_a_copy_between_types) {
  const Opened engine;
  const Type column = vector(16, 1, 4, element("f8"));
  Bytes source = counted(512);
  Bytes found(128);
  const tranship_dimension dimension{"n", 16};
  const tranship_field field{"value", "f8"};
  const tranship_layout layout{&dimension, 1, &field, 1, nullptr};
  tranship_file_options options{};
  options.size = sizeof options;
  options.mode = "w";
  const std::string path = engine.path("column.bin");
  tranship_instance* opened = nullptr;
  REQUIRE(tranship_file_open(engine.get(), path.c_str(), &layout, &options, &opened) ==
          TRANSHIP_OK);
  const Instance file(opened);
  const Instance from = instance_of(engine, source);
  const tranship_typed_pair pair{from.get(), file.get(), column.get(), nullptr};
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy_types(engine.get(), &pair, 1, nullptr, &event) == TRANSHIP_OK);
  finish(event);
  REQUIRE(tranship_file_flush(file.get()) == TRANSHIP_OK);
  const Instance to = instance_of(engine, found);
  const Type whole = contiguous(16, element("f8"));
  const tranship_typed_pair read{file.get(), to.get(), whole.get(), nullptr};
  REQUIRE(tranship_copy_types(engine.get(), &read, 1, nullptr, &event) == TRANSHIP_OK);
  finish(event);
  for (std::size_t k = 0; k < found.size(); ++k) {
    EXPECT_EQ(found[k], source[k / 8 * 32 + k % 8]);
  }
}

TEST(prepared_copies_outlive_their_types_and_instances) {
  const Opened engine;
  Bytes source = counted(block_bytes);
  Bytes target(48);
  Bytes other(48);
  Prepared copy;
  {
    Type number = element("i4");
    const Type column = vector(12, 1, 7, number);
    number.reset();
    const Instance from = instance_of(engine, source);
    const Instance to = instance_of(engine, target);
    const tranship_typed_pair pair{from.get(), to.get(), column.get(), nullptr};
    tranship_prepared* prepared = nullptr;
    REQUIRE(tranship_prepare_types(engine.get(), &pair, 1, nullptr, &prepared) == TRANSHIP_OK);
    copy.reset(prepared);
  }
  tranship_event* event = nullptr;
  const auto expect_packed = [&](const Bytes& packed) {
    for (std::size_t k = 0; k < packed.size(); ++k) {
      EXPECT_EQ(packed[k], source[k / 4 * 28 + k % 4]);
    }
  };
  for (int turn = 0; turn < 3; ++turn) {
    for (unsigned char& byte : source) ++byte;
    REQUIRE(tranship_start(copy.get(), nullptr, &event) == TRANSHIP_OK);
    finish(event);
    expect_packed(target);
  }
  const Instance elsewhere = instance_of(engine, other);
  tranship_start_options options{};
  options.size = sizeof options;
  options.target = elsewhere.get();
  REQUIRE(tranship_start(copy.get(), &options, &event) == TRANSHIP_OK);
  finish(event);
  expect_packed(other);
  const Instance same = instance_of(engine, source);
  options.target = same.get();
  EXPECT_EQ(tranship_start(copy.get(), &options, &event), TRANSHIP_INVALID_ARGUMENT);
}

TEST(threads_share_a_type) {
  const Opened engine;
  const Type box = vector(100, 3, 10, element("u1"));
  std::array<int, 4> good{};
  std::vector<std::thread> threads;
  for (int& mine : good) {
    threads.emplace_back([&] {
      Bytes source = counted(block_bytes);
      Bytes packed(300);
      if (copy(engine, {source, box.get()}, {packed, nullptr}) != TRANSHIP_OK) return;
      mine = 1;
      for (std::size_t k = 0; k < packed.size(); ++k) {
        if (packed[k] != source[k / 3 * 10 + k % 3]) mine = 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(good.begin(), good.end(), 1), 4);
}

TEST(types_belong_to_no_engine_and_no_process) {
  tranship_type* number = nullptr;
  REQUIRE(tranship_type_element("f8", &number) == TRANSHIP_OK);
  const pid_t child = fork();
  if (child == 0) {
    tranship_type* pair = nullptr;
    const bool right = tranship_type_contiguous(2, number, &pair) == TRANSHIP_OK &&
                       tranship_type_bytes(pair) == 16;
    tranship_type_free(pair);
    tranship_type_free(number);
    _exit(right ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tranship_type_bytes(number), 8);
  tranship_type_free(number);
}

TEST(constructors_refuse_null) {
  const Type number = element("i4");
  const std::array<const tranship_type*, 2> bases{number.get(), nullptr};
  const Numbers ones{1, 1};
  const auto null_argument = [&](const char* name) {
    return std::string("the argument `") + name + "` is NULL|pass an address";
  };
  EXPECT_EQ(tranship_type_element("i4", nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(), null_argument("type"));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("name"),
                 [](auto** type) { return tranship_type_element(nullptr, type); }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("base"),
                 [](auto** type) { return tranship_type_vector(1, 1, 1, nullptr, type); }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("displacements"), [&](auto** type) {
    return tranship_type_indexed(2, ones.data(), nullptr, number.get(), type);
  }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("block_lengths"), [&](auto** type) {
    return tranship_type_hindexed(2, nullptr, ones.data(), number.get(), type);
  }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("displacements_bytes"), [&](auto** type) {
    return tranship_type_hindexed_block(2, 1, nullptr, number.get(), type);
  }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("bases[1]"), [&](auto** type) {
    return tranship_type_struct(2, ones.data(), ones.data(), bases.data(), type);
  }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("starts"), [&](auto** type) {
    return tranship_type_subarray(2, ones.data(), ones.data(), nullptr, 0, number.get(), type);
  }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, null_argument("distributions"), [&](auto** type) {
    return tranship_type_darray(0, 2, ones.data(), nullptr, ones.data(), 0, number.get(), type);
  }));
  EXPECT_EQ(tranship_type_bytes(nullptr), 0);
  EXPECT_EQ(tranship_type_extent(nullptr), 0);
  EXPECT_EQ(tranship_type_lower_bound(nullptr), 0);
  EXPECT_EQ(tranship_type_true_lower_bound(nullptr), 0);
  EXPECT_EQ(tranship_type_true_upper_bound(nullptr), 0);
  EXPECT_EQ(tranship_type_runs(nullptr), 0);
  EXPECT_EQ(tranship_type_disjoint(nullptr), 0);
  EXPECT_EQ(tranship_type_disjoint(vector(2, 1, 0, element("i4")).get()), 0);
  EXPECT_EQ(std::string(tranship_type_text(nullptr)), "");
  tranship_type_free(nullptr);
}

TEST(constructors_refuse_what_no_type_has) {
  const Type number = element("i4");
  const Numbers ones{1, 1};
  const Numbers threes{3, 3};
  const std::array<tranship_distribution, 2> unknown{{{TRANSHIP_BLOCK, 0}, {7, 0}}};
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT,
                 "\"f7\" is not a type of an element|write a letter and the number of bytes, such "
                 "as f8, i4, c16 or V3",
                 [](auto** type) { return tranship_type_element("f7", type); }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, "count=-1 is negative|give 0 or more",
                 [&](auto** type) { return tranship_type_contiguous(-1, number.get(), type); }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, "block_length=-2 is negative|give 0 or more",
                 [&](auto** type) { return tranship_type_vector(1, -2, 1, number.get(), type); }));
  EXPECT(
      refused(TRANSHIP_INVALID_ARGUMENT, "count=-3 is negative|give 0 or more", [&](auto** type) {
        return tranship_type_indexed_block(-3, 1, ones.data(), number.get(), type);
      }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT, "dimension_count=-1 is negative|give 0 or more",
                 [&](auto** type) {
                   return tranship_type_subarray(-1, ones.data(), ones.data(), ones.data(), 0,
                                                 number.get(), type);
                 }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT,
                 "the array's order is 2|use TRANSHIP_C_ORDER or TRANSHIP_FORTRAN_ORDER",
                 [&](auto** type) {
                   return tranship_type_subarray(2, threes.data(), ones.data(), ones.data(), 2,
                                                 number.get(), type);
                 }));
  EXPECT(
      refused(TRANSHIP_INVALID_ARGUMENT,
              "the box of dimension 0 [1, 1 + 3) lies outside [0, 3)|give a box inside the array",
              [&](auto** type) {
                return tranship_type_subarray(2, threes.data(), threes.data(), ones.data(), 0,
                                              number.get(), type);
              }));
  EXPECT(refused(TRANSHIP_INVALID_ARGUMENT,
                 "distributions[1] is of the kind 7|use TRANSHIP_UNDISTRIBUTED, TRANSHIP_BLOCK or "
                 "TRANSHIP_CYCLIC",
                 [&](auto** type) {
                   return tranship_type_darray(0, 2, threes.data(), unknown.data(), ones.data(), 0,
                                               number.get(), type);
                 }));
  EXPECT(refused(TRANSHIP_OUT_OF_RANGE,
                 "the type reaches beyond 2^61 bytes|give smaller counts or displacements",
                 [&](auto** type) {
                   return tranship_type_contiguous(std::numeric_limits<std::int64_t>::max(),
                                                   number.get(), type);
                 }));
}

TEST(copies_between_types_refuse_what_cannot_be_copied) {
  const Opened engine;
  Bytes source = counted(64);
  Bytes target(64);
  const Type number = element("f4");
  const Type eight = contiguous(8, number);
  const Type whole = contiguous(8, element("i4"));
  const Type four = contiguous(4, number);
  const Type beyond = vector(8, 1, 3, number);
  const Type twice = vector(8, 1, 0, number);
  EXPECT_EQ(copy(engine, {source, eight.get()}, {target, whole.get()}), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(),
            "the elements of the source's type contiguous(8, f4) are not those of the target's "
            "type contiguous(8, i4)|give types with the same sequence of elements, or raw bytes "
            "(V1) on one side");
  EXPECT_EQ(copy(engine, {source, eight.get()}, {target, four.get()}), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(engine, {source, beyond.get()}, {target, nullptr}), TRANSHIP_OUT_OF_RANGE);
  EXPECT_EQ(last(),
            "the type of the source vector(8, 1, 3, f4) reaches from byte 0 to byte 88, and the "
            "array has 64 bytes|give a longer array, or a type of fewer items");
  EXPECT_EQ(copy(engine, {source, nullptr}, {target, beyond.get()}), TRANSHIP_OUT_OF_RANGE);
  EXPECT_EQ(copy(engine, {source, eight.get()}, {target, twice.get()}), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(),
            "elements of the target's type vector(8, 1, 0, f4) share bytes|give a type that names "
            "each byte once");
  EXPECT_EQ(copy(engine, {source, twice.get()}, {target, nullptr}), TRANSHIP_OK);
  EXPECT_EQ(copy(engine, {source, eight.get()}, {source, eight.get()}), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(engine, {source, nullptr}, {target, nullptr}), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(),
            "pairs[0] has neither a source_type nor a target_type|give a type for one of them");
}

TEST(copies_between_types_refuse_faulty_arguments) {
  const Opened engine;
  Bytes source = counted(64);
  Bytes target(64);
  const Type number = element("f4");
  const Instance from = instance_of(engine, source);
  const Instance to = instance_of(engine, target);
  const tranship_typed_pair pair{from.get(), to.get(), number.get(), nullptr};
  const tranship_typed_pair no_target{from.get(), nullptr, number.get(), nullptr};
  tranship_event* event = nullptr;
  tranship_prepared* prepared = nullptr;
  const auto copies = [&](const tranship_typed_pair* pairs, std::int64_t count,
                          const std::string& words, const tranship_copy_options* options) {
    EXPECT_EQ(tranship_copy_types(engine.get(), pairs, count, options, &event),
              TRANSHIP_INVALID_ARGUMENT);
    EXPECT_EQ(last(), words);
    EXPECT_EQ(tranship_prepare_types(engine.get(), pairs, count, options, &prepared),
              TRANSHIP_INVALID_ARGUMENT);
    EXPECT_EQ(last(), words);
  };
  copies(nullptr, 1, "the argument `pairs` is NULL|pass an address", nullptr);
  copies(&no_target, 1, "the argument `target` is NULL|pass an address", nullptr);
  copies(&pair, -1, "pair_count=-1 is negative|give 0 or more", nullptr);
  const tranship_range range{"d0", 0, 4};
  tranship_copy_options options{};
  options.size = sizeof options;
  options.region = &range;
  options.region_count = 1;
  copies(&pair, 1,
         "the options of this copy have a region|pass instances of the parts, made by "
         "tranship_instance_part()",
         &options);
  EXPECT_EQ(tranship_copy_types(nullptr, &pair, 1, nullptr, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_copy_types(engine.get(), &pair, 1, nullptr, nullptr),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_prepare_types(engine.get(), &pair, 1, nullptr, nullptr),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_engine_close(engine.get()), TRANSHIP_OK);
  EXPECT_EQ(tranship_copy_types(engine.get(), &pair, 1, nullptr, &event), TRANSHIP_CLOSED);
  EXPECT(event == nullptr && prepared == nullptr);
}
