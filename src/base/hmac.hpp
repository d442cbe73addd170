// Message authentication codes, computed by OpenSSL's libcrypto, which the first call loads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"

namespace tranship {

using Digest = std::array<std::byte, 32>;
using Key = std::array<std::byte, 32>;

/// Returns HMAC-SHA-256 (RFC 2104) of `message` under `key`.
/// @error unsupported if the machine has no libcrypto
Result<Digest> hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Returns whether two codes are equal, in a time that does not depend on where they differ.
bool same_digest(const Digest& a, const Digest& b);

/// Fills `bytes` with cryptographically secure random numbers of the kernel.
/// @error io if the kernel has none
Status fill_random(std::span<std::byte> bytes);

/// Returns `bytes` as lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);
/// Reads a key from hexadecimal digits.
/// @error invalid_argument unless the text is exactly as many digits as the key has
Result<Key> key_from_hex(const std::string& text);

}  // namespace tranship
