// A few threads that serve many requesters, and the order in which requesters are served.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "base/random.hpp"
#include "fabric/helpers.hpp"
#include "fabric/links/requester.hpp"
#include "fabric/links/service_threads.hpp"
#include "fabric/links/slot_server.hpp"
#include "os/bell.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

/// What a server answers to a question.
using Answer = std::function<std::uint64_t(std::uint64_t question)>;

/// A requester and its server in one process, without a connection.
class Client {
 public:
  struct Options {
    Answer answer;
    bool rings = true;
    int slots = 8;
    std::function<void(Requester&)> answered = [](Requester&) {};
  };

  Client(ServiceThreads& threads, Options options)
      : threads_(threads), options_(std::move(options)) {
    const SlotGeometry geometry{options_.slots, 4096};
    const SlotSegment segment(*SharedMemory::allocate({SlotSegment::bytes(geometry), false, false}),
                              geometry);
    SlotServer::Options server;
    server.segment = segment;
    server.exports = std::make_shared<ExportTable>();
    server.answer = [this](RequesterId, std::span<const std::byte> question,
                           std::span<std::byte> reply) -> Result<std::size_t> {
      std::uint64_t value = 0;
      EXPECT_EQ(question.size(), sizeof value);
      std::memcpy(&value, question.data(), sizeof value);
      value = options_.answer(value);
      std::memcpy(reply.data(), &value, sizeof value);
      return sizeof value;
    };
    server.answered = [this](int, const SlotBytes&) {
      bell_.ring();
      options_.answered(*requester_);
    };
    seat_ = threads.add(std::make_shared<SlotServer>(std::move(server))).value();
    Requester::Options requester;
    requester.segment = segment;
    requester.peer = "a peer";
    requester.publish = [this](int slot, std::size_t, const SlotBytes&) {
      slots_used_.insert(slot);
      if (options_.rings) seat_.ring();
    };
    requester_ = std::make_unique<Requester>(std::move(requester));
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { leave(); }

  Result<std::uint64_t> ask(std::uint64_t question, std::chrono::milliseconds timeout = patience) {
    std::uint64_t reply = 0;
    const auto length =
        requester_->call(std::as_bytes(std::span(&question, 1)),
                         std::as_writable_bytes(std::span(&reply, 1)), timeout, bell_);
    if (!length) return length.error();
    return reply;
  }
  void tell(std::uint64_t question) {
    EXPECT(requester_->tell(std::as_bytes(std::span(&question, 1))).ok());
  }
  void leave() { threads_.remove(std::exchange(seat_, {})); }
  void progress() { (void)requester_->progress(); }
  const std::set<int>& slots_used() const { return slots_used_; }

 private:
  ServiceThreads& threads_;
  Options options_;
  Bell bell_;
  ServiceThreads::Seat seat_;
  std::set<int> slots_used_;
  std::unique_ptr<Requester> requester_;
};

std::uint64_t plus_one(std::uint64_t value) { return value + 1; }

}  // namespace

TEST(few_threads_serve_many_requesters) {
  constexpr int links = 200;
  constexpr int callers = 4;
  constexpr int turns = 5000;
  ServiceThreads threads({3, 20us});
  std::mutex mutex;
  std::set<std::thread::id> served_by;
  std::vector<std::unique_ptr<Client>> all;
  std::vector<std::uint64_t> last(links);
  for (std::size_t k = 0; k < links; ++k) {
    Client::Options options;
    // Each link's questions arrive in order, on one thread at a time.
    options.answer = [&, k](std::uint64_t question) {
      const std::lock_guard lock(mutex);
      served_by.insert(std::this_thread::get_id());
      EXPECT_EQ(question, last[k] + 1);
      last[k] = question;
      return plus_one(question);
    };
    all.push_back(std::make_unique<Client>(threads, options));
  }
  std::atomic<int> late{0};
  const auto work = [&](int caller) {
    Random random(static_cast<std::uint64_t>(caller));
    std::vector<std::uint64_t> asked(links);
    for (int turn = 0; turn < turns; ++turn) {
      const auto k = static_cast<std::size_t>(random.below(links / callers) * callers + caller);
      for (std::int64_t told = random.below(3) * random.below(8); told > 0; --told) {
        all[k]->tell(++asked[k]);
      }
      ++asked[k];
      const auto begin = std::chrono::steady_clock::now();
      const auto answer = all[k]->ask(asked[k]);
      late += std::chrono::steady_clock::now() - begin > 200ms;
      REQUIRE(answer.ok());
      EXPECT_EQ(*answer, asked[k] + 1);
    }
  };
  std::vector<std::thread> running;
  for (int caller = 0; caller < callers; ++caller) running.emplace_back(work, caller);
  for (std::thread& thread : running) thread.join();
  // A lost ring of the doorbell costs a quarter of a second; so does a machine that stalls.
  EXPECT(late.load() < callers * turns / 100);
  EXPECT(served_by.size() <= 3);
  all.clear();
  EXPECT_EQ(threads.taken(), 0);
}

