#include "fabric/wires/listeners.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "os/socket.hpp"

namespace tranship::fabric {

Status Listeners::open() {
  spare_ = FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (spare_) return {};
  return Error{ErrorCode::io,
               std::string("no descriptors for connections: ") + std::strerror(errno),
               "raise the limit (ulimit -n)"};
}

Result<std::string> Listeners::watch(EventSet& events, FileDescriptor& listener, std::uint64_t tag,
                                     Result<std::pair<FileDescriptor, std::string>> made) {
  if (!made) return made.error();
  listener = std::move(made->first);
  if (events.add(listener.get(), tag)) return std::move(made->second);
  return Error{ErrorCode::io, std::string("cannot watch a socket: ") + std::strerror(errno)};
}

Result<std::string> Listeners::listen_locally(EventSet& events) {
  return watch(events, local_, local_tag, tranship::listen_locally());
}

Result<std::string> Listeners::listen_on_network(EventSet& events, const std::string& address) {
  return watch(events, network_, network_tag, tranship::listen_on_network(address));
}

void Listeners::accept(std::uint64_t tag, const std::function<void(FileDescriptor)>& accepted) {
  const FileDescriptor& listener = tag == local_tag ? local_ : network_;
  for (int k = 0; k < 64; ++k) {
    const int made = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made >= 0) {
      accepted(FileDescriptor(made));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE) refuse_one(listener);
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return;
  }
}

/// Refuses a client for which no descriptor is left: accepts it with the spare descriptor and
/// closes that, so that the client is informed, and the listener does not report it forever.
void Listeners::refuse_one(const FileDescriptor& listener) {
  spare_.reset();
  FileDescriptor refused(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  refused.reset();
  (void)open();
}

void Listeners::close() {
  local_.reset();
  network_.reset();
}

}  // namespace tranship::fabric
