// Questions and answers between two processes, and notices.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "fabric/helpers.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

/// Collects the messages that one side received, and wakes threads that wait for them.
struct Heard {
  void add(std::string text) {
    std::lock_guard lock(mutex);
    texts.push_back(std::move(text));
    condition.notify_all();
  }
  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    return condition.wait_for(lock, patience, [&] { return texts.size() >= count; });
  }
  std::mutex mutex;
  std::condition_variable condition;
  std::vector<std::string> texts;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Lets the answers to "slow" go.
std::atomic<bool> slow_ends{false};

/// Answers with the question reversed; refuses "no", and answers "slow" once `slow_ends` is set.
Result<std::size_t> backwards(RequesterId, std::span<const std::byte> question,
                              std::span<std::byte> reply) {
  if (text_of(question) == "no") return Error{ErrorCode::not_found, "there is no such thing"};
  if (text_of(question) == "slow") (void)eventually([] { return slow_ends.load(); });
  std::reverse_copy(question.begin(), question.end(), reply.begin());
  return question.size();
}

struct Talkers {
  explicit Talkers(Transport transport, AnswerCall answer = backwards) {
    FabricOptions options = options_for(transport);
    options.answer = std::move(answer);
    options.on_requester_served = [this](RequesterId, bool cleanly) {
      served.add(cleanly ? "cleanly" : "lost");
    };
    options.on_requester_gone = [this](RequesterId, bool cleanly) {
      gone.add(cleanly ? "cleanly" : "lost");
    };
    exporter = open_fabric(options);
    FabricOptions asking = options_for(transport);
    asking.on_notice = [this](PeerId, std::span<const std::byte> body) {
      notices.add(text_of(body));
    };
    asking.on_peer_lost = [this](PeerId, const Error& error) { lost.add(error.text()); };
    requester = open_fabric(asking);
    peer = connect_to(*requester, exporter->contact());
  }
  ~Talkers() {
    (void)requester->close();
    (void)exporter->close();
  }

  Heard notices;
  Heard served;
  Heard gone;
  Heard lost;
  std::unique_ptr<Fabric> exporter;
  std::unique_ptr<Fabric> requester;
  PeerId peer;
};

constexpr std::size_t slot_bytes = 16 * 1024;  // as in options_for()

}  // namespace

TEST(an_answer_comes_back_whatever_its_length) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Talkers talkers(transport);
    std::vector<std::byte> reply(slot_bytes);
    for (const std::size_t bytes : {0UL, 1UL, 100UL, 8192UL, 8193UL, slot_bytes}) {
      const auto question = pattern(bytes, static_cast<unsigned>(bytes));
      const auto length = talkers.requester->ask(talkers.peer, question, reply, patience);
      REQUIRE(length.ok());
      REQUIRE(*length == bytes);
      EXPECT(std::equal(question.rbegin(), question.rend(), reply.begin()));
    }
  }
}

TEST(a_lasting_use_outlives_the_connection_which_ends_well) {
  const auto memory = *SharedMemory::allocate({1 << 16, true});
  for (const bool closes : {false, true}) {
    Talkers talkers(Transport::automatic);
    ExportedArray exported;
    exported.name = "memory";
    exported.description = "bytes";
    exported.place.address = memory->data();
    exported.bytes = memory->bytes();
    exported.memory = memory;
    REQUIRE(talkers.exporter->export_array(exported).ok());
    auto array = look_up(*talkers.requester, talkers.peer, "memory");
    const Requester& requester = *array->link().requester;
    auto use = requester.lasting_use(array->remote());
    auto second = requester.lasting_use(array->remote());
    REQUIRE(use != nullptr && second != nullptr);
    EXPECT(!requester.in_use());
    {
      const auto copy = requester.use(array->remote());
      EXPECT(requester.in_use());
    }
    EXPECT(!requester.in_use());
    REQUIRE(
        (closes ? talkers.requester->close() : talkers.requester->disconnect(talkers.peer)).ok());
    REQUIRE(talkers.served.wait_for(1));
    EXPECT_EQ(talkers.served.texts[0], "cleanly");
    EXPECT(requester.lasting_use(array->remote()) == nullptr);
    array.reset();
    use.reset();
    std::this_thread::sleep_for(50ms);
    EXPECT(talkers.gone.texts.empty());
    second.reset();
    REQUIRE(talkers.gone.wait_for(1));
    EXPECT_EQ(talkers.gone.texts[0], "cleanly");
  }
}

