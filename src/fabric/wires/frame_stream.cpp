#include "fabric/wires/frame_stream.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/crc32c.hpp"

namespace tranship::fabric {
namespace {

/// Most bytes that one turn reads, so that no connection delays the others.
constexpr std::size_t turn_bytes_max = std::size_t{8} << 20;
/// Bytes that are read beyond a message's bulk: enough for the head of the next message, and little
/// of its bulk, which would have to be copied from the buffer.
constexpr std::size_t beyond_bulk_bytes = 1024;
constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * descriptors_max);

/// Most parts of a message that one system call writes or reads.
constexpr std::size_t parts_max = 256;

MessageHeader message_of(const FrameHeader& frame) { return {frame.type, frame.slot, frame.call}; }

std::uint32_t checksum_of(const GatheredBytes& bytes) {
  std::uint32_t sum = 0;
  for (const auto& part : bytes.parts()) sum = crc32c(part, sum);
  return sum;
}

/// Calls `visit` for each part of the first `bytes` of a buffer. Returns how many bytes there were.
template <typename Visit>
std::size_t for_each_part(const ReceiveBuffer& buffer, std::size_t bytes, Visit visit) {
  std::size_t left = bytes;
  const auto one = [&](std::span<std::byte> part) {
    part = part.first(std::min(part.size(), left));
    if (!part.empty()) visit(part);
    left -= part.size();
  };
  one(buffer.bytes);
  for (const auto& part : buffer.more) one(part);
  return bytes - left;
}

/// The parts of a message that one system call writes or reads.
class Pieces {
 public:
  /// Adds a part. Returns false if there are as many as one call takes.
  bool add(const std::byte* data, std::size_t bytes) {
    if (count_ == pieces_.size()) return false;
    if (bytes > 0) pieces_[count_++] = {const_cast<std::byte*>(data), bytes};
    return true;
  }

  msghdr message() {
    msghdr made{};
    made.msg_iov = pieces_.data();
    made.msg_iovlen = count_;
    return made;
  }

 private:
  std::array<iovec, parts_max> pieces_;
  std::size_t count_ = 0;
};

}  // namespace

bool FrameWriter::send(const WireMessage& message, bool now) {
  std::lock_guard lock(mutex_);
  Frame frame;
  frame.header.type = message.header.type;
  frame.header.slot = message.header.slot;
  frame.header.call = message.header.call;
  frame.header.body_bytes = static_cast<std::uint32_t>(message.body.size());
  frame.header.bulk_bytes = static_cast<std::uint32_t>(message.bulk.size());
  frame.header.descriptors = static_cast<std::uint32_t>(message.descriptors.size());
  frame.body.assign(message.body.begin(), message.body.end());
  frame.bulk = message.bulk;
  frame.owner = message.owner;
  frame.bulk_stays = message.bulk_stays;
  for (const int descriptor : message.descriptors) {
    frame.descriptors.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!frame.descriptors.back()) return false;
  }
  if (queued_bytes_ + frame.queued_bytes() > queue_bytes_max) return false;
  if (resumes_) frame.header.sequence = ++last_sequence_;
  queued_bytes_ += frame.queued_bytes();
  push_back(std::move(frame));
  if (now && queue_.size() == 1) flush_locked();
  return true;
}

void FrameWriter::push_back(Frame frame) {
  backlog_ += frame.bytes();
  queue_.push_back(std::move(frame));
}

void FrameWriter::push_front(Frame frame) {
  backlog_ += frame.bytes();
  queue_.push_front(std::move(frame));
}

FrameWriter::Frame FrameWriter::pop_front() {
  Frame frame = std::move(queue_.front());
  queue_.pop_front();
  backlog_ -= frame.bytes();
  return frame;
}

void FrameWriter::acknowledge(std::uint64_t after) {
  std::lock_guard lock(mutex_);
  if (!resumes_ || received_ - told_received_ < after) return;
  told_received_ = received_;
  Frame frame;
  frame.header.type = MessageType::acknowledge;
  queued_bytes_ += frame.queued_bytes();
  push_back(std::move(frame));
  if (queue_.size() == 1) flush_locked();
}

void FrameWriter::set_received(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  received_ = sequence;
}

void FrameWriter::acknowledged(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  while (!unacknowledged_.empty() && unacknowledged_.front().header.sequence <= sequence) {
    queued_bytes_ -= unacknowledged_.front().queued_bytes();
    unacknowledged_.pop_front();
  }
}

void FrameWriter::set_checksums(bool on) {
  std::lock_guard lock(mutex_);
  checksums_ = on;
}

void FrameWriter::attach(ByteStream stream, std::uint64_t received) {
  acknowledged(received);
  std::lock_guard lock(mutex_);
  stream_ = std::move(stream);
  begun_ = false;
  written_ = 0;
  while (!unacknowledged_.empty()) {
    push_front(std::move(unacknowledged_.back()));
    unacknowledged_.pop_back();
  }
  while (!queue_.empty() && queue_.front().header.sequence != 0 &&
         queue_.front().header.sequence <= received) {
    queued_bytes_ -= pop_front().queued_bytes();
  }
  flush_locked();
}

