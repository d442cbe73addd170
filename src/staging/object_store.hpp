// The objects of a staging server: variables, versions, boxes. Decides what a put may write, what a
// get sees, what waits and what goes; moves nothing and knows no clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/heap.hpp"
#include "staging/box.hpp"
#include "staging/box_index.hpp"
#include "tranship/error.hpp"

namespace tranship::staging {

/// Objects begin at whole multiples of it.
constexpr std::int64_t object_alignment = 256;

/// A process that puts and gets, as long as it is connected.
using Owner = std::uint64_t;

/// What becomes of a put when the memory is full.
enum class Full {
  block,          ///< it waits until versions are discarded by somebody
  discard_oldest  ///< the oldest versions that nobody reads make room
};

struct PutRequest {
  std::string variable;
  std::int64_t version = 0;
  Box box;
  std::string type;  ///< of an element, as NumPy writes it: f8
  std::int64_t element_bytes = 0;
};

/// Room for an object: dense, the last dimension fastest.
struct Begun {
  std::uint64_t object = 0;
  Range range;
};

enum class Which {
  exact,   ///< this version
  next,    ///< the lowest one above this that is there
  latest,  ///< the highest one that covers the box
};

struct GetRequest {
  std::string variable;
  Which which = Which::exact;
  std::int64_t version = 0;
  Box box;
};

/// A part of a get: it lies in one object.
struct Part {
  Range range;     ///< of the object
  Box object_box;  ///< of which the range holds the elements
  Box box;         ///< the part
};

struct Found {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  std::vector<Part> parts;  ///< disjoint; together the box
  std::uint64_t lease = 0;  ///< keeps the objects until release()
};

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
  int rank = 0;
  Box bounds;  ///< around all that was ever put
  std::vector<VersionInfo> versions;
  int producers = 0;  ///< processes that put to it and are connected
};

/// Laws: an object is visible whole, from commit() on, or not at all. What a get returned stays as
/// it is until its lease ends. Of overlapping objects of one version the one that was committed
/// last is seen. A version goes by discard(), by the limits of the options, and in no other way;
/// asking for it afterwards is an error that says so. Costs are logarithms of the number of
/// objects, and what the answer holds. Not thread-safe.
class ObjectStore {
 public:
  struct Options {
    std::int64_t memory_bytes = 0;
    std::int64_t segment_bytes = std::int64_t{64} << 20;
    int versions_max = 0;  ///< of a variable; 0: any number
    Full full = Full::block;
    /// Makes a segment of so many bytes, numbered 0, 1, 2, ….
    std::function<Status(std::int64_t bytes)> make_segment;
  };
  explicit ObjectStore(Options options) : options_(std::move(options)) {}

  /// @error invalid_argument if it does not fit the variable; out_of_memory if no room could ever
  ///        be made; not_found if the version was discarded
  Result<std::variant<Begun, Waiting>> begin(Owner owner, const PutRequest& request);
  /// @error not_found if the owner has begun no such object
  Status commit(Owner owner, std::uint64_t object);
  Status abort(Owner owner, std::uint64_t object);

  /// @error not_found if the version was discarded; invalid_argument if the box has another rank;
  ///        closed or peer_lost if all producers have ended, and so it can never be covered
  Result<std::variant<Found, Waiting>> get(Owner owner, const GetRequest& request);
  Status release(Owner owner, std::uint64_t lease);

  Status discard(const std::string& variable, std::int64_t version);

  /// The owner has ended: what it had begun is undone, what it read may go.
  void gone(Owner owner, bool cleanly);

  /// Without its versions.
  std::variant<VariableInfo, Waiting> describe(const std::string& variable) const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const { return heap_.bytes() - heap_.bytes_free(); }

  /// Variables of which something has changed since the last call. An empty name: memory was freed.
  std::set<std::string> take_changes() { return std::exchange(changes_, {}); }

 private:
  struct Object {
    std::string variable;
    std::int64_t version = 0;
    Box box;
    Range range;
    std::uint64_t order = 0;  ///< of its commit; 0: not visible
    Owner owner = 0;          ///< who writes it, until its commit
    int leases = 0;
    bool discarded = false;
  };
  struct Version {
    BoxIndex index;
    std::int64_t bytes = 0;
    int begun = 0;  ///< objects that are being written
  };
  struct Variable {
    std::string type;
    std::int64_t element_bytes = 0;
    Box bounds;
    std::map<std::int64_t, Version> versions;
    int held = 0;  ///< versions of which something is visible
    std::set<std::int64_t> discarded;
    std::set<Owner> producers;
    bool lost_producer = false;  ///< one has died since the last one came
  };
  struct Lease {
    Owner owner = 0;
    std::vector<std::uint64_t> objects;
  };

  static VariableInfo described(const std::string& name, const Variable& variable);
  Result<Variable*> variable_for(const PutRequest& request);
  Result<std::variant<Range, Waiting>> make_room(const PutRequest& request, std::int64_t bytes);
  Status add_segment(std::int64_t bytes_least);
  bool discard_oldest(const PutRequest& but_this);
  bool covered(const Version& version, const Box& box, std::vector<Part>& parts,
               std::vector<std::uint64_t>& objects, Box& missing) const;
  Result<std::variant<Found, Waiting>> find_latest(Owner owner, const GetRequest& request);
  Result<std::variant<Found, Waiting>> find(Owner owner, const GetRequest& request,
                                            std::int64_t version);
  std::variant<Found, Waiting> found(Owner owner, const Variable& variable, std::int64_t version,
                                     std::vector<Part> parts, std::vector<std::uint64_t> objects);
  Result<std::variant<Found, Waiting>> wait_for(const GetRequest& request, std::string why) const;
  void discard_version(const std::string& name, Variable& variable, std::int64_t version);
  void keep_to_versions(const std::string& name, Variable& variable);
  void drop(std::uint64_t object);
  void end_lease(const Lease& lease);

  Options options_;
  Heap heap_{object_alignment};
  int segments_ = 0;
  std::map<std::string, Variable> variables_;
  std::unordered_map<std::uint64_t, Object> objects_;
  std::unordered_map<std::uint64_t, Lease> leases_;
  std::uint64_t last_object_ = 0;
  std::uint64_t last_lease_ = 0;
  std::uint64_t commits_ = 0;
  std::set<std::string> changes_;
};

}  // namespace tranship::staging
