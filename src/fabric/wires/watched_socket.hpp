// A socket, and the events for which it is watched.
#pragma once

#include <cstdint>
#include <mutex>

#include "fabric/wires/frame_stream.hpp"
#include "os/descriptor.hpp"
#include "os/event_set.hpp"

namespace tranship::fabric {

/// The socket of a connection, which may be replaced, and the events for which a set watches it.
/// Threads: reset() and release() from one, which may also read descriptor(); all others from all.
class WatchedSocket {
 public:
  /// events: Outlives this object.
  explicit WatchedSocket(EventSet& events) : events_(events) {}

  const FileDescriptor& descriptor() const { return socket_; }

  /// Watches for events of the set's tag `tag` from now on; the first call adds the socket to the
  /// set. Returns false, with errno set, if the system refuses that.
  bool watch(std::uint64_t tag, std::uint32_t events);
  /// Watches for messages, and for room as long as the writer has something to write.
  bool watch(std::uint64_t tag, const FrameWriter& writer);

  /// Closes the socket, and has another one, which is not watched.
  void reset(FileDescriptor socket = {});
  /// Stops watching the socket, and hands it over.
  FileDescriptor release();
  /// Makes both directions fail, so that the connection breaks.
  void shut_down();

 private:
  bool watch_locked(std::uint64_t tag, std::uint32_t events);

  EventSet& events_;
  std::mutex mutex_;  ///< Guards all following members.
  FileDescriptor socket_;
  std::uint32_t watched_ = 0;  ///< The events that the set reports; 0: the socket is not in it.
};

}  // namespace tranship::fabric
