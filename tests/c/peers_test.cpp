// Exports and notices of the C API, between engines of one process and of two.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c/opened.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using tranship::test::last;
using tranship::test::Opened;
using tranship::test::patience;

namespace {

constexpr std::int64_t room = 300'000;

/// Bytes in memory of the caller's, and an instance of them.
struct Bytes {
  Bytes(tranship_engine* engine, std::int64_t count, std::uint8_t value)
      : values(static_cast<std::size_t>(count), value) {
    const tranship_array array = {.data = values.data(),
                                  .type = "u1",
                                  .rank = 1,
                                  .order = 0,
                                  .extents = {count},
                                  .strides = {},
                                  .lower = {}};
    REQUIRE(tranship_instance_of_array(engine, &array, &instance) == TRANSHIP_OK);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { tranship_instance_free(instance); }

  std::vector<std::uint8_t> values;
  tranship_instance* instance = nullptr;
};

tranship_peer* connected(const Opened& engine, const Opened& to) {
  const char* contact = nullptr;
  REQUIRE(tranship_engine_contact(to.get(), &contact) == TRANSHIP_OK);
  tranship_peer* peer = nullptr;
  REQUIRE(tranship_connect(engine.get(), contact, patience, &peer) == TRANSHIP_OK);
  return peer;
}

tranship_instance* looked_up(tranship_peer* peer, const char* name) {
  tranship_instance* found = nullptr;
  REQUIRE(tranship_peer_lookup(peer, name, patience, &found) == TRANSHIP_OK);
  return found;
}

tranship_instance* part_of(const tranship_instance* whole, std::int64_t lower, std::int64_t upper) {
  const tranship_range range{"d0", lower, upper};
  tranship_instance* part = nullptr;
  REQUIRE(tranship_instance_part(whole, &range, 1, &part) == TRANSHIP_OK);
  return part;
}

tranship_copy_options notifying(const char* name) {
  tranship_copy_options options{};
  options.size = sizeof options;
  options.notify = name;
  return options;
}

/// An engine that exports bytes, with and without notices, and one that has connected to it.
class Sides {
 public:
  explicit Sides(const std::vector<tranship_setting>& settings = {})
      : owner(true, settings), sender(true), inbox(owner.get(), room, 0xEE) {
    tranship_export_options options{};
    options.size = sizeof options;
    options.notices = 1;
    REQUIRE(tranship_export_with(owner.get(), "inbox", inbox.instance, &options) == TRANSHIP_OK);
    REQUIRE(tranship_export(owner.get(), "silent", silent.instance) == TRANSHIP_OK);
    peer = connected(sender, owner);
    remote = looked_up(peer, "inbox");
    remote_silent = looked_up(peer, "silent");
  }
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;
  ~Sides() {
    tranship_instance_free(remote);
    tranship_instance_free(remote_silent);
    tranship_peer_free(peer);
  }

  /// Copies to the first bytes of the inbox. @return the code of the call, or else of the wait
  tranship_code send(const Bytes& values, const tranship_copy_options& options) const {
    tranship_instance* target = part_of(remote, 0, static_cast<std::int64_t>(values.values.size()));
    tranship_event* event = nullptr;
    tranship_code code = tranship_copy(sender.get(), values.instance, target, &options, &event);
    if (code == TRANSHIP_OK) code = tranship_event_wait(event, patience);
    tranship_event_free(event);
    tranship_instance_free(target);
    return code;
  }

