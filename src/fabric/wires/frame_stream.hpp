// Writes and reads the messages of one socket.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fabric/wires/byte_stream.hpp"
#include "fabric/wires/frame.hpp"
#include "fabric/wires/wire.hpp"
#include "os/descriptor.hpp"

namespace tranship::fabric {

/// Writes messages to a socket that never blocks. Over a network it keeps each message until the
/// other side has acknowledged it, so that a new connection can resume where a broken one ended.
/// Threads: all.
class FrameWriter {
 public:
  /// `resumes`: messages are numbered and kept until they are acknowledged.
  explicit FrameWriter(bool resumes) : resumes_(resumes) {}

  /// Queues a message, and writes as much as the socket takes if `now`.
  /// Returns false, and queues nothing, if more than queue_bytes_max wait for the other side.
  bool send(const WireMessage& message, bool now);

  /// Queues an acknowledgement of the last message that arrived, if `after` or more have arrived
  /// since the last acknowledgement.
  void acknowledge(std::uint64_t after);

  /// Whether messages carry checksums; before the first attach().
  void set_checksums(bool on);
  /// From now on writes to this stream, beginning with what `received` says did not come.
  void attach(ByteStream stream, std::uint64_t received);
  /// Writes nothing until the next attach().
  void detach();
  /// Copies the bulk of all messages that may still be written, so that its memory is not read any
  /// more. Returns false if there is no memory for that: then nothing more is written at all.
  bool keep_bulk();
  /// Drops the messages that were written: the connection is not resumed.
  void forget_written();

  /// Writes as much as the socket takes. Returns whether something is left.
  bool flush();
  bool idle() const;
  /// Returns whether the other side has acknowledged all messages; for a writer that does not
  /// resume, whether all are written.
  bool delivered() const;
  /// Returns the bytes of the messages that are still to be written, without taking a lock.
  std::size_t backlog() const { return backlog_.load(std::memory_order_relaxed); }

  /// Drops the messages up to this number: the other side has received them.
  void acknowledged(std::uint64_t sequence);
  /// Sets the number of the last message that arrived, which the next messages carry.
  void set_received(std::uint64_t sequence);

  static constexpr std::size_t queue_bytes_max = std::size_t{64} << 20;

 private:
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> body;
    std::span<const std::byte> bulk;
    std::shared_ptr<const void> owner;  ///< Of the memory of `bulk`.
    bool bulk_stays = false;            ///< As in WireMessage.
    std::vector<FileDescriptor> descriptors;
    std::vector<std::byte> kept;  ///< The bulk, once it may not be read where it lay.
    std::size_t bytes() const { return sizeof header + body.size() + bulk.size(); }
    /// Memory that waits here: the bulk lies elsewhere.
    std::size_t queued_bytes() const { return sizeof header + body.size(); }
  };

  void push_back(Frame frame);
  void push_front(Frame frame);
  Frame pop_front();
  bool flush_locked();
  void begin_front();
  bool write_front();

  bool resumes_;
  std::atomic<std::size_t> backlog_{0};
  mutable std::mutex mutex_;  ///< guards what follows
  ByteStream stream_;
  bool checksums_ = false;
  std::deque<Frame> queue_;
  bool begun_ = false;       ///< The stream was given the first frame: its header is settled.
  std::size_t written_ = 0;  ///< Bytes of the first frame that the stream has taken.
  std::size_t queued_bytes_ = 0;
  std::deque<Frame> unacknowledged_;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t told_received_ = 0;
};

/// Reads messages from a socket that never blocks, and checks each length before it uses it.
/// Threads: one.
class FrameReader {
 public:
  /// Called for each message, and for the bulk that comes with it.
  struct Handlers {
    std::function<ReceiveBuffer(const MessageHeader&, std::span<const std::byte> body,
                                std::int64_t offset, std::int64_t left)>
        place;
    /// False ends reading: the connection was closed meanwhile.
    std::function<bool(const FrameHeader&, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors)>
        frame;
  };
  enum class Outcome { drained, ended, broken, damaged, refused, stopped };

  explicit FrameReader(bool takes_descriptors) : takes_descriptors_(takes_descriptors) {}

  /// Whether messages carry checksums: then `place` is called for none whose header or body was
  /// changed on the way, and `frame` for none of whose bytes any was. Changed bytes may lie where
  /// `place` said until the message comes once more.
  void set_checksums(bool on) { checksums_ = on; }

  /// Reads until the socket has no more, or `bytes_max` bytes were read; `any` says whether there
  /// was something. `ended`: the other side has closed; `broken`: the socket failed, errno says
  /// how; `damaged`: a checksum is wrong; `refused`: what came is no message; `stopped`: a handler
  /// said so.
  Outcome read(const ByteStream& stream, const Handlers& handlers, bool& any);

  /// Forgets what has been read of a message that is not whole.
  void reset();

 private:
  /// Where a turn reads from.
  struct Source {
    const ByteStream& stream;
    bool only_buffered = false;  ///< The turn is over but for what the stream has in its buffers.
  };
  Outcome receive(const Source& source, const Handlers& handlers, std::size_t& count);
  ReceiveBuffer place(const Handlers& handlers) const;
  Outcome take_frames(const Handlers& handlers);
  Outcome begin_frame();
  Outcome end_frame(const Handlers& handlers);
  bool take_descriptors(void* message);

  void bulk_came(std::span<const std::byte> bytes);

  bool takes_descriptors_;
  bool checksums_ = false;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(64 * 1024);
  std::size_t begin_ = 0;  ///< Of what has been read and not yet taken.
  std::size_t end_ = 0;
  std::optional<FrameHeader> header_;  ///< Of the message that is being read.
  std::vector<std::byte> body_;
  std::size_t body_read_ = 0;
  std::size_t bulk_left_ = 0;
  std::uint32_t body_checksum_ = 0;  ///< Of what has come of the current message's body.
  std::uint32_t bulk_checksum_ = 0;
  std::deque<FileDescriptor> descriptors_;
};

}  // namespace tranship::fabric
