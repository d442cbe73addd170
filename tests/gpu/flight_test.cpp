// What a copy on a GPU holds, and when it lets go.
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "channels/cuda/cuda_channel.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

TEST(a_flight_lets_go_of_owners_without_its_lock) {
  CudaChannel::Options options;
  options.name = "copies";
  options.gpus = Gpus::emulate(1);
  options.bytes_in_flight_max = 1 << 20;
  auto channel = CudaChannel::open(std::move(options));
  REQUIRE(channel.ok());
  auto flight = (*channel)->start({}, nullptr, {});
  REQUIRE(flight.ok());
  std::thread other;
  bool answered = false;
  // An owner that needs what another thread holds, who asks for the flight meanwhile.
  std::shared_ptr<void> owner(&answered, [&, raw = flight->get()](void*) {
    std::promise<void> asked;
    auto future = asked.get_future();
    other = std::thread([raw, promise = std::move(asked)]() mutable {
      (void)raw->status();
      promise.set_value();
    });
    answered = future.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  });
  (*flight)->hold({std::move(owner)});
  while (!(*flight)->done()) continue;  // emulated marks are reached when asked again
  other.join();
  EXPECT(answered);
}

}  // namespace
}  // namespace tranship
