// The format of messages on a socket, and of the proofs that precede them on a network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hmac.hpp"
#include "fabric/messages/protocol.hpp"

namespace tranship::fabric {

constexpr std::uint32_t wire_version_current = 3;

/// Precedes each message; its body of `body_bytes` and bulk of `bulk_bytes` follow. The checksums
/// are 0 and ignored unless one side has requested them in its hello.
struct FrameHeader {
  std::uint32_t magic = magic_value;
  MessageType type = MessageType::hello;
  std::uint32_t slot = 0;
  std::uint32_t descriptors = 0;
  std::uint64_t call = 0;
  std::uint64_t sequence = 0;      ///< Number of the message in the connection, from 1; 0: none.
  std::uint64_t acknowledged = 0;  ///< Sequence of the last message that the sender has received.
  std::uint32_t bulk_bytes = 0;
  std::uint32_t body_bytes = 0;
  std::uint32_t header_checksum = 0;  ///< CRC-32C of this header, with this field as 0.
  std::uint32_t body_checksum = 0;
  std::uint32_t bulk_checksum = 0;
  std::uint32_t reserved = 0;

  static constexpr std::uint32_t magic_value = 0x32534e54;  // "TNS2"
};
static_assert(sizeof(FrameHeader) == 64);

using Nonce = std::array<std::byte, 32>;
using SessionToken = std::array<std::byte, 16>;

/// Option in a hello: messages of both directions carry checksums.
constexpr std::uint32_t option_checksums = 1;
/// Options of a listener's refusal: the client does not encrypt and the listener does, or the
/// reverse. The refusal proves nothing.
constexpr std::uint32_t option_refused_without_tls = std::uint32_t{1} << 30;
constexpr std::uint32_t option_refused_with_tls = std::uint32_t{1} << 31;

/// The first bytes that a client sends over a network. They identify no process.
struct ClientHello {
  std::uint64_t magic = magic_value;
  std::uint32_t version = wire_version_current;
  std::uint32_t options = 0;
  Nonce nonce{};

  static constexpr std::uint64_t magic_value = 0x3148434e41525454;  // "TTRANCH1"
};

/// The listener's answer, which proves that it has the key.
struct ServerHello {
  std::uint64_t magic = ClientHello::magic_value;
  std::uint32_t version = wire_version_current;
  std::uint32_t options = 0;
  Nonce nonce{};
  Digest proof{};
};

/// The client's proof, and the session that it resumes or joins.
struct ClientProof {
  Digest proof{};
  SessionToken session{};      ///< Session to resume; all zero: a new one.
  SessionToken joins{};        ///< Client's session whose bulk this socket carries; all zero: none.
  std::uint64_t received = 0;  ///< Sequence of the last message that the client has received.
};

/// The listener's answer to the proof.
struct ServerReady {
  std::uint32_t status = 0;    ///< 0: accepted; 1: the session no longer exists.
  std::uint32_t checksum = 0;  ///< CRC-32C of this answer, with this field as 0.
  SessionToken session{};
  std::uint64_t received = 0;
};

/// The side that proves that it has the key: a proof of one side is not valid for the other.
enum class ProvingSide : std::uint32_t { client = 1, server = 2 };

/// Returns the proof of one side: a code under the key over the side and all that both sides have
/// sent, except for the proofs themselves. claim: The client's last message, which a listener's
/// proof precedes.
/// @error as hmac_sha256()
Result<Digest> proof_of(const Key& key, ProvingSide side, const ClientHello& client,
                        const ServerHello& server, const ClientProof& claim = {});

/// Returns the checksum of a structure, with its own checksum field as 0.
std::uint32_t checksum_of(FrameHeader header);
std::uint32_t checksum_of(ServerReady ready);

}  // namespace tranship::fabric
