// Metadata of a variable: what it is, and which clients put to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "staging/model/deletions.hpp"
#include "staging/model/distribution.hpp"
#include "staging/model/requests.hpp"

namespace tranship::staging {

/// Identity of a client across its connections: a random number of its own. Zero: the client has
/// none, and is identified by its connection.
struct ClientId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const ClientId&) const = default;
};

/// What the metadata server of a variable records of it.
struct VariableMetadata {
  std::string type;  ///< Element type, as NumPy writes it: f8.
  std::int64_t element_bytes = 0;
  Box first;                  ///< The box of the first put.
  Cells cells;                ///< Cells as large as that box.
  std::optional<Box> domain;  ///< The domain, if it was defined.
  int writers = 0;            ///< Clients that will put to it, if that was defined.
  int came = 0;               ///< Clients that have put to it, ever.
  int producers = 0;          ///< Clients that have put to it and are connected.
  int missing = 0;  ///< Clients that have put to it, whose connections are lost, and may come back.
  int deaths = 0;   ///< Clients that have put to it and died; kept until the variable is deleted.
  Incarnation incarnation{};
  bool lost_producer() const { return missing > 0 || deaths > 0; }

  /// Returns whether no client will put to the variable any more.
  bool ended() const { return producers == 0 && came >= writers; }
  Ending ending() const {
    if (!ended()) return Ending::none;
    return lost_producer() ? Ending::died : Ending::closed;
  }
};

/// Checks that a put lies in the variable's domain.
/// @error invalid_argument if it does not
Status check_within(const PutRequest& request, const VariableMetadata& metadata);

/// Returns the error of a get whose box can never become complete, because every process that put
/// to its variable has ended.
/// `why`: The part of the box that is missing.
Error never_complete(Ending ending, const std::string& why);

}  // namespace tranship::staging
