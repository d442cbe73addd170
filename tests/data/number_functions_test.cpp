// Conversions of single numbers against slow ones that search all values of a format. The Python
// tests compare all pairs of types with NumPy's and ml_dtypes' results.
#include "data/number_functions.hpp"

#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

/// The finite values of a format that are not negative, in ascending order: each one's place is its
/// pattern.
template <NumberKind kind>
std::vector<double> values_of() {
  std::vector<double> values;
  for (std::uint32_t pattern = 0; pattern <= numbers::format_of(kind).most(); ++pattern) {
    values.push_back(static_cast<double>(numbers::float_of<kind>(pattern)));
  }
  return values;
}

/// Returns the pattern of the value nearest to `value`, which is not negative; of two that are as
/// near, the even one. What rounds to the number after the largest becomes the format's overflow.
std::uint32_t nearest(const std::vector<double>& values, double value,
                      const numbers::Format& format) {
  const double last_step = values.back() - values[values.size() - 2];
  const auto value_at = [&](std::size_t k) {
    return k < values.size() ? values[k] : values.back() + last_step;
  };
  std::size_t low = 0;
  std::size_t high = values.size();
  if (value >= value_at(high)) return format.overflow();
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (value_at(middle) <= value ? low : high) = middle;
  }
  const double down = value - value_at(low);
  const double up = value_at(high) - value;
  const std::size_t chosen = down < up || (down == up && low % 2 == 0) ? low : high;
  return chosen < values.size() ? static_cast<std::uint32_t>(chosen) : format.overflow();
}

template <NumberKind kind, typename Wide>
void check_value(const std::vector<double>& values, Wide value) {
  constexpr numbers::Format format = numbers::format_of(kind);
  if (!std::isfinite(value)) return;
  const std::uint32_t pattern = nearest(values, std::abs(static_cast<double>(value)), format);
  std::uint32_t expected = std::signbit(value) ? pattern | format.sign() : pattern;
  const bool unsigned_zero = format.special == numbers::Format::Special::finite_nuz;
  if (unsigned_zero && pattern == 0) expected = 0;
  EXPECT_EQ((numbers::round_to<kind, false>(value)), expected);
}

template <NumberKind kind, typename Wide>
void check_rounding() {
  const std::vector<double> values = values_of<kind>();
  const std::size_t step = values.size() > 1000 ? 13 : 1;
  for (std::size_t k = 0; k < values.size(); k += step) {
    EXPECT(k == 0 || values[k] > values[k - 1]);
    const double next = k + 1 < values.size() ? values[k + 1] : 2 * values[k] - values[k - 1];
    const auto middle = static_cast<Wide>((values[k] + next) / 2);
    for (const Wide value : {static_cast<Wide>(values[k]), middle}) {
      for (const Wide near : {value, std::nextafter(value, Wide{0}),
                              std::nextafter(value, std::numeric_limits<Wide>::max())}) {
        check_value<kind>(values, near);
        check_value<kind>(values, -near);
      }
    }
  }
  Random random(1);
  for (int k = 0; k < 2000; ++k) {
    using Bits = std::conditional_t<sizeof(Wide) == 4, std::uint32_t, std::uint64_t>;
    check_value<kind>(values, numbers::bits_as<Wide>(static_cast<Bits>(random.next())));
  }
}

template <NumberKind kind>
void check_patterns() {
  constexpr numbers::Format format = numbers::format_of(kind);
  for (std::uint32_t pattern = 0; pattern < 2 * format.sign(); ++pattern) {
    const float value = numbers::float_of<kind>(pattern);
    const std::uint32_t back = numbers::round_to<kind, kind == NumberKind::float16>(value);
    if (!std::isnan(value)) EXPECT_EQ(back, pattern);
    if (std::isnan(value)) EXPECT(std::isnan(numbers::float_of<kind>(back)));
  }
}

template <NumberKind... kinds>
void check_all() {
  (check_patterns<kinds>(), ...);
  (check_rounding<kinds, float>(), ...);
}

}  // namespace

TEST(formats_round_to_the_nearest_value) {
  check_all<NumberKind::float16, NumberKind::bfloat16, NumberKind::float8_e3m4,
            NumberKind::float8_e4m3, NumberKind::float8_e4m3b11fnuz, NumberKind::float8_e4m3fn,
            NumberKind::float8_e4m3fnuz, NumberKind::float8_e5m2, NumberKind::float8_e5m2fnuz>();
}

TEST(float16_is_rounded_once_from_double) { check_rounding<NumberKind::float16, double>(); }

TEST(integers_of_other_numbers_wrap_as_on_x86_64) {
  using numbers::integer_of;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(integer_of<std::int32_t>(1e10), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(integer_of<std::int32_t>(nan), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(int{integer_of<std::int8_t>(300.7f)}, 44);
  EXPECT_EQ(int{integer_of<std::uint8_t>(-300.7f)}, 212);
  EXPECT_EQ(integer_of<std::uint32_t>(-1.0), 0xffffffffu);
  EXPECT_EQ(integer_of<std::uint64_t>(nan), std::uint64_t{1} << 63);
  EXPECT_EQ(integer_of<std::uint64_t>(0x1p63 + 4096), (std::uint64_t{1} << 63) + 4096);
  EXPECT_EQ(integer_of<std::uint64_t>(1e20), 0u);
  EXPECT_EQ(int{numbers::integer_of_float8<std::int8_t>(INFINITY)}, 127);
  EXPECT_EQ(int{numbers::integer_of_float8<std::int8_t>(NAN)}, 0);
}
