// Encryption of one TCP connection by TLS 1.3, under the key that both sides have.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/hmac.hpp"
#include "fabric/wires/tls_library.hpp"

namespace tranship::fabric {

/// Encryption of the bytes on a socket that never blocks. Both sides prove in the handshake that
/// they have the key, which is an external pre-shared key (RFC 8446, 2.2) with an additional
/// Diffie-Hellman exchange: recorded traffic stays secret if the key leaks later. There are no
/// certificates, session tickets or early data. Owns its buffers (some 300 KiB), not the socket.
/// Threads: all; a call waits while another one encrypts, at most 128 KiB.
class TlsStream {
 public:
  enum class Role { client, server };
  /// `waits`: for the other side, see wants_to_write(); `failed`: see failure().
  enum class Step { done, waits, failed };

  struct Options {
    int socket = -1;
    Role role = Role::client;
    Key key{};
    /// Records that are encrypted before the keys are renewed. AES-GCM allows 2^24 of them.
    std::uint64_t records_per_key = std::uint64_t{1} << 22;
  };

  /// Makes a stream, before its handshake.
  /// @error unsupported if there is no libssl with TLS 1.3, or it refuses; out_of_memory
  static Result<std::shared_ptr<TlsStream>> make(const Options& options);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Continues the handshake as far as the socket allows.
  Step shake_hands();
  /// Returns whether the handshake waits until the socket accepts more bytes.
  bool wants_to_write() const;
  /// Returns OpenSSL's reason for the failure of the handshake; empty: the other side ended the
  /// connection.
  std::string failure() const;
  /// Returns the bytes received in place of TLS, if they begin like a greeting of this library;
  /// else empty.
  std::span<const std::byte> greeting_in_the_clear() const;

  /// Reads into `pieces` as recvmsg() does; returns as recv() does, and sets errno. Bytes that were
  /// changed on the way are an error, EBADMSG, and none of them is returned.
  ssize_t read(std::span<const iovec> pieces, bool only_buffered);
  /// Writes as sendmsg() does. After EAGAIN the next call must begin with the same bytes.
  ssize_t write(std::span<const iovec> pieces);

 private:
  TlsStream(const TlsLibrary& library, const Options& options);
  static const void* bio_method(const TlsLibrary& library);
  static void* context(const TlsLibrary& library);
  static unsigned client_psk(void* ssl, const char* hint, char* identity, unsigned identity_max,
                             unsigned char* key, unsigned key_max);
  static unsigned server_psk(void* ssl, const char* identity, unsigned char* key, unsigned key_max);
  static int bio_read(void* bio, char* data, int bytes);
  static int bio_write(void* bio, const char* data, int bytes);
  static long bio_control(void* bio, int command, long number, void* pointer);

  bool receive();
  bool flush();
  int encrypt(const std::byte* data, std::size_t bytes);
  std::size_t encrypt_batch(std::span<const iovec> pieces);
  int fail(int error);

  const TlsLibrary& library_;
  Options options_;
  Key psk_{};
  mutable std::mutex mutex_;  ///< guards all following members
  void* ssl_ = nullptr;
  std::vector<std::byte> in_;  ///< Encrypted bytes that have been read from the socket.
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  bool may_receive_ = true;     ///< The socket may have more bytes for the current call.
  bool secured_ = false;        ///< The handshake is complete.
  bool in_the_clear_ = false;   ///< The other side does not speak TLS.
  bool ended_ = false;          ///< The other side has closed its end.
  std::vector<std::byte> out_;  ///< Encrypted bytes that the socket has not accepted.
  std::size_t out_begin_ = 0;
  std::size_t taken_ = 0;  ///< Bytes of the caller that are in `out_`, encrypted.
  std::uint64_t records_ = 0;
  int error_ = 0;  ///< errno with which this stream ended; 0: it has not ended.
  std::string failure_;
};

}  // namespace tranship::fabric
