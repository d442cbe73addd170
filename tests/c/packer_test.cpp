// Packers of the C API: against loops by hand, at places before the given address, several items,
// several threads, and arguments that are refused.
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "c/opened.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using tranship::test::last;

namespace {

struct Freed {
  void operator()(tranship_type* type) const { tranship_type_free(type); }
  void operator()(tranship_packer* packer) const { tranship_packer_free(packer); }
};
using Type = std::unique_ptr<tranship_type, Freed>;
using Packer = std::unique_ptr<tranship_packer, Freed>;

Type element(const char* name) {
  tranship_type* type = nullptr;
  REQUIRE(tranship_type_element(name, &type) == TRANSHIP_OK);
  return Type(type);
}

Type vector(std::int64_t count, std::int64_t length, std::int64_t stride, const Type& base) {
  tranship_type* type = nullptr;
  REQUIRE(tranship_type_vector(count, length, stride, base.get(), &type) == TRANSHIP_OK);
  return Type(type);
}

Packer packer_of(const Type& type, std::int64_t count) {
  tranship_packer* packer = nullptr;
  REQUIRE(tranship_packer_new(type.get(), count, &packer) == TRANSHIP_OK);
  return Packer(packer);
}

std::vector<std::int32_t> counted(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  for (std::size_t k = 0; k < count; ++k) numbers[k] = static_cast<std::int32_t>(k + 1);
  return numbers;
}

}  // namespace

TEST(packers_copy_elements_both_ways) {
  // Three items of two blocks of two numbers, four apart: an item reaches over six numbers.
  const Packer packer = packer_of(vector(2, 2, 4, element("i4")), 3);
  EXPECT_EQ(tranship_packer_bytes(packer.get()), 48);
  const auto matrix = counted(18);
  std::vector<std::int32_t> packed(13, -1);
  REQUIRE(tranship_packer_pack(packer.get(), matrix.data(), packed.data()) == TRANSHIP_OK);
  const std::vector<std::int32_t> expected{1, 2, 5, 6, 7, 8, 11, 12, 13, 14, 17, 18, -1};
  EXPECT(packed == expected);

  std::vector<std::int32_t> target(18, -1);
  REQUIRE(tranship_packer_unpack(packer.get(), packed.data(), target.data()) == TRANSHIP_OK);
  for (std::size_t k = 0; k < target.size(); ++k) {
    EXPECT_EQ(target[k], k % 6 < 2 || k % 6 > 3 ? matrix[k] : -1);
  }
}

TEST(packers_reach_before_the_address_they_are_given) {
  const Packer packer = packer_of(vector(3, 1, -2, element("i4")), 1);
  const auto numbers = counted(5);
  std::array<std::int32_t, 3> packed{};
  REQUIRE(tranship_packer_pack(packer.get(), &numbers[4], packed.data()) == TRANSHIP_OK);
  EXPECT(packed == (std::array<std::int32_t, 3>{5, 3, 1}));
}

TEST(packers_take_absolute_addresses) {
  auto numbers = counted(4);
  const std::array<std::int64_t, 2> lengths{1, 2};
  const std::array<std::int64_t, 2> places{reinterpret_cast<std::int64_t>(&numbers[3]),
                                           reinterpret_cast<std::int64_t>(&numbers[0])};
  const Type number = element("i4");
  tranship_type* made = nullptr;
  REQUIRE(tranship_type_hindexed(2, lengths.data(), places.data(), number.get(), &made) ==
          TRANSHIP_OK);
  const Type type(made);
  const Packer packer = packer_of(type, 1);
  std::array<std::int32_t, 3> packed{};
  REQUIRE(tranship_packer_pack(packer.get(), nullptr, packed.data()) == TRANSHIP_OK);
  EXPECT(packed == (std::array<std::int32_t, 3>{4, 1, 2}));
  packed = {7, 8, 9};
  REQUIRE(tranship_packer_unpack(packer.get(), packed.data(), nullptr) == TRANSHIP_OK);
  EXPECT(numbers == (std::vector<std::int32_t>{8, 9, 3, 7}));
}

