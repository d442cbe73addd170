#include "base/hmac.hpp"

#include <dlfcn.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace tranship {
namespace {

/// The functions of libcrypto that are used here, as OpenSSL 1.1 and 3 declare them.
struct Crypto {
  using Sha256 = const void* (*)();
  using Hmac = unsigned char* (*)(const void* method, const void* key, int key_bytes,
                                  const unsigned char* data, std::size_t bytes,
                                  unsigned char* digest, unsigned int* digest_bytes);
  Sha256 sha256 = nullptr;
  Hmac hmac = nullptr;
};

Crypto load() {
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Crypto crypto;
    crypto.sha256 = reinterpret_cast<Crypto::Sha256>(dlsym(library, "EVP_sha256"));
    crypto.hmac = reinterpret_cast<Crypto::Hmac>(dlsym(library, "HMAC"));
    if (crypto.sha256 != nullptr && crypto.hmac != nullptr) return crypto;
    dlclose(library);
  }
  return {};
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<Digest> hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  static const Crypto crypto = load();
  Digest digest{};
  unsigned int length = 0;
  if (crypto.hmac == nullptr) {
    return Error{ErrorCode::unsupported,
                 "connections over a network need OpenSSL's libcrypto, and this machine has none",
                 "install openssl"};
  }
  const auto* made =
      crypto.hmac(crypto.sha256(), key.data(), static_cast<int>(key.size()),
                  reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                  reinterpret_cast<unsigned char*>(digest.data()), &length);
  if (made == nullptr || length != digest.size()) {
    return Error{ErrorCode::unsupported, "OpenSSL's libcrypto refused HMAC-SHA-256"};
  }
  return digest;
}

bool same_digest(const Digest& a, const Digest& b) {
  volatile unsigned char difference = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    difference = static_cast<unsigned char>(difference | std::to_integer<unsigned>(a[k] ^ b[k]));
  }
  return difference == 0;
}

Status fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error{ErrorCode::io,
                   std::string("the kernel gave no random numbers: ") + std::strerror(errno)};
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte value : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(value) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(value) & 15];
  }
  return text;
}

Result<Key> key_from_hex(const std::string& text) {
  Key key{};
  bool usable = text.size() == 2 * key.size();
  for (std::size_t k = 0; usable && k < key.size(); ++k) {
    const int high = digit_of(text[2 * k]);
    const int low = digit_of(text[2 * k + 1]);
    usable = high >= 0 && low >= 0;
    key[k] = static_cast<std::byte>(16 * high + low);
  }
  if (usable) return key;
  return Error{ErrorCode::invalid_argument,
               "a key has " + std::to_string(2 * key.size()) + " hexadecimal digits",
               "make one with: openssl rand -hex 32"};
}

}  // namespace tranship
