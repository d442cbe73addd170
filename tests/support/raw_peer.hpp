// A peer that speaks the socket's protocol by hand, and may send anything.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/check.hpp"
#include "fabric/wires/frame.hpp"
#include "os/descriptor.hpp"

namespace tranship::test {

using namespace fabric;

constexpr Key known_key{std::byte{7}, std::byte{9}};

/// Listens on a free port of the loopback interface; `address` receives HOST:PORT.
inline FileDescriptor listen_raw(std::string& address) {
  FileDescriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto* place = reinterpret_cast<sockaddr*>(&at);
  CHECK(bind(made.get(), place, length) == 0 && listen(made.get(), 64) == 0 &&
            getsockname(made.get(), place, &length) == 0,
        "a port to listen on");
  address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  return made;
}

/// Connects to "HOST:PORT". Closing the socket resets the connection, so that no port stays taken.
inline FileDescriptor connect_raw(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  FileDescriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const linger reset{1, 0};
  (void)setsockopt(made.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  const int code = connect(made.get(), reinterpret_cast<sockaddr*>(&to), sizeof to);
  CHECK(code == 0, std::strerror(errno));
  return made;
}

/// Returns whether the other side ends the connection within the time, whatever it sends before.
inline bool ends_within(const FileDescriptor& socket, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::array<std::byte, 4096> dropped{};
  while (std::chrono::steady_clock::now() < end) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (poll(&entry, 1, 20) > 0 && recv(socket.get(), dropped.data(), dropped.size(), 0) <= 0) {
      return true;
    }
  }
  return false;
}

inline FileDescriptor connect_raw_locally(const std::string& name) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, name.data(), name.size());
  FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int code = connect(made.get(), reinterpret_cast<sockaddr*>(&to), length);
  CHECK(code == 0, "the exporter listens");
  return made;
}

/// Sends all bytes. Returns false if the other side has closed.
inline bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes) {
  return bytes.empty() || send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                              static_cast<ssize_t>(bytes.size());
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Reads a message of the handshake. Returns false if the other side has closed.
template <typename T, typename Progress>
bool receive(const FileDescriptor& socket, T& value, const Progress& progress) {
  std::size_t got = 0;
  while (got < sizeof value) {
    progress();
    pollfd entry{socket.get(), POLLIN, 0};
    if (poll(&entry, 1, 0) == 0) continue;
    const ssize_t length =
        recv(socket.get(), reinterpret_cast<char*>(&value) + got, sizeof value - got, MSG_DONTWAIT);
    if (length <= 0) return false;
    got += static_cast<std::size_t>(length);
  }
  return true;
}

/// Proves that the peer has `key`, and names the session to resume (`session`) or to carry bulk for
/// (`joins`); `ready` receives the answer. Returns false if the other side ends the connection.
template <typename Progress>
bool prove(const FileDescriptor& socket, const Key& key, const SessionToken& session,
           ServerReady& ready, const Progress& progress, const SessionToken& joins = {}) {
  ClientHello hello;
  hello.nonce[0] = std::byte{1};
  ServerHello answer;
  if (!send_all(socket, bytes_of(hello)) || !receive(socket, answer, progress)) return false;
  ClientProof proof;
  proof.session = session;
  proof.joins = joins;
  proof.proof = *proof_of(key, ProvingSide::client, hello, answer, proof);
  return send_all(socket, bytes_of(proof)) && receive(socket, ready, progress);
}

}  // namespace tranship::test
