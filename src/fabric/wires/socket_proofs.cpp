#include "fabric/wires/socket_proofs.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tranship::fabric {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
T value_of(const std::vector<std::byte>& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Error wrong_key(const std::string& address) {
  return {ErrorCode::permission, "the process at " + address + " has another key",
          "use its contact file, or set TRANSHIP_KEY to the same on both "
          "sides"};
}

Error needs_tls(const std::string& address) {
  return {ErrorCode::permission, "the process at " + address +
                                     " takes encrypted connections only: set TRANSHIP_TLS=1 here "
                                     "too"};
}

Error has_no_tls(const std::string& address) {
  return {ErrorCode::permission, "the process at " + address +
                                     " does not encrypt its connections, and this one is to: set "
                                     "TRANSHIP_TLS=1 there too"};
}

Error other_version() {
  return {ErrorCode::unsupported,
          "what listens there is another version of tranship: install the same on both sides"};
}

/// Returns whether bytes begin like a TLS handshake: a record of type 22, version 3.x.
bool is_tls(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{22} && bytes[1] == std::byte{3};
}

}  // namespace

SocketProofs::SocketProofs(Options options, const Key& key, std::string address,
                           const ClientProof& claim)
    : options_(options),
      client_(true),
      key_([key] { return key; }),
      address_(std::move(address)),
      claim_(claim) {}

SocketProofs::SocketProofs(Options options, std::function<Key()> key)
    : options_(options), client_(false), key_(std::move(key)) {}

SocketProofs::Step SocketProofs::fail(Error why, bool again) {
  failure_ = {std::move(why), again};
  return Step::failed;
}

SocketProofs::Step SocketProofs::go_on() {
  if (state_ == State::connected) {
    if (const Outcome outcome = start_tls()) return *outcome;
  }
  if (state_ == State::securing) {
    if (const Outcome outcome = secure()) return *outcome;
  }
  while (true) {
    bool failed = false;
    if (!read_step(step_bytes(), failed)) {
      if (!failed) return Step::waits;
      // A listener with another key ends the connection when it has read the proof.
      const bool refused = state_ == State::awaiting_ready && claim_.session == SessionToken{};
      if (refused) return fail(wrong_key(address_), false);
      return fail({ErrorCode::peer_lost, "what listens there ended the connection"}, true);
    }
    Outcome outcome;
    if (state_ == State::awaiting_hello) {
      outcome = take_hello();
    } else if (state_ == State::awaiting_server_hello) {
      outcome = take_server_hello();
    } else {
      outcome = state_ == State::awaiting_proof ? take_proof() : take_ready();
    }
    greeting_.clear();
    if (outcome) return *outcome;
  }
}

SocketProofs::Outcome SocketProofs::start_tls() {
  if (!options_.tls) {
    start_proofs();
    return {};
  }
  const auto role = client_ ? TlsStream::Role::client : TlsStream::Role::server;
  auto made = TlsStream::make({options_.socket, role, key_()});
  if (!made) return fail(made.error(), true);
  tls_ = std::move(*made);
  state_ = State::securing;
  return {};
}

SocketProofs::Outcome SocketProofs::secure() {
  const auto step = tls_->shake_hands();
  if (step == TlsStream::Step::failed) return not_secured();
  if (step == TlsStream::Step::waits) return Step::waits;
  start_proofs();
  return {};
}

/// Handles a failed TLS handshake: the connection never falls back to unencrypted messages, and
/// both the other side and this side's caller get the reason.
SocketProofs::Step SocketProofs::not_secured() {
  const auto greeting = tls_->greeting_in_the_clear();
  if (!greeting.empty() && !client_) {
    tls_.reset();
    return refuse(option_refused_without_tls);
  }
  if (!greeting.empty()) {
    ServerHello answer;
    std::memcpy(&answer, greeting.data(), std::min(greeting.size(), sizeof answer));
    const bool same = answer.version == wire_version_current;
    return fail(same ? has_no_tls(address_) : other_version(), true);
  }
  const std::string reason = tls_->failure();
  if (!client_ || reason.empty()) {
    return fail({ErrorCode::peer_lost,
                 "the other side ended the connection while its encryption was set up"},
                true);
  }
  Error why = wrong_key(address_);
  why.message += " (OpenSSL: " + reason + ")";
  return fail(std::move(why), true);
}

/// Sends a client, unencrypted, the reason for its refusal.
SocketProofs::Step SocketProofs::refuse(std::uint32_t why) {
  std::array<std::byte, 4096> dropped{};  // unread bytes would reset the connection first
  while (recv(options_.socket, dropped.data(), dropped.size(), MSG_DONTWAIT) > 0) continue;
  ServerHello answer;
  answer.options = why;
  write_step(bytes_of(answer));
  return fail({ErrorCode::permission, "a connection that was refused"}, false);
}