  Opened owner;
  Opened sender;
  Bytes inbox;
  Bytes silent{owner.get(), 8, 0xEE};
  tranship_peer* peer = nullptr;
  tranship_instance* remote = nullptr;
  tranship_instance* remote_silent = nullptr;
};

using Found = std::vector<std::pair<std::string, std::string>>;

/// Returns the names and the arrays of notices, and frees the list; "read" and "written" say which.
Found read(tranship_notices* notices) {
  Found found;
  for (std::int64_t k = 0; k < tranship_notices_size(notices); ++k) {
    tranship_notice notice{};
    EXPECT_EQ(tranship_notices_entry(notices, k, &notice), TRANSHIP_OK);
    EXPECT(std::string(notice.sender).find("process ") != std::string::npos);
    found.emplace_back(notice.name,
                       std::string(notice.array) + (notice.written != 0 ? " written" : " read"));
  }
  tranship_notices_free(notices);
  return found;
}

Found take(const Opened& engine, double timeout = 0) {
  tranship_notices* notices = nullptr;
  REQUIRE(tranship_engine_notices(engine.get(), timeout, &notices) == TRANSHIP_OK);
  REQUIRE(notices != nullptr);
  return read(notices);
}

}  // namespace

TEST(a_notice_arrives_once_and_after_the_bytes) {
  const Sides sides;
  std::uint8_t value = 0;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{8}, std::int64_t{9000}, room}) {
    const Bytes values(sides.sender.get(), count, ++value);
    tranship_instance* target = part_of(sides.remote, 0, count);
    tranship_event* event = nullptr;
    const std::string name = "step " + std::to_string(count);
    const tranship_copy_options options = notifying(name.c_str());
    REQUIRE(tranship_copy(sides.sender.get(), values.instance, target, &options, &event) ==
            TRANSHIP_OK);
    EXPECT(take(sides.owner, patience) == Found({{name, "inbox written"}}));
    EXPECT(std::equal(values.values.begin(), values.values.end(), sides.inbox.values.begin()));
    EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
    EXPECT(take(sides.owner).empty());
    tranship_event_free(event);
    tranship_instance_free(target);
  }
  const Bytes there(sides.sender.get(), room, 0);
  const tranship_copy_options options = notifying("got it");
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy(sides.sender.get(), sides.remote, there.instance, &options, &event) ==
          TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  EXPECT(there.values == sides.inbox.values);
  EXPECT(take(sides.owner) == Found({{"got it", "inbox read"}}));
  tranship_event_free(event);
}

TEST(every_call_that_copies_sends_notices) {
  const Sides sides;
  tranship_engine* engine = sides.sender.get();
  const Bytes ones(engine, 8, 1);
  const Bytes twos(engine, 8, 2);
  tranship_instance* target = part_of(sides.remote, 0, 8);
  tranship_event* event = nullptr;
  const auto sends = [&](tranship_code code, const char* name) {
    const tranship_code ended = code == TRANSHIP_OK ? tranship_event_wait(event, patience) : code;
    tranship_event_free(event);
    event = nullptr;
    return ended == TRANSHIP_OK && take(sides.owner) == Found({{name, "inbox written"}});
  };
  auto options = notifying("all");
  const tranship_pair pair{ones.instance, target};
  EXPECT(sends(tranship_copy_all(engine, &pair, 1, &options, &event), "all"));
  options.notify = "pages";
  const std::int64_t zero = 0;
  const std::int64_t page = 20;
  const tranship_pages pages{&zero, &page, 1};
  EXPECT(sends(tranship_copy_pages(engine, ones.instance, sides.remote, &pages, &options, &event),
               "pages"));
  options.notify = "pieces";
  const std::int64_t length = 3;
  const tranship_pieces pieces{&zero, &page, &length, 1};
  EXPECT(sends(tranship_copy_pieces(engine, ones.instance, sides.remote, &pieces, &options, &event),
               "pieces"));
  options.notify = "types";
  tranship_type* byte = nullptr;
  REQUIRE(tranship_type_element("u1", &byte) == TRANSHIP_OK);
  const tranship_typed_pair typed{ones.instance, target, byte, byte};
  EXPECT(sends(tranship_copy_types(engine, &typed, 1, &options, &event), "types"));
  tranship_prepared* prepared = nullptr;
  EXPECT_EQ(tranship_prepare(engine, ones.instance, target, &options, &prepared),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(),
            "the options of this preparation have events, a stream or a notice|"
            "pass them to tranship_start()");
  REQUIRE(tranship_prepare(engine, ones.instance, target, nullptr, &prepared) == TRANSHIP_OK);
  tranship_start_options start{};
  start.size = sizeof start;
  start.notify = "start";
  EXPECT(sends(tranship_start(prepared, &start, &event), "start"));
  EXPECT_EQ(sides.inbox.values[0], 1);
  start.notify = "start of others";
  start.source = twos.instance;
  EXPECT(sends(tranship_start(prepared, &start, &event), "start of others"));
  EXPECT(sides.inbox.values[0] == 2 && sides.inbox.values[22] == 1);
  tranship_prepared_free(prepared);
  tranship_type_free(byte);
  tranship_instance_free(target);
}

