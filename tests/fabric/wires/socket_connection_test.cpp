// How often a connection may break at once, and the table of connections.
#include "fabric/wires/socket_connection.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace std::chrono_literals;

TEST(a_connection_may_break_at_once_some_times_in_a_row) {
  const ShortLives::Clock::time_point start{};
  const auto breaks_until_too_often = [&](auto between) {
    ShortLives lives;
    int breaks = 0;
    while (breaks < 1000) {
      lives.opened(start, 0);
      ++breaks;
      if (lives.broke(between(lives, breaks))) break;
    }
    return breaks;
  };
  EXPECT_EQ(breaks_until_too_often([&](ShortLives&, int) { return start + 1ms; }),
            ShortLives::in_a_row_max + 1);
  EXPECT_EQ(breaks_until_too_often([&](ShortLives&, int) { return start + 2s; }), 1000);
  EXPECT_EQ(breaks_until_too_often([&](ShortLives& lives, int) {
              lives.message_arrived();
              return start + 1ms;
            }),
            1000);
  EXPECT_EQ(breaks_until_too_often([&](ShortLives& lives, int breaks) {
              lives.opened(start, static_cast<std::uint64_t>(breaks));
              return start + 1ms;
            }),
            1000);
}

TEST(the_oldest_connections_come_first) {
  EventSet events;
  ConnectionTable table;
  const auto first = std::make_shared<SocketConnection>(true, events);
  const auto second = std::make_shared<SocketConnection>(true, events);
  EXPECT(table.add(first) != 0 && table.add(second) != first->id);
  EXPECT(table.find(first->id) == first && table.find(0) == nullptr);
  const auto all = table.where([](const SocketConnection&) { return true; });
  REQUIRE(all.size() == 2);
  EXPECT(all[0] == first && all[1] == second);
  table.remove(first->id);
  EXPECT(table.find(first->id) == nullptr);
}
