// What the keeper of a variable knows: type, dimensions, cells, and who puts to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "staging/by_name.hpp"
#include "staging/distribution.hpp"
#include "staging/object_store.hpp"
#include "tranship/error.hpp"

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

/// Not thread-safe. Costs are logarithms.
class Registry {
 public:
  /// Cells have at least so many bytes.
  explicit Registry(std::int64_t cell_bytes = Cells::bytes_least, const Limits& limits = {})
      : cell_bytes_(cell_bytes), limits_(limits) {}

  /// Says what the variable will be: the request's box is its domain, which a later definition may
  /// enlarge. It begins to exist when somebody puts to it. `writers`: how many will; 0: unknown.
  /// @error invalid_argument if it does not fit the variable, or other definitions; out_of_memory
  /// if
  ///        there are too many variables
  Status define(const PutRequest& domain, int writers);

  /// Says that `client` will put to the variable, which begins to exist with that. It counts once,
  /// however often it says so, and whatever connections it has.
  /// @error as define()
  Result<Facts> declare(const ClientId& client, const PutRequest& request);

  /// Forgets a variable, its definition, and who put to it. Returns the number of the deletion, and
  /// whether there was anything of it.
  std::pair<std::uint64_t, bool> remove(const std::string& variable);

  /// Nothing if nobody has declared it.
  std::optional<Facts> facts(const std::string& variable) const;
  const ByName<Facts>& all() const { return variables_; }

  /// The client's last connection is gone; it counts as dead unless it comes back, or is gone()
  /// cleanly. Returns the variables that it put to.
  std::set<std::string> lost(const ClientId& client);
  /// It has connected anew.
  void came_back(const ClientId& client);
  /// The client has ended, or died. Returns the variables that it put to.
  std::set<std::string> gone(const ClientId& client, bool cleanly);

 private:
  struct Definition {
    PutRequest domain;
    int writers = 0;
  };

  Status check(const PutRequest& request) const;

  std::int64_t cell_bytes_;
  Limits limits_;
  std::uint64_t number_ = 0;  ///< of the last creation or deletion
  std::map<std::string, Definition> definitions_;
  ByName<Facts> variables_;
  struct Producer {
    std::set<std::string> variables;
    bool lost = false;
  };
  std::map<ClientId, Producer> producers_;
};

/// @error invalid_argument if the box is not within the variable's domain
Status check_within(const PutRequest& request, const Facts& facts);

/// Why a box that is not whole will never be: all who put to its variable have ended.
Error never(const Facts& facts, const std::string& why);

}  // namespace tranship::staging
