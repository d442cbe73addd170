#include "fabric/frame.hpp"

#include <cstring>
#include <vector>

namespace tranship {

Result<Digest> proof_of(const Key& key, ProvingSide side, const ClientHello& client,
                        const Nonce& server) {
  std::vector<std::byte> message(sizeof side + sizeof client + server.size());
  std::memcpy(message.data(), &side, sizeof side);
  std::memcpy(message.data() + sizeof side, &client, sizeof client);
  std::memcpy(message.data() + sizeof side + sizeof client, server.data(), server.size());
  return hmac_sha256(key, message);
}

}  // namespace tranship
