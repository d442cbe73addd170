// Descriptors that a thread sleeps on.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "os/descriptor.hpp"

namespace tranship {

/// Descriptors whose events one thread waits for: an epoll. Each has a tag, which comes with its
/// events. Threads: all, after open().
class EventSet {
 public:
  /// Opens the set. Returns false, with errno set, if there is no descriptor for it.
  bool open();
  explicit operator bool() const { return static_cast<bool>(epoll_); }
  /// Returns a descriptor that is readable while wait() would return events.
  int descriptor() const { return epoll_.get(); }

  /// Adds a descriptor. Returns false, with errno set, if the system refuses it.
  bool add(int descriptor, std::uint64_t tag, std::uint32_t events = EPOLLIN);
  /// Changes the events of a descriptor that was added.
  bool change(int descriptor, std::uint64_t tag, std::uint32_t events);
  void remove(int descriptor);

  /// Waits for at most `limit_ms`. Returns the events that came, which lie in `room`.
  std::span<const epoll_event> wait(std::span<epoll_event> room, int limit_ms) const;

 private:
  bool control(int operation, int descriptor, std::uint64_t tag, std::uint32_t events);

  FileDescriptor epoll_;
};

}  // namespace tranship
