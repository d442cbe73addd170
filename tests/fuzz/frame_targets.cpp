// Frames and the messages inside them, as the reader of a socket parses them.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/check.hpp"
#include "fabric/links/slot_messages.hpp"
#include "fabric/wires/frame_stream.hpp"
#include "fuzz/targets.hpp"

namespace tranship::fuzz {

using namespace fabric;
namespace {

constexpr std::int64_t bulk_bytes_max = 64 * 1024;

/// A message of the input, which the reader must deliver.
struct Expected {
  FrameHeader header;
  std::span<const std::byte> body;
  std::span<const std::byte> bulk;
};

/// Parses the input in a slow, simple way, up to the first message that is incomplete or not
/// allowed.
std::vector<Expected> expected_of(std::span<const std::byte> input) {
  std::vector<Expected> all;
  while (input.size() >= sizeof(FrameHeader)) {
    Expected one;
    std::memcpy(&one.header, input.data(), sizeof one.header);
    input = input.subspan(sizeof one.header);
    const FrameHeader& header = one.header;
    const bool usable = header.magic == FrameHeader::magic_value && header.descriptors == 0 &&
                        header.body_bytes <= body_bytes_max &&
                        header.bulk_bytes <= std::uint64_t{bulk_bytes_max};
    if (!usable || input.size() < header.body_bytes + header.bulk_bytes) return all;
    one.body = input.first(header.body_bytes);
    one.bulk = input.subspan(header.body_bytes, static_cast<std::size_t>(header.bulk_bytes));
    input = input.subspan(one.body.size() + one.bulk.size());
    all.push_back(one);
  }
  return all;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// Returns a segment whose memory is reused from input to input.
SlotSegment small_segment() {
  static const SlotGeometry geometry{2, 4096};
  static const auto memory = *SharedMemory::allocate({SlotSegment::bytes(geometry), false, false});
  return SlotSegment(memory, geometry);
}

}  // namespace

/// Sends the input in pieces, whose length the first byte gives, and checks the frames that are
/// read.
void run_frames(std::span<const std::byte> input) {
  Source source(input);
  const std::size_t piece = 1 + 16 * source.byte();
  const auto bytes = source.rest();
  if (bytes.size() > 32 * 1024) return;  // a socket holds 32 KiB
  const std::vector<Expected> expected = expected_of(bytes);
  std::array<int, 2> ends{};
  const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data());
  CHECK(made == 0, "a pair of sockets");
  FrameReader reader(true);
  std::vector<std::byte> bulk;
  std::size_t count = 0;
  FrameReader::Handlers handlers;
  handlers.place = [&](const MessageHeader&, std::span<const std::byte>, std::int64_t offset,
                       std::int64_t left) -> ReceiveBuffer {
    CHECK(left > 0, "a message without bytes of its own has no place");
    const std::int64_t length = offset + left;
    if (length > bulk_bytes_max) return {};
    // The size is exact, so that a sanitizer sees an access beyond it.
    if (offset == 0) bulk.assign(static_cast<std::size_t>(length), std::byte{0});
    CHECK(std::ssize(bulk) == length, "another length");
    return {std::span(bulk).subspan(static_cast<std::size_t>(offset)), {}};
  };
  handlers.frame = [&](const FrameHeader& header, std::span<const std::byte> body,
                       std::span<FileDescriptor> descriptors) {
    CHECK(count < expected.size(), "a message that nobody has sent");
    const Expected& one = expected[count++];
    CHECK(std::memcmp(&header, &one.header, sizeof header) == 0, "another header");
    CHECK(equal(body, one.body), "another body");
    CHECK(one.bulk.empty() || equal(bulk, one.bulk), "other bytes");
    CHECK(descriptors.empty(), "descriptors that nobody has sent");
    return true;
  };
  auto outcome = FrameReader::Outcome::drained;
  for (std::size_t at = 0; at < bytes.size() && outcome == FrameReader::Outcome::drained;) {
    const std::size_t length = std::min(piece, bytes.size() - at);
    const ssize_t sent = send(ends[0], bytes.data() + at, length, MSG_NOSIGNAL);
    CHECK(sent == static_cast<ssize_t>(length), "the socket holds the input");
    at += length;
    bool any = false;
    outcome = reader.read(ends[1], handlers, any);
  }
  CHECK(outcome != FrameReader::Outcome::drained || count == expected.size(), "a message is lost");
  close(ends[0]);
  close(ends[1]);
}

/// Decodes a message, whose type the first byte chooses.
void run_messages(std::span<const std::byte> input) {
  Source source(input);
  const unsigned which = source.byte() % 8;
  const unsigned slot = source.byte();
  const auto body = source.rest();
  const auto again = [&](auto value) {
    if (!decode(body, value)) return;
    auto other = value;
    CHECK(decode(encode(value), other), "what was read is written so that it can be read");
    CHECK(encode(value) == encode(other), "and says the same");
  };
  switch (which) {
    case 0: again(Hello{}); break;
    case 1: again(Welcome{}); break;
    case 2: again(Ready{}); break;
    case 3: again(Accepted{}); break;
    case 4: again(LookupReply{}); break;
    case 5: {
      Greeting greeting;
      (void)decode(body, greeting);
      break;
    }
    default: {
      const SlotSegment segment = small_segment();
      const int number = static_cast<int>(slot) - 1;
      const bool submits = which == 6;
      const bool known = number >= 0 && number < segment.geometry().slots;
      if (known) {
        segment.set_state(number, submits ? SlotState::free : SlotState::submitted);
      }
      const bool taken =
          submits ? take_submitted(segment, number, body) : take_answered(segment, number, body);
      CHECK(known || !taken, "there is no such slot");
      if (!taken) break;
      CHECK(segment.state(number) == (submits ? SlotState::submitted : SlotState::done), "state");
      CHECK(submits || segment.control(number).text_bytes <= 1024, "a text that is too long");
    }
  }
}

}  // namespace tranship::fuzz
