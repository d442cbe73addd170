// Boxes for the tests of this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "staging/model/box.hpp"
#include "support/test.hpp"

namespace tranship::test {

inline staging::Box box_of(const std::vector<std::int64_t>& lower,
                           const std::vector<std::int64_t>& upper) {
  const auto box = staging::Box::make(lower, upper);
  REQUIRE(box.ok());
  return *box;
}

}  // namespace tranship::test