TEST(packers_of_large_types_copy_past_the_caches) {
  constexpr std::int64_t rows = 1 << 20;
  const Packer packer = packer_of(vector(rows, 3, 6, element("f4")), 1);
  std::vector<float> matrix(static_cast<std::size_t>(6 * rows));
  for (std::size_t k = 0; k < matrix.size(); ++k) matrix[k] = static_cast<float>(k % 1000003);
  std::vector<float> packed(static_cast<std::size_t>(3 * rows));
  std::vector<float> target(matrix.size(), -1);
  REQUIRE(tranship_packer_pack(packer.get(), matrix.data(), packed.data()) == TRANSHIP_OK);
  REQUIRE(tranship_packer_unpack(packer.get(), packed.data(), target.data()) == TRANSHIP_OK);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < target.size(); ++k) {
    wrong += target[k] != (k % 6 < 3 ? matrix[k] : -1) ? 1 : 0;
  }
  EXPECT_EQ(wrong, std::size_t{0});
}

TEST(threads_share_a_packer) {
  const Packer packer = packer_of(vector(100, 1, 2, element("i4")), 1);
  const auto matrix = counted(200);
  std::array<std::vector<std::int32_t>, 4> packed;
  std::vector<std::thread> threads;
  for (auto& mine : packed) {
    mine.resize(100);
    threads.emplace_back([&packer, &matrix, &mine] {
      (void)tranship_packer_pack(packer.get(), matrix.data(), mine.data());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : packed) {
    for (std::size_t k = 0; k < 100; ++k) EXPECT_EQ(mine[k], matrix[2 * k]);
  }
}

TEST(packers_refuse_what_they_cannot_do) {
  const Type number = element("i4");
  tranship_packer* packer = nullptr;
  EXPECT_EQ(tranship_packer_new(number.get(), -1, &packer), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(packer == nullptr);
  EXPECT_EQ(tranship_packer_new(nullptr, 1, &packer), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_packer_new(number.get(), 1, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_packer_new(number.get(), std::int64_t{1} << 60, &packer),
            TRANSHIP_OUT_OF_RANGE);

  const Packer twice = packer_of(vector(2, 1, 0, number), 1);
  std::array<std::int32_t, 2> numbers{1, 2};
  std::array<std::int32_t, 2> packed{3, 4};
  EXPECT_EQ(tranship_packer_unpack(twice.get(), packed.data(), numbers.data()),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("names a byte twice") != std::string::npos);
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(tranship_packer_pack(twice.get(), numbers.data(), packed.data()), TRANSHIP_OK);
  EXPECT(packed == (std::array<std::int32_t, 2>{1, 1}));
  EXPECT_EQ(tranship_packer_pack(twice.get(), numbers.data(), nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_packer_pack(nullptr, numbers.data(), packed.data()),
            TRANSHIP_INVALID_ARGUMENT);

  const Packer nothing = packer_of(number, 0);
  EXPECT_EQ(tranship_packer_bytes(nothing.get()), 0);
  EXPECT_EQ(tranship_packer_pack(nothing.get(), nullptr, nullptr), TRANSHIP_OK);
  EXPECT_EQ(tranship_packer_unpack(nothing.get(), nullptr, nullptr), TRANSHIP_OK);
  EXPECT_EQ(tranship_packer_bytes(nullptr), 0);
  tranship_packer_free(nullptr);
}

TEST(packers_refuse_to_write_what_they_read) {
  const Packer packer = packer_of(vector(4, 1, 2, element("i4")), 1);
  auto numbers = counted(16);
  const auto before = numbers;
  EXPECT_EQ(tranship_packer_pack(packer.get(), numbers.data(), numbers.data() + 3),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("overlap") != std::string::npos);
  EXPECT_EQ(tranship_packer_unpack(packer.get(), numbers.data() + 3, numbers.data()),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT(numbers == before);
  REQUIRE(tranship_packer_pack(packer.get(), numbers.data(), numbers.data() + 7) == TRANSHIP_OK);
  EXPECT_EQ(numbers[7], 1);
  EXPECT_EQ(numbers[10], 7);
}
