// The bytes of one connection: as they are on the socket, or encrypted.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <memory>

#include "fabric/wires/tls_stream.hpp"

namespace tranship::fabric {

/// A socket that never blocks, and what encrypts its bytes, if anything does. A small value: owns a
/// share of the encryption, and not the socket.
/// Threads: all.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(int socket, std::shared_ptr<TlsStream> tls = nullptr)  // a socket is a stream
      : socket_(socket), tls_(std::move(tls)) {}

  explicit operator bool() const { return socket_ >= 0; }

  /// As sendmsg(2). If an encrypted stream takes nothing now, the next message must begin with the
  /// same bytes; it carries no descriptors.
  ssize_t send(const msghdr& message) const;
  /// As recvmsg(2). With `only_buffered` it hands out what has been read from the socket before and
  /// lies decrypted or encrypted in this process: no event of the socket announces that again.
  ssize_t receive(msghdr& message, bool only_buffered = false) const;

 private:
  int socket_ = -1;
  std::shared_ptr<TlsStream> tls_;
};

}  // namespace tranship::fabric
