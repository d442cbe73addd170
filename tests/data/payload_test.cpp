#include "data/payload.hpp"

#include <array>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

namespace {

TEST(a_payload_has_exactly_one_form) {
  const std::vector<LoopNest> nests(2);
  const std::vector<IndexedNest> indexed(3);
  const RunList runs;
  const Payload nothing;
  EXPECT(nothing.nests().empty() && nothing.indexed().empty() && nothing.runs() == nullptr);
  EXPECT(Payload(nests).nests().size() == 2u && Payload(nests).indexed().empty());
  EXPECT(Payload(indexed).indexed().size() == 3u && Payload(indexed).nests().empty());
  EXPECT(Payload(runs).runs() == &runs && Payload(runs).nests().empty());
}

TEST(a_list_of_runs_expands_to_a_nest_for_each_run) {
  const std::array<std::int64_t, 3> from{0, 96, 32};
  const std::array<std::int64_t, 3> to{64, 0, 128};
  const std::array<std::int64_t, 3> lengths{16, 0, 8};
  RunList runs{{from, 5, 10, 100}, {to, 0, 1, 7}, 48};
  std::vector<LoopNest> nests(5);
  EXPECT_EQ(expanded(runs, nests).nests().size(), 3u);
  EXPECT_EQ(nests[1].source_offset, 100 + (96 >> 5) * 10);
  EXPECT_EQ(nests[1].target_offset, 7);
  EXPECT_EQ(nests[1].element_bytes, 16);
  runs.lengths = lengths;
  runs.bytes = 24;
  EXPECT_EQ(expanded(runs, nests).nests().size(), 2u);  // one run has no bytes
  EXPECT_EQ(nests[1].source_offset, 100 + (32 >> 5) * 10);
  EXPECT_EQ(nests[1].target_offset, 7 + 128);
  EXPECT_EQ(nests[1].element_bytes, 8);
}

}  // namespace
