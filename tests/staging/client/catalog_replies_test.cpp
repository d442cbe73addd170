// A client refuses invalid replies of its servers, and does not act on them.
#include <algorithm>
#include <deque>
#include <vector>

#include "staging/client/catalog.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

/// Two servers that send the replies that the test has prepared, whatever the request. An empty one
/// is the error that there is no such version.
class LyingServers final : public Servers {
 public:
  std::deque<std::vector<std::byte>> answers;

  int count() const override { return 2; }
  std::int64_t message_bytes() const override { return 16384; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter&,
                                         ReplyBuffer& reply) override {
    EXPECT(server == 0 || server == 1);
    if (answers.empty()) return Error{ErrorCode::peer_lost, "the server is gone"};
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(16384);
    std::ranges::copy(answers.front(), reply.bytes.get());
    const std::size_t length = answers.front().size();
    answers.pop_front();
    if (length == 0) return Error{ErrorCode::not_found, "there is no such version"};
    return std::span<const std::byte>(reply.bytes.get(), length);
  }
  void tell(int, const fabric::MessageWriter&) override {}
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t) override {}
  std::int64_t now_ns() const override { return 0; }
};

const Box asked = *Box::make({0}, {16});

/// Returns a reply as a server writes it.
template <typename Message>
std::vector<std::byte> reply_of(const Message& message) {
  std::vector<std::byte> bytes(16384);
  bytes.resize(write_reply(bytes, message).value());
  return bytes;
}

std::vector<std::byte> description() {
  VariableMetadata metadata;
  metadata.type = "i8";
  metadata.element_bytes = 8;
  metadata.first = asked;
  metadata.incarnation = {1, 1};
  metadata.cells = Cells::around(asked, 8, 1 << 20);
  return reply_of(protocol::Described{metadata, {}});
}

Result<LeasedBox> get_with(std::vector<std::byte> answer) {
  LyingServers servers;
  servers.answers = {description(), std::move(answer)};
  Catalog catalog(servers);
  ReplyBuffer reply;
  return catalog.get({"v", VersionChoice::exact, 1, asked, {}}, reply, 0);
}

protocol::Objects objects_in(int primary, const Box& box) {
  protocol::Objects objects{{1, "i8", 8, 3, {}}, 0};
  StoredObject seen;
  seen.primary = primary;
  seen.object = 1;
  seen.order = 1;
  seen.range = {0, 0, 128};
  seen.box = box;
  objects.found.objects.push_back(seen);
  return objects;
}

std::vector<std::byte> object_of(int primary, const Box& box) {
  return reply_of(objects_in(primary, box));
}

/// Returns a reply with `bytes` bytes of elements of `element_bytes` bytes each.
std::vector<std::byte> data_of(std::int64_t element_bytes, std::size_t bytes) {
  const auto fill = [](std::span<std::byte>) { return Status{}; };
  return reply_of(protocol::InlineData{1, "i8", element_bytes, {{}, bytes, fill}});
}

/// Two servers: one names a version whenever it is asked for any, and the other says each time that
/// this version was discarded.
class VanishingVersions final : public Servers {
 public:
  int asked_for = 0;

  int count() const override { return 2; }
  std::int64_t message_bytes() const override { return 16384; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override {
    ++asked_for;
    now_ += 1000;
    if (asked_for > 2'000'000) return Error{ErrorCode::peer_lost, "the server is gone"};
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(16384);
    const auto answer_to = [&]<typename Request>(const Request& one) -> Result<std::size_t> {
      const std::span room(reply.bytes.get(), 16384);
      if constexpr (std::is_same_v<Request, protocol::Describe>) {
        const auto described = description();
        std::copy(described.begin(), described.end(), room.begin());
        return described.size();
      }
      if constexpr (std::is_same_v<Request, protocol::Find>) {
        if (one.get.choice == VersionChoice::exact) {
          return Error{ErrorCode::not_found, "it was discarded"};
        }
        if (server == 0) return write_reply(room, protocol::Wait{"nothing"});
        auto objects = objects_in(1, asked);
        objects.found.version = one.get.version + (one.get.choice == VersionChoice::next ? 1 : 0);
        return write_reply(room, objects);
      }
      return write_reply(room, protocol::Done{});
    };
    const auto length = read_request<Result<std::size_t>>(request.bytes(), answer_to);
    if (!length) return length.error();
    return std::span<const std::byte>(reply.bytes.get(), *length);
  }
  void tell(int, const fabric::MessageWriter&) override {}
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t) override {}
  std::int64_t now_ns() const override { return now_; }

 private:
  std::int64_t now_ = 0;
};

}  // namespace

TEST(objects_of_servers_that_there_are_not_are_refused) {
  const auto good = get_with(object_of(1, asked));
  REQUIRE(good.ok());
  EXPECT_EQ(good->objects.size(), 1U);
  EXPECT(!get_with(object_of(2, asked)).ok());
  EXPECT(!get_with(object_of(-1, asked)).ok());
}

TEST(objects_of_another_rank_are_refused) {
  EXPECT(!get_with(object_of(0, *Box::make({0, 0}, {16, 16}))).ok());
  EXPECT(!get_with(object_of(0, Box{})).ok());
}

TEST(data_of_an_impossible_length_are_refused) {
  REQUIRE(get_with(data_of(8, 128)).ok());
  EXPECT(!get_with(data_of(8, 127)).ok());
  EXPECT(!get_with(data_of(8, 129)).ok());
  for (const std::int64_t element_bytes : {INT64_MAX, std::int64_t{-8}, std::int64_t{0}}) {
    EXPECT(!get_with(data_of(element_bytes, 8)).ok());
  }
}

