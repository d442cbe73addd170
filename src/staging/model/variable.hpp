// What is known of a variable as a whole, and who puts to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "staging/model/deletions.hpp"
#include "staging/model/distribution.hpp"
#include "staging/model/requests.hpp"

namespace tranship::staging {

/// What a client calls itself, whatever connections it has: a random number of its own. Zero: it
/// has none, and is known by its connection alone.
struct ClientId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const ClientId&) const = default;
};

/// A variable, as its keeper knows it.
struct Facts {
  std::string type;  ///< of an element, as NumPy writes it: f8
  std::int64_t element_bytes = 0;
  Box first;                  ///< the box of the first put
  Cells cells;                ///< as large as that
  std::optional<Box> domain;  ///< all of it, if somebody said so
  int writers = 0;            ///< clients that will put to it, if somebody said so
  int came = 0;               ///< clients that have put to it, ever
  int producers = 0;          ///< clients that put to it and are connected
  int missing = 0;  ///< clients that put to it, whose connections were lost, and that may come back
  int deaths = 0;   ///< clients that put to it and died: remembered as long as the variable
  Life life{};      ///< when it was made, and when it was asked for
  bool lost_producer() const { return missing > 0 || deaths > 0; }

  /// Whether nobody will put to it any more.
  bool ended() const { return producers == 0 && came >= writers; }
};

/// @error invalid_argument if the box is not within the variable's domain
Status check_within(const PutRequest& request, const Facts& facts);

/// Returns the error of a get whose box can never become complete, because every process that put
/// to its variable has ended. `why`: What the box lacks.
Error never_complete(const Facts& facts, const std::string& why);

}  // namespace tranship::staging
