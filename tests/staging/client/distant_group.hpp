// A group of servers that are one round trip away from their clients, on a clock that only waits
// for replies move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "staging/client/catalog.hpp"
#include "staging/server/service.hpp"

namespace tranship::staging {

class DistantGroup {
 public:
  static constexpr std::int64_t round_trip_ns = 1000;
  static constexpr std::int64_t end_ns = 1'000'000'000;
  static constexpr std::size_t message_bytes = 16384;
  static constexpr std::int64_t cell = 1024;  ///< elements of 8 bytes
  static constexpr std::int64_t cell_bytes = 8 * cell;

  explicit DistantGroup(int servers, std::int64_t memory_bytes = 1 << 24)
      : segments_(static_cast<std::size_t>(servers)) {
    for (int rank = 0; rank < servers; ++rank) services_.push_back(make(rank, memory_bytes));
    for (int rank = 1; rank < servers; ++rank) {
      const protocol::Join join{staging_version, rank, servers, std::to_string(rank)};
      std::byte reply[64];
      (void)services_[0]->answer(static_cast<ClientConnection>(1000 + rank),
                                 message_of(join).bytes(), reply);
    }
  }

  /// Returns how many round trips a call has waited for.
  template <typename Call>
  std::int64_t trips_of(const Call& call) {
    const std::int64_t begin = now_ns;
    call();
    return (now_ns - begin) / round_trip_ns;
  }

  int servers() const { return static_cast<int>(services_.size()); }
  Service& service(int server) { return *services_[static_cast<std::size_t>(server)]; }
  /// Returns whether some server keeps something for a call that has not ended.
  bool busy() const {
    return std::any_of(services_.begin(), services_.end(),
                       [](const auto& one) { return one->busy(); });
  }

  std::int64_t now_ns = 0;
  std::set<int> lost;  ///< servers that answer nothing any more
  std::set<int> late;  ///< servers that carry out requests, and whose replies do not arrive

 private:
  std::unique_ptr<Service> make(int rank, std::int64_t memory_bytes) {
    auto& segments = segments_[static_cast<std::size_t>(rank)];
    Service::Options options;
    options.store.memory_bytes = memory_bytes;
    options.store.segment_bytes = memory_bytes;
    options.store.server = rank;
    options.store.servers = static_cast<int>(segments_.size());
    options.store.make_segment = [&segments](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    options.servers = static_cast<int>(segments_.size());
    options.cell_bytes = cell_bytes;
    options.contact = std::to_string(rank);
    options.message_bytes = message_bytes;
    options.address_of = [&segments](const Range& range) {
      return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
    };
    options.move = [](const Move&) {};
    options.notify = [](ClientConnection) {};
    return std::make_unique<Service>(std::move(options));
  }

  std::vector<std::vector<std::vector<std::byte>>> segments_;
  std::vector<std::unique_ptr<Service>> services_;
};

/// One client's connections to the group.
class DistantLinks final : public Servers {
 public:
  DistantLinks(DistantGroup& group, ClientConnection client) : group_(group), client_(client) {
    for (int server = 0; server < group.servers(); ++server) {
      std::byte reply[DistantGroup::message_bytes];
      const protocol::Hello hello{staging_version, "client", {client, client}};
      (void)group_.service(server).answer(client_, message_of(hello).bytes(), reply);
    }
  }

  std::vector<std::string> asked;       ///< kinds of the requests, in their order
  std::vector<std::string> told;        ///< kinds of those without a reply
  std::function<void()> while_waiting;  ///< called once, by the next wait for a notice

  int count() const override { return group_.servers(); }
  std::int64_t message_bytes() const override { return DistantGroup::message_bytes; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& buffer) override {
    return send(server, request, buffer)->reply();
  }
  std::unique_ptr<Question> send(int server, const fabric::MessageWriter& request,
                                 ReplyBuffer& buffer) override {
    asked.emplace_back(to_string(kind_of(request.bytes())));
    const std::int64_t arrives_ns = group_.now_ns + DistantGroup::round_trip_ns;
    return std::make_unique<Late>(group_, arrives_ns, answer(server, request, buffer));
  }
  void tell(int server, const fabric::MessageWriter& request) override {
    told.emplace_back(to_string(kind_of(request.bytes())));
    ReplyBuffer buffer;
    (void)answer(server, request, buffer);
  }
  std::uint64_t notices() const override { return notices_; }
  void wait(std::uint64_t, std::int64_t until_ns) override {
    if (!while_waiting) {
      group_.now_ns = until_ns;
      return;
    }
    std::exchange(while_waiting, nullptr)();
    ++notices_;
  }
  std::int64_t now_ns() const override { return group_.now_ns; }

 private:
  using Reply = Result<std::span<const std::byte>>;
  class Late final : public Question {
   public:
    Late(DistantGroup& group, std::int64_t arrives_ns, Reply reply)
        : group_(group), arrives_ns_(arrives_ns), reply_(std::move(reply)) {}
    Reply reply() override {
      group_.now_ns = std::max(group_.now_ns, arrives_ns_);
      return reply_;
    }

   private:
    DistantGroup& group_;
    std::int64_t arrives_ns_;
    Reply reply_;
  };

  Reply answer(int server, const fabric::MessageWriter& request, ReplyBuffer& buffer) {
    if (group_.lost.contains(server)) return Error{ErrorCode::peer_lost, "the server is gone"};
    if (!buffer.bytes) buffer.bytes = std::make_unique<std::byte[]>(DistantGroup::message_bytes);
    const std::span room(buffer.bytes.get(), DistantGroup::message_bytes);
    const auto length = group_.service(server).answer(client_, request.bytes(), room);
    if (group_.late.contains(server)) return Error{ErrorCode::timeout, "no reply has come"};
    if (!length) return length.error();
    return std::span<const std::byte>(room.first(*length));
  }

  DistantGroup& group_;
  ClientConnection client_;
  std::uint64_t notices_ = 0;
};

}  // namespace tranship::staging
