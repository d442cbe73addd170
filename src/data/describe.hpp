// A view as text, for another process.
#pragma once

#include <string>

#include "base/error.hpp"
#include "data/mapping.hpp"

namespace tranship {

/// JSON of the view: names, types, offsets and strides, counted from byte `origin`.
std::string describe(const View& view, bool named, std::int64_t origin);

struct Described {
  View view;
  bool named = false;
};

/// @error invalid_argument if the text does not describe an array of at most `bytes` bytes
Result<Described> described(const std::string& text, std::int64_t bytes);

}  // namespace tranship
