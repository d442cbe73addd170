#include "plan/plan.hpp"

#include <string>

#include "base/at.hpp"
#include "plan/cache.hpp"
#include "plan/tile.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

ChannelSpec channel(const char* name, ChannelKind kind, int source, int target, double peak,
                    double short_runs) {
  ChannelSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.source = source;
  spec.target = target;
  spec.throughput = Throughput({{65536, 4, short_runs},
                                {65536, 1 << 20, peak},
                                {16 << 20, 4, short_runs},
                                {16 << 20, 1 << 20, peak}});
  spec.latency_s = 1e-5;
  return spec;
}

/// Returns two nodes as in Isometry's Figure 4, with Table 5's rates; memories in the enum's order.
enum { fbm, zcm, reg, sys, disk, far_reg, far_fbm };
Profile two_nodes() {
  Profile p;
  p.memories = {{"node0/device0", MemoryKind::device, 0},
                {"node0/pinned0", MemoryKind::pinned, 64 << 20},
                {"node0/registered0", MemoryKind::registered, 64 << 20},
                {"node0/host0", MemoryKind::host, 64 << 20},
                {"node0/file0", MemoryKind::file, 0},
                {"node1/registered0", MemoryKind::registered, 64 << 20},
                {"node1/device0", MemoryKind::device, 0}};
  p.channels = {channel("gpu_read", ChannelKind::gpu_read, fbm, reg, 4.502e9, 1e8),
                channel("gpu_read zcm", ChannelKind::gpu_read, fbm, zcm, 6.418e9, 1e8),
                channel("memcpy zcm", ChannelKind::memcpy, zcm, reg, 7.74e9, 7e9),
                channel("memcpy reg", ChannelKind::memcpy, reg, reg, 7.74e9, 7e9),
                channel("memcpy sys", ChannelKind::memcpy, sys, sys, 7.74e9, 7e9),
                channel("memcpy sys reg", ChannelKind::memcpy, sys, reg, 7.74e9, 7e9),
                channel("remote_write", ChannelKind::remote_write, reg, far_reg, 3.18e9, 1e7),
                channel("gpu_write", ChannelKind::gpu_write, far_reg, far_fbm, 5.139e9, 1e8),
                channel("file_write", ChannelKind::file_write, sys, disk, 0.27e9, 1e6),
                channel("memcpy far", ChannelKind::memcpy, far_reg, far_reg, 7.74e9, 7e9)};
  p.handoff_s = 1e-5;
  return p;
}

PlanQuery query(int source, int target, const char* source_layout, const char* target_layout,
                std::int64_t side = 4096) {
  const IndexSpace space{{"x", side}, {"y", side}};
  const FieldSpace fields{{"f", "V", 16}};
  PlanQuery q;
  q.source =
      View::whole(Mapping::make(space, fields, Layout::parse(source_layout).value()).value());
  q.target =
      View::whole(Mapping::make(space, fields, Layout::parse(target_layout).value()).value());
  q.source_memory = source;
  q.target_memory = target;
  return q;
}

Plan planned(PlanQuery q, PlannerKind kind, const Profile& profile) {
  q.planner = kind;
  return plan(q, profile).value();
}

}  // namespace

TEST(the_simple_planner_converts_in_a_memcpy_channel) {
  // Isometry 4.4 gives FBM > REG > REG > REG* > FBM* for the transpose of section 4.3.
  const Profile profile = two_nodes();
  const auto made =
      planned(query(fbm, far_fbm, "F, x, y", "F, y, x"), PlannerKind::simple, profile);
  EXPECT_EQ(made.path(profile),
            std::string("node0/device0 > node0/registered0 > node0/registered0 > "
                        "node1/registered0 > node1/device0"));
  for (std::size_t k = 0; k < made.hops.size(); ++k) EXPECT_EQ(made.hops[k].converts, k == 1);
}

TEST(the_first_host_memory_may_be_either_end) {
  Profile profile = two_nodes();
  profile.channels.push_back(channel("file_read", ChannelKind::file_read, disk, sys, 0.28e9, 1e6));
  const auto write = planned(query(sys, disk, "F, x, y", "F, y, x"), PlannerKind::simple, profile);
  EXPECT_EQ(write.path(profile), std::string("node0/host0 > node0/host0 > node0/file0"));
  const auto read = planned(query(disk, sys, "F, x, y", "F, y, x"), PlannerKind::simple, profile);
  EXPECT_EQ(read.path(profile), std::string("node0/file0 > node0/host0 > node0/host0"));
}