TEST(notices_that_cannot_be_sent_are_refused_before_anything_moves) {
  const Sides sides;
  const Bytes ones(sides.sender.get(), 8, 1);
  const Bytes here(sides.sender.get(), 8, 0);
  auto options = notifying("x");
  tranship_event* event = nullptr;
  const auto refused = [&](const tranship_instance* target) {
    return tranship_copy(sides.sender.get(), ones.instance, target, &options, &event) ==
               TRANSHIP_INVALID_ARGUMENT &&
           event == nullptr;
  };
  EXPECT(refused(sides.remote_silent));
  EXPECT(last().find("takes no notices of copies to and from \"silent\"") != std::string::npos);
  EXPECT(last().find("let it export the array with the option notices") != std::string::npos);
  EXPECT(refused(here.instance));
  EXPECT(last().find("no array of the copy is another process's") != std::string::npos);
  const std::string longest(256, 'x');
  const std::string too_long(257, 'x');
  tranship_prepared* prepared = nullptr;
  tranship_instance* target = part_of(sides.remote, 0, 8);
  REQUIRE(tranship_prepare(sides.sender.get(), ones.instance, target, nullptr, &prepared) ==
          TRANSHIP_OK);
  for (const char* name : {"", "a\nb", "\xff", too_long.c_str()}) {
    options.notify = name;
    EXPECT_EQ(sides.send(ones, options), TRANSHIP_INVALID_ARGUMENT);
    EXPECT(last().find("notify") == 0);
    tranship_start_options start{};
    start.size = sizeof start;
    start.notify = name;
    EXPECT_EQ(tranship_start(prepared, &start, &event), TRANSHIP_INVALID_ARGUMENT);
    EXPECT(last().find("notify") == 0);
  }
  EXPECT(sides.inbox.values == std::vector<std::uint8_t>(room, 0xEE));
  EXPECT(sides.silent.values == std::vector<std::uint8_t>(8, 0xEE));
  EXPECT(here.values == std::vector<std::uint8_t>(8, 0));
  EXPECT(take(sides.owner).empty());
  options.notify = longest.c_str();
  EXPECT_EQ(sides.send(ones, options), TRANSHIP_OK);
  EXPECT(take(sides.owner) == Found({{longest, "inbox written"}}));
  tranship_prepared_free(prepared);
  tranship_instance_free(target);
}

