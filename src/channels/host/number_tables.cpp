#include "channels/host/number_tables.hpp"

#include "base/check.hpp"

namespace tranship::host {

std::size_t NumberTables::row_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::boolean: return 0;
    case NumberKind::int8: return 1;
    case NumberKind::uint8: return 2;
    default:
      CHECK(is_float8(kind), "tables are those of numbers of one byte");
      return 3 + static_cast<std::size_t>(kind) - static_cast<std::size_t>(NumberKind::float8_e3m4);
  }
}

NumberTables::NumberTables(const NumberKernels& set, Convert convert) : tables_{} {
  std::byte all[patterns];
  for (std::size_t k = 0; k < patterns; ++k) all[k] = static_cast<std::byte>(k);
  for (int from = 0; from < number_kinds; ++from) {
    const auto source = static_cast<NumberKind>(from);
    if (bytes_of(source) != 1) continue;
    for (int to = 0; to < number_kinds; ++to) {
      const auto target = static_cast<NumberKind>(to);
      const auto bytes = static_cast<std::size_t>(bytes_of(target));
      if (is_complex(target)) continue;
      std::byte results[result_bytes_max * patterns];
      convert(set, source, target, all, results, patterns);
      Table& table = tables_[row_of(source)][static_cast<std::size_t>(to)];
      for (std::size_t k = 0; k < bytes * patterns; ++k) {
        table.planes[k % bytes * patterns + k / bytes] = results[k];
      }
    }
  }
}

}  // namespace tranship::host