namespace {

/// Returns a query between one field of single numbers of two types.
PlanQuery casting_query(int source, int target, const Field& from, const Field& to,
                        const char* target_layout = "F, x, y") {
  const IndexSpace space{{"x", 4096}, {"y", 4096}};
  PlanQuery q;
  q.source = View::whole(Mapping::make(space, {from}, Layout::parse("F, x, y").value()).value());
  q.target = View::whole(Mapping::make(space, {to}, Layout::parse(target_layout).value()).value());
  q.source_memory = source;
  q.target_memory = target;
  q.casting = Casting::unsafe;
  return q;
}

const Field single{"f", "f4", 4};
const Field twice{"f", "f8", 8};

}  // namespace

TEST(one_hop_casts_in_a_channel_that_can) {
  Profile profile = two_nodes();
  profile.channels.push_back(channel("file_read", ChannelKind::file_read, disk, sys, 0.28e9, 1e6));
  const int ends[][2] = {{fbm, far_fbm}, {sys, disk}, {disk, sys}, {sys, sys}, {fbm, far_reg}};
  for (const auto& [source, target] : ends) {
    for (const char* layout : {"F, x, y", "F, y, x"}) {
      for (const PlannerKind kind :
           {PlannerKind::full, PlannerKind::simple, PlannerKind::spsl, PlannerKind::spdl}) {
        const auto made =
            planned(casting_query(source, target, single, twice, layout), kind, profile);
        int casting = 0;
        for (const Hop& hop : made.hops) {
          casting += hop.casts ? 1 : 0;
          EXPECT(!hop.casts || traits_of(profile.channels[at(hop.channel)].kind).casts);
          const std::int64_t bytes = casting == 0 ? 4 : 8;
          EXPECT_EQ(hop.target->point_bytes(), bytes);
        }
        EXPECT_EQ(casting, 1);
      }
    }
  }
}

TEST(hops_count_the_bytes_of_the_types_that_pass_them) {
  const Profile profile = two_nodes();
  // The network is the bottleneck: it takes twice as long for numbers of twice the bytes, unless
  // they become narrow before it.
  const auto seconds = [&](const Field& from, const Field& to) {
    return planned(casting_query(fbm, far_fbm, from, to), PlannerKind::full, profile).seconds;
  };
  const auto plain_s = [&](const Field& field) { return seconds(field, field); };
  EXPECT(seconds(twice, single) < 0.8 * plain_s(twice));
  EXPECT(seconds(single, twice) < 0.8 * plain_s(twice));
  EXPECT(seconds(twice, single) >= plain_s(single));
}

TEST(types_differ_in_plans_only_if_the_query_says_so) {
  const Profile profile = two_nodes();
  PlanQuery q = casting_query(sys, sys, twice, single);
  PlanCache cache;
  cache.add(q, std::make_shared<const Plan>(plan(q, profile).value()));
  EXPECT(cache.find(q) != nullptr);
  q.casting = Casting::none;
  EXPECT(cache.find(q) == nullptr);
  EXPECT(plan(q, profile).error().code == ErrorCode::invalid_argument);
  q.casting = Casting::safe;
  EXPECT(plan(q, profile).error().hint.find("same_kind") != std::string::npos);
}

TEST(without_a_channel_that_casts_there_is_no_route) {
  Profile profile = two_nodes();
  profile.channels = {channel("file_write", ChannelKind::file_write, sys, disk, 0.27e9, 1e6)};
  for (const PlannerKind kind : {PlannerKind::full, PlannerKind::simple, PlannerKind::spsl}) {
    PlanQuery q = casting_query(sys, disk, single, twice);
    q.planner = kind;
    const auto made = plan(q, profile);
    REQUIRE(!made.ok());
    EXPECT(made.error().code == ErrorCode::no_route);
    EXPECT(made.error().message.find("converts numbers") != std::string::npos);
  }
}

TEST(without_conversion_the_shortest_path_is_taken) {
  const Profile profile = two_nodes();
  const auto made =
      planned(query(fbm, far_fbm, "F, x, y", "F, x, y"), PlannerKind::simple, profile);
  EXPECT_EQ(made.hops.size(), 3u);
  EXPECT_EQ(made.bound_by(profile), std::string("remote_write"));
  EXPECT(made.bytes_per_second > 0.9 * 3.18e9 && made.bytes_per_second <= 3.18e9);
}

TEST(the_baselines_convert_in_the_last_and_the_first_hop) {
  // The case is that of Isometry 6.3.
  const Profile profile = two_nodes();
  const auto q = query(fbm, far_fbm, "F, x, y", "F, y, x");
  const auto spsl = planned(q, PlannerKind::spsl, profile);
  const auto spdl = planned(q, PlannerKind::spdl, profile);
  EXPECT(!spsl.hops.front().converts && spsl.hops.back().converts);
  EXPECT(spdl.hops.front().converts && !spdl.hops.back().converts);
}

