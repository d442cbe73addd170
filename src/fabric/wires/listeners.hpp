// The sockets at which a process listens.
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "os/descriptor.hpp"
#include "os/event_set.hpp"

namespace tranship::fabric {

/// The sockets at which a process listens on its machine and on a network.
/// Threads: one.
class Listeners {
 public:
  /// Tags of the listeners' events.
  static constexpr std::uint64_t local_tag = ~std::uint64_t{0};
  static constexpr std::uint64_t network_tag = local_tag - 1;

  /// Keeps a descriptor for refusals.
  /// @error io if there is none
  Status open();
  /// Listens on this machine. Returns the name at which it does.
  /// @error as tranship::listen_locally(); io
  Result<std::string> listen_locally(EventSet& events);
  /// Listens at a HOST:PORT. Returns the address with its port.
  /// @error as tranship::listen_on_network(); io
  Result<std::string> listen_on_network(EventSet& events, const std::string& address);

  /// Accepts the clients that wait at the listener of a tag, some at a time.
  void accept(std::uint64_t tag, const std::function<void(FileDescriptor)>& accepted);

  /// Stops listening: clients are refused at once.
  void close();

 private:
  Result<std::string> watch(EventSet& events, FileDescriptor& listener, std::uint64_t tag,
                            Result<std::pair<FileDescriptor, std::string>> made);
  void refuse_one(const FileDescriptor& listener);

  FileDescriptor local_;
  FileDescriptor network_;
  FileDescriptor spare_;  ///< Closed to accept and refuse a client when no descriptor is left.
};

}  // namespace tranship::fabric