TEST(a_long_answer_holds_up_no_other_requester) {
  ServiceThreads threads({2, 20us});
  std::promise<void> answered;
  const auto other_answered = answered.get_future().share();
  Client::Options slow;
  slow.answer = [&](std::uint64_t question) {
    EXPECT(other_answered.wait_for(patience) == std::future_status::ready);
    return plus_one(question);
  };
  Client waits(threads, slow);
  Client other(threads, {plus_one});
  auto asking = std::async(std::launch::async, [&] { return waits.ask(1).value(); });
  for (std::uint64_t k = 0; k < 100; ++k) EXPECT_EQ(other.ask(k).value(), k + 1);
  answered.set_value();
  EXPECT_EQ(asking.get(), std::uint64_t{2});
}

TEST(a_requester_whose_ring_is_lost_is_served_all_the_same) {
  ServiceThreads threads({2, 20us});
  Client::Options silent{plus_one};
  silent.rings = false;
  Client unheard(threads, silent);
  Client busy(threads, {plus_one});
  std::atomic<bool> done{false};
  std::thread others([&] {  // other requests keep the threads busy
    while (!done.load()) EXPECT(busy.ask(1).ok());
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(unheard.ask(5).value(), std::uint64_t{6});
  EXPECT(std::chrono::steady_clock::now() - begin < soon);
  done.store(true);
  others.join();
}

TEST(a_requester_that_asks_while_its_thread_turns_away_is_served) {
  ServiceThreads threads({1, 20us});
  Client link(threads, {plus_one});
  Random random(7);
  const auto few_are_late = [&] {
    int late = 0;
    for (std::uint64_t k = 0; k < 30000; ++k) {
      // A thread that has nothing to do stops watching after some 50 us.
      const auto gap = std::chrono::microseconds(40 + random.below(25));
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin < gap) Bell::pause();
      const auto asked = std::chrono::steady_clock::now();
      EXPECT_EQ(link.ask(k).value(), k + 1);
      late += std::chrono::steady_clock::now() - asked > 200ms;  // a lost ring costs 250 ms
    }
    return late <= 1;
  };
  EXPECT(succeeds_once(few_are_late));
}

TEST(who_asks_again_and_again_does_not_keep_the_thread_from_others) {
  ServiceThreads threads({1, 20us});
  Client busy(threads, {plus_one});
  Client other(threads, {plus_one});
  std::atomic<bool> done{false};
  std::atomic<int> asked{0};
  std::thread asking([&] {
    while (!done.load()) {
      EXPECT(busy.ask(1).ok());
      asked.fetch_add(1);
    }
  });
  const auto few_are_late = [&] {
    int late = 0;
    for (std::uint64_t k = 0; k < 40; ++k) {
      for (const int seen = asked.load(); asked.load() < seen + 20;)
        std::this_thread::sleep_for(1ms);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(other.ask(k).value(), k + 1);
      late += std::chrono::steady_clock::now() - begin > 100ms;
    }
    return late <= 1;
  };
  EXPECT(succeeds_once(few_are_late));
  done.store(true);
  asking.join();
}

TEST(a_requester_is_gone_when_its_last_answer_is_given) {
  ServiceThreads threads({2, 20us});
  std::promise<void> begun;
  std::promise<void> let;
  const auto may_end = let.get_future().share();
  Client::Options slow;
  slow.answer = [&](std::uint64_t question) {
    begun.set_value();
    may_end.wait();
    return plus_one(question);
  };
  Client link(threads, slow);
  link.tell(1);
  begun.get_future().wait();
  auto leaving = std::async(std::launch::async, [&] { link.leave(); });
  EXPECT(leaving.wait_for(50ms) == std::future_status::timeout);
  let.set_value();
  EXPECT(leaving.wait_for(patience) == std::future_status::ready);
  EXPECT_EQ(threads.taken(), 0);
}

TEST(a_requester_with_nothing_in_flight_fills_the_slot_that_it_used_last) {
  ServiceThreads threads({1, 20us});
  Client link(threads, {plus_one});
  for (std::uint64_t k = 0; k < 50; ++k) EXPECT_EQ(link.ask(k).value(), k + 1);
  EXPECT_EQ(link.slots_used().size(), std::size_t{1});
}

// The slot before the next one may hold the oldest command in flight, or the newest.
TEST(commands_are_carried_out_in_the_order_of_submission) {
  for (const int slots : {1, 2, 3, 4, 8}) {
    for (const bool takes_at_once : {false, true}) {
      ServiceThreads threads({0, 0us});
      std::vector<std::uint64_t> order;
      Client::Options options;
      options.slots = slots;
      options.answer = [&](std::uint64_t question) {
        order.push_back(question);
        return question;
      };
      // The slot of an answer that is taken at once is filled again while other commands wait.
      if (takes_at_once) options.answered = [](Requester& requester) { requester.progress(); };
      Client link(threads, options);
      std::uint64_t told = 0;
      for (std::uint64_t burst = 1; burst < 40; ++burst) {
        for (std::uint64_t k = 0; k < burst; ++k) link.tell(++told);
        while (order.size() < told) {
          threads.serve_now();
          link.progress();
        }
      }
      EXPECT(std::ranges::is_sorted(order));
      EXPECT_EQ(order.size(), static_cast<std::size_t>(told));
    }
  }
}

// The service threads look at a slot while the end of its command is being recorded.
TEST(a_command_that_ends_on_another_thread_is_carried_out_once) {
  struct Stub final : Attachment {};
  constexpr std::int64_t bytes = 64;
  constexpr int copies = 5000;
  Stub stub;
  std::atomic<int> executed{0};
  std::mutex mutex;
  std::vector<std::function<void(Status)>> ends;
  const SlotGeometry geometry{4, 4096};
  const SlotSegment segment(*SharedMemory::allocate({SlotSegment::bytes(geometry), false, false}),
                            geometry);
  ServiceThreads threads({2, 20us});
  SlotServer::Options served;
  served.segment = segment;
  served.exports = std::make_shared<ExportTable>();
  REQUIRE(served.exports->add({"a", "", {nullptr, &stub}, bytes, true, nullptr}).ok());
  const std::uint64_t id = served.exports->find("a")->id();
  served.execute = [&](const Request&, std::function<void(Status)> done) {
    executed.fetch_add(1);
    const std::lock_guard lock(mutex);
    ends.push_back(std::move(done));
  };
  served.answered = [](int, const SlotBytes&) {};
  const auto seat = threads.add(std::make_shared<SlotServer>(std::move(served))).value();
  std::atomic<bool> over{false};
  std::thread ending([&] {
    while (!over.load()) {
      std::vector<std::function<void(Status)>> now;
      {
        const std::lock_guard lock(mutex);
        now.swap(ends);
      }
      for (const auto& done : now) done({});
    }
  });
  std::vector<std::byte> local(bytes);
  LoopNest nest = run_of(bytes);
  const auto queue = std::make_shared<FinishedQueue>();
  Requester::Options options;
  options.segment = segment;
  options.copy = slow_copier;
  options.publish = [&](int, std::size_t, const SlotBytes&) { seat.ring(); };
  Requester requester(std::move(options));
  std::array<Finished, 1> finished;
  for (int k = 0; k < copies; ++k) {
    Requester::Transfer transfer;
    transfer.request.payload = std::span(&nest, 1);
    transfer.request.bytes = bytes;
    transfer.request.source.address = local.data();
    transfer.remote.id = id;
    transfer.operation = Operation::write;
    REQUIRE(requester.submit(transfer, queue).ok());
    const auto end = std::chrono::steady_clock::now() + patience;
    while (queue->take(finished) == 0) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      seat.ring();
      requester.progress();
    }
    EXPECT(finished[0].status.ok());
  }
  over.store(true);
  ending.join();
  threads.remove(seat);
  EXPECT_EQ(executed.load(), copies);
}