void FrameWriter::detach() {
  std::lock_guard lock(mutex_);
  stream_ = {};
  begun_ = false;
  written_ = 0;
}

bool FrameWriter::keep_bulk() {
  std::lock_guard lock(mutex_);
  const auto keep = [](Frame& frame) {
    if (frame.bulk.empty() || frame.bulk_stays || !frame.kept.empty()) return;
    frame.kept.reserve(frame.bulk.size());
    for (const auto& part : frame.bulk.parts()) {
      frame.kept.insert(frame.kept.end(), part.begin(), part.end());
    }
    frame.bulk = frame.kept;
    frame.owner.reset();
  };
  try {
    std::for_each(queue_.begin(), queue_.end(), keep);
    std::for_each(unacknowledged_.begin(), unacknowledged_.end(), keep);
    return true;
  } catch (const std::bad_alloc&) {
    queue_.clear();
    backlog_ = 0;
    unacknowledged_.clear();
    stream_ = {};
    begun_ = false;
    written_ = 0;
    return false;
  }
}

void FrameWriter::forget_written() {
  std::lock_guard lock(mutex_);
  unacknowledged_.clear();
}

bool FrameWriter::flush() {
  std::lock_guard lock(mutex_);
  return flush_locked();
}

bool FrameWriter::idle() const {
  std::lock_guard lock(mutex_);
  return queue_.empty();
}

bool FrameWriter::delivered() const {
  std::lock_guard lock(mutex_);
  return queue_.empty() && unacknowledged_.empty();
}

bool FrameWriter::flush_locked() {
  while (stream_ && !queue_.empty()) {
    if (!write_front()) return true;
    if (written_ < queue_.front().bytes()) continue;
    begun_ = false;
    written_ = 0;
    Frame frame = pop_front();
    if (frame.header.sequence != 0) {
      unacknowledged_.push_back(std::move(frame));
    } else {
      queued_bytes_ -= frame.queued_bytes();
    }
  }
  return !queue_.empty();
}

/// Completes the header of the first frame; the stream may keep a copy of it from now on.
void FrameWriter::begin_front() {
  Frame& frame = queue_.front();
  begun_ = true;
  frame.header.acknowledged = received_;
  told_received_ = received_;
  if (!checksums_) return;
  frame.header.body_checksum = crc32c(frame.body);
  frame.header.bulk_checksum = checksum_of(frame.bulk);
  frame.header.header_checksum = checksum_of(frame.header);
}

/// Writes a part of the first frame. Returns false if the stream accepts nothing now.
bool FrameWriter::write_front() {
  if (!begun_) begin_front();
  Frame& frame = queue_.front();
  Pieces pieces;
  std::size_t skip = written_;
  const auto add = [&](std::span<const std::byte> part) {
    const std::size_t skipped = std::min(skip, part.size());
    skip -= skipped;
    return pieces.add(part.data() + skipped, part.size() - skipped);
  };
  add(std::as_bytes(std::span(&frame.header, 1)));
  add(frame.body);
  for (const auto& part : frame.bulk.parts()) {
    if (!add(part)) break;
  }
  msghdr message = pieces.message();
  alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
  if (written_ == 0 && !frame.descriptors.empty()) {
    const std::size_t length = sizeof(int) * frame.descriptors.size();
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::array<int, descriptors_max> numbers{};
    for (std::size_t k = 0; k < frame.descriptors.size(); ++k) {
      numbers[k] = frame.descriptors[k].get();
    }
    std::memcpy(CMSG_DATA(header), numbers.data(), length);
  }
  const ssize_t written = stream_.send(message);
  if (written <= 0) return false;  // a read of the socket reports how it has failed
  if (written_ == 0) frame.descriptors.clear();
  written_ += static_cast<std::size_t>(written);
  return true;
}

FrameReader::Outcome FrameReader::read(const ByteStream& stream, const Handlers& handlers,
                                       bool& any) {
  // At the end of a turn, bytes that the stream has buffered are read, too: no event would announce
  // them.
  for (std::size_t total = 0;;) {
    std::size_t count = 0;
    const bool only_buffered = total >= turn_bytes_max;
    const Outcome received = receive({stream, only_buffered}, handlers, count);
    if (received != Outcome::drained) return received;
    if (count == 0) return Outcome::drained;
    any = true;
    total += count;
    if (const Outcome outcome = take_frames(handlers); outcome != Outcome::drained) return outcome;
  }
}

void FrameReader::reset() {
  begin_ = end_ = 0;
  header_.reset();
  bulk_left_ = 0;
  descriptors_.clear();
}

/// Returns where the rest of the current message's bulk belongs, in at most as many parts as one
/// system call reads beside the buffer.
ReceiveBuffer FrameReader::place(const Handlers& handlers) const {
  const std::uint64_t offset = header_->bulk_bytes - bulk_left_;
  ReceiveBuffer room =
      handlers.place(message_of(*header_), body_, static_cast<std::int64_t>(offset),
                     static_cast<std::int64_t>(bulk_left_));
  if (room.more.size() > parts_max - 2) room.more.resize(parts_max - 2);
  return room;
}

