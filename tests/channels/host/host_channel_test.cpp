#include "channels/host/host_channel.hpp"

#include <thread>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

TEST(host_channel_says_what_it_is) {
  HostChannel channel(3);
  EXPECT_EQ(channel.name(), std::string("host"));
  EXPECT_EQ(channel.capabilities().width, 3);
  EXPECT(channel.capabilities().synchronous);
}

TEST(host_channel_carries_requests_of_several_threads_at_once) {
  constexpr std::int64_t rows = 512;
  constexpr std::int64_t columns = 256;
  std::vector<std::int32_t> source(rows * columns);
  for (std::size_t k = 0; k < source.size(); ++k) source[k] = static_cast<std::int32_t>(k);
  std::vector<std::int32_t> target(source.size());
  HostChannel channel(2);
  auto carry = [&](std::int64_t half) {
    LoopNest nest;
    nest.element_bytes = 4;
    nest.source_offset = half * (rows / 2) * columns * 4;
    nest.target_offset = half * (rows / 2) * 4;
    nest.rank = 2;
    nest.loops[0] = {rows / 2, columns * 4, 4};
    nest.loops[1] = {columns, 4, rows * 4};
    Request request;
    request.payload = std::span(&nest, 1);
    request.source.address = reinterpret_cast<std::byte*>(source.data());
    request.target.address = reinterpret_cast<std::byte*>(target.data());
    request.bytes = nest.bytes();
    request.cold = half == 0;
    EXPECT(channel.submit(request).ok());
  };
  std::thread other(carry, 1);
  carry(0);
  other.join();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      REQUIRE(target[static_cast<std::size_t>(column * rows + row)] ==
              source[static_cast<std::size_t>(row * columns + column)]);
    }
  }
}
