// Name and parser of an enum whose values stand in a table.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/error.hpp"

namespace tranship {

/// Returns the entry of `table` (a constexpr array of structs with a `kind`) for `kind`.
template <typename Table, typename Kind>
constexpr const auto& entry_of(const Table& table, Kind kind) {
  return table[static_cast<std::size_t>(kind)];
}

/// Returns whether the entry of each kind stands at the kind's own number.
template <typename Table>
constexpr bool in_order(const Table& table) {
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (static_cast<std::size_t>(table[k].kind) != k) return false;
  }
  return true;
}

/// Returns the kind whose `name` is `text`.
/// @error invalid_argument if there is none; the message lists the names
template <typename Kind, typename Entry>
Result<Kind> kind_named(std::span<const Entry> table, const std::string& text) {
  std::string known;
  for (const Entry& entry : table) {
    if (!entry.readable) continue;
    if (text == entry.name) return entry.kind;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Error{ErrorCode::invalid_argument, "\"" + text + "\" is none of " + known};
}

}  // namespace tranship
