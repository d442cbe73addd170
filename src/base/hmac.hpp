// Message authentication codes by OpenSSL, which is loaded when the first one is asked for.
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

/// Compares in a time that says nothing of where two codes differ.
bool same_digest(const Digest& a, const Digest& b);

/// Fills `bytes` with the kernel's random numbers, which nobody can foresee.
/// @error io if the kernel has none
Status fill_random(std::span<std::byte> bytes);

/// Lower-case hexadecimal digits, and back.
std::string to_hex(std::span<const std::byte> bytes);
/// @error invalid_argument unless the text is exactly as many digits as the key has
Result<Key> key_from_hex(const std::string& text);

}  // namespace tranship