TEST(automatic_takes_the_least_predicted_time_and_names_what_it_beat) {
  const Profile profile = two_nodes();
  const auto q = query(fbm, far_fbm, "F, x, y", "F, y, x");
  const auto best = planned(q, PlannerKind::automatic, profile);
  EXPECT(best.alternatives.size() >= 2u);
  for (const Alternative& other : best.alternatives) EXPECT(other.seconds >= best.seconds);
}

TEST(channels_on_the_same_cores_take_turns) {
  Profile profile = two_nodes();
  const auto q = query(sys, reg, "F, x, y", "F, x, y");
  const double alone_s = planned(q, PlannerKind::simple, profile).seconds;
  const auto far = query(sys, far_reg, "F, x, y", "F, x, y");
  const double apart_s = planned(far, PlannerKind::simple, profile).seconds;
  profile.resources = {{"cores", 0}};
  for (ChannelSpec& spec : profile.channels) spec.resources = {0};
  const auto together = planned(far, PlannerKind::simple, profile);
  EXPECT(planned(q, PlannerKind::simple, profile).seconds < 1.01 * alone_s);
  EXPECT(together.seconds > apart_s + 0.9 * alone_s);
  EXPECT_EQ(together.bound_by(profile), std::string("cores"));
}

TEST(a_copy_of_one_hop_takes_the_gpus_one_channel) {
  Profile p = two_nodes();
  p.channels.push_back(channel("gpu_read slow", ChannelKind::gpu_read, fbm, sys, 1e6, 1e3));
  p.channels.push_back(channel("memcpy zcm sys", ChannelKind::memcpy, zcm, sys, 7.74e9, 7e9));
  for (const char* layout : {"x, y, F", "y, x, F"}) {
    PlanQuery q = query(fbm, sys, "x, y, F", layout);
    q.lanes_max = 4;
    EXPECT(planned(q, PlannerKind::automatic, p).hops.size() > 1u);
    q.one_hop = true;
    const Plan one = planned(q, PlannerKind::automatic, p);
    EXPECT(one.hops.size() == 1u && one.direct);
    PlanQuery far = query(sys, far_fbm, "x, y, F", layout);
    far.one_hop = true;  // no channel of a GPU joins them
    EXPECT(planned(far, PlannerKind::automatic, p).hops.size() > 1u);
  }
}

TEST(no_route_is_a_value_with_the_reason) {
  const Profile profile = two_nodes();
  const auto made = plan(query(disk, fbm, "F, x, y", "F, x, y"), profile);
  REQUIRE(!made.ok());
  EXPECT(made.error().code == ErrorCode::no_route);
  EXPECT(made.error().text().find("node0/file0") != std::string::npos);
}

TEST(buffers_stay_within_what_is_allowed) {
  const Profile profile = two_nodes();
  for (const std::int64_t most : {std::int64_t{1} << 18, std::int64_t{1} << 22}) {
    auto q = query(fbm, far_fbm, "F, x, y", "F, y, x");
    q.buffer_bytes_max = most;
    const Plan made = plan(q, profile).value();
    std::int64_t sum = 0;
    for (std::size_t k = 0; k + 1 < made.hops.size(); ++k) {
      sum += made.slots * made.hops[k].target->end_bytes();
    }
    EXPECT(sum <= most);
  }
  auto q = query(fbm, far_fbm, "F, x, y", "F, y, x");
  q.buffer_bytes_max = 8;
  EXPECT(!plan(q, profile).ok());
}

TEST(the_same_query_gives_the_same_plan) {
  const Profile profile = two_nodes();
  const auto q = query(fbm, far_fbm, "F, x, y", "F, y, x");
  EXPECT_EQ(explain(plan(q, profile).value(), profile), explain(plan(q, profile).value(), profile));
}

TEST(a_plan_explains_itself) {
  const Profile profile = two_nodes();
  const auto made =
      planned(query(sys, disk, "F, x, y", "F, x, y", 1024), PlannerKind::simple, profile);
  EXPECT_EQ(
      explain(made, profile),
      std::string("node0/host0 > node0/file0\n"
                  "  moves 16 MiB (x=1024, y=1024) in 16 tiles of 1 MiB (x=1024, y=64)\n"
                  "  hop 1: file_write, <F, x, y> to <F, x, y>, runs of 1 MiB, predicted 0.3 GB/s\n"
                  "  predicted 62.1 ms, 0.3 GB/s steadily; bound by file_write; planner simple\n"));
}

