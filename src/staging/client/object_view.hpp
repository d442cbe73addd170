// Boxes that are read in a server's memory, without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/processes.hpp"
#include "staging/client/catalog.hpp"

namespace tranship::staging {

/// A lease and the memory that is read under it. The destructor ends both, without a wait: on any
/// thread, after the client or its engine was closed, and in a fork, which leaves them alone.
/// Whichever way the connection ends, the server gives the memory to nobody before that, or before
/// this process is dead.
class ViewLease {
 public:
  struct Parts {
    std::weak_ptr<Processes> processes;
    fabric::PeerId peer;
    std::vector<std::byte> release;        ///< The request that ends the lease.
    std::shared_ptr<SharedMemory> memory;  ///< The server's, as it is mapped here.
    std::shared_ptr<void> use;             ///< Of the memory, as of Liveness::view().
  };

  explicit ViewLease(Parts parts);
  ~ViewLease();
  ViewLease(const ViewLease&) = delete;
  ViewLease& operator=(const ViewLease&) = delete;

 private:
  Parts parts_;
  const std::uint64_t fork_generation_;
};

/// A box of an object, which stays as it is for as long as `lease` does. A value; nobody may write
/// the memory.
struct ObjectView {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  const std::byte* address = nullptr;  ///< Of the element at the lower corner.
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< In bytes.
  std::shared_ptr<const ViewLease> lease;

  /// Returns the bytes from the first element to the end of the last one.
  std::int64_t span_bytes() const;
};

/// What a view is made of.
struct ViewSource {
  const LeasedBox& held;  ///< One lease, and one object in which the box lies.
  const Box& box;
  const Array& memory;  ///< The segment of the object.
  std::shared_ptr<Processes> processes;
  fabric::PeerId peer;  ///< The server.
};

/// Returns the view, which takes over the lease. After an error the lease is still the caller's.
/// @error peer_lost or closed if the connection has ended; io if the object is viewed whole and has
///        another checksum; unsupported if the server's range is not in its segment
Result<std::variant<ObjectView, NoView>> make_view(const ViewSource& source);

/// Returns the error of an object that has another checksum than its writer has computed.
Error other_checksum(const LeasedBox& held, const StoredObject& object);

}  // namespace tranship::staging
