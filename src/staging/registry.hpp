// What the keeper of a variable knows: type, dimensions, cells, and who puts to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "staging/distribution.hpp"
#include "staging/object_store.hpp"
#include "tranship/error.hpp"

namespace tranship::staging {

/// A variable, as its keeper knows it.
struct Facts {
  std::string type;  ///< of an element, as NumPy writes it: f8
  std::int64_t element_bytes = 0;
  Box first;                   ///< the box of the first put
  Cells cells;                 ///< as large as that
  std::optional<Box> domain;   ///< all of it, if somebody said so
  int writers = 0;             ///< that will put to it, if somebody said so
  int came = 0;                ///< that have put to it, ever
  int producers = 0;           ///< that put to it and are connected
  bool lost_producer = false;  ///< one has died since the last one came

  /// Whether nobody will put to it any more.
  bool ended() const { return producers == 0 && came >= writers; }
};

/// Not thread-safe. Costs are logarithms.
class Registry {
 public:
  /// Cells have at least so many bytes.
  explicit Registry(std::int64_t cell_bytes = Cells::bytes_least) : cell_bytes_(cell_bytes) {}

  /// Says what the variable will be: the request's box is its domain, which a later definition may
  /// enlarge. It begins to exist when somebody puts to it. `writers`: how many will; 0: unknown.
  /// @error invalid_argument if it does not fit the variable, or other definitions
  Status define(const PutRequest& domain, int writers);

  /// Says that `owner` will put to the variable, which begins to exist with that.
  /// @error invalid_argument if the request does not fit the variable
  Result<Facts> declare(Owner owner, const PutRequest& request);

  /// Nothing if nobody has declared it.
  std::optional<Facts> facts(const std::string& variable) const;
  const std::map<std::string, Facts>& all() const { return variables_; }

  /// The owner has ended. Returns the variables that it put to.
  std::set<std::string> gone(Owner owner, bool cleanly);

 private:
  struct Definition {
    PutRequest domain;
    int writers = 0;
  };

  std::int64_t cell_bytes_;
  std::map<std::string, Definition> definitions_;
  std::map<std::string, Facts> variables_;
  std::map<Owner, std::set<std::string>> declared_;
};

/// @error invalid_argument if the box is not within the variable's domain
Status check_within(const PutRequest& request, const Facts& facts);

/// Why a box that is not whole will never be: all who put to its variable have ended.
Error never(const Facts& facts, const std::string& why);

}  // namespace tranship::staging
