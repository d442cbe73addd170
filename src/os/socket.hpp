// Stream sockets that never block: Unix-domain ones of this machine, and TCP.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "os/descriptor.hpp"

namespace tranship {

/// Listens on an abstract Unix-domain address of a random name, which is returned: nothing is left
/// of it when the process ends, and nobody can have taken it before.
/// @error io if the system refuses
Result<std::pair<FileDescriptor, std::string>> listen_locally();

/// Listens on "host:port"; port 0 takes a free one. Returns where others can reach it.
/// @error invalid_argument if that is no address; io if it cannot be listened on
Result<std::pair<FileDescriptor, std::string>> listen_on_network(const std::string& address);

/// Begins to connect; the socket is writable when that has ended, and socket_error() says how.
/// @error peer_lost if nobody listens there; io
Result<FileDescriptor> connect_locally(const std::string& name);
/// @error invalid_argument if `address` is not host:port
Result<FileDescriptor> connect_over_network(const std::string& address);

/// Takes the number of a socket's error, which is 0 if it has none.
int socket_error(const FileDescriptor& socket);

/// Where a TCP socket begins and ends, for messages.
std::string remote_address(const FileDescriptor& socket);

/// Sets what a connection over a network needs: no waiting for full packets, and an end where the
/// other machine's kernel has answered nothing for `silence_s` seconds. A process that is stopped
/// is not silent: its kernel answers.
void prepare_network_socket(const FileDescriptor& socket, int silence_s);

}  // namespace tranship
