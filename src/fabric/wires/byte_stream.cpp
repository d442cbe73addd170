#include "fabric/wires/byte_stream.hpp"

#include <cerrno>

namespace tranship::fabric {
namespace {

std::span<const iovec> pieces_of(const msghdr& message) {
  return {message.msg_iov, message.msg_iovlen};
}

}  // namespace

ssize_t ByteStream::send(const msghdr& message) const {
  if (tls_) return tls_->write(pieces_of(message));
  ssize_t length = 0;
  do {
    length = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  return length;
}

ssize_t ByteStream::receive(msghdr& message, bool only_buffered) const {
  if (tls_) {
    message.msg_controllen = 0;
    message.msg_flags = 0;
    return tls_->read(pieces_of(message), only_buffered);
  }
  if (only_buffered) {
    errno = EAGAIN;
    return -1;
  }
  ssize_t length = 0;
  do {
    length = recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  return length;
}

}  // namespace tranship::fabric
