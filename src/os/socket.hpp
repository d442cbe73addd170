// Stream sockets that never block: Unix-domain ones of this machine, and TCP.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "os/descriptor.hpp"

namespace tranship {

/// Listens on an abstract Unix-domain address with a random name, which it returns. The kernel
/// frees the name when the process exits, and no other process can have taken it.
/// @error io if the system refuses
Result<std::pair<FileDescriptor, std::string>> listen_locally();

/// Listens on "host:port"; port 0 takes a free one. Returns the address at which others reach it.
/// @error invalid_argument if that is not an address; io if the system refuses
Result<std::pair<FileDescriptor, std::string>> listen_on_network(const std::string& address);

/// Begins to connect. The socket is writable when that has ended; socket_error() returns how.
/// @error peer_lost if nothing listens there; io
Result<FileDescriptor> connect_locally(const std::string& name);
/// @error invalid_argument if `address` is not host:port
Result<FileDescriptor> connect_over_network(const std::string& address);

/// Returns the pending error of a socket, as an errno, and clears it; 0: none.
int socket_error(const FileDescriptor& socket);

/// Returns the address at the other end of a TCP socket, for messages.
std::string remote_address(const FileDescriptor& socket);

/// Sets the options of a connection over a network: packets are sent without waiting until they are
/// full, and the connection ends when the other machine's kernel has not answered for some
/// `silence_s` seconds (15 minutes if bytes were under way and this kernel is older than Linux
/// 6.15). The kernel also answers for a process that is stopped. After an interruption the
/// connection continues within `silence_s` / 15 seconds; an older kernel may take as long again as
/// the interruption was.
void prepare_network_socket(const FileDescriptor& socket, int silence_s);

}  // namespace tranship
