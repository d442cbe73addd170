// The messages between two processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "fabric/messages/error_message.hpp"
#include "fabric/messages/slots.hpp"
#include "os/process.hpp"

namespace tranship::fabric {

/// Most bytes of a carrier's address, and of the key to registered memory, in a message.
constexpr std::size_t carrier_address_bytes_max = 4096;
constexpr std::size_t carrier_key_bytes_max = 4096;
constexpr std::size_t carrier_kind_bytes_max = 128;

constexpr std::uint64_t hello_magic = 0x3150494853524e54;  // "TNRSHIP1"
constexpr std::uint32_t protocol_version_current = 8;

enum class MessageType : std::uint32_t {
  hello = 1,  ///< Requester: who I am and what I can do. With a descriptor of its bell.
  welcome,    ///< Exporter: who I am. With descriptors of the slots and of the doorbell.
  ready,      ///< Requester: it has mapped what it was sent.
  accepted,   ///< Exporter: slots are served.
  lookup,
  lookup_reply,  ///< With a descriptor of the memory that the array lies in, if it may be mapped.
  names,
  names_reply,
  withdrawn,    ///< Exporter: an export is no more.
  goodbye,      ///< A clean close: nothing of this process touches the other's memory any more.
  submitted,    ///< Network: a slot's command, and its bytes.
  answered,     ///< Network: how a slot ended, and its bytes.
  notice,       ///< Exporter: what its owner has to say to a requester's.
  acknowledge,  ///< Network: of the wire itself.
};

struct MessageHeader {
  MessageType type = MessageType::hello;
  std::uint32_t slot = 0;
  std::uint64_t call = 0;  ///< pairs a reply with its call
};

/// Appends values to a message.
class MessageWriter {
 public:
  void reserve(std::size_t length) { bytes_.reserve(length); }
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
  /// Room for bytes that the caller writes, before it adds anything else.
  std::span<std::byte> extend(std::size_t length) {
    bytes_.resize(bytes_.size() + length);
    return std::span(bytes_).last(length);
  }
  MessageWriter& text(const std::string& value) {
    return add(std::as_bytes(std::span(value.data(), value.size())));
  }
  void append(const void* data, std::size_t length);
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
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
  /// Nothing is left to be read.
  bool at_end() const { return bytes_.empty(); }

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
};

struct Welcome {
  Greeting greeting;
  std::optional<Error> error{};  ///< Why the requester is refused; none: it is not.
  Identity identity;
  LinkMode mode = LinkMode::network;
  SlotGeometry geometry;
  std::int32_t seat = 0;  ///< The requester's bit at the doorbell.
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::string carrier;  ///< Kind of the carrier that moves bytes beside the wire; empty: none does.
  std::vector<std::byte> carrier_address{};
};

struct Ready {
  LinkMode mode = LinkMode::network;
  std::uint32_t carrier = 0;  ///< 1: the requester wants keys for the carrier that was offered.
};

struct Accepted {
  std::optional<Error> error{};  ///< Why there is no link after all.
};

struct LookupReply {
  std::optional<Error> error{};  ///< Why there is no array; none: the rest describes it.
  std::uint64_t id = 0;
  std::int32_t index = 0;
  std::int64_t bytes = 0;
  std::uint32_t writable = 0;
  std::uint32_t plain = 0;  ///< Plain memory: bytes of a network go straight into it, and out.
  std::string description;
  std::uint64_t address = 0;       ///< 0: not plain memory
  std::int64_t memory_bytes = 0;   ///< Of the memory whose descriptor comes with it; 0: none does.
  std::int64_t memory_offset = 0;  ///< Of the array in it.
  std::string ipc_handle;  ///< As ExportedArray has it; empty over a network.
  std::vector<std::byte> carrier_key{};  ///< Empty: the carrier does not reach the array.
  std::uint64_t carrier_address = 0;
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

}  // namespace tranship::fabric