TEST(options_of_an_older_program_send_no_notice) {
  const Sides sides;
  const Bytes ones(sides.sender.get(), 8, 1);
  auto options = notifying("beyond the size");
  options.size = offsetof(tranship_copy_options, notify);
  EXPECT_EQ(sides.send(ones, options), TRANSHIP_OK);
  EXPECT_EQ(sides.inbox.values[7], 1);
  tranship_prepared* prepared = nullptr;
  tranship_instance* target = part_of(sides.remote, 8, 16);
  REQUIRE(tranship_prepare(sides.sender.get(), ones.instance, target, nullptr, &prepared) ==
          TRANSHIP_OK);
  tranship_start_options start{};
  start.size = offsetof(tranship_start_options, notify);
  start.notify = "beyond the size";
  tranship_event* event = nullptr;
  REQUIRE(tranship_start(prepared, &start, &event) == TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  EXPECT_EQ(sides.inbox.values[15], 1);
  EXPECT(take(sides.owner).empty());
  tranship_export_options exported{};
  exported.size = offsetof(tranship_export_options, notices);
  exported.notices = 1;
  EXPECT_EQ(tranship_export_with(sides.owner.get(), "older", sides.silent.instance, &exported),
            TRANSHIP_OK);
  tranship_instance* older = looked_up(sides.peer, "older");
  options = notifying("x");
  tranship_event* refused = nullptr;
  EXPECT_EQ(tranship_copy(sides.sender.get(), ones.instance, older, &options, &refused),
            TRANSHIP_INVALID_ARGUMENT);
  tranship_event_free(event);
  tranship_prepared_free(prepared);
  for (tranship_instance* one : {target, older}) tranship_instance_free(one);
}

TEST(an_owner_that_reads_no_notices_takes_no_more_at_its_limit) {
  const std::vector<tranship_setting> settings{{"notices_max", "3"}};
  const Sides sides(settings);
  for (int k = 0; k < 3; ++k) {
    const Bytes values(sides.sender.get(), 8, 1);
    EXPECT_EQ(sides.send(values, notifying(std::to_string(k).c_str())), TRANSHIP_OK);
  }
  const Bytes values(sides.sender.get(), 8, 7);
  EXPECT_EQ(sides.send(values, notifying("too many")), TRANSHIP_OUT_OF_MEMORY);
  EXPECT(last().find("has not read 3 notices") != std::string::npos);
  EXPECT(last().find("notices_max") != std::string::npos);
  EXPECT_EQ(sides.inbox.values[7], 7);  // the bytes have arrived
  const Found expected{{"0", "inbox written"}, {"1", "inbox written"}, {"2", "inbox written"}};
  EXPECT(take(sides.owner) == expected);
  EXPECT_EQ(sides.send(values, notifying("again")), TRANSHIP_OK);
  EXPECT(take(sides.owner) == Found({{"again", "inbox written"}}));
}

TEST(bad_arguments_of_notices_are_refused) {
  const Sides sides;
  const Opened alone;
  tranship_notices* notices = nullptr;
  EXPECT_EQ(tranship_engine_notices(nullptr, 0, &notices), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_engine_notices(sides.owner.get(), 0, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_peer_notices(nullptr, 0, &notices), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_peer_notices(sides.peer, 0, nullptr), TRANSHIP_INVALID_ARGUMENT);
  for (const double timeout : {-1.0, std::nan("")}) {
    EXPECT_EQ(tranship_engine_notices(sides.owner.get(), timeout, &notices),
              TRANSHIP_INVALID_ARGUMENT);
    EXPECT_EQ(tranship_peer_notices(sides.peer, timeout, &notices), TRANSHIP_INVALID_ARGUMENT);
  }
  EXPECT_EQ(tranship_engine_notices(alone.get(), 0, &notices), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(),
            "this engine accepts no connections, so that no process can send it notices|"
            "set contact_file or accept in the options with which it is opened");
  tranship_peer* one_sided = connected(alone, sides.owner);
  EXPECT_EQ(tranship_peer_notices(one_sided, 0, &notices), TRANSHIP_INVALID_ARGUMENT);
  tranship_peer_free(one_sided);
  EXPECT(notices == nullptr);
  tranship_export_options wrong{};
  EXPECT_EQ(tranship_export_with(sides.owner.get(), "x", sides.silent.instance, &wrong),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("the size of `options` is 0 bytes") == 0);

  tranship_notice notice{};
  REQUIRE(tranship_engine_notices(sides.owner.get(), 0.01, &notices) == TRANSHIP_OK);
  EXPECT_EQ(tranship_notices_size(notices), 0);
  for (const std::int64_t index : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX}) {
    EXPECT_EQ(tranship_notices_entry(notices, index, &notice), TRANSHIP_OUT_OF_RANGE);
  }
  EXPECT_EQ(last(),
            "the index is 9223372036854775807, and there are 0 notices|"
            "give an index from 0 to below the size of the list");
  EXPECT_EQ(tranship_notices_entry(notices, 0, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_notices_entry(nullptr, 0, &notice), TRANSHIP_INVALID_ARGUMENT);
  tranship_notices_free(notices);
  tranship_notices_free(nullptr);
  EXPECT_EQ(tranship_notices_size(nullptr), 0);
}

TEST(closing_ends_the_wait_for_notices) {
  tranship_engine* engine = nullptr;
  std::thread waiting;
  tranship_code ended = TRANSHIP_OK;
  {
    const Opened owner(true);
    engine = owner.get();
    waiting = std::thread([&] {
      tranship_notices* notices = nullptr;
      ended = tranship_engine_notices(engine, patience, &notices);
      EXPECT(notices == nullptr);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  waiting.join();
  EXPECT_EQ(ended, TRANSHIP_CLOSED);
  tranship_notices* notices = nullptr;
  EXPECT_EQ(tranship_engine_notices(engine, 0, &notices), TRANSHIP_CLOSED);
}

namespace {

/// Exports an inbox, and connects to the engine of another process that does so.
class Partner {
 public:
  Partner(const std::string& contact_file, std::int64_t bytes)
      : engine(true, {}, contact_file.c_str()), inbox(engine.get(), bytes, 0xEE) {
    tranship_export_options options{};
    options.size = sizeof options;
    options.notices = 1;
    REQUIRE(tranship_export_with(engine.get(), "inbox", inbox.instance, &options) == TRANSHIP_OK);
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;
  ~Partner() {
    tranship_instance_free(remote);
    tranship_peer_free(peer);
  }

  /// Waits until the other process has written its contact file and exported its inbox.
  void find(const std::string& contact) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (remote == nullptr && std::chrono::steady_clock::now() < end) {
      if (peer == nullptr) (void)tranship_connect(engine.get(), contact.c_str(), patience, &peer);
      if (peer != nullptr) (void)tranship_peer_lookup(peer, "inbox", patience, &remote);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(remote != nullptr);
  }

  /// Sets the first bytes of the other's inbox, and sends a notice that is named after the value.
  void send(std::uint8_t value, std::int64_t bytes) const {
    const Bytes values(engine.get(), bytes, value);
    tranship_instance* target = part_of(remote, 0, bytes);
    const std::string name = std::to_string(value);
    const tranship_copy_options options = notifying(name.c_str());
    tranship_event* event = nullptr;
    REQUIRE(tranship_copy(engine.get(), values.instance, target, &options, &event) == TRANSHIP_OK);
    EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
    tranship_event_free(event);
    tranship_instance_free(target);
  }

  /// Waits for the notice of the other's send(), and checks the bytes.
  void receive(std::uint8_t value, std::int64_t bytes) const {
    tranship_notices* notices = nullptr;
    REQUIRE(tranship_peer_notices(peer, patience, &notices) == TRANSHIP_OK);
    EXPECT(read(notices) == Found({{std::to_string(value), "inbox written"}}));
    EXPECT(std::all_of(inbox.values.begin(), inbox.values.begin() + bytes,
                       [&](std::uint8_t found) { return found == value; }));
  }

  Opened engine;
  Bytes inbox;
  tranship_peer* peer = nullptr;
  tranship_instance* remote = nullptr;
};

constexpr std::uint8_t step_count = 20;
constexpr std::int64_t answer_bytes = 8;

std::int64_t bytes_of(std::uint8_t step) { return room / step_count * step; }

}  // namespace

/// The other process of the test below. Does nothing if this program was not started by it.
TEST(peers_child) {
  const std::string folder = tranship::test::argument(2);
  if (folder.empty()) return;
  Partner partner(folder + "/child", answer_bytes);
  partner.find(folder + "/parent");
  for (std::uint8_t step = 1; step <= step_count; ++step) {
    partner.send(step, bytes_of(step));
    if (step < step_count) partner.receive(step, answer_bytes);
  }
}

TEST(two_processes_send_each_other_notices) {
  std::string folder = std::filesystem::temp_directory_path() / "tranship-peers-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  {
    Partner partner(folder + "/parent", room);
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "tests", "peers_child", folder.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    partner.find(folder + "/child");
    for (std::uint8_t step = 1; step <= step_count; ++step) {
      partner.receive(step, bytes_of(step));
      // The last one is not answered: the other process might exit before that copy has ended here.
      if (step < step_count) partner.send(step, answer_bytes);
    }
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tranship_notices* notices = nullptr;  // none comes any more, and the wait says so
    const tranship_code gone = tranship_peer_notices(partner.peer, patience, &notices);
    EXPECT(gone == TRANSHIP_PEER_LOST || gone == TRANSHIP_CLOSED);
    EXPECT(notices == nullptr);
  }
  std::filesystem::remove_all(folder);
}