/// Reads once: first into the place of the current message's bulk, then into the buffer.
FrameReader::Outcome FrameReader::receive(const Source& source, const Handlers& handlers,
                                          std::size_t& count) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const bool straight = header_ && bulk_left_ > 0 && body_read_ == body_.size() && begin_ == end_;
  ReceiveBuffer room;
  Pieces pieces;
  std::size_t room_bytes = 0;
  if (straight) {
    room = place(handlers);
    if (room.bytes.empty()) return Outcome::refused;
    room_bytes = for_each_part(
        room, bulk_left_, [&](std::span<std::byte> part) { pieces.add(part.data(), part.size()); });
  }
  if (!straight || room_bytes == bulk_left_) {
    pieces.add(buffer_.data() + end_, straight ? beyond_bulk_bytes : buffer_.size() - end_);
  }
  msghdr message = pieces.message();
  alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
  if (takes_descriptors_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  const ssize_t length = source.stream.receive(message, source.only_buffered);
  if (length < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::drained : Outcome::broken;
  }
  if (length == 0) return Outcome::ended;
  count = static_cast<std::size_t>(length);
  if (takes_descriptors_ && !take_descriptors(&message)) return Outcome::refused;
  const std::size_t placed = std::min(count, room_bytes);
  bulk_came(room, placed);
  end_ += count - placed;
  return Outcome::drained;
}

/// Counts bytes of the bulk that have been written to their place.
void FrameReader::bulk_came(const ReceiveBuffer& room, std::size_t bytes) {
  bulk_left_ -= bytes;
  if (!checksums_) return;
  for_each_part(room, bytes, [&](std::span<const std::byte> part) {
    bulk_checksum_ = crc32c(part, bulk_checksum_);
  });
}

bool FrameReader::take_descriptors(void* received) {
  auto* message = static_cast<msghdr*>(received);
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t k = 0; k < count; ++k) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + k * sizeof number, sizeof number);
      descriptors_.emplace_back(number);
    }
  }
  const bool lost = (message->msg_flags & MSG_CTRUNC) != 0;
  return !lost && descriptors_.size() <= 2 * descriptors_max;
}

FrameReader::Outcome FrameReader::take_frames(const Handlers& handlers) {
  while (true) {
    if (!header_) {
      if (end_ - begin_ < sizeof(FrameHeader)) return Outcome::drained;
      if (const Outcome o = begin_frame(); o != Outcome::drained) return o;
    }
    const std::size_t body = std::min(end_ - begin_, body_.size() - body_read_);
    if (body > 0) std::memcpy(body_.data() + body_read_, buffer_.data() + begin_, body);
    if (checksums_) {
      body_checksum_ = crc32c(std::span(body_).subspan(body_read_, body), body_checksum_);
    }
    body_read_ += body;
    begin_ += body;
    if (body_read_ < body_.size()) return Outcome::drained;
    // This check precedes `place`, which may read the body.
    if (checksums_ && header_->body_checksum != body_checksum_) return Outcome::damaged;
    while (bulk_left_ > 0 && begin_ < end_) {
      const ReceiveBuffer room = place(handlers);
      if (room.bytes.empty()) return Outcome::refused;
      const std::size_t came = std::min(end_ - begin_, bulk_left_);
      const std::size_t placed = for_each_part(room, came, [&](std::span<std::byte> part) {
        std::memcpy(part.data(), buffer_.data() + begin_, part.size());
        begin_ += part.size();
      });
      bulk_came(room, placed);
    }
    if (bulk_left_ > 0) return Outcome::drained;
    if (const Outcome o = end_frame(handlers); o != Outcome::drained) return o;
  }
}

FrameReader::Outcome FrameReader::begin_frame() {
  FrameHeader header;
  std::memcpy(&header, buffer_.data() + begin_, sizeof header);
  begin_ += sizeof header;
  if (checksums_ && header.header_checksum != checksum_of(header)) return Outcome::damaged;
  if (header.magic != FrameHeader::magic_value || header.body_bytes > body_bytes_max ||
      header.descriptors > descriptors_max || header.bulk_bytes > (std::uint32_t{1} << 30)) {
    return Outcome::refused;
  }
  header_ = header;
  body_.resize(header.body_bytes);
  body_read_ = 0;
  bulk_left_ = header.bulk_bytes;
  body_checksum_ = 0;
  bulk_checksum_ = 0;
  return Outcome::drained;
}

FrameReader::Outcome FrameReader::end_frame(const Handlers& handlers) {
  const FrameHeader header = *header_;
  header_.reset();
  if (checksums_ && header.bulk_checksum != bulk_checksum_) return Outcome::damaged;
  if (header.descriptors > descriptors_.size()) return Outcome::refused;
  std::vector<FileDescriptor> own;
  for (std::uint32_t k = 0; k < header.descriptors; ++k) {
    own.push_back(std::move(descriptors_.front()));
    descriptors_.pop_front();
  }
  return handlers.frame(header, body_, own) ? Outcome::drained : Outcome::stopped;
}

}  // namespace tranship::fabric
