// Servers that send prepared replies to a client under test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "staging/protocol/servers.hpp"
#include "support/test.hpp"

namespace tranship::staging {

constexpr std::size_t room_bytes = 4096;

/// Servers that send the replies that a test has prepared, and note what they are sent. Without a
/// reply they are late.
class ScriptedServers final : public Servers {
 public:
  explicit ScriptedServers(int servers = 1) : servers_(servers) {}

  std::deque<std::vector<std::byte>> answers;
  std::vector<std::pair<int, RequestKind>> asked;
  std::vector<std::vector<std::byte>> told;
  ErrorCode failure = ErrorCode::timeout;

  int count() const override { return servers_; }
  std::int64_t message_bytes() const override { return room_bytes; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override {
    EXPECT(request.bytes().size() <= room_bytes);
    now_ += 1000;
    asked.emplace_back(server, kind_of(request.bytes()));
    if (answers.empty()) return Error{failure, "no reply"};
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(room_bytes);
    std::ranges::copy(answers.front(), reply.bytes.get());
    const std::size_t length = answers.front().size();
    if (answers.size() > 1 || !repeats) answers.pop_front();
    return std::span<const std::byte>(reply.bytes.get(), length);
  }
  void tell(int server, const fabric::MessageWriter& request) override {
    const RequestKind kind = kind_of(request.bytes());
    const bool is_of_step = kind == RequestKind::step_settled || kind == RequestKind::give_up_step;
    EXPECT(server == 0 || !is_of_step);
    told.push_back(request.bytes());
  }
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t until_ns) override { now_ = std::max(now_, until_ns); }
  std::int64_t now_ns() const override { return now_; }

  bool repeats = false;  ///< whether the last answer is given again and again
  int count_of(RequestKind kind) const {
    return static_cast<int>(
        std::ranges::count(asked, kind, [](const auto& one) { return one.second; }));
  }
  /// Returns what the last StepSettled has told.
  protocol::StepSettled settled() const {
    const auto is_it = [](const auto& one) { return kind_of(one) == RequestKind::step_settled; };
    const auto last = std::find_if(told.rbegin(), told.rend(), is_it);
    REQUIRE(last != told.rend());
    protocol::StepSettled read;
    REQUIRE(read_body(std::span(*last).subspan(sizeof(RequestKind)), read).ok());
    return read;
  }

 private:
  int servers_;
  std::int64_t now_ = 0;
};

template <typename Message>
std::vector<std::byte> reply_of(const Message& message) {
  std::vector<std::byte> bytes(room_bytes);
  bytes.resize(write_reply(bytes, message).value());
  return bytes;
}

template <typename... Messages>
std::deque<std::vector<std::byte>> replies_of(const Messages&... messages) {
  return {reply_of(messages)...};
}

}  // namespace tranship::staging
