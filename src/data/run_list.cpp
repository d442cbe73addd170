#include "data/run_list.hpp"

#include <cstddef>

#include "base/processor.hpp"

namespace tranship {
namespace {

/// The loop itself, which is compiled for several processors.
inline __attribute__((always_inline)) void shift_each(const std::int64_t* numbers,
                                                      std::size_t count, int shift,
                                                      std::uint32_t* to) {
  for (std::size_t k = 0; k < count; ++k) {
    to[k] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(numbers[k]) >> shift);
  }
}

void shift_plainly(const std::int64_t* numbers, std::size_t count, int shift, std::uint32_t* to) {
  shift_each(numbers, count, shift, to);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void shift_with_avx2(const std::int64_t* numbers, std::size_t count,
                                                     int shift, std::uint32_t* to) {
  shift_each(numbers, count, shift, to);
}
#else
constexpr auto shift_with_avx2 = shift_plainly;
#endif

}  // namespace

void write_shifted(std::span<const std::int64_t> numbers, int shift, std::uint32_t* to) {
  static const auto write = has_avx2() ? shift_with_avx2 : shift_plainly;
  write(numbers.data(), numbers.size(), shift, to);
}

}  // namespace tranship
