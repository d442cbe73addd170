// Writing and reading of the messages of one socket.
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
  /// resumes: Whether messages are numbered and kept until they are acknowledged.
  explicit FrameWriter(bool resumes) : resumes_(resumes) {}

  /// Queues a message; writes as much as the socket accepts if `now`.
  /// Returns false, and queues nothing, if more than queue_bytes_max wait for the other side.
  bool send(const WireMessage& message, bool now);

  /// Queues an acknowledgement of the last message that arrived, if `after` or more have arrived
  /// since the last acknowledgement.
  void acknowledge(std::uint64_t after);

  /// Sets whether messages carry checksums. Call it before the first attach().
  void set_checksums(bool on);
  /// Writes to this stream from now on, starting with the first message after `received`.
  void attach(ByteStream stream, std::uint64_t received);
  /// Writes nothing until the next attach().
  void detach();
  /// Copies the bulk of all messages that may still be written, so that its memory is no longer
  /// read. Returns false if there is no memory for the copy: then nothing more is written at all.
  bool keep_bulk();
  /// Drops the messages that have been written, for a connection that is not resumed.
  void forget_written();

  /// Writes as much as the socket accepts. Returns whether something is left.
  bool flush();
  bool idle() const;
  /// Returns whether the other side has acknowledged all messages; for a writer that does not
  /// resume, whether all have been written.
  bool delivered() const;
  /// Returns the bytes of the messages that are still to be written, without taking a lock.
  std::size_t backlog() const { return backlog_.load(std::memory_order_relaxed); }

  /// Drops the messages up to this number, which the other side has received.
  void acknowledged(std::uint64_t sequence);
  /// Sets the number of the last message that arrived, which the next messages carry.
  void set_received(std::uint64_t sequence);

  static constexpr std::size_t queue_bytes_max = std::size_t{64} << 20;

 private:
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> body;
    GatheredBytes bulk;
    std::shared_ptr<const void> owner;  ///< Owner of the memory of `bulk`.
    bool bulk_stays = false;            ///< As in WireMessage.
    std::vector<FileDescriptor> descriptors;
    std::vector<std::byte> kept;  ///< Copy of the bulk, once its memory may not be read.
    std::size_t bytes() const { return sizeof header + body.size() + bulk.size(); }
    /// Returns the bytes that are queued here, without the bulk, which lies elsewhere.
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
  mutable std::mutex mutex_;  ///< guards all following members
  ByteStream stream_;
  bool checksums_ = false;
  std::deque<Frame> queue_;
  bool begun_ = false;       ///< The stream has part of the first frame: its header is final.
  std::size_t written_ = 0;  ///< Bytes of the first frame that the stream has accepted.
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
    /// Returning false ends reading: the connection was closed meanwhile.
    std::function<bool(const FrameHeader&, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors)>
        frame;
  };
  enum class Outcome { drained, ended, broken, damaged, refused, stopped };

  explicit FrameReader(bool takes_descriptors) : takes_descriptors_(takes_descriptors) {}

  /// Sets whether messages carry checksums. Then `place` is not called for a message whose header
  /// or body was changed on the way, and a message with any changed byte is not delivered to
  /// `frame`. Changed bulk may have been written to where `place` said, until the message is sent
  /// again.
  void set_checksums(bool on) { checksums_ = on; }

  /// Reads until the socket has no more, or 8 MiB were read and the stream has no more in its
  /// buffers; sets `any` if there was something. `ended`: the other side has closed; `broken`: the
  /// socket failed, see errno; `damaged`: a checksum is wrong; `refused`: the bytes are no message;
  /// `stopped`: a handler returned false.
  Outcome read(const ByteStream& stream, const Handlers& handlers, bool& any);

  /// Discards the part of an incomplete message that has been read.
  void reset();

 private:
  /// The source of a turn's bytes.
  struct Source {
    const ByteStream& stream;
    bool only_buffered = false;  ///< The turn is over, except for the stream's buffered bytes.
  };
  Outcome receive(const Source& source, const Handlers& handlers, std::size_t& count);
  ReceiveBuffer place(const Handlers& handlers) const;
  Outcome take_frames(const Handlers& handlers);
  Outcome begin_frame();
  Outcome end_frame(const Handlers& handlers);
  bool take_descriptors(void* message);

  void bulk_came(const ReceiveBuffer& room, std::size_t bytes);

  bool takes_descriptors_;
  bool checksums_ = false;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(64 * 1024);
  std::size_t begin_ = 0;  ///< Range of the bytes in the buffer that have not been taken.
  std::size_t end_ = 0;
  std::optional<FrameHeader> header_;  ///< Header of the message that is being read.
  std::vector<std::byte> body_;
  std::size_t body_read_ = 0;
  std::size_t bulk_left_ = 0;
  std::uint32_t body_checksum_ = 0;  ///< Of the received part of the current message's body.
  std::uint32_t bulk_checksum_ = 0;
  std::deque<FileDescriptor> descriptors_;
};

}  // namespace tranship::fabric