TEST(a_question_that_cannot_be_answered_is_an_error_and_nothing_else) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Talkers talkers(transport);
    std::vector<std::byte> reply(100);
    const auto ask = [&](std::span<const std::byte> question) {
      return talkers.requester->ask(talkers.peer, question, reply, patience);
    };
    const auto refused = ask(bytes_of_text("no"));
    REQUIRE(!refused);
    EXPECT(refused.error().code == ErrorCode::not_found);
    EXPECT(refused.error().text().find("there is no such thing") != std::string::npos);
    const auto long_one = ask(pattern(slot_bytes + 1, 1));
    REQUIRE(!long_one);
    EXPECT(long_one.error().code == ErrorCode::invalid_argument);
    const auto no_room = ask(pattern(101, 1));
    REQUIRE(!no_room);
    EXPECT(no_room.error().code == ErrorCode::out_of_range);
    slow_ends = false;
    const auto late = talkers.requester->ask(talkers.peer, bytes_of_text("slow"), reply, 20ms);
    slow_ends = true;
    REQUIRE(!late);
    EXPECT(late.error().code == ErrorCode::timeout);
    const auto next = ask(bytes_of_text("abc"));
    REQUIRE(next.ok());
    EXPECT_EQ(text_of(std::span(reply).first(*next)), "cba");
  }
}

TEST(replies_may_be_taken_later_in_any_order_or_never) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Talkers talkers(transport);
    std::vector<std::vector<std::byte>> replies(40, std::vector<std::byte>(100));
    std::vector<std::unique_ptr<OpenQuestion>> open;
    // More than there are slots: the last ones are sent as answers are taken.
    for (std::size_t k = 0; k < replies.size(); ++k) {
      auto question = pattern(1 + k, static_cast<unsigned>(k));
      auto sent = talkers.requester->begin_ask(talkers.peer, std::move(question), replies[k]);
      REQUIRE(sent.ok());
      open.push_back(std::move(*sent));
    }
    for (std::size_t k = 0; k < replies.size(); k += 3) open[k].reset();
    for (std::size_t k = replies.size(); k-- > 0;) {
      if (open[k] == nullptr) continue;
      const auto length = talkers.requester->end_ask(*open[k], patience);
      REQUIRE(length.ok());
      const auto question = pattern(1 + k, static_cast<unsigned>(k));
      REQUIRE(*length == question.size());
      EXPECT(std::equal(question.rbegin(), question.rend(), replies[k].begin()));
    }
    const auto dropped = replies[0];
    open.clear();
    const auto next =
        talkers.requester->ask(talkers.peer, bytes_of_text("abc"), replies[1], patience);
    REQUIRE(next.ok());
    EXPECT(replies[0] == dropped);
  }
}

TEST(replies_that_never_come_end_with_the_reason) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Talkers talkers(transport);
    std::vector<std::byte> reply(100);
    std::vector<std::byte> other(100);
    slow_ends = false;
    const std::string text = "slow";
    const auto bytes = bytes_of_text(text);
    const std::vector<std::byte> slow(bytes.begin(), bytes.end());
    auto late = talkers.requester->begin_ask(talkers.peer, slow, reply);
    auto cut_off = talkers.requester->begin_ask(talkers.peer, slow, other);
    REQUIRE(late.ok());
    REQUIRE(cut_off.ok());
    const auto waited = talkers.requester->end_ask(**late, 20ms);
    REQUIRE(!waited);
    EXPECT(waited.error().code == ErrorCode::timeout);
    late->reset();
    (void)talkers.requester->disconnect(talkers.peer);
    const auto ended = talkers.requester->end_ask(**cut_off, patience);
    REQUIRE(!ended);
    EXPECT(ended.error().code == ErrorCode::closed);
    slow_ends = true;
    const auto gone = talkers.requester->begin_ask(talkers.peer, slow, reply);
    REQUIRE(!gone);
    EXPECT(gone.error().code == ErrorCode::closed);
    const auto too_long =
        talkers.requester->begin_ask(talkers.peer, pattern(slot_bytes + 1, 1), reply);
    EXPECT(!too_long);
  }
}

TEST(a_process_that_answers_no_calls_says_so) {
  Talkers talkers(Transport::automatic, nullptr);
  const auto refused = talkers.requester->ask(talkers.peer, bytes_of_text("x"), {}, patience);
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::unsupported);
}

