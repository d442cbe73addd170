// One server without memory, in the process of the client under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "staging/client/scripted_servers.hpp"
#include "staging/protocol/servers.hpp"
#include "staging/server/service.hpp"
#include "support/test.hpp"

namespace tranship::staging {

/// One server without memory, behind the client.
class OneServer final : public Servers {
 public:
  OneServer() {
    Service::Options options;
    options.contact = "here";
    options.message_bytes = room_bytes;
    options.notify = [](ClientConnection) {};
    options.move = [](const Move&) {};
    service.emplace(std::move(options));
    ReplyBuffer reply;
    REQUIRE(ask(0, message_of(protocol::Hello{staging_version, "client", {1, 1}}), reply).ok());
  }
  std::optional<Service> service;
  int asked = 0;
  std::function<void(RequestKind)> before;  ///< Called before a request arrives.

  int count() const override { return 1; }
  std::int64_t message_bytes() const override { return room_bytes; }
  Result<std::span<const std::byte>> ask(int, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override {
    ++asked;
    EXPECT(request.bytes().size() <= room_bytes);
    if (before) before(kind_of(request.bytes()));
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(room_bytes);
    const std::span room(reply.bytes.get(), room_bytes);
    const auto length = service->answer(1, request.bytes(), room);
    if (!length) return length.error();
    return std::span<const std::byte>(room.first(*length));
  }
  void tell(int server, const fabric::MessageWriter& request) override {
    ReplyBuffer reply;
    (void)ask(server, request, reply);
  }
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t until_ns) override { now_ = until_ns; }
  std::int64_t now_ns() const override { return now_; }

 private:
  std::int64_t now_ = 0;
};

}  // namespace tranship::staging
