#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "channels/sim/sim_channel.hpp"
#include "runtime/thread_driver.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

using namespace tranship;
using tranship::test::patience;

namespace {

BufferSource counted(std::atomic<int>& live) {
  return {[&live](std::int64_t bytes) {
            ++live;
            return new std::byte[static_cast<std::size_t>(bytes)];
          },
          [&live](std::byte* buffer, std::int64_t) {
            --live;
            delete[] buffer;
          }};
}

/// Copies on the submitting thread, and holds requests while the gate is closed.
class GatedChannel : public Channel {
 public:
  explicit GatedChannel(int width) { capabilities_.width = width; }
  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(const Request& request) override {
    ++submitted;
    while (!open) std::this_thread::yield();
    if (fails) return Error{ErrorCode::io, "the gate was told to fail"};
    move_bytes(request.payload.nests(), request.source.address, request.target.address);
    return {};
  }

  std::atomic<bool> open{true};
  std::atomic<bool> fails{false};
  std::atomic<int> submitted{0};

 private:
  std::string name_ = "gate";
  Capabilities capabilities_;
};

/// A machine of one memory and one channel, driven by threads.
struct Machine {
  explicit Machine(int width = 1) : channel(width) {
    profile.memories = {{"node0/host0", MemoryKind::host, 1 << 20}};
    ChannelSpec spec;
    spec.name = "gate";
    spec.throughput = Throughput({{1, 1, 1e9}});
    profile.channels = {spec};
    ThreadDriver::Options options;
    options.memories = {{1 << 20, counted(buffers)}};
    options.clock = &clock;
    driver = std::make_unique<ThreadDriver>(std::move(options));
    driver->add_channel(channel);
  }

  std::shared_ptr<Transfer> transfer(std::int64_t bytes) {
    PlanQuery query;
    const IndexSpace space{{"x", bytes}};
    query.source =
        View::whole(Mapping::make(space, {{"f", "u1", 1}}, Layout::parse("F, x").value()).value());
    query.target = query.source;
    source.assign(static_cast<std::size_t>(bytes), std::byte{3});
    target.assign(static_cast<std::size_t>(bytes), std::byte{0});
    auto made = std::make_shared<Transfer>();
    made->plan = std::make_shared<const Plan>(plan(query, profile).value());
    made->source.address = source.data();
    made->target.address = target.data();
    made->label = "gate transfer";
    made->descriptors.resize(1);
    return made;
  }

  std::atomic<int> buffers{0};
  SteadyClock clock;
  Profile profile;
  GatedChannel channel;
  std::vector<std::byte> source;
  std::vector<std::byte> target;
  std::unique_ptr<ThreadDriver> driver;
};

}  // namespace

TEST(a_transfer_ends_and_its_bytes_are_there) {
  Machine machine(2);
  const auto one = machine.transfer(3'000'001);
  machine.driver->submit(one, {});
  EXPECT(one->completion->wait(patience).ok());
  EXPECT(machine.target == machine.source);
}

TEST(a_waiting_thread_helps) {
  Machine machine(2);
  const auto one = machine.transfer(30'000'001);
  machine.driver->submit(one, {});
  machine.driver->help(*one, std::chrono::steady_clock::now() + patience);
  EXPECT_EQ(one->tiles_begun, one->plan->tiles);  // no tile is left to begin
  EXPECT(one->completion->wait(patience).ok());
  EXPECT(machine.target == machine.source);
}

TEST(closing_waits_for_a_thread_that_helps) {
  Machine machine(2);
  const auto one = machine.transfer(3'000'001);
  machine.channel.open = false;
  std::atomic<bool> left{false};
  machine.driver->submit(one, {});
  std::thread helper([&] {
    machine.driver->help(*one, std::chrono::steady_clock::now() + patience);
    left = true;
  });
  while (machine.channel.submitted < 2)
    std::this_thread::yield();  // a request of the worker, and one of the helper
  machine.driver->stop({ErrorCode::closed, "closed"});
  EXPECT(!machine.driver->wait_ended(std::chrono::milliseconds(20)));
  EXPECT(!one->completion->done());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    machine.channel.open = true;
  });
  machine.driver->close({ErrorCode::closed, "closed"});
  EXPECT(machine.driver->wait_ended({}));
  const Status ended = one->completion->wait(patience);
  REQUIRE(!ended.ok());
  EXPECT(ended.error().code == ErrorCode::closed);
  opener.join();
  helper.join();
  EXPECT(left.load());
}

TEST(a_stopped_driver_refuses_transfers) {
  Machine machine;
  machine.driver->stop({ErrorCode::closed, "closed"});
  const auto one = machine.transfer(100);
  machine.driver->submit(one, {});
  REQUIRE(one->completion->done());
  EXPECT(one->completion->status().error().code == ErrorCode::closed);
}