TEST(calls_of_many_threads_go_beside_copies) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Talkers talkers(transport);
    auto there = std::vector<std::byte>(300000);
    ExportedArray array;
    array.name = "there";
    array.place.address = there.data();
    array.bytes = static_cast<std::int64_t>(there.size());
    REQUIRE(talkers.exporter->export_array(array).ok());
    const auto remote = look_up(*talkers.requester, talkers.peer, "there");
    RemoteChannel channel(*talkers.requester, {});
    const auto here = pattern(there.size(), 3);
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (unsigned k = 0; k < 4; ++k) {
      threads.emplace_back([&, k] {
        std::vector<std::byte> reply(slot_bytes);
        for (std::size_t j = 0; j < 100; ++j) {
          const auto question = pattern(j * 37, k);
          const auto length = talkers.requester->ask(talkers.peer, question, reply, patience);
          const bool same = length && *length == question.size() &&
                            std::equal(question.rbegin(), question.rend(), reply.begin());
          right += same ? 1 : 0;
        }
      });
    }
    // Rows with gaps go through the slots.
    LoopNest nest;
    nest.element_bytes = 8;
    nest.rank = 1;
    nest.loops[0] = {static_cast<std::int64_t>(here.size()) / 16, 16, 16};
    Request request;
    request.payload = std::span(&nest, 1);
    request.source.address = const_cast<std::byte*>(here.data());
    request.target.attachment = remote.get();
    request.bytes = nest.bytes();
    for (int k = 0; k < 5; ++k) {
      REQUIRE(channel.submit(request).ok());
      EXPECT(finish_one(channel).ok());
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right.load(), 400);
    bool arrived = true;
    for (std::size_t at = 0; at + 16 <= here.size(); at += 16) {
      arrived = arrived && std::memcmp(&here[at], &there[at], 8) == 0;
    }
    EXPECT(arrived);
  }
}

TEST(what_is_told_arrives_in_order_though_all_slots_are_taken) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Heard asked;
    std::atomic<bool> answers{false};
    Talkers talkers(transport,
                    [&](RequesterId, std::span<const std::byte> question,
                        std::span<std::byte>) -> Result<std::size_t> {
                      while (!answers) std::this_thread::sleep_for(1ms);
                      asked.add(text_of(question));
                      return 0UL;
                    });
    // More questions than there are slots, whose callers have stopped waiting when the answers
    // begin.
    std::vector<std::thread> callers;
    constexpr int count = 12;
    for (int k = 0; k < count; ++k) {
      callers.emplace_back([&] {
        std::vector<std::byte> reply(slot_bytes);
        const auto late =
            talkers.requester->ask(talkers.peer, bytes_of_text("asked"), reply, 100ms);
        EXPECT(!late && late.error().code == ErrorCode::timeout);
      });
    }
    for (std::thread& caller : callers) caller.join();
    for (int k = 0; k < count; ++k) {
      REQUIRE(
          talkers.requester->tell(talkers.peer, bytes_of_text("told " + std::to_string(k))).ok());
    }
    answers = true;
    const auto told = [](const std::string& text) { return text.starts_with("told"); };
    const auto all_came = [&] {
      std::lock_guard lock(asked.mutex);
      return std::count_if(asked.texts.begin(), asked.texts.end(), told) == count;
    };
    REQUIRE(eventually(all_came));  // no further question is sent
    std::lock_guard lock(asked.mutex);
    const auto first = std::find_if(asked.texts.begin(), asked.texts.end(), told);
    int number = 0;
    for (auto one = first; one != asked.texts.end(); ++one) {
      EXPECT_EQ(*one, "told " + std::to_string(number++));
    }
  }
}

TEST(nothing_too_long_and_nobody_who_is_gone_is_told_anything) {
  Talkers talkers(Transport::automatic);
  const auto long_one = talkers.requester->tell(talkers.peer, pattern(slot_bytes + 1, 1));
  EXPECT(!long_one && long_one.error().code == ErrorCode::invalid_argument);
  REQUIRE(talkers.exporter->close().ok());
  REQUIRE(talkers.lost.wait_for(1));
  EXPECT(!talkers.requester->tell(talkers.peer, bytes_of_text("x")).ok());
}

TEST(notices_come_in_order) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    std::atomic<std::uint64_t> id{0};
    Talkers talkers(transport,
                    [&](RequesterId requester, std::span<const std::byte>,
                        std::span<std::byte>) -> Result<std::size_t> {
                      id = requester.value;
                      return std::size_t{0};
                    });
    REQUIRE(talkers.requester->ask(talkers.peer, {}, {}, patience).ok());
    for (int k = 0; k < 50; ++k) {
      const std::string text = std::to_string(k);
      const auto body = bytes_of_text(text);
      REQUIRE(talkers.exporter->notify(RequesterId{id}, {body.begin(), body.end()}).ok());
    }
    REQUIRE(talkers.notices.wait_for(50));
    for (std::size_t k = 0; k < 50; ++k) EXPECT_EQ(talkers.notices.texts[k], std::to_string(k));
    // a notice for an unknown requester is dropped
    EXPECT(talkers.exporter->notify(RequesterId{12345}, {}).ok());
  }
}

TEST(both_ends_hear_when_the_other_is_gone) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Talkers first(transport);
    REQUIRE(first.requester->close().ok());
    REQUIRE(first.gone.wait_for(1));
    EXPECT_EQ(first.gone.texts[0], "cleanly");
    Talkers second(transport);
    REQUIRE(second.exporter->close().ok());
    REQUIRE(second.lost.wait_for(1));
    const auto after = second.requester->ask(second.peer, {}, {}, patience);
    REQUIRE(!after);
    EXPECT(after.error().code == ErrorCode::closed || after.error().code == ErrorCode::peer_lost);
  }
}
