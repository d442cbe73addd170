// Descriptions of variables of the staging service.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "staging.h"

namespace tranship {

/// Description of a variable: the box around everything that was put to it is [lower, upper).
struct Variable {
  std::string name;
  std::string type;   ///< of an element, such as "f8"
  int producers = 0;  ///< connected processes that have put to it
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
  std::int64_t versions = 0;  ///< held by the server; with list() only, as are the rest
  std::int64_t version_first = 0;
  std::int64_t version_last = 0;
  std::int64_t bytes = 0;  ///< server memory that its versions take
};

namespace detail {

inline Variable variable_of(const std::string& name, const tranship_variable& found) {
  Variable made;
  made.name = name;
  made.type = found.type;
  made.producers = found.producers;
  made.lower.assign(found.lower, found.lower + found.rank);
  made.upper.assign(found.upper, found.upper + found.rank);
  return made;
}

}  // namespace detail
}  // namespace tranship