void SocketProofs::start_proofs() {
  if (!client_) {
    state_ = State::awaiting_hello;
    return;
  }
  hello_.options = options_.checksums ? option_checksums : 0;
  (void)fill_random(hello_.nonce);
  state_ = State::awaiting_server_hello;
  write_step(bytes_of(hello_));
}

std::size_t SocketProofs::step_bytes() const {
  switch (state_) {
    case State::awaiting_hello: return sizeof(ClientHello);
    case State::awaiting_server_hello: return sizeof(ServerHello);
    case State::awaiting_proof: return sizeof(ClientProof);
    default: return sizeof(ServerReady);
  }
}

/// Reads a step of `bytes` bytes. Returns true when it is complete.
bool SocketProofs::read_step(std::size_t bytes, bool& failed) {
  const std::size_t before = greeting_.size();
  greeting_.resize(bytes);
  iovec piece{greeting_.data() + before, bytes - before};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t length = ByteStream(options_.socket, tls_).receive(message);
  const bool nothing = length < 0 && (errno == EAGAIN || errno == EINTR);
  failed = !nothing && length <= 0;
  greeting_.resize(before + (length > 0 ? static_cast<std::size_t>(length) : 0));
  return greeting_.size() == bytes;
}

/// Writes a step, which the socket accepts completely or not at all: it is shorter than any
/// socket's buffer, which is empty.
void SocketProofs::write_step(std::span<const std::byte> bytes) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  (void)ByteStream(options_.socket, tls_).send(message);
}

SocketProofs::Outcome SocketProofs::take_hello() {
  hello_ = value_of<ClientHello>(greeting_);
  if (is_tls(greeting_)) return refuse(option_refused_with_tls);
  if (hello_.magic != ClientHello::magic_value) {
    return fail({ErrorCode::invalid_argument, "a connection that is not tranship's"}, false);
  }
  if (hello_.version != wire_version_current) return refuse(0);  // with this side's version
  answer_.options = options_.checksums ? option_checksums : 0;
  (void)fill_random(answer_.nonce);
  const auto proof = proof_of(key_(), ProvingSide::server, hello_, answer_);
  if (!proof) return fail(proof.error(), false);
  answer_.proof = *proof;
  state_ = State::awaiting_proof;
  write_step(bytes_of(answer_));
  return {};
}

SocketProofs::Outcome SocketProofs::take_server_hello() {
  answer_ = value_of<ServerHello>(greeting_);
  if (answer_.magic != ClientHello::magic_value) {
    return fail({ErrorCode::invalid_argument, "what listens there is not tranship"}, true);
  }
  if (answer_.version != wire_version_current) return fail(other_version(), true);
  if ((answer_.options & option_refused_without_tls) != 0) return fail(needs_tls(address_), true);
  const auto expected = proof_of(key_(), ProvingSide::server, hello_, answer_);
  if (!expected || !same_digest(*expected, answer_.proof)) {
    return fail(expected ? wrong_key(address_) : expected.error(), true);
  }
  claim_.proof = *proof_of(key_(), ProvingSide::client, hello_, answer_, claim_);
  state_ = State::awaiting_ready;
  write_step(bytes_of(claim_));
  return {};
}

SocketProofs::Step SocketProofs::take_proof() {
  claim_ = value_of<ClientProof>(greeting_);
  const auto expected = proof_of(key_(), ProvingSide::client, hello_, answer_, claim_);
  if (expected && same_digest(*expected, claim_.proof)) return Step::claimed;
  return fail({ErrorCode::permission, "somebody without the key"}, false);
}

void SocketProofs::answer(ServerReady ready) {
  ready.checksum = checksum_of(ready);
  write_step(bytes_of(ready));
}

SocketProofs::Step SocketProofs::take_ready() {
  ready_ = value_of<ServerReady>(greeting_);
  if (ready_.checksum != checksum_of(ready_)) {
    return fail({ErrorCode::peer_lost, "its answer was changed on the way"}, true);
  }
  if (ready_.status != 0) {
    return fail({ErrorCode::peer_lost, "the connection broke for too long"}, false);
  }
  const bool is_new = claim_.session == SessionToken{};
  if (is_new ? ready_.session == SessionToken{} : ready_.session != claim_.session) {
    return fail({ErrorCode::invalid_argument, "what listens there took up another session"}, false);
  }
  return Step::done;
}

}  // namespace tranship::fabric
