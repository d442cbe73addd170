// What clients ask of staging servers, and what servers answer: values, with the checks on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/heap.hpp"
#include "staging/model/box.hpp"
#include "staging/model/deletions.hpp"
#include "staging/model/leases.hpp"
#include "staging/model/parts.hpp"
#include "staging/model/traffic.hpp"

namespace tranship::staging {

/// How hard a full server tries to make room for an object.
enum class Effort : std::uint32_t {
  guest = 1,  ///< not at all: its place is on another server
  home,       ///< it may discard what is old, but other servers are asked before anything spills
  all,        ///< whatever its policy allows
};

struct PutRequest {
  std::string variable;
  std::int64_t version = 0;
  Box box;
  std::string type;  ///< of an element, as NumPy writes it: f8
  std::int64_t element_bytes = 0;
  Life life{};  ///< what the client knows of the variable
};

/// How room is asked for.
struct Asking {
  Effort effort = Effort::all;
  Ticket ticket = 0;
  /// The object is written at once; else take_pages() comes before.
  bool ready = true;
  /// Of a server that owns no part of the box: those that do, by which alone the object is found.
  std::vector<int> owners{};
};

/// An object that lies on a server which owns no part of its box, and that this server, which does,
/// has discarded.
struct Orphan {
  int home = 0;
  std::uint64_t object = 0;
};

/// An object by its server and its number there.
struct ObjectAt {
  int home = 0;
  std::uint64_t object = 0;
  auto operator<=>(const ObjectAt&) const = default;
};

/// Where an object lies that is indexed here.
struct Elsewhere {
  ObjectAt at;
  /// Its home owns no part of the box, and hears by take_orphans() alone that the version was
  /// discarded.
  bool guest = false;
};

/// Room for an object: dense, the last dimension fastest.
struct Begun {
  std::uint64_t object = 0;
  Range range;
};

enum class Which {
  exact,   ///< this version
  next,    ///< the lowest one above this that has something of the box
  latest,  ///< the highest one up to this that covers the box
};

struct GetRequest {
  std::string variable;
  Which which = Which::exact;
  std::int64_t version = 0;
  Box box;
  Life life{};  ///< what the client knows of the variable
};

/// What became of an object that another server's index names.
struct Leased {
  enum class State : std::uint32_t {
    here = 1,  ///< whole, and kept until the lease ends
    begun,     ///< being written: it may come
    gone,      ///< given up: it will never come
  };
  State state = State::gone;
  std::uint64_t order = 0;
  Range range;  ///< of no segment: it lies on disk, and recall() brings it back
  Checksum checksum{};
};

/// Objects of other servers share points with the box: ask find(), there too.
struct Spread {};

/// Why something must wait. Ask again when the store has changed.
struct Waiting {
  std::string why;
};

struct VersionInfo {
  std::int64_t version = 0;
  std::int64_t objects = 0;
  std::int64_t bytes = 0;
};

struct VariableInfo {
  std::string name;
  std::string type;
  std::int64_t element_bytes = 0;
  Box bounds;  ///< around all that was ever put
  std::vector<VersionInfo> versions;
  int producers = 0;          ///< processes that put to it and are connected
  VariableTraffic traffic{};  ///< since the servers have started
};

/// A server, as it sees itself.
struct ServerInfo {
  int server = 0;  ///< its number
  std::string contact;
  std::int64_t memory_bytes = 0;       ///< that objects may take
  std::int64_t memory_bytes_used = 0;  ///< that they take, in whole units
  std::int64_t spilled_bytes = 0;      ///< of objects that lie on disk alone
  int clients = 0;                     ///< that are connected
  std::vector<std::string> names;      ///< of the first of them
};

/// @error invalid_argument unless the name is plain text of 1 to so many bytes
Status check_name(const std::string& variable, std::int64_t bytes_max);
/// @error invalid_argument unless the elements have 1 to 16 bytes, and all of them together have a
///        size
Status check_element(const PutRequest& request);
/// @error invalid_argument if the variable has other elements or another number of dimensions
Status check_fits(const PutRequest& request, const std::string& type, std::int64_t element_bytes,
                  int rank);

/// What messages say of a version: version 3 of "energy".
std::string version_of(const std::string& variable, std::int64_t version);

Error no_lease();

Error wrong_rank(const std::string& variable, int rank, const Box& box);

}  // namespace tranship::staging
