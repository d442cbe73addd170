// What a staging server remembers is bounded, and each refusal names its limit.
#include "staging/model/limits.hpp"

#include "base/text.hpp"
#include "staging/model/deletions.hpp"
#include "staging/server/service.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientConnection writer = 1;
constexpr ClientConnection reader = 2;

struct Fixture {
  explicit Fixture(const Limits& limits) : service(options(limits)) {}

  std::vector<std::vector<std::byte>> segments;
  Service service;
  std::vector<std::byte> reply = std::vector<std::byte>(16384);

  Service::Options options(const Limits& limits) {
    Service::Options made;
    made.store.memory_bytes = 1 << 20;
    made.store.segment_bytes = 1 << 16;
    made.store.limits = limits;
    made.store.make_segment = [this](std::int64_t bytes) {
      segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    made.contact = "here";
    made.message_bytes = 16384;
    made.address_of = [this](const Range& range) {
      return segments[static_cast<std::size_t>(range.segment)].data() + range.offset;
    };
    made.notify = [](ClientConnection) {};
    made.move = [](const Move&) {};
    return made;
  }
  /// Sends a request; returns the error's text, or an empty text for success.
  template <typename Request>
  std::string ask(ClientConnection from, const Request& request) {
    const auto length = service.answer(from, message_of(request).bytes(), reply);
    return length ? std::string() : length.error().text();
  }
  std::string hello(ClientConnection from, const std::string& name = "x") {
    return ask(from, protocol::Hello{staging_version, name, {}});
  }
  std::string declare(ClientConnection from, const PutRequest& request) {
    return ask(from, protocol::Declare{request});
  }
  std::string begin(ClientConnection from, const PutRequest& request) {
    return ask(from, protocol::Begin{request});
  }
  std::string put(ClientConnection from, const PutRequest& request) {
    const auto fill = [](std::span<std::byte>) { return Status{}; };
    const auto bytes = static_cast<std::size_t>(request.box.points()) * 8;
    return ask(from, protocol::Put{request, {{}, bytes, fill}, {}});
  }
  std::string get(ClientConnection from, const std::string& variable, std::int64_t version) {
    const GetRequest get{variable, VersionChoice::exact, version, *Box::make({0}, {4}), {}};
    return ask(from, protocol::Find{get, true});
  }
};

PutRequest put_of(const std::string& variable, std::int64_t version, std::int64_t lower = 0) {
  return {variable, version, *Box::make({lower}, {lower + 4}), "f8", 8};
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(what_is_refused_names_the_limit_and_the_setting) {
  Limits limits;
  limits.clients = 2;
  limits.variables = 3;
  limits.name_bytes = 8;
  limits.client_puts = 4;
  limits.client_leases = 2;
  limits.version_boxes = 5;
  Fixture server(limits);
  EXPECT_EQ(server.hello(writer), "");
  EXPECT_EQ(server.hello(reader), "");
  EXPECT(says(server.hello(3), "clients of the server are 2, which is the limit"));
  EXPECT(says(server.hello(3), "staging_clients"));
  EXPECT_EQ(server.hello(writer), "");  // a second hello of the same client is allowed
  server.service.gone(reader, true);
  EXPECT_EQ(server.hello(3), "");
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(server.declare(writer, put_of(name, 1)), "");
  EXPECT(says(server.declare(writer, put_of("d", 1)), "staging_variables"));
  EXPECT_EQ(server.declare(writer, put_of("a", 1)), "");
  EXPECT(says(server.declare(writer, put_of("much too long", 1)), "staging_name_bytes"));
  for (int k = 0; k < 4; ++k) EXPECT_EQ(server.begin(writer, put_of("a", 1, 4 * k)), "");
  EXPECT(says(server.begin(writer, put_of("a", 1)), "staging_puts"));
  EXPECT_EQ(server.begin(3, put_of("a", 1, 16)), "");  // each client has its own share of puts
  EXPECT(says(server.begin(3, put_of("a", 1, 20)), "staging_version_boxes"));
  EXPECT_EQ(server.put(3, put_of("a", 2)), "");
  for (int k = 0; k < 2; ++k) EXPECT_EQ(server.get(3, "a", 2), "");
  EXPECT(says(server.get(3, "a", 2), "staging_leases"));
  EXPECT_EQ(server.get(writer, "a", 2), "");
}

TEST(the_boxes_of_a_server_are_bounded) {
  Limits limits;
  limits.boxes = 3;
  Fixture server(limits);
  EXPECT_EQ(server.hello(writer), "");
  for (int k = 0; k < 3; ++k) EXPECT_EQ(server.put(writer, put_of("a", k)), "");
  EXPECT(says(server.put(writer, put_of("a", 3)), "staging_boxes"));
  EXPECT_EQ(server.ask(writer, protocol::Discard{"a", 1}), "");
  EXPECT_EQ(server.put(writer, put_of("a", 3)), "");
}

TEST(limits_come_from_settings_and_are_checked) {
  Config config;
  config.staging_clients = 17;
  const auto limits = limits_of(config);
  REQUIRE(limits.ok());
  EXPECT_EQ(limits->clients, 17);
  EXPECT_EQ(limits->boxes, Limits{}.boxes);
  EXPECT_EQ(limits->client_leases, Limits{}.client_leases);
  config.staging_version_boxes = std::int64_t{1} << 30;
  const auto refused = limits_of(config);
  EXPECT(!refused.ok() && says(refused.error().text(), "staging_version_boxes is between 1 and"));
  config = Config{};
  config.staging_variables = 0;
  EXPECT(!limits_of(config).ok());
}

TEST(names_that_nothing_can_show_are_refused_and_never_echoed) {
  Fixture server(Limits{});
  EXPECT_EQ(server.hello(writer, "\x1b[2J" + std::string(10000, 'x')), "");
  for (const std::string& name :
       {std::string("\xff\xfe"), std::string("a\nb"), std::string(), std::string("\0", 1),
        std::string(5000, 'y'), std::string("\xed\xa0\x80")}) {
    for (const std::string& refused :
         {server.declare(writer, put_of(name, 1)), server.put(writer, put_of(name, 1)),
          server.get(writer, name, 1)}) {
      EXPECT(says(refused, "a variable's name has"));
      EXPECT(is_plain_text(refused) && refused.size() < 400);
    }
  }
  PutRequest odd = put_of("a", 1);
  odd.type = std::string(5000, 'f');
  EXPECT(says(server.put(writer, odd), "element type"));
  odd.type = "\x01";
  EXPECT(says(server.put(writer, odd), "\\x01"));
  EXPECT_EQ(server.put(writer, put_of("\xc3\xa4 \xf0\x9f\x8c\x8d", 1)), "");
  EXPECT_EQ(server.ask(writer, protocol::QueryStatus{}), "");
  EXPECT(server.service.list().size() == 1);
}

TEST(who_waits_for_ever_new_names_makes_nothing_grow) {
  Watches watches(3);
  for (int k = 0; k < 100; ++k) watches.add("v" + std::to_string(k), writer);
  watches.add("v99", writer);
  watches.add("v99", reader);
  EXPECT_EQ(watches.size(), 3U);
  EXPECT(watches.take("v0").empty());
  EXPECT_EQ(watches.take("v99").size(), 2U);
  EXPECT(watches.take("v99").empty());
  watches.drop(writer);
  watches.drop(writer);
  EXPECT_EQ(watches.size(), 0U);
}

TEST(whoever_knew_a_variable_before_its_deletion_is_told_to_ask_anew) {
  Deletions deletions(1, 4);
  EXPECT(!deletions.stale("a", {1, 1}));
  deletions.add("a", 5);
  EXPECT(deletions.stale("a", {1, 4}));
  EXPECT(!deletions.stale("a", {6, 6}));
  EXPECT(!deletions.stale("b", {1, 4}));
  EXPECT(!deletions.stale("a", {0, 0}));  // the client has not asked the metadata server
  deletions.add("a", 9);
  EXPECT(deletions.stale("a", {6, 6}));
  for (std::uint64_t k = 0; k < 100; ++k) deletions.add("n" + std::to_string(k), 10 + k);
  EXPECT_EQ(deletions.size(), 4U);
  // the deletion of this variable is no longer remembered by itself
  EXPECT(deletions.stale("a", {6, 6}));
  // b was never deleted, but only its metadata server can tell
  EXPECT(deletions.stale("b", {1, 50}));
  EXPECT(!deletions.stale("b", {1, 120}));
}

TEST(a_deleted_variable_leaves_nothing) {
  ObjectStore::Options options;
  options.memory_bytes = 1 << 16;
  options.segment_bytes = 4096;
  options.make_segment = [](std::int64_t) { return Status{}; };
  ObjectStore store(options);
  const auto begun = [&](const PutRequest& request) {
    const auto result = store.begin(writer, request);
    REQUIRE(result.ok() && std::holds_alternative<GrantedRoom>(*result));
    return std::get<GrantedRoom>(*result).object;
  };
  PutRequest put = put_of("a", 1);
  put.incarnation = {1, 1};
  REQUIRE(store.commit(writer, begun(put)).ok());
  put.version = 2;
  REQUIRE(store.commit(writer, begun(put)).ok());
  REQUIRE(store.discard("a", 2).ok());
  const GetRequest get{"a", VersionChoice::exact, 1, put.box, {1, 1}};
  const auto read = store.get(reader, get);
  REQUIRE(read.ok() && std::holds_alternative<FoundObjects>(*read));
  put.version = 3;
  const std::uint64_t late = begun(put);
  EXPECT(store.remove("a", 2));
  EXPECT(!store.remove("b", 3));
  EXPECT(store.list().empty());
  EXPECT(store.stale("a", put.incarnation));
  const auto refused = store.commit(writer, late);
  EXPECT(!refused.ok() && refused.error().code == ErrorCode::not_found);
  EXPECT_EQ(store.memory_bytes_used(), 256);  // a lease keeps the object
  REQUIRE(store.release(reader, std::get<FoundObjects>(*read).lease).ok());
  EXPECT_EQ(store.memory_bytes_used(), 0);
  // The new variable has the same name, another type, and a version that was discarded before.
  PutRequest other{"a", 2, *Box::make({0, 0}, {2, 2}), "i4", 4, {4, 4}};
  REQUIRE(store.commit(writer, begun(other)).ok());
  EXPECT(!store.remove("a", 2));  // the deletion arrives late
  EXPECT_EQ(store.list().size(), 1U);
  // The client that deleted the variable died before it reached this server: the newer variable
  // replaces the older.
  PutRequest third{"a", 2, *Box::make({0}, {2}), "f8", 8, {6, 6}};
  EXPECT(std::holds_alternative<Waiting>(
      *store.get(reader, GetRequest{"a", VersionChoice::exact, 2, third.box, {6, 6}})));
  REQUIRE(store.commit(writer, begun(third)).ok());
  EXPECT_EQ(store.list().at(0).type, "f8");
  EXPECT(!store.begin(writer, other).ok());
}
