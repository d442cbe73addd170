// The messages of a link between two processes.
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
#include "os/memory_name.hpp"
#include "os/process.hpp"

namespace tranship::fabric {

/// Largest address of a carrier, and largest key of registered memory, in bytes.
constexpr std::size_t carrier_address_bytes_max = 4096;
constexpr std::size_t carrier_key_bytes_max = 4096;
constexpr std::size_t carrier_kind_bytes_max = 128;

constexpr std::uint64_t hello_magic = 0x3150494853524e54;  // "TNRSHIP1"
constexpr std::uint32_t protocol_version_current = 12;

enum class MessageType : std::uint32_t {
  hello = 1,     ///< Requester: its identity, and a descriptor of its bell.
  welcome,       ///< Exporter: its identity, and descriptors of the slots and of the doorbell.
  ready,         ///< Requester: the slots are mapped.
  accepted,      ///< Exporter: the slots are served.
  lookup,        ///< Requester: the name of an array.
  lookup_reply,  ///< Exporter: the array, and a descriptor of its memory, if it may be mapped.
  names,         ///< Requester: asks for the names of all exports.
  names_reply,   ///< Exporter: the names.
  withdrawn,     ///< Exporter: an export has ended.
  goodbye,       ///< Either: closes cleanly, and no longer accesses memory of the other side.
  submitted,     ///< Requester, over a network: a slot's command, and its bytes.
  answered,      ///< Exporter, over a network: a slot's result, and its bytes.
  notice,        ///< Exporter: the body of Fabric::notify().
  acknowledge,   ///< Either, over a network: numbers of received messages; sent by the wire.
};

struct MessageHeader {
  MessageType type = MessageType::hello;
  std::uint32_t slot = 0;
  std::uint64_t call = 0;  ///< Number by which a reply is matched with its request.
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
  /// Adds `length` bytes, and returns them for the caller to write before it adds anything else.
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

/// Reads the values of a message. Past the end of the message, every value is zero and ok() is
/// false.
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
  /// Returns whether nothing is left to read.
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

/// The beginning of hello and welcome, which is the same in every version of the protocol.
struct Greeting {
  std::uint64_t magic = hello_magic;
  std::uint32_t protocol = protocol_version_current;
  std::string version;  ///< Version of tranship.
};

enum class LinkMode : std::uint32_t { automatic = 0, shared = 1, network = 2 };

struct Hello {
  Greeting greeting;
  Identity identity;
  LinkMode mode = LinkMode::automatic;
};

struct Welcome {
  Greeting greeting;
  std::optional<Error> error{};  ///< Why the requester is refused; none: it is not refused.
  Identity identity;
  LinkMode mode = LinkMode::network;
  SlotGeometry geometry;
  std::int32_t seat = 0;  ///< Number of the requester's bit in the doorbell.
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::string carrier;  ///< Kind of the carrier that moves bytes outside the wire; empty: none.
  std::vector<std::byte> carrier_address{};
};

struct Ready {
  LinkMode mode = LinkMode::network;
  std::uint32_t carrier = 0;  ///< 1: the requester accepts keys for the offered carrier.
};

struct Accepted {
  std::optional<Error> error{};  ///< Why there is no link after all.
};

struct LookupReply {
  std::optional<Error> error{};  ///< Why the lookup failed; none: the rest describes the array.
  std::uint64_t id = 0;
  std::int32_t index = 0;
  std::int64_t bytes = 0;
  std::uint32_t writable = 0;
  std::uint32_t plain = 0;  ///< 1: plain memory, into which bytes from a network go without slots.
  std::string description;
  std::uint64_t address = 0;       ///< 0: not plain memory
  std::int64_t memory_bytes = 0;   ///< Size of the memory of the accompanying descriptor; 0: none.
  std::int64_t memory_offset = 0;  ///< Offset of the array in that memory, in bytes.
  std::string ipc_handle;          ///< As in ExportedArray; empty over a network.
  std::vector<std::byte> carrier_key{};  ///< Empty: the carrier does not reach the array.
  std::uint64_t carrier_address = 0;
  MemoryName memory_name{};         ///< of the array's first byte
  std::uint32_t takes_notices = 0;  ///< 1: the exporter takes notices of copies.
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Ready& ready);
std::vector<std::byte> encode(const Accepted& accepted);
std::vector<std::byte> encode(const LookupReply& reply);
std::vector<std::byte> encode_text(const std::string& text);

/// Reads a message. Returns false if the bytes are no such message. A Greeting is read from the
/// beginning of a hello or a welcome of any version.
bool decode(std::span<const std::byte> bytes, Greeting& greeting);
bool decode(std::span<const std::byte> bytes, Hello& hello);
bool decode(std::span<const std::byte> bytes, Welcome& welcome);
bool decode(std::span<const std::byte> bytes, Ready& ready);
bool decode(std::span<const std::byte> bytes, Accepted& accepted);
bool decode(std::span<const std::byte> bytes, LookupReply& reply);

}  // namespace tranship::fabric
