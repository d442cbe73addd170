// The byte stream of one connection, plain or encrypted.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <memory>

#include "fabric/wires/tls_stream.hpp"

namespace tranship::fabric {

/// A socket that never blocks, with its optional encryption. A small value, which shares ownership
/// of the encryption and does not own the socket.
/// Threads: all.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(int socket, std::shared_ptr<TlsStream> tls = nullptr)  // a socket is a stream
      : socket_(socket), tls_(std::move(tls)) {}

  explicit operator bool() const { return socket_ >= 0; }

  /// Sends as sendmsg(2) does. If an encrypted stream accepts nothing now, the next message must
  /// begin with the same bytes; it carries no descriptors.
  ssize_t send(const msghdr& message) const;
  /// Receives as recvmsg(2) does. only_buffered: Returns only bytes that have already been read
  /// from the socket and are buffered in this process, decrypted or encrypted: no event of the
  /// socket announces them again.
  ssize_t receive(msghdr& message, bool only_buffered = false) const;

 private:
  int socket_ = -1;
  std::shared_ptr<TlsStream> tls_;
};

}  // namespace tranship::fabric
