// A get of what servers withhold: the client asks whether the step has ended, and has it shown.
#include "staging/client/catalog.hpp"
#include "staging/client/scripted_servers.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

const Box box = *Box::make({0}, {4});
constexpr StepId the_step = 9;
constexpr std::int64_t end_ns = 1'000'000'000;

std::vector<std::byte> description() {
  VariableMetadata metadata;
  metadata.type = "i8";
  metadata.element_bytes = 8;
  metadata.first = box;
  metadata.incarnation = {1, 1};
  metadata.cells = Cells::around(box, 8, 1 << 20);
  return reply_of(protocol::Described{metadata, box});
}

std::vector<std::byte> data(StepId beside = 0) {
  const auto fill = [](std::span<std::byte> room) {
    std::ranges::fill(room, std::byte{1});
    return Status{};
  };
  return reply_of(protocol::InlineData{1, "i8", 8, {{}, 32, fill}, beside});
}

std::vector<std::byte> withheld() {
  return reply_of(protocol::Wait{.why = "it lacks (0:4)", .step = the_step});
}

std::vector<std::byte> state_of(StepState state) {
  return reply_of(protocol::StepStateFound{state});
}

const std::vector<std::byte> settled = reply_of(protocol::DoneWithOrphans{});

struct Reader {
  ScriptedServers servers{2};
  Catalog catalog{servers};
  ReplyBuffer reply;

  Result<LeasedBox> get(VersionChoice choice, std::deque<std::vector<std::byte>> answers) {
    servers.answers = std::move(answers);
    return catalog.get({"v", choice, 1, box, {}}, reply, end_ns);
  }
};

}  // namespace

TEST(a_get_of_what_is_withheld_of_an_ended_step_has_it_shown) {
  for (const StepState state : {StepState::whole, StepState::broken}) {
    Reader reader;
    const auto got = reader.get(VersionChoice::exact,
                                {description(), withheld(), state_of(state), settled, data()});
    REQUIRE(got.ok());
    EXPECT_EQ(got->data.size(), 32U);
    EXPECT(reader.servers.settled().id == the_step && reader.servers.settled().done);
    EXPECT(reader.servers.asked[3] == (std::pair(1, RequestKind::settle_step)));
  }
}

TEST(a_get_that_found_something_looks_again_if_a_step_beside_it_has_ended) {
  Reader reader;
  const auto got = reader.get(VersionChoice::latest, {description(), data(the_step),
                                                      state_of(StepState::whole), settled, data()});
  REQUIRE(got.ok());
  EXPECT_EQ(reader.servers.count_of(RequestKind::settle_step), 1);
  // While the step is open, what was found is what there is.
  Reader other;
  const auto found =
      other.get(VersionChoice::latest, {description(), data(the_step), state_of(StepState::open)});
  REQUIRE(found.ok());
  EXPECT_EQ(other.servers.count_of(RequestKind::settle_step), 0);
}

namespace {

/// A server that names a step for ever, whose state is always the same.
class StubbornServer final : public Servers {
 public:
  explicit StubbornServer(StepState state) : state_(state) {}
  int asked = 0;
  int waits = 0;

  int count() const override { return 1; }
  std::int64_t message_bytes() const override { return room_bytes; }
  Result<std::span<const std::byte>> ask(int, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override {
    if (++asked > 2'000'000) return Error{ErrorCode::peer_lost, "the server is gone"};
    now_ += 1000;
    const bool query = kind_of(request.bytes()) == RequestKind::query_step;
    const auto answer = query ? state_of(state_) : withheld();
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(room_bytes);
    std::ranges::copy(answer, reply.bytes.get());
    return std::span<const std::byte>(reply.bytes.get(), answer.size());
  }
  void tell(int, const fabric::MessageWriter&) override {}
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t until_ns) override {
    ++waits;
    now_ = std::max(now_, until_ns);
  }
  std::int64_t now_ns() const override { return now_; }

 private:
  StepState state_;
  std::int64_t now_ = 0;
};

}  // namespace

TEST(a_get_waits_for_a_step_that_is_open) {
  StubbornServer server(StepState::open);
  Catalog catalog(server);
  ReplyBuffer reply;
  const auto got = catalog.get({"v", VersionChoice::exact, 1, box, {}}, reply, end_ns);
  REQUIRE(!got.ok());
  EXPECT(got.error().code == ErrorCode::timeout);
  EXPECT(got.error().text().find("it lacks (0:4)") != std::string::npos);
  EXPECT(server.waits > 0 && server.asked < 100);
}

TEST(a_step_that_ends_again_and_again_does_not_keep_a_get) {
  StubbornServer server(StepState::whole);
  Catalog catalog(server);
  ReplyBuffer reply;
  const auto got = catalog.get({"v", VersionChoice::exact, 1, box, {}}, reply, 10'000'000);
  EXPECT(!got && got.error().code == ErrorCode::timeout);
  EXPECT(server.asked < 100'000);
}