TEST(tiles_cover_everything_once) {
  const Point extents{37, 5, 11};
  const Point tile{8, 5, 4};
  std::int64_t points = 0;
  const auto count = tile_count(extents, tile, 3);
  for (std::int64_t k = 0; k < count; ++k) {
    const TileBox box = tile_at(extents, tile, 3, k);
    for (std::size_t d = 0; d < 3; ++d) EXPECT(box.lower[d] + box.extents[d] <= extents[d]);
    points += box.extents[0] * box.extents[1] * box.extents[2];
  }
  EXPECT_EQ(points, 37 * 5 * 11);
}

TEST(buffers_between_hops_hold_the_tiles_that_a_plan_is_changed_to) {
  Plan plan = tranship::plan(query(fbm, far_fbm, "F, x, y", "F, y, x"), two_nodes()).value();
  EXPECT(plan.hops.size() > 2);
  for (const Point& tile : {Point{4096, 512}, Point{16, 8}}) {
    retile(plan, tile);
    EXPECT_EQ(plan.tile_bytes, tile[0] * tile[1] * 16);
    EXPECT_EQ(plan.tiles * plan.tile_bytes, plan.bytes);
    for (std::size_t k = 0; k + 1 < plan.hops.size(); ++k) {
      EXPECT_EQ(View::whole(plan.hops[k].target).bytes(), plan.tile_bytes);
      EXPECT(plan.hops[k].target == plan.hops[k + 1].source);
    }
  }
}

TEST(a_tile_of_a_transpose_has_long_runs_on_both_sides) {
  const Profile profile = two_nodes();
  const auto q = query(sys, sys, "F, x, y", "F, y, x");
  const Order from = Order::of(*q.source.mapping);
  const Order to = Order::of(*q.target.mapping);
  const TileEnd source{&from, &profile.channels[4].throughput};
  const TileEnd target{&to, &profile.channels[4].throughput};
  const Point tile = choose_tile(source, target, q.source.extents, 1 << 20).tile;
  EXPECT_EQ(tile[0], 256);
  EXPECT_EQ(tile[1], 256);
  EXPECT_EQ(from.run_bytes(tile), 4096);
}

TEST(a_tile_in_memory_spans_as_much_on_both_sides_across_gaps) {
  // 61 of 64 bytes in each of 40 rows of 4 KiB and more, which the target has as columns.
  const IndexSpace space{{"x", 61}, {"y", 40}, {"z", 9000}};
  const Field field{"f", "u1", 1};
  const auto from = Mapping::make_strided(space, {{field, 0, {1, 64, 4001}}}).value();
  const auto to = Mapping::make(space, {field}, Layout::parse("F, z, y, x").value()).value();
  const Point tile = choose_even_tile(Order::of(*from), Order::of(*to), {61, 40, 9000}, 1 << 20);
  EXPECT_EQ(tile[0], 61);
  EXPECT(tile[1] * 64 > 800 && tile[1] * 64 < 1700);
  EXPECT(tile[2] > 800);
  EXPECT(tile[0] * tile[1] * tile[2] <= 1 << 20);
}

TEST(the_cache_goes_by_shape_and_is_bounded) {
  const Profile profile = two_nodes();
  PlanCache cache(2);
  const auto q = query(sys, sys, "F, x, y", "F, y, x");
  EXPECT(!cache.find(q));
  cache.add(q, std::make_shared<const Plan>(plan(q, profile).value()));
  // an equal query, with other mapping objects
  EXPECT(cache.find(query(sys, sys, "F, x, y", "F, y, x")) != nullptr);
  EXPECT(!cache.find(query(sys, sys, "F, y, x", "F, y, x")));
  for (int side = 1; side < 40; ++side) {
    const auto other = query(sys, sys, "F, x, y", "F, y, x", side);
    cache.add(other, std::make_shared<const Plan>(plan(other, profile).value()));
    EXPECT(cache.find(other) != nullptr);
  }
  EXPECT(!cache.find(q));
}

TEST(the_callers_thread_carries_what_takes_less_than_a_hand_off_or_lies_in_the_caches) {
  Profile profile = two_nodes();
  profile.cache_bytes = 0;  // not known
  const auto runs_here = [&](std::int64_t side) {
    return planned(query(sys, sys, "F, x, y", "F, x, y", side), PlannerKind::simple, profile)
        .direct;
  };
  EXPECT(runs_here(60));    // 58 KB: 7 us
  EXPECT(!runs_here(100));  // 160 KB: 21 us, beside a hand-off of 10
  profile.cache_bytes = 1 << 20;
  EXPECT(runs_here(100));
  EXPECT(!runs_here(200));  // 640 KB on each side: not both in the caches
  profile.cache_bytes = 64 << 20;
  EXPECT(runs_here(180));   // 518 KB: 67 us by the rate of long copies
  EXPECT(!runs_here(300));  // 1.4 MB: 186 us
}
