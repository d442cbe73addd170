// A client whose servers lie refuses what they say, and follows it nowhere.
#include <cstring>
#include <deque>
#include <vector>

#include "staging/catalog.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

/// Two servers that answer what the test has prepared, whatever they are asked.
class LyingServers final : public Servers {
 public:
  std::deque<std::vector<std::byte>> answers;

  int count() const override { return 2; }
  std::int64_t message_bytes() const override { return 16384; }
  Result<std::span<const std::byte>> ask(int server, const MessageWriter&,
                                         ReplyBuffer& reply) override {
    EXPECT(server == 0 || server == 1);
    if (answers.empty()) return Error{ErrorCode::peer_lost, "the server is gone"};
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(16384);
    std::memcpy(reply.bytes.get(), answers.front().data(), answers.front().size());
    const std::size_t length = answers.front().size();
    answers.pop_front();
    return std::span<const std::byte>(reply.bytes.get(), length);
  }
  void tell(int, const MessageWriter&) override {}
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t) override {}
  std::int64_t now_ns() const override { return 0; }
};

const Box asked = *Box::make({0}, {16});

std::vector<std::byte> description() {
  Facts facts;
  facts.type = "i8";
  facts.element_bytes = 8;
  facts.first = asked;
  facts.life = {1, 1};
  facts.cells = Cells::around(asked, 8, 1 << 20);
  MessageWriter out;
  out.add(Said::done);
  add(out, facts);
  out.add(std::uint32_t{0});
  return out.bytes();
}

Result<Held> get_with(std::vector<std::byte> answer) {
  LyingServers servers;
  servers.answers = {description(), std::move(answer)};
  Catalog catalog(servers);
  ReplyBuffer reply;
  return catalog.get({"v", Which::exact, 1, asked, {}}, reply, 0);
}

std::vector<std::byte> object_of(int home, const Box& box) {
  Found found;
  found.version = 1;
  found.type = "i8";
  found.element_bytes = 8;
  found.lease = 3;
  Seen seen;
  seen.home = home;
  seen.object = 1;
  seen.order = 1;
  seen.range = {0, 0, 128};
  seen.box = box;
  found.objects.push_back(seen);
  MessageWriter out;
  out.add(Said::objects);
  (void)add(out, found, 0, 16384);
  return out.bytes();
}

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
  for (const std::int64_t element_bytes : {INT64_MAX, std::int64_t{-8}, std::int64_t{0}}) {
    MessageWriter out;
    out.add(Said::data).add(std::int64_t{1}).text("i8").add(element_bytes);
    out.add(std::int64_t{0});
    EXPECT(!get_with(out.bytes()).ok());
  }
}
