// What a flight (a copy on a GPU) holds, and when it releases it.
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "channels/gpu/gpu_channel.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship {
namespace {

Result<std::shared_ptr<GpuChannel>> copies() {
  GpuChannel::Options options;
  options.name = "copies";
  options.gpus = Gpus::emulate(1);
  options.bytes_in_flight_max = 1 << 20;
  return GpuChannel::open(std::move(options));
}

/// Returns an owner that sets `gone` when it is released.
std::shared_ptr<void> noting(bool& gone) {
  return {&gone, [&gone](void*) { gone = true; }};
}

TEST(a_flight_that_nobody_refers_to_is_kept_until_it_has_ended) {
  auto channel = copies();
  REQUIRE(channel.ok());
  bool gone = false;
  {
    auto flight = (*channel)->start({}, nullptr, {});
    REQUIRE(flight.ok());
    (*flight)->keep_alive({noting(gone), nullptr, nullptr});
  }
  EXPECT(!gone);  // an emulated event counts as reached when it is asked for again
  std::array<Finished, 1> finished;
  EXPECT_EQ((*channel)->poll(finished), 0u);
  EXPECT(gone);
}

TEST(flights_that_are_asked_late_are_deleted_when_there_are_many) {
  auto channel = copies();
  REQUIRE(channel.ok());
  int gone = 0;
  for (int k = 0; k < 1000; ++k) {
    auto flight = (*channel)->start({}, nullptr, {});
    REQUIRE(flight.ok());
    (*flight)->keep_alive(
        {std::shared_ptr<void>(&gone, [&gone](void*) { ++gone; }), nullptr, nullptr});
    (*flight)->ask_late();
  }
  EXPECT(gone > 800);
  (*channel)->close(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(gone, 1000);
}

TEST(an_answer_tells_of_earlier_flights_of_its_stream_and_of_no_others) {
  GpuChannel::Options options;
  options.name = "copies";
  options.gpus = Gpus::emulate(1);
  options.bytes_in_flight_max = 1 << 20;
  const auto gpus = options.gpus;
  auto channel = GpuChannel::open(std::move(options));
  const auto here = gpus->make_stream(0, false);
  const auto there = gpus->make_stream(0, false);
  REQUIRE(channel.ok() && here.ok() && there.ok());
  std::array<bool, 4> gone{};
  std::array<std::shared_ptr<GpuFlight>, 4> flights;
  const std::array streams{*here, *there, *here, *here};
  for (std::size_t k = 0; k < flights.size(); ++k) {
    auto flight = (*channel)->start({}, &streams[k], {});
    REQUIRE(flight.ok());
    flights[k] = *flight;
    flights[k]->keep_alive({noting(gone[k]), nullptr, nullptr});
    flights[k]->ask_late();
  }
  EXPECT(!flights[2]->done());  // an emulated event counts as reached when it is asked for again
  for (auto& flight : flights) flight.reset();
  std::array<Finished, 1> finished;
  (void)(*channel)->poll(finished);
  // The last one of the stream has not ended, the one in the middle has, and tells of the first.
  EXPECT(gone[0] && !gone[1] && gone[2] && !gone[3]);
  (*channel)->close(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  EXPECT(gone[1] && gone[3]);
  gpus->release(*here);
  gpus->release(*there);
}

TEST(a_flight_lets_go_of_what_it_reads_and_writes_when_it_is_seen_to_have_ended) {
  auto channel = copies();
  REQUIRE(channel.ok());
  bool gone = false;
  auto flight = (*channel)->start({}, nullptr, {});
  REQUIRE(flight.ok());
  (*flight)->keep_alive({noting(gone), nullptr, nullptr});
  while (!(*flight)->done()) continue;
  EXPECT(gone);
}

TEST(a_channel_that_closes_waits_for_its_flights) {
  auto channel = copies();
  REQUIRE(channel.ok());
  bool gone = false;
  bool orphan_gone = false;
  auto flight = (*channel)->start({}, nullptr, {});
  auto orphan = (*channel)->start({}, nullptr, {});
  REQUIRE(flight.ok() && orphan.ok());
  (*flight)->keep_alive({noting(gone), nullptr, nullptr});
  (*orphan)->keep_alive({noting(orphan_gone), nullptr, nullptr});
  orphan->reset();
  (*channel)->close(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  EXPECT(gone);
  EXPECT(orphan_gone);
  auto later = (*channel)->start({}, nullptr, {});
  REQUIRE(later.ok());
  later->reset();  // the next close waits for this flight
}

TEST(a_flight_lets_go_of_owners_without_its_lock) {
  auto channel = copies();
  REQUIRE(channel.ok());
  auto flight = (*channel)->start({}, nullptr, {});
  REQUIRE(flight.ok());
  std::thread other;
  bool answered = false;
  // Releasing this owner waits for another thread, which asks for the flight's status meanwhile.
  std::shared_ptr<void> owner(&answered, [&, raw = flight->get()](void*) {
    std::promise<void> asked;
    auto future = asked.get_future();
    other = std::thread([raw, promise = std::move(asked)]() mutable {
      (void)raw->status();
      promise.set_value();
    });
    answered = future.wait_for(test::patience) == std::future_status::ready;
  });
  (*flight)->hold({std::move(owner)});
  // an emulated event counts as reached when it is asked for again
  while (!(*flight)->done()) continue;
  other.join();
  EXPECT(answered);
}

}  // namespace
}  // namespace tranship