TEST(elements_of_data_have_a_possible_size) {
  EXPECT(get_with(data_of(16, 16 * 16)).ok());
  EXPECT(get_with(data_of(17, 16 * 17)).ok());
  EXPECT(!get_with(data_of(element_bytes_most + 1, 16)).ok());
}

TEST(another_version_than_was_asked_for_is_refused) {
  auto other = objects_in(1, asked);
  other.found.version = 2;
  EXPECT(!get_with(reply_of(other)).ok());
}

TEST(bounds_of_another_version_or_rank_are_refused) {
  const auto bounds = [](const protocol::ExtentFound& found) {
    LyingServers servers;
    servers.answers = {description(), reply_of(found), reply_of(found)};
    const auto extent = Catalog(servers).extent_of("v", 1, 0);
    return extent ? std::optional<ErrorCode>() : extent.error().code;
  };
  const Box flat = *Box::make({0, 0}, {16, 1});
  EXPECT(!bounds({{1, asked, {}, 0}}));
  EXPECT(bounds({{2, asked, {}, 0}}) == ErrorCode::unsupported);
  EXPECT(bounds({{1, flat, {}, 0}}) == ErrorCode::unsupported);
  EXPECT(bounds({{1, {}, flat, 2}}) == ErrorCode::unsupported);
  EXPECT(bounds({{1, {}, {}, 0}}) == ErrorCode::unsupported);
}

TEST(gaps_that_do_not_go_on_are_refused) {
  for (const std::int64_t gap : {1, 0, -5}) {
    LyingServers servers;
    const auto wait = reply_of(protocol::Wait{"it lacks", Ending::closed, true, gap});
    servers.answers = {description(), wait, wait, wait};
    Catalog catalog(servers);
    const auto version = catalog.wait({"v", VersionChoice::next, 1, asked, {}}, 0);
    EXPECT(!version && version.error().code == ErrorCode::unsupported);
  }
}

TEST(replies_that_a_request_does_not_have_are_refused) {
  EXPECT(!get_with(reply_of(protocol::Done{})).ok());
  EXPECT(!get_with({}).ok());
  auto longer = object_of(1, asked);
  longer.push_back(std::byte{0});
  EXPECT(!get_with(longer).ok());
}

TEST(versions_that_vanish_without_end_do_not_keep_a_get) {
  for (const VersionChoice choice : {VersionChoice::next, VersionChoice::latest}) {
    VanishingVersions servers;
    Catalog catalog(servers);
    ReplyBuffer reply;
    constexpr std::int64_t end_ns = 1'000'000'000;
    const Box all = *Box::make({0}, {16 * 1024 * 1024});
    const auto got = catalog.get({"v", choice, 0, all, {}}, reply, end_ns);
    REQUIRE(!got.ok());
    EXPECT(got.error().code == ErrorCode::timeout);
    EXPECT(got.error().text().find("was discarded meanwhile") != std::string::npos);
    EXPECT(servers.asked_for > 500'000 && servers.asked_for < 1'100'000);
  }
}

TEST(pages_of_objects_that_do_not_end_are_refused) {
  LyingServers servers;
  auto page = objects_in(1, asked);
  page.left = 2;
  servers.answers = {description(), reply_of(page), reply_of(page), reply_of(page), reply_of(page)};
  Catalog catalog(servers);
  ReplyBuffer reply;
  EXPECT(!catalog.get({"v", VersionChoice::exact, 1, asked, {}}, reply, 0).ok());
}

TEST(lists_that_do_not_go_on_are_refused) {
  LyingServers servers;
  VariableInfo info{"v", "i8", 8, asked, {}, 0};
  const auto page = reply_of(protocol::Listed{{info}});
  servers.answers = {page, page, page, page, page, page};
  Catalog catalog(servers);
  EXPECT(!catalog.list().ok());
  EXPECT_EQ(servers.answers.size(), 2U);  // two pages of each server
}

TEST(a_discard_succeeds_once_all_servers_remember_it) {
  const auto none = [] { return std::vector<std::byte>(); };  // "there is no such version"
  const auto done = reply_of(protocol::DoneWithOrphans{});
  const auto discard = [&](std::deque<std::vector<std::byte>> answers) {
    LyingServers servers;
    servers.answers = std::move(answers);
    const Status status = Catalog(servers).discard("v", 1);
    EXPECT(servers.answers.empty());
    return status ? std::optional<ErrorCode>() : status.error().code;
  };
  EXPECT(!discard({done, done}));
  EXPECT(discard({none(), none()}) == ErrorCode::not_found);
  EXPECT(!discard({done, none(), description(), done}));
  EXPECT(!discard({none(), done, description(), done}));
  // The variable was put to while it was asked for.
  const auto nothing = reply_of(protocol::Wait{"nothing has been put"});
  EXPECT(!discard({done, none(), nothing, description(), done}));
  EXPECT(discard({done, none(), nothing, description()}) == ErrorCode::peer_lost);
  // The variable was deleted meanwhile: the version is not there, and nothing has to be remembered.
  EXPECT(!discard({done, none(), nothing, nothing}));
  EXPECT(!discard({done, none(), description(), reply_of(protocol::Stale{})}));
  EXPECT(!discard({done, none(), description(), none()}));
  // A server that dies before it remembers the version may not be taken for one that does.
  EXPECT(discard({done}) == ErrorCode::peer_lost);
  EXPECT(discard({done, none()}) == ErrorCode::peer_lost);
  EXPECT(discard({none(), done, description()}) == ErrorCode::peer_lost);
}
