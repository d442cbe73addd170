// A relay between two processes, which passes on what they send, and changes it or cuts it off.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "os/descriptor.hpp"
#include "support/raw_peer.hpp"

namespace tranship::test {

/// Listens on a port of the loopback interface, and joins each connection with one to the target.
/// Owns a thread, which ends with the relay.
class Relay {
 public:
  struct Options {
    std::string target;               ///< HOST:PORT
    std::vector<std::byte> marker{};  ///< The bytes that saw_marker() reports.
    std::uint64_t seed = 1;
    std::int64_t bytes_between_flips = 0;  ///< The mean distance between flipped bits; 0: no flips.
    std::int64_t spared_bytes = 0;         ///< Unchanged bytes at the start of each direction.
    int flips_max = 1 << 30;
    /// Mean number of bytes after which all connections end; 0: never.
    std::int64_t bytes_between_cuts = 0;
    /// Number, from 0, of a connection that ends once a megabyte has passed over all connections,
    /// and more over this one than a handshake has; later ones are closed at once. -1: none.
    int doomed = -1;
    int sockets_max = 1 << 30;  ///< Number of connections to accept; later ones end at once.
    /// Number, from 0, of a connection that ends where its target's answer would exceed
    /// `answered_bytes` bytes; -1: none.
    int unanswered = -1;
    std::int64_t answered_bytes = 0;
  };

  explicit Relay(Options options) : options_(std::move(options)), random_(options_.seed) {
    listener_ = listen_raw(address_);
    next_flip();
    next_cut();
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    ends_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }
  int flips() const { return flips_; }
  int connections() const { return connections_; }
  /// Returns the bytes of both directions of a connection, counted from 0.
  std::int64_t passed(int connection) const {
    return passed_[static_cast<std::size_t>(connection)];
  }
  bool saw_marker() const { return saw_marker_; }
  /// Stops passing on what comes over this connection, counted from 0; -1: stops none.
  void hold(int connection) { held_ = connection; }

 private:
  struct Direction {
    std::vector<std::byte> waiting{};
    std::vector<std::byte> tail{};  ///< The last bytes that passed, as many as the marker has.
    std::int64_t passed = 0;
  };
  struct Joined {
    int number = 0;
    std::array<FileDescriptor, 2> ends;
    std::array<Direction, 2> directions{};
  };

  void next_cut() {
    to_cut_ = options_.bytes_between_cuts > 0 ? random_.between(1, 2 * options_.bytes_between_cuts)
                                              : std::int64_t{1} << 62;
  }

  void next_flip() {
    to_flip_ = options_.bytes_between_flips > 0
                   ? random_.between(1, 2 * options_.bytes_between_flips)
                   : std::int64_t{1} << 62;
  }

  void look(Direction& direction, const std::vector<std::byte>& bytes) {
    if (options_.marker.empty()) return;
    direction.tail.insert(direction.tail.end(), bytes.begin(), bytes.end());
    const auto found = std::search(direction.tail.begin(), direction.tail.end(),
                                   options_.marker.begin(), options_.marker.end());
    if (found != direction.tail.end()) saw_marker_ = true;
    const std::size_t keep = std::min(direction.tail.size(), options_.marker.size());
    direction.tail.erase(direction.tail.begin(),
                         direction.tail.end() - static_cast<std::ptrdiff_t>(keep));
  }

  void meddle(Direction& direction, std::vector<std::byte>& bytes) {
    for (std::byte& one : bytes) {
      if (direction.passed++ < options_.spared_bytes || --to_flip_ > 0) continue;
      if (flips_ < options_.flips_max) {
        one ^= static_cast<std::byte>(1U << random_.below(8));
        ++flips_;
      }
      next_flip();
    }
  }

  /// Returns whether a bit was changed, and no byte has passed for 5 s: a side may wait for as many
  /// bytes as a changed length says.
  bool stands_still() {
    const auto now = std::chrono::steady_clock::now();
    if (passed_by_all_ != passed_before_ || flips_ == 0) {
      passed_before_ = passed_by_all_;
      still_since_ = now;
    }
    if (now - still_since_ < std::chrono::seconds(5)) return false;
    still_since_ = now;
    return true;
  }

  /// Passes on some bytes of one direction. Returns false when one side has ended.
  bool pass_on(Joined& joined, std::size_t from) {
    if (joined.number == held_) return true;
    Direction& direction = joined.directions[from];
    if (direction.waiting.empty()) {
      std::vector<std::byte> bytes(64 * 1024);
      const ssize_t length =
          recv(joined.ends[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (length == 0 || (length < 0 && errno != EAGAIN)) return false;
      if (length < 0) return true;
      bytes.resize(static_cast<std::size_t>(length));
      if (joined.number == options_.unanswered && from == 1 &&
          direction.passed + length > options_.answered_bytes) {
        return false;
      }
      to_cut_ -= length;
      passed_by_all_ += length;
      if (joined.number < counted_max) {
        passed_[static_cast<std::size_t>(joined.number)] += length;
      }
      if (joined.number == options_.doomed && passed_by_all_ > 1'000'000 &&
          passed(joined.number) > handshake_most) {
        closed_ = true;
        return false;
      }
      look(direction, bytes);
      meddle(direction, bytes);
      direction.waiting = std::move(bytes);
    }
    const ssize_t sent = send(joined.ends[1 - from].get(), direction.waiting.data(),
                              direction.waiting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0)
      direction.waiting.erase(direction.waiting.begin(), direction.waiting.begin() + sent);
    return true;
  }

  void run() {
    std::vector<std::unique_ptr<Joined>> all;
    while (!ends_) {
      std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
      for (const auto& joined : all) {
        for (std::size_t k = 0; k < 2; ++k) {
          const bool full = !joined->directions[k].waiting.empty();
          const bool writes = !joined->directions[1 - k].waiting.empty();
          const bool held = joined->number == held_;
          const int events = held ? 0 : (full ? 0 : POLLIN) | (writes ? POLLOUT : 0);
          entries.push_back({joined->ends[k].get(), static_cast<short>(events), 0});
        }
      }
      (void)poll(entries.data(), entries.size(), 5);
      if (to_cut_ < 0 || stands_still()) {
        all.clear();
        next_cut();
      }
      if ((entries[0].revents & POLLIN) != 0) {
        FileDescriptor taken(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!ends_ && taken && !closed_ && connections_ < options_.sockets_max) {
          all.push_back(std::make_unique<Joined>());
          all.back()->number = connections_;
          all.back()->ends = {std::move(taken), connect_raw(options_.target)};
          ++connections_;
        }
      }
      std::erase_if(
          all, [&](const auto& joined) { return !pass_on(*joined, 0) || !pass_on(*joined, 1); });
    }
  }

  static constexpr int counted_max = 32;
  static constexpr std::int64_t handshake_most = 4096;

  Options options_;
  Random random_;
  FileDescriptor listener_;
  std::string address_;
  std::int64_t to_flip_ = 0;
  std::int64_t to_cut_ = 0;
  std::int64_t passed_by_all_ = 0;
  std::int64_t passed_before_ = 0;
  std::chrono::steady_clock::time_point still_since_ = std::chrono::steady_clock::now();
  std::atomic<int> flips_{0};
  std::atomic<int> connections_{0};
  std::atomic<int> held_{-1};
  std::array<std::atomic<std::int64_t>, counted_max> passed_{};
  bool closed_ = false;
  std::atomic<bool> saw_marker_{false};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace tranship::test