TEST(what_a_transfer_follows_may_end_after_its_driver_is_gone) {
  for (int round = 0; round < 20; ++round) {
    auto before = std::make_shared<Completion>();
    auto machine = std::make_unique<Machine>();
    const auto one = machine->transfer(100);
    machine->driver->submit(one, {before});
    std::thread ender([before] { before->end({}); });
    machine->driver.reset();
    ender.join();
    EXPECT(one->completion->done());
  }
}

/// A channel that records which threads carried requests. Requests wait until so many threads have
/// come.
class NotingChannel : public Channel {
 public:
  NotingChannel(int width, std::size_t awaited) : awaited_(awaited) { capabilities_.width = width; }
  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(const Request& request) override {
    {
      std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    if (!test::eventually([&] { return threads() >= awaited_; })) {
      return Error{ErrorCode::timeout, "too few threads came"};
    }
    move_bytes(request.payload.nests(), request.source.address, request.target.address);
    return {};
  }
  std::size_t threads() {
    std::lock_guard lock(mutex_);
    return threads_.size();
  }

 private:
  std::string name_ = "noting";
  std::size_t awaited_;
  Capabilities capabilities_;
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

TEST(a_bounded_descriptor_is_served_by_as_many_threads) {
  for (const int most : {0, 1, 3}) {
    Machine machine;
    // Without a bound several threads come; with one, as many may, and no more.
    NotingChannel channel(8, most == 1 ? 1 : 2);
    const int number = machine.driver->add_channel(channel);
    const auto one = machine.transfer(1 << 16);
    auto plan = std::make_shared<Plan>(*one->plan);
    plan->tile[0] = 256;
    plan->tile_bytes = 256;
    plan->tiles = 256;
    one->plan = plan;
    one->descriptors[0].channel = number;
    one->descriptors[0].in_flight_max = most;
    machine.driver->submit(one, {});
    EXPECT(one->completion->wait(patience).ok());
    EXPECT(machine.target == machine.source);
    if (most > 0) EXPECT(channel.threads() <= static_cast<std::size_t>(most));
    if (most != 1) EXPECT(channel.threads() > 1u);
    machine.driver.reset();
  }
}

TEST(a_wait_ends_at_its_timeout_and_the_transfer_goes_on) {
  Machine machine;
  machine.channel.open = false;
  const auto one = machine.transfer(1000);
  machine.driver->submit(one, {});
  const Status status = one->completion->wait(std::chrono::milliseconds(20));
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::timeout);
  machine.channel.open = true;
  EXPECT(one->completion->wait(patience).ok());
}

TEST(cancel_ends_a_transfer_that_waits_or_runs) {
  Machine machine;
  machine.channel.open = false;
  const auto running = machine.transfer(40'000'000);
  const auto waiting = std::make_shared<Transfer>(*running);
  waiting->completion = std::make_shared<Completion>();
  machine.driver->submit(running, {});
  machine.driver->submit(waiting, {running->completion});
  while (machine.channel.submitted == 0) std::this_thread::yield();
  EXPECT(machine.driver->cancel(waiting));
  EXPECT(waiting->completion->done());
  EXPECT(machine.driver->cancel(running));
  EXPECT(!running->completion->done());  // one request is still at the gate
  machine.channel.open = true;
  const Status status = running->completion->wait(patience);
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::cancelled);
  EXPECT(machine.channel.submitted < running->plan->tiles);
  EXPECT(machine.driver->cancel(running));  // after the end it changes nothing
  const auto ended = machine.transfer(10);
  machine.driver->submit(ended, {});
  EXPECT(ended->completion->wait(patience).ok());
  EXPECT(!machine.driver->cancel(ended));
}

TEST(a_chain_of_any_length_ends_with_its_first_transfer) {
  Machine machine;
  machine.channel.open = false;
  const auto first = machine.transfer(1000);
  machine.driver->submit(first, {});
  while (machine.channel.submitted == 0) std::this_thread::yield();
  auto last = first;
  for (int k = 0; k < 50'000; ++k) {
    auto next = std::make_shared<Transfer>();
    next->plan = first->plan;
    next->source = first->source;
    next->target = first->target;
    next->label = "link " + std::to_string(k);
    next->descriptors.resize(1);
    machine.driver->submit(next, {last->completion});
    last = std::move(next);
  }
  machine.channel.fails = true;
  machine.channel.open = true;
  const Status status = last->completion->wait(patience);
  REQUIRE(!status.ok());
  EXPECT_EQ(status.error().message, "a transfer that link 49999 was to follow failed: " +
                                        first->completion->status().error().message);
}

