// Views as text, for other processes.
#pragma once

#include <string>

#include "base/error.hpp"
#include "data/mapping.hpp"

namespace tranship {

/// Returns the view as JSON: names, types, offsets and strides. Offsets count from byte `origin`.
/// named: Whether the user named the dimensions.
std::string describe(const View& view, bool named, std::int64_t origin);

/// A view that another process described.
struct Described {
  View view;
  bool named = false;
};

/// Reads the text that describe() returned in another process.
/// @error invalid_argument if the text does not describe an array of at most `bytes` bytes
Result<Described> described(const std::string& text, std::int64_t bytes);

}  // namespace tranship
