#include "fabric/wires/tls_stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric/wires/frame.hpp"

namespace tranship::fabric {
namespace {

// Numbers from OpenSSL's headers, which are part of its binary interface.
constexpr int control_mode = 33;
constexpr int control_session_cache = 44;
constexpr int control_version_min = 123;
constexpr int control_version_max = 124;
constexpr long mode_partial_and_moving_writes = 1 | 2;
constexpr int version_1_3 = 0x0304;
constexpr int verify_peer = 1;
constexpr int error_want_read = 2;
constexpr int error_want_write = 3;
constexpr int error_zero_return = 6;
constexpr int bio_flags_retry_read = 1 | 8;
constexpr int bio_flags_retry = 15;
constexpr int bio_control_flush = 11;
constexpr int bio_type_source_sink = 0x0400;

/// Largest plaintext of one record (RFC 8446, 5.1).
constexpr std::size_t record_bytes_max = 16 * 1024;
/// Plaintext that is encrypted before the socket is asked to accept it.
constexpr std::size_t batch_bytes_max = 128 * 1024;
constexpr std::size_t in_bytes_max = 128 * 1024;
constexpr char identity_of_all[] = "tranship";
/// TLS 1.3 suites with the hash that OpenSSL assumes for external keys.
constexpr char suites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

unsigned give_key(const Key& psk, unsigned char* key, unsigned bytes_max) {
  if (bytes_max < psk.size()) return 0;
  std::memcpy(key, psk.data(), psk.size());
  return static_cast<unsigned>(psk.size());
}

}  // namespace

unsigned TlsStream::client_psk(void* ssl, const char*, char* identity, unsigned identity_max,
                               unsigned char* key, unsigned key_max) {
  const auto* stream =
      static_cast<const TlsStream*>(tls_library().value()->ssl_get_ex_data(ssl, 0));
  if (identity_max < sizeof identity_of_all) return 0;
  std::memcpy(identity, identity_of_all, sizeof identity_of_all);
  return give_key(stream->psk_, key, key_max);
}

unsigned TlsStream::server_psk(void* ssl, const char* identity, unsigned char* key,
                               unsigned key_max) {
  const auto* stream =
      static_cast<const TlsStream*>(tls_library().value()->ssl_get_ex_data(ssl, 0));
  if (std::strcmp(identity, identity_of_all) != 0) return 0;
  return give_key(stream->psk_, key, key_max);
}

int TlsStream::bio_read(void* bio, char* data, int bytes) {
  const TlsLibrary& library = *tls_library().value();
  auto& stream = *static_cast<TlsStream*>(library.bio_get_data(bio));
  library.bio_clear_flags(bio, bio_flags_retry);
  if (stream.in_begin_ == stream.in_end_ && !stream.receive()) {
    if (stream.error_ == 0 && !stream.ended_) library.bio_set_flags(bio, bio_flags_retry_read);
    return stream.ended_ ? 0 : -1;
  }
  if (stream.in_the_clear_) return -1;
  const std::size_t length =
      std::min(static_cast<std::size_t>(bytes), stream.in_end_ - stream.in_begin_);
  std::memcpy(data, stream.in_.data() + stream.in_begin_, length);
  stream.in_begin_ += length;
  return static_cast<int>(length);
}

/// Accepts all bytes: the stream sends them when a batch is complete.
int TlsStream::bio_write(void* bio, const char* data, int bytes) {
  const TlsLibrary& library = *tls_library().value();
  auto& stream = *static_cast<TlsStream*>(library.bio_get_data(bio));
  library.bio_clear_flags(bio, bio_flags_retry);
  const auto* first = reinterpret_cast<const std::byte*>(data);
  stream.out_.insert(stream.out_.end(), first, first + bytes);
  return bytes;
}

long TlsStream::bio_control(void*, int command, long, void*) {
  return command == bio_control_flush ? 1 : 0;
}

const void* TlsStream::bio_method(const TlsLibrary& library) {
  static const void* const method = [&]() -> const void* {
    void* made =
        library.bio_meth_new(library.bio_get_new_index() | bio_type_source_sink, "tranship");
    if (made == nullptr) return nullptr;
    library.bio_meth_set_write(made, &TlsStream::bio_write);
    library.bio_meth_set_read(made, &TlsStream::bio_read);
    library.bio_meth_set_ctrl(made, &TlsStream::bio_control);
    return made;
  }();
  return method;
}

/// Returns the context that all connections share: TLS 1.3 only, without session tickets. No
/// authority is trusted, so that a client refuses every certificate.
void* TlsStream::context(const TlsLibrary& library) {
  static void* const context = [&]() -> void* {
    void* made = library.context_new(library.method());
    if (made == nullptr) return nullptr;
    library.context_control(made, control_version_min, version_1_3, nullptr);
    library.context_control(made, control_version_max, version_1_3, nullptr);
    library.context_control(made, control_mode, mode_partial_and_moving_writes, nullptr);
    library.context_control(made, control_session_cache, 0, nullptr);
    library.context_set_num_tickets(made, 0);
    library.context_set_client_psk(made, &TlsStream::client_psk);
    library.context_set_server_psk(made, &TlsStream::server_psk);
    return library.context_set_ciphersuites(made, suites) == 1 ? made : nullptr;
  }();
  return context;
}

TlsStream::TlsStream(const TlsLibrary& library, const Options& options)
    : library_(library), options_(options), in_(in_bytes_max) {}

TlsStream::~TlsStream() {
  if (ssl_ != nullptr) library_.ssl_free(ssl_);
}

Result<std::shared_ptr<TlsStream>> TlsStream::make(const Options& options) {
  const auto library = tls_library();
  if (!library) return library.error();
  // The key itself authenticates both sides; a key derived from it is the pre-shared key of TLS.
  constexpr char purpose[] = "tranship tls 1.3 external psk";
  const auto psk = hmac_sha256(options.key, std::as_bytes(std::span(purpose)));
  if (!psk) return psk.error();
  std::shared_ptr<TlsStream> stream(new TlsStream(**library, options));
  stream->psk_ = *psk;
  const TlsLibrary& ssl = **library;
  const void* method = bio_method(ssl);
  void* shared = context(ssl);
  stream->ssl_ = method != nullptr && shared != nullptr ? ssl.ssl_new(shared) : nullptr;
  void* bio = stream->ssl_ != nullptr ? ssl.bio_new(method) : nullptr;
  if (bio == nullptr) {
    return Error{ErrorCode::unsupported,
                 "OpenSSL's libssl refused TLS 1.3 with the suite TLS_AES_128_GCM_SHA256"};
  }
  ssl.bio_set_data(bio, stream.get());
  ssl.bio_set_init(bio, 1);
  ssl.ssl_set_bio(stream->ssl_, bio, bio);
  ssl.ssl_set_ex_data(stream->ssl_, 0, stream.get());
  if (options.role == Role::client) {
    ssl.ssl_set_verify(stream->ssl_, verify_peer, nullptr);
    ssl.ssl_set_connect_state(stream->ssl_);
  } else {
    ssl.ssl_set_accept_state(stream->ssl_);
  }
  return stream;
}

/// Ends the stream with an error, which all later calls return.
int TlsStream::fail(int error) {
  if (error_ == 0) error_ = error;
  const unsigned long code = library_.err_get_error();
  const char* reason = code != 0 ? library_.err_reason_error_string(code) : nullptr;
  if (failure_.empty() && reason != nullptr) failure_ = reason;
  library_.err_clear_error();
  return error_;
}

/// Reads from the socket. Returns false if there was nothing to read.
bool TlsStream::receive() {
  if (!may_receive_ || ended_ || error_ != 0) return false;
  ssize_t length = 0;
  do {
    length = recv(options_.socket, in_.data(), in_.size(), MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  may_receive_ = length == std::ssize(in_);
  if (length < 0 && errno != EAGAIN && errno != EWOULDBLOCK) error_ = errno;
  ended_ = length == 0;
  in_begin_ = 0;
  in_end_ = length > 0 ? static_cast<std::size_t>(length) : 0;
  // No TLS record has the first letter of a greeting as its type.
  const std::uint64_t magic = ClientHello::magic_value;
  in_the_clear_ = length > 0 && !secured_ && std::memcmp(in_.data(), &magic, 1) == 0;
  return length > 0;
}

/// Writes encrypted bytes to the socket. Returns false if some are left, or the socket has failed.
bool TlsStream::flush() {
  while (out_begin_ < out_.size()) {
    const ssize_t length = send(options_.socket, out_.data() + out_begin_, out_.size() - out_begin_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return false;
    out_begin_ += static_cast<std::size_t>(length);
  }
  out_.clear();
  out_begin_ = 0;
  return true;
}

TlsStream::Step TlsStream::shake_hands() {
  std::lock_guard lock(mutex_);
  if (error_ != 0) return Step::failed;
  may_receive_ = true;
  library_.err_clear_error();
  const int code = library_.ssl_do_handshake(ssl_);
  const int error = code == 1 ? 0 : library_.ssl_get_error(ssl_, code);
  const bool flushed = flush();
  if (error == error_want_read || error == error_want_write) return Step::waits;
  if (code != 1) {
    fail(EPROTO);
    return Step::failed;
  }
  if (!flushed) return Step::waits;
  // A peer with a certificate and without the key has been refused above already; this check is a
  // second one.
  if (library_.ssl_session_reused(ssl_) != 1 || library_.ssl_version(ssl_) != version_1_3) {
    fail(EPROTO);
    return Step::failed;
  }
  secured_ = true;
  return Step::done;
}

bool TlsStream::wants_to_write() const {
  std::lock_guard lock(mutex_);
  return out_begin_ < out_.size();
}

std::string TlsStream::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::span<const std::byte> TlsStream::greeting_in_the_clear() const {
  std::lock_guard lock(mutex_);
  if (!in_the_clear_) return {};
  return std::span(in_).subspan(in_begin_, in_end_ - in_begin_);
}

ssize_t TlsStream::read(std::span<const iovec> pieces, bool only_buffered) {
  std::lock_guard lock(mutex_);
  if (error_ != 0) {
    errno = error_;
    return -1;
  }
  may_receive_ = !only_buffered;
  library_.err_clear_error();
  std::size_t total = 0;
  bool more = true;
  for (const iovec& piece : pieces) {
    auto* place = static_cast<std::byte*>(piece.iov_base);
    for (std::size_t left = piece.iov_len; more && left > 0;) {
      const int code =
          library_.ssl_read(ssl_, place, static_cast<int>(std::min(left, std::size_t{1} << 30)));
      more = code > 0;
      if (!more) {
        const int error = library_.ssl_get_error(ssl_, code);
        ended_ |= error == error_zero_return;
        if (error != error_want_read && error != error_want_write && !ended_) fail(EBADMSG);
        break;
      }
      place += code;
      left -= static_cast<std::size_t>(code);
      total += static_cast<std::size_t>(code);
    }
  }
  if (!out_.empty() && taken_ == 0) (void)flush();  // replies of TLS itself
  if (total > 0) return static_cast<ssize_t>(total);
  if (error_ == 0 && ended_) return 0;
  errno = error_ != 0 ? error_ : EAGAIN;
  return -1;
}

int TlsStream::encrypt(const std::byte* data, std::size_t bytes) {
  if (++records_ % options_.records_per_key == 0) (void)library_.ssl_key_update(ssl_, 0);
  return library_.ssl_write(ssl_, data, static_cast<int>(bytes));
}

/// Encrypts up to a batch of the bytes in the pieces, in records of the largest size possible.
/// Returns the number of bytes, or 0 if the stream has failed.
std::size_t TlsStream::encrypt_batch(std::span<const iovec> pieces) {
  std::array<std::byte, record_bytes_max> record;
  std::size_t filled = 0;
  std::size_t total = 0;
  bool good = true;
  const auto put = [&](const std::byte* data, std::size_t bytes) {
    good = good && encrypt(data, bytes) == static_cast<int>(bytes);
  };
  for (const iovec& piece : pieces) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    std::size_t left = std::min(piece.iov_len, batch_bytes_max - total);
    while (good && left > 0) {
      std::size_t length = std::min(left, record_bytes_max - filled);
      if (filled == 0 && left >= record_bytes_max) {
        put(data, length);  // directly from the caller's memory
      } else {
        std::memcpy(record.data() + filled, data, length);
        filled += length;
        if (filled == record_bytes_max) {
          put(record.data(), filled);
          filled = 0;
        }
      }
      data += length;
      left -= length;
      total += length;
    }
  }
  if (filled > 0) put(record.data(), filled);
  if (!good) fail(EPROTO);
  return good ? total : 0;
}

ssize_t TlsStream::write(std::span<const iovec> pieces) {
  std::lock_guard lock(mutex_);
  if (error_ == 0) library_.err_clear_error();
  if (error_ == 0 && flush()) {
    if (taken_ == 0) taken_ = encrypt_batch(pieces);
    if (error_ == 0 && flush()) {
      const auto taken = static_cast<ssize_t>(taken_);
      taken_ = 0;
      return taken;
    }
  }
  if (error_ != 0) errno = error_;
  return -1;
}

}  // namespace tranship::fabric
