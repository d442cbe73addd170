#include "fabric/wires/watched_socket.hpp"

#include <sys/socket.h>

#include <utility>

namespace tranship::fabric {

bool WatchedSocket::watch(std::uint64_t tag, std::uint32_t events) {
  std::lock_guard lock(mutex_);
  return watch_locked(tag, events);
}

bool WatchedSocket::watch(std::uint64_t tag, const FrameWriter& writer) {
  std::lock_guard lock(mutex_);
  // The writer is checked under the lock: otherwise a message that another thread has queued
  // meanwhile, finding the socket watched, might wait forever.
  return watch_locked(tag, writer.idle() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

bool WatchedSocket::watch_locked(std::uint64_t tag, std::uint32_t events) {
  if (watched_ == events) return true;
  const bool done = watched_ == 0 ? events_.add(socket_.get(), tag, events)
                                  : events_.change(socket_.get(), tag, events);
  if (done) watched_ = events;
  return done;
}

void WatchedSocket::reset(FileDescriptor socket) {
  std::lock_guard lock(mutex_);
  socket_ = std::move(socket);
  watched_ = 0;
}

FileDescriptor WatchedSocket::release() {
  std::lock_guard lock(mutex_);
  if (std::exchange(watched_, 0) != 0) events_.remove(socket_.get());
  return std::move(socket_);
}

void WatchedSocket::shut_down() {
  std::lock_guard lock(mutex_);
  (void)::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace tranship::fabric
