#include "base/trace.hpp"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

TEST(a_trace_is_bounded_and_counts_what_it_drops) {
  Trace trace(2);
  for (int k = 0; k < 5; ++k) trace.add({"path", "channel", k * 1000, k * 1000 + 500, 10, k, 0});
  EXPECT_EQ(trace.spans().size(), 2u);
  const std::string json = trace.to_json({7, "test", "host", "boot", 0});
  EXPECT(json.find("\"dropped_spans\":3") != std::string::npos);
  EXPECT(json.find("\"ph\":\"X\"") != std::string::npos);
}

TEST(a_span_lasts_as_long_as_its_scope_and_lies_in_its_threads_row) {
  Trace trace(8);
  ManualClock clock;
  {
    Timed outer(&trace, clock, [] { return Span{"outer", "test"}; });
    clock.set_ns(10);
    const Timed inner(&trace, clock, [] { return Span{"inner", "test"}; });
    clock.set_ns(30);
    outer.note("version", 3);
  }
  std::thread([&] {
    const Timed other(&trace, clock, [] { return Span{"other", "test"}; });
  }).join();
  const auto spans = trace.spans();
  REQUIRE(spans.size() == 3);
  EXPECT(spans[0].name == "inner" && spans[0].begin_ns == 10 && spans[0].end_ns == 30);
  EXPECT(spans[1].name == "outer" && spans[1].begin_ns == 0 && spans[1].end_ns == 30);
  EXPECT(spans[1].notes == (std::vector<std::pair<std::string, std::string>>{{"version", "3"}}));
  EXPECT(spans[0].thread == spans[1].thread && spans[2].thread != spans[0].thread);
}

TEST(without_a_trace_nothing_is_described) {
  const ManualClock clock;
  bool described = false;
  Timed span(nullptr, clock, [&] {
    described = true;
    return Span{};
  });
  span.note("version", 3);
  EXPECT(!described);
}
