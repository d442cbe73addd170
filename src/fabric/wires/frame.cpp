#include "fabric/wires/frame.hpp"

#include <cstring>
#include <vector>

#include "base/crc32c.hpp"

namespace tranship::fabric {

Result<Digest> proof_of(const Key& key, ProvingSide side, const ClientHello& client,
                        const ServerHello& server, const ClientProof& claim) {
  ServerHello said = server;
  said.proof = {};
  ClientProof claimed = claim;
  claimed.proof = {};
  std::vector<std::byte> message;
  const auto add = [&](const auto& part) {
    const auto bytes = std::as_bytes(std::span(&part, 1));
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  add(side);
  add(client);
  add(said);
  add(claimed);
  return hmac_sha256(key, message);
}

std::uint32_t checksum_of(FrameHeader header) {
  header.header_checksum = 0;
  return crc32c(std::as_bytes(std::span(&header, 1)));
}

std::uint32_t checksum_of(ServerReady ready) {
  ready.checksum = 0;
  return crc32c(std::as_bytes(std::span(&ready, 1)));
}

}  // namespace tranship::fabric
