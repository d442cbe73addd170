#include "channels/host/convert.hpp"

#include <algorithm>
#include <cstring>

#include "channels/host/kernels.hpp"
#include "channels/host/number_kernels.hpp"
#include "channels/host/number_tables.hpp"

namespace tranship::host {
namespace {

/// Numbers that are converted at a time: what they need lies in the innermost cache.
constexpr std::int64_t block_numbers = 512;
/// The same where neither kind nor the carrier has more than four bytes.
constexpr std::int64_t narrow_block_numbers = 2 * block_numbers;
/// Shortest run, in bytes, that is worth streaming stores.
constexpr std::int64_t streamed_bytes_min = 256;
/// Room for the parts of as many complex numbers, or for as many carriers.
using NumberBlock = std::byte[static_cast<std::size_t>(2 * 8 * block_numbers)];

std::size_t at(NumberKind kind) { return static_cast<std::size_t>(kind); }

/// Returns how many numbers are converted at a time.
std::int64_t block_of(NumberKind from, NumberKind to) {
  const bool narrow = bytes_of(from) <= 2 && bytes_of(to) <= 4;
  return narrow ? narrow_block_numbers : block_numbers;
}

bool is_integer(NumberKind kind) { return kind >= NumberKind::int8 && kind <= NumberKind::uint64; }

/// Whether the bits of both kinds are the same for each number.
bool same_bits(NumberKind from, NumberKind to) {
  return from == to || (is_integer(from) && is_integer(to) && bytes_of(from) == bytes_of(to));
}

/// Reverses the bytes of each part of `count` numbers.
void swap(const NumberKernels& set, NumberKind kind, const std::byte* source, std::byte* target,
          std::int64_t count) {
  const std::int64_t bytes = bytes_of(part_of(kind));
  const std::int64_t parts = is_complex(kind) ? 2 * count : count;
  const NumberLoop loop = bytes == 2 ? set.swap2 : bytes == 4 ? set.swap4 : set.swap8;
  loop(source, target, parts);
}

/// Converts up to two blocks of real numbers in this machine's byte order, by way of a carrier.
void convert_carried(const NumberKernels& set, NumberKind from, NumberKind to,
                     const std::byte* source, std::byte* target, std::int64_t count) {
  if (same_bits(from, to)) {
    std::memcpy(target, source, static_cast<std::size_t>(count * bytes_of(from)));
    return;
  }
  const Carrier carrier = carrier_of(from, to);
  const NumberKind carried = kind_of(carrier);
  const NumberLoop encode = set.encode[static_cast<std::size_t>(carrier)][at(to)];
  if (from == carried) return encode(source, target, count);
  const NumberLoop decode = carrier == Carrier::half ? set.decode_half : set.decode[at(from)];
  if (to == carried) return decode(source, target, count);
  alignas(64) NumberBlock values;
  decode(source, values, count);
  encode(values, target, count);
}

/// Returns the table of all results of numbers of one byte as real numbers.
const std::byte* table_of(NumberKind from, NumberKind to) {
  static const NumberTables tables(number_kernels(), convert_carried);
  return tables.of(from, to);
}

/// Converts up to two blocks of real numbers in this machine's byte order.
void convert_real(const NumberKernels& set, NumberKind from, NumberKind to, const std::byte* source,
                  std::byte* target, std::int64_t count) {
  const std::int64_t bytes = bytes_of(to);
  // Integers are widened to eight bytes faster than they are looked up.
  const bool pays = bytes <= 4 || is_float8(from);
  const bool looks_up = bytes_of(from) == 1 && pays && !same_bits(from, to);
  const TableLoop look_up = looks_up ? set.look_up[static_cast<std::size_t>(bytes)] : nullptr;
  if (look_up != nullptr) return look_up(table_of(from, to), source, target, count);
  convert_carried(set, from, to, source, target, count);
}

template <typename Part>
void take_real_parts(const std::byte* source, std::byte* target, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    std::memcpy(target + k * static_cast<std::int64_t>(sizeof(Part)),
                source + 2 * k * static_cast<std::int64_t>(sizeof(Part)), sizeof(Part));
  }
}

template <typename Part>
void add_imaginary_parts(const std::byte* source, std::byte* target, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    Part pair[2] = {};
    std::memcpy(&pair[0], source + k * static_cast<std::int64_t>(sizeof(Part)), sizeof(Part));
    std::memcpy(target + k * static_cast<std::int64_t>(sizeof(pair)), pair, sizeof(pair));
  }
}

template <typename Part>
void are_not_zero(const std::byte* source, std::byte* target, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    Part pair[2];
    std::memcpy(pair, source + k * static_cast<std::int64_t>(sizeof(pair)), sizeof(pair));
    target[k] = static_cast<std::byte>(pair[0] != 0 || pair[1] != 0);
  }
}

/// Converts one block in this machine's byte order.
void convert_block(const NumberKernels& set, NumberKind from, NumberKind to,
                   const std::byte* source, std::byte* target, std::int64_t count) {
  const bool single_source = from == NumberKind::complex64;
  const bool single_target = to == NumberKind::complex64;
  if (is_complex(from) && is_complex(to)) {
    return convert_real(set, part_of(from), part_of(to), source, target, 2 * count);
  }
  alignas(64) NumberBlock parts;
  if (is_complex(from)) {
    if (to == NumberKind::boolean) {
      return (single_source ? are_not_zero<float> : are_not_zero<double>)(source, target, count);
    }
    (single_source ? take_real_parts<float> : take_real_parts<double>)(source, parts, count);
    return convert_real(set, part_of(from), to, parts, target, count);
  }
  if (!is_complex(to)) return convert_real(set, from, to, source, target, count);
  convert_real(set, from, part_of(to), source, parts, count);
  (single_target ? add_imaginary_parts<float> : add_imaginary_parts<double>)(parts, target, count);
}

}  // namespace

bool changes_bits(const Conversion& conversion) {
  const auto& [source, target] = conversion;
  return source.big_endian != target.big_endian || !same_bits(source.kind, target.kind);
}

void convert_run(const Conversion& conversion, const std::byte* source, std::byte* target,
                 std::int64_t count, bool cold) {
  const NumberKernels& set = number_kernels();
  const auto [from, to] = conversion;
  const bool streams = cold && count * bytes_of(to.kind) >= streamed_bytes_min;
  alignas(64) NumberBlock read;
  alignas(64) NumberBlock in_order;
  alignas(64) NumberBlock written;
  const std::int64_t block = block_of(from.kind, to.kind);
  for (std::int64_t done = 0; done < count; done += block) {
    const std::int64_t some = std::min(block, count - done);
    const std::byte* in = source + done * bytes_of(from.kind);
    std::byte* const place = target + done * bytes_of(to.kind);
    std::byte* const out = streams ? written : place;
    if (same_bits(from.kind, to.kind) && from.big_endian != to.big_endian) {
      swap(set, from.kind, in, out, some);
    } else {
      if (from.big_endian) {
        swap(set, from.kind, in, read, some);
        in = read;
      }
      convert_block(set, from.kind, to.kind, in, to.big_endian ? in_order : out, some);
      if (to.big_endian) swap(set, to.kind, in_order, out, some);
    }
    if (streams) kernels().stream(written, place, some * bytes_of(to.kind));
  }
}

}  // namespace tranship::host
