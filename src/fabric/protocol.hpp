// The messages between two processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "fabric/identity.hpp"
#include "fabric/shared_memory.hpp"
#include "fabric/slots.hpp"

namespace tranship {

constexpr std::uint64_t hello_magic = 0x3150494853524e54;  // "TNRSHIP1"
constexpr std::uint32_t protocol_version_current = 3;

enum class MessageType : std::uint32_t {
  hello = 1,  ///< requester: who I am and what I can do
  welcome,    ///< exporter: who I am, and the way that I offer
  ready,      ///< requester: the way that I take
  accepted,   ///< exporter: slots are served
  lookup,
  lookup_reply,
  names,
  names_reply,
  withdrawn,  ///< exporter: an export is no more
  goodbye,    ///< a clean close
  ping,
  pong,
  submitted,  ///< network: a slot's command, and its bytes if they are few
  answered,   ///< network: how a slot ended, and its bytes if they are few
  notice,     ///< exporter: what its owner has to say to a requester's
};

struct MessageHeader {
  MessageType type = MessageType::hello;
  std::uint32_t slot = 0;
  std::uint64_t call = 0;  ///< pairs a reply with its call
};

/// Appends values to a message.
class MessageWriter {
 public:
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  MessageWriter& add(const T& value) {
    append(&value, sizeof value);
    return *this;
  }
  MessageWriter& add(std::span<const std::byte> data) {
    add(static_cast<std::uint32_t>(data.size()));
    append(data.data(), data.size());
    return *this;
  }
  /// Room for data that the caller writes, before it adds anything else; read back as by add().
  std::span<std::byte> room(std::size_t length) {
    add(static_cast<std::uint32_t>(length));
    bytes_.resize(bytes_.size() + length);
    return std::span(bytes_).last(length);
  }
  MessageWriter& text(const std::string& value) {
    return add(std::as_bytes(std::span(value.data(), value.size())));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void append(const void* data, std::size_t length);

  std::vector<std::byte> bytes_;
};

/// Reads values back. After a message that is too short every value is zero and ok() is false.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  std::span<const std::byte> data() {
    const auto length = get<std::uint32_t>();
    if (!ok_ || length > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const auto value = bytes_.first(length);
    bytes_ = bytes_.subspan(length);
    return value;
  }
  std::string text() {
    const auto value = data();
    return {reinterpret_cast<const char*>(value.data()), value.size()};
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

/// What both greetings begin with, in every version of the protocol.
struct Greeting {
  std::uint64_t magic = hello_magic;
  std::uint32_t protocol = protocol_version_current;
  std::string version;  ///< of tranship
};

enum class LinkMode : std::uint32_t { automatic = 0, shared = 1, network = 2 };

struct Hello {
  Greeting greeting;
  Identity identity;
  LinkMode mode = LinkMode::automatic;
  MemoryTicket bell;  ///< a page whose first word is rung when a slot was answered
};

/// The exporter's registered slots, or the requester's mirror of them.
struct RemoteSlots {
  std::uint64_t address = 0;
  std::vector<std::byte> key;
};

struct Welcome {
  Greeting greeting;
  std::uint32_t error_code = 0;  ///< 0 or 1 + ErrorCode
  std::string error_text;
  Identity identity;
  LinkMode mode = LinkMode::network;
  std::string why;  ///< why the shared way is not offered
  SlotGeometry geometry;
  MemoryTicket segment;
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
};

struct Ready {
  LinkMode mode = LinkMode::network;
  RemoteSlots mirror;
};

struct Accepted {
  std::uint32_t error_code = 0;
  std::string error_text;
  RemoteSlots slots;
};

struct LookupReply {
  std::uint32_t error_code = 0;
  std::string error_text;
  std::uint64_t id = 0;
  std::int32_t index = 0;
  std::int64_t bytes = 0;
  std::uint32_t writable = 0;
  std::string description;
  std::uint64_t address = 0;  ///< 0: not plain memory
  MemoryTicket memory;        ///< descriptor < 0: not in shared memory
  std::int64_t memory_offset = 0;
  std::string ticket;  ///< of an attachment that this machine's processes reach by themselves
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Ready& ready);
std::vector<std::byte> encode(const Accepted& accepted);
std::vector<std::byte> encode(const LookupReply& reply);
std::vector<std::byte> encode_text(const std::string& text);

/// Only the first part, which every version can read. False if it is not tranship's.
bool decode(std::span<const std::byte> bytes, Greeting& greeting);
bool decode(std::span<const std::byte> bytes, Hello& hello);
bool decode(std::span<const std::byte> bytes, Welcome& welcome);
bool decode(std::span<const std::byte> bytes, Ready& ready);
bool decode(std::span<const std::byte> bytes, Accepted& accepted);
bool decode(std::span<const std::byte> bytes, LookupReply& reply);

/// The error that a peer put into a reply as a code (0: none) and a text.
ErrorCode error_code_of(std::uint32_t wire);
std::uint32_t wire_code_of(ErrorCode code);

}  // namespace tranship
