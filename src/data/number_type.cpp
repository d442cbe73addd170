#include "data/number_type.hpp"

#include <array>

namespace tranship {
namespace {

struct NamedKind {
  std::string_view name;
  NumberKind kind;
};

/// NumPy's short names and ml_dtypes' names.
constexpr std::array<NamedKind, number_kinds> named_kinds{{
    {"b1", NumberKind::boolean},
    {"i1", NumberKind::int8},
    {"i2", NumberKind::int16},
    {"i4", NumberKind::int32},
    {"i8", NumberKind::int64},
    {"u1", NumberKind::uint8},
    {"u2", NumberKind::uint16},
    {"u4", NumberKind::uint32},
    {"u8", NumberKind::uint64},
    {"f2", NumberKind::float16},
    {"f4", NumberKind::float32},
    {"f8", NumberKind::float64},
    {"c8", NumberKind::complex64},
    {"c16", NumberKind::complex128},
    {"bfloat16", NumberKind::bfloat16},
    {"float8_e3m4", NumberKind::float8_e3m4},
    {"float8_e4m3", NumberKind::float8_e4m3},
    {"float8_e4m3b11fnuz", NumberKind::float8_e4m3b11fnuz},
    {"float8_e4m3fn", NumberKind::float8_e4m3fn},
    {"float8_e4m3fnuz", NumberKind::float8_e4m3fnuz},
    {"float8_e5m2", NumberKind::float8_e5m2},
    {"float8_e5m2fnuz", NumberKind::float8_e5m2fnuz},
    {"float8_e8m0fnu", NumberKind::float8_e8m0fnu},
}};

/// What numpy.can_cast() says for each pair, sources by row and targets by column, in the order of
/// the enum: 'S' under all rules, 's' not under "safe", '.' under "unsafe" alone, '-' never.
constexpr std::array<std::string_view, number_kinds> rules{{
    "SSSSSSSSSSSSSSSSSSSSSSS",  // boolean
    ".SSSS....SSSSSSSSSSSSSS",  // int8
    ".sSSS....sSSSSsssssssss",  // int16
    ".ssSS....ssSsSsssssssss",  // int32
    ".sssS....ssSsSsssssssss",  // int64
    ".sSSSSSSSSSSSSSSSSSSSSS",  // uint8
    ".ssSSsSSSsSSSSsssssssss",  // uint16
    ".sssSssSSssSsSsssssssss",  // uint32
    ".sssssssSssSsSsssssssss",  // uint64
    ".........SSSSSsssssssss",  // float16
    ".........sSSSSsssssssss",  // float32
    ".........ssSsSsssssssss",  // float64
    "............SSssssss.ss",  // complex64
    "............sSssssss.ss",  // complex128
    "..........SSSSSsssss.ss",  // bfloat16
    "..........SSSSsSSSSS.S-",  // float8_e3m4
    "..........SSSSsSSSSS.S-",  // float8_e4m3
    "..........SSSSsSSSSS.S-",  // float8_e4m3b11fnuz
    "..........SSSSsSSSSS.S-",  // float8_e4m3fn
    "..........SSSSsSSSSS.S-",  // float8_e4m3fnuz
    ".........sSSSSssssssSs-",  // float8_e5m2
    "..........SSSSsSSSSS.S-",  // float8_e5m2fnuz
    "..........SSSSs-------S",  // float8_e8m0fnu
}};

}  // namespace

std::optional<NumberType> number_type_from(std::string_view text) {
  NumberType type;
  if (!text.empty() && std::string_view("<>=|").find(text[0]) != std::string_view::npos) {
    type.big_endian = text[0] == '>';
    text.remove_prefix(1);
  }
  for (const NamedKind& named : named_kinds) {
    if (named.name != text) continue;
    type.kind = named.kind;
    if (bytes_of(type.kind) == 1) type.big_endian = false;
    return type;
  }
  return std::nullopt;
}

Result<Casting> casting_from(std::string_view text) {
  for (const Casting casting : {Casting::safe, Casting::same_kind, Casting::unsafe}) {
    if (text == to_string(casting)) return casting;
  }
  return Error{ErrorCode::invalid_argument, "cast=\"" + std::string(text) + "\" is no casting rule",
               "use \"safe\", \"same_kind\" or \"unsafe\", as numpy.can_cast() names them"};
}

const char* to_string(Casting casting) {
  switch (casting) {
    case Casting::none: return "no";
    case Casting::safe: return "safe";
    case Casting::same_kind: return "same_kind";
    case Casting::unsafe: return "unsafe";
  }
  return "unknown";
}

bool can_cast(NumberKind from, NumberKind to, Casting casting) {
  if (from == to) return casting != Casting::none;
  const char rule = rules[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  switch (casting) {
    case Casting::none: return false;
    case Casting::safe: return rule == 'S';
    case Casting::same_kind: return rule == 'S' || rule == 's';
    case Casting::unsafe: return rule != '-';
  }
  return false;
}

}  // namespace tranship
