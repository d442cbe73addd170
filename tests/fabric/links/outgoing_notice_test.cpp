// Notices of copies, from requesters to the owners of arrays.
#include <mutex>

#include "fabric/helpers.hpp"
#include "fabric/links/outgoing_notice.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;

namespace {

/// A pair of fabrics, of which the exporting one takes notices of copies to and from "a".
struct Noticing {
  explicit Noticing(Transport transport, std::size_t most = 1000,
                    std::int64_t inside_bytes = 8192) {
    FabricOptions options = options_for(transport);
    options.inside_bytes = inside_bytes;
    options.take_notice = [this, most](CopyNotice notice) -> Status {
      std::lock_guard lock(mutex);
      if (taken.size() >= most) return Error{ErrorCode::out_of_memory, "it takes no more"};
      taken.push_back(std::move(notice));
      return {};
    };
    exporter = open_fabric(options);
    requester = open_fabric(options_for(transport));
    channel = std::make_unique<RemoteChannel>(*requester, RemoteChannel::Options{});
    peer = connect_to(*requester, exporter->contact());
    add("a", true);
    add("silent", false);
  }
  ~Noticing() {
    (void)requester->close();
    (void)exporter->close();
  }

  void add(const std::string& name, bool takes_notices) {
    ExportedArray array;
    array.name = name;
    array.place.address = data.data();
    array.bytes = static_cast<std::int64_t>(data.size());
    array.takes_notices = takes_notices;
    REQUIRE(exporter->export_array(array).ok());
  }

  Status send(const std::shared_ptr<RemoteArray>& array, std::vector<std::byte> body) {
    OutgoingNotice notice(array, std::move(body));
    Request request;
    request.target = {nullptr, &notice};
    request.tag = 7;
    if (Status status = channel->submit(request); !status) return status;
    return finish_one(*channel);
  }

  std::vector<CopyNotice> all() {
    std::lock_guard lock(mutex);
    return taken;
  }

  std::vector<std::byte> data = std::vector<std::byte>(100'000);
  std::mutex mutex;
  std::vector<CopyNotice> taken;
  std::unique_ptr<Fabric> exporter;
  std::unique_ptr<Fabric> requester;
  PeerId peer;
  std::unique_ptr<RemoteChannel> channel;
};

std::vector<std::byte> bytes_of_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST(a_notice_is_taken_when_its_request_ends) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    for (const std::int64_t inside_bytes : {std::int64_t{8192}, std::int64_t{0}}) {
      Noticing pair(transport, 1000, inside_bytes);
      const auto array = look_up(*pair.requester, pair.peer, "a");
      REQUIRE(array->takes_notices());
      EXPECT(!look_up(*pair.requester, pair.peer, "silent")->takes_notices());
      for (int k = 0; k < 50; ++k) {
        REQUIRE(pair.send(array, encode_notice("step " + std::to_string(k), k % 2 == 0)).ok());
        REQUIRE(pair.all().size() == static_cast<std::size_t>(k + 1));
      }
      const Identity self = own_identity();
      for (int k = 0; k < 50; ++k) {
        const CopyNotice notice = pair.all()[static_cast<std::size_t>(k)];
        EXPECT_EQ(notice.name, "step " + std::to_string(k));
        EXPECT_EQ(notice.array, "a");
        EXPECT_EQ(notice.written, k % 2 == 0);
        EXPECT(notice.sender.same_process(self));
        EXPECT(notice.label.find(std::to_string(self.pid)) != std::string::npos);
      }
    }
  }
}

TEST(notices_go_beside_copies) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Noticing pair(transport);
    const auto array = look_up(*pair.requester, pair.peer, "a");
    auto source = pattern(100'000, 3);
    const std::vector<LoopNest> nests{run_of(100'000)};
    OutgoingNotice notice(array, encode_notice("beside", true));
    for (int round = 0; round < 20; ++round) {
      Request request;
      request.target = {nullptr, &notice};
      REQUIRE(pair.channel->submit(write_request(nests, source.data(), *array)).ok());
      REQUIRE(pair.channel->submit(request).ok());
      REQUIRE(finish_one(*pair.channel).ok());
      REQUIRE(finish_one(*pair.channel).ok());
    }
    EXPECT_EQ(pair.all().size(), std::size_t{20});
    EXPECT(pair.data == source);
  }
}

TEST(a_notice_that_nobody_takes_is_an_error_of_its_sender) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Noticing pair(transport, 2);
    const auto array = look_up(*pair.requester, pair.peer, "a");
    const auto body = encode_notice("x", true);
    REQUIRE(pair.send(array, body).ok());
    REQUIRE(pair.send(array, body).ok());
    const Status full = pair.send(array, body);
    REQUIRE(!full);
    EXPECT(full.error().code == ErrorCode::out_of_memory);
    EXPECT(full.error().text().find("it takes no more") != std::string::npos);
    const Status silent = pair.send(look_up(*pair.requester, pair.peer, "silent"), body);
    REQUIRE(!silent);
    EXPECT(silent.error().code == ErrorCode::unsupported);
    REQUIRE(pair.exporter->withdraw("a").ok());
    const Status withdrawn = pair.send(array, body);
    REQUIRE(!withdrawn);
    EXPECT(withdrawn.error().code == ErrorCode::not_found);
    EXPECT_EQ(pair.all().size(), std::size_t{2});
    REQUIRE(pair.exporter->close().ok());
    EXPECT(!pair.send(array, body));
  }
}

