// Requests of clients to staging servers, and the results of the store: values, with their checks.
#pragma once

#include <cstdint>
#include <optional>
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

/// What a server may do to make room for an object when its memory is full.
enum class Effort : std::uint32_t {
  free_memory = 1,  ///< Nothing: the object takes memory that is free. Asked of overflow servers.
  discard,          ///< Discard old versions, if its policy says so, but spill nothing.
  all,              ///< Whatever its policy allows.
};

struct PutRequest {
  std::string variable;
  std::int64_t version = 0;
  Box box;
  std::string type;  ///< Element type, as NumPy writes it: f8.
  std::int64_t element_bytes = 0;
  Incarnation incarnation{};  ///< The variable's, as far as the client knows.
  /// The step (model/steps.hpp) that it belongs to: it is withheld from readers until the step is
  /// whole. 0: none.
  std::uint64_t step = 0;
};

/// How a client asks for room.
struct RoomRequest {
  Effort effort = Effort::all;
  RequestId request_id = 0;
  /// Whether the object is written at once; otherwise take_pages() is called before it is written.
  bool ready = true;
  /// Index servers of the box, if this server is none of them. Readers find the object through
  /// these servers alone.
  std::vector<int> index_servers{};
};

/// An object by the server that holds it (its primary) and by its number there.
struct ObjectId {
  int primary = 0;
  std::uint64_t object = 0;
  auto operator<=>(const ObjectId&) const = default;
};

/// An object on an overflow server whose version an index server of its box has discarded.
using Orphan = ObjectId;

/// An object of another server that is indexed on this one.
struct RemoteObject {
  ObjectId id;
  /// Whether the primary is an overflow server: it indexes no part of the box, and learns of a
  /// discarded version only through take_orphans().
  bool overflow = false;
};

/// Room that was granted for an object, whose elements are dense, the last dimension fastest.
struct GrantedRoom {
  std::uint64_t object = 0;
  Range range;
};

enum class VersionChoice {
  exact,   ///< This version.
  next,    ///< The lowest one above this that has something of the box.
  latest,  ///< The highest one up to this that covers the box.
};

struct GetRequest {
  std::string variable;
  VersionChoice choice = VersionChoice::exact;
  std::int64_t version = 0;
  Box box;
  Incarnation incarnation{};  ///< The variable's, as far as the client knows.
};

/// State of an object that the index of another server names.
struct LeasedObject {
  enum class State : std::uint32_t {
    here = 1,  ///< Whole, and kept until the lease ends.
    begun,     ///< Being written: it may still be committed.
    gone,      ///< Given up: it cannot be committed any more.
  };
  State state = State::gone;
  std::uint64_t order = 0;
  Range range;  ///< Without a segment while the object lies on disk: recall() brings it back.
  Checksum checksum{};
  std::uint64_t step = 0;  ///< The step within which the object is withheld; 0: none.
};

/// The box also meets objects of other servers: the client must call find() there, too.
struct NeedsOtherServers {};

/// Whether clients still put to a variable.
enum class Ending : std::uint32_t {
  none,    ///< They do, or may begin to.
  closed,  ///< All have ended.
  died     ///< All have ended, or died.
};

/// The reason why a request must wait. The client repeats it after the store has changed.
struct Waiting {
  std::string why;
  std::optional<std::int64_t>
      gap{};  ///< The next version, which has something of the box, not all.
  Ending ending = Ending::none;
  std::uint64_t step = 0;  ///< As FoundObjects::step.
};

/// What a server has of a version.
struct Extent {
  std::int64_t version = 0;
  std::optional<Box> bounds{};  ///< The box around its objects.
  /// A box without elements that was put, with one index in each dimension that has none.
  std::optional<Box> empty{};
  std::uint32_t empty_dimensions = 0;  ///< A bit for each of these dimensions.
  std::uint64_t step = 0;              ///< As FoundObjects::step.
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
  Box bounds;  ///< The smallest box around all objects that were ever committed.
  std::vector<VersionInfo> versions;
  int producers = 0;          ///< Connected processes that have put to the variable.
  VariableTraffic traffic{};  ///< Since the servers were started.
};

/// What one server reports of itself.
struct ServerInfo {
  int server = 0;  ///< Its number in the group.
  std::string contact;
  std::int64_t memory_bytes = 0;       ///< Capacity for objects.
  std::int64_t memory_bytes_used = 0;  ///< Taken by objects, in whole units.
  std::int64_t spilled_bytes = 0;      ///< Bytes of the objects that lie on disk only.
  int clients = 0;                     ///< Connected clients.
  std::vector<std::string> names;      ///< Names of clients, as many as fit into a message.
};

/// Checks a variable's name.
/// @error invalid_argument unless it is plain text of 1 to `bytes_max` bytes
Status check_name(const std::string& variable, std::int64_t bytes_max);
/// Checks the element type, the element size and the size of the object.
/// @error invalid_argument unless elements have 1 to 16 bytes, and the object's size fits 63 bits
Status check_element(const PutRequest& request);
/// Checks that an object fits its variable.
/// @error invalid_argument if the element type or the number of dimensions differs
Status check_fits(const PutRequest& request, const std::string& type, std::int64_t element_bytes,
                  int rank);

/// Returns the words for a version in messages: version 3 of "energy".
std::string version_of(const std::string& variable, std::int64_t version);

Error no_lease();

Error wrong_rank(const std::string& variable, int rank, const Box& box);

}  // namespace tranship::staging