TEST(what_follows_a_failure_fails_and_says_why) {
  Machine machine;
  machine.channel.fails = true;
  machine.channel.open = false;
  const auto first = machine.transfer(1000);
  const auto second = std::make_shared<Transfer>(*first);
  second->completion = std::make_shared<Completion>();
  machine.driver->submit(first, {});
  machine.driver->submit(second, {first->completion});
  machine.channel.open = true;
  const Status status = second->completion->wait(patience);
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::io);
  EXPECT(status.error().text().find("told to fail") != std::string::npos);
}

TEST(close_ends_everything) {
  Machine machine;
  machine.channel.open = false;
  const auto running = machine.transfer(1000);
  const auto queued = std::make_shared<Transfer>(*running);
  queued->completion = std::make_shared<Completion>();
  machine.driver->submit(running, {});
  while (machine.channel.submitted == 0) std::this_thread::yield();
  machine.driver->submit(queued, {});
  std::thread opener([&] {  // Closing ends what is queued, and then waits for what runs.
    (void)test::eventually([&] { return queued->completion->done(); });
    machine.channel.open = true;
  });
  machine.driver->close({ErrorCode::closed, "closed by the test"});
  opener.join();
  EXPECT(running->completion->done());
  EXPECT(queued->completion->done());
  EXPECT(!queued->completion->status().ok());
  const auto late = machine.transfer(10);
  machine.driver->submit(late, {});
  EXPECT(late->completion->done() && !late->completion->status().ok());
}

TEST(callbacks_run_once_whenever_they_are_added) {
  Completion completion;
  int calls = 0;
  completion.on_end([&](const Status&) { ++calls; });
  completion.end({});
  completion.on_end([&](const Status&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

namespace {

/// A channel that carries nothing; its thread polls events.
class IdleChannel : public Channel {
 public:
  IdleChannel() { capabilities_.synchronous = false; }
  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(const Request&) override { return Error{ErrorCode::io, "nothing is carried here"}; }

 private:
  std::string name_ = "idle";
  Capabilities capabilities_;
};

struct Switch : PolledEvent {
  bool done() const override { return on; }
  Status status() const override { return how; }
  std::atomic<bool> on{false};
  Status how;
};

}  // namespace

TEST(a_transfer_starts_after_an_event_outside_the_runtime) {
  IdleChannel idle;
  Machine machine;
  const int number = machine.driver->add_channel(idle);
  const auto event = std::make_shared<Switch>();
  const auto one = machine.transfer(1000);
  machine.driver->submit(one, {machine.driver->completion_of(event, number)});
  EXPECT(!one->completion->wait(std::chrono::milliseconds(20)).ok());
  EXPECT_EQ(machine.channel.submitted.load(), 0);
  event->on = true;
  EXPECT(one->completion->wait(patience).ok());
  EXPECT(machine.target == machine.source);
  machine.driver->close({ErrorCode::closed, "the test is over"});
}

TEST(a_transfer_fails_with_the_event_that_it_was_to_follow) {
  IdleChannel idle;
  Machine machine;
  const int number = machine.driver->add_channel(idle);
  const auto event = std::make_shared<Switch>();
  event->how = Error{ErrorCode::io, "the GPU is lost"};
  event->on = true;
  const auto one = machine.transfer(1000);
  machine.driver->submit(one, {machine.driver->completion_of(event, number)});
  EXPECT(!one->completion->wait(patience).ok());
  EXPECT_EQ(machine.channel.submitted.load(), 0);
  machine.driver->close({ErrorCode::closed, "the test is over"});
}

TEST(closing_ends_the_wait_for_an_event_that_never_comes) {
  IdleChannel idle;
  Machine machine;
  const int number = machine.driver->add_channel(idle);
  const auto completion = machine.driver->completion_of(std::make_shared<Switch>(), number);
  const auto one = machine.transfer(1000);
  machine.driver->submit(one, {completion});
  machine.driver->close({ErrorCode::closed, "the engine was closed"});
  REQUIRE(completion->done());
  EXPECT(completion->status().error().code == ErrorCode::closed);
  EXPECT(one->completion->done());
  EXPECT(machine.driver->completion_of(std::make_shared<Switch>(), number)->done());
}

TEST(an_event_ends_if_the_driver_stops_while_it_is_asked) {
  struct Stopping : PolledEvent {
    explicit Stopping(ThreadDriver& asking) : driver(asking) {}
    bool done() const override {
      driver.stop({ErrorCode::closed, "the engine was closed"});
      return false;
    }
    Status status() const override { return {}; }
    ThreadDriver& driver;
  };
  IdleChannel idle;
  Machine machine;
  const int number = machine.driver->add_channel(idle);
  const auto completion =
      machine.driver->completion_of(std::make_shared<Stopping>(*machine.driver), number);
  const Status ended = completion->wait(patience);
  REQUIRE(!ended.ok());
  EXPECT(ended.error().code == ErrorCode::closed);
  machine.driver->close({ErrorCode::closed, "the test is over"});
}