TEST(notices_that_no_requester_would_send_are_refused) {
  Noticing pair(Transport::automatic);
  const auto array = look_up(*pair.requester, pair.peer, "a");
  auto longer = encode_notice("x", true);
  longer.push_back(std::byte{0});
  auto shorter = encode_notice("text", true);
  shorter.pop_back();
  auto neither = encode_notice("x", true);
  neither[0] = std::byte{2};
  const std::vector<std::vector<std::byte>> bodies{
      {},
      longer,
      shorter,
      neither,
      bytes_of_text("hello"),
      encode_notice("", true),
      encode_notice("a\nb", true),
      encode_notice("\xff", false),
      encode_notice(std::string(notice_name_bytes_max + 1, 'x'), true),
  };
  for (const auto& body : bodies) {
    const Status refused = pair.send(array, body);
    REQUIRE(!refused);
    EXPECT(refused.error().code == ErrorCode::invalid_argument);
  }
  EXPECT(pair.all().empty());
  EXPECT(pair.send(array, encode_notice(std::string(notice_name_bytes_max, 'x'), false)).ok());
}

TEST(a_notice_sent_here_arrives_or_is_carried_on_by_the_channel) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Noticing scene(transport, 1);
    const auto array = look_up(*scene.requester, scene.peer, "a");
    OutgoingNotice first(array, encode_notice("first", true));
    EXPECT(first.send_here(patience));
    EXPECT(first.sent() == nullptr);
    REQUIRE(scene.all().size() == 1);
    EXPECT_EQ(scene.all()[0].name, "first");
    // One that is refused is not sent again: the channel reports the error.
    OutgoingNotice second(array, encode_notice("second", true));
    EXPECT(!second.send_here(patience));
    REQUIRE(second.sent() != nullptr);
    Request request;
    request.target = {nullptr, &second};
    request.tag = 9;
    REQUIRE(scene.channel->submit(request).ok());
    const Status refused = finish_one(*scene.channel);
    REQUIRE(!refused);
    EXPECT(refused.error().code == ErrorCode::out_of_memory);
    EXPECT_EQ(scene.all().size(), 1U);
  }
}

TEST(a_notice_that_is_not_waited_for_arrives_once) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Noticing scene(transport);
    const auto array = look_up(*scene.requester, scene.peer, "a");
    for (int k = 0; k < 50; ++k) {
      OutgoingNotice notice(array, encode_notice(std::to_string(k), true));
      if (notice.send_here(std::chrono::nanoseconds(0))) continue;
      Request request;
      request.target = {nullptr, &notice};
      REQUIRE(scene.channel->submit(request).ok());
      EXPECT(finish_one(*scene.channel).ok());
    }
    const auto taken = scene.all();
    REQUIRE(taken.size() == 50);
    for (int k = 0; k < 50; ++k) {
      EXPECT_EQ(taken[static_cast<std::size_t>(k)].name, std::to_string(k));
    }
  }
}

TEST(a_notice_overtakes_none_that_a_channel_carries) {
  Noticing scene(Transport::automatic);
  const auto array = look_up(*scene.requester, scene.peer, "a");
  auto queued = std::make_unique<OutgoingNotice>(array, encode_notice("first", true));
  queued->queue();
  OutgoingNotice next(array, encode_notice("second", true));
  EXPECT(!next.send_here(patience));
  EXPECT(next.sent() == nullptr);
  EXPECT(scene.all().empty());
  queued.reset();
  EXPECT(next.send_here(patience));
}

TEST(a_notice_to_a_lost_process_is_left_to_the_channel) {
  Noticing scene(Transport::automatic);
  const auto array = look_up(*scene.requester, scene.peer, "a");
  (void)scene.requester->disconnect(scene.peer);
  OutgoingNotice notice(array, encode_notice("late", true));
  EXPECT(!notice.send_here(patience));
  EXPECT(notice.sent() == nullptr);
  Request request;
  request.target = {nullptr, &notice};
  const Status status = scene.channel->submit(request);
  REQUIRE(!status);
  EXPECT(status.error().code == ErrorCode::closed);
}

TEST(a_notice_can_be_cancelled_and_ends_with_its_link) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Noticing pair(transport);
    const auto array = look_up(*pair.requester, pair.peer, "a");
    OutgoingNotice notice(array, encode_notice("x", true));
    Request request;
    request.target = {nullptr, &notice};
    request.tag = 5;
    REQUIRE(pair.channel->submit(request).ok());
    pair.channel->cancel(5);
    const Status status = finish_one(*pair.channel);
    EXPECT(status || status.error().code == ErrorCode::cancelled);
    REQUIRE(pair.send(array, encode_notice("y", true)).ok());
    REQUIRE(pair.requester->disconnect(pair.peer).ok());
    EXPECT(!pair.send(array, encode_notice("z", true)));
  }
}
