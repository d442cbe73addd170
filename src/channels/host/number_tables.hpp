// Tables of what each number of one byte becomes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "channels/host/number_kernels.hpp"

namespace tranship::host {

/// The results of all 256 patterns of each kind of one byte, as each real kind. They take half
/// a MiB, of which a machine's caches hold those in use.
class NumberTables {
 public:
  using Convert = void (*)(const NumberKernels& set, NumberKind from, NumberKind to,
                           const std::byte* source, std::byte* target, std::int64_t count);

  /// Fills all tables. convert: Converts numbers without these tables.
  NumberTables(const NumberKernels& set, Convert convert);

  /// Returns the table of one pair, as a TableLoop takes it.
  const std::byte* of(NumberKind from, NumberKind to) const {
    return tables_[row_of(from)][static_cast<std::size_t>(to)].planes;
  }

 private:
  static constexpr std::size_t patterns = 256;
  static constexpr std::size_t result_bytes_max = 8;
  static constexpr std::size_t rows = 11;

  struct Table {
    alignas(64) std::byte planes[result_bytes_max * patterns];
  };

  static std::size_t row_of(NumberKind kind);

  std::array<std::array<Table, number_kinds>, rows> tables_;
};

}  // namespace tranship::host
