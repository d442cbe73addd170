#include "machine/profile.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

Profile small_machine() {
  Profile profile;
  profile.host = "test";
  profile.date = "2026-01-01";
  profile.memories = {{"node0/host0", MemoryKind::host, 1 << 20, 1 << 16},
                      {"node0/file0", MemoryKind::file, 0, 0}};
  profile.resources = {{"disk", 2e9}};
  ChannelSpec channel;
  channel.name = "node0 file_write";
  channel.kind = ChannelKind::file_write;
  channel.source = 0;
  channel.target = 1;
  channel.throughput = Throughput({{4096, 4096, 1e8}, {1 << 20, 4096, 1e9}});
  channel.latency_s = 1e-4;
  channel.resources = {0};
  profile.channels = {channel};
  return profile;
}

/// Returns the small machine's JSON with one place changed.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = small_machine().to_json();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void expect_refused(const Status& status, const std::string& words) {
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::invalid_argument);
  const std::string message = status.error().text();
  if (message.find(words) == std::string::npos) EXPECT_EQ(message, words);
}

void expect_refused(const std::string& text, const std::string& words) {
  const auto read = Profile::from_json(text);
  expect_refused(read.ok() ? Status() : Status(read.error()), words);
}

}  // namespace

TEST(profiles_survive_being_written_and_read) {
  Profile profile = small_machine();
  profile.handoff_s = 1e-5;
  profile.planning_s = 2e-5;
  profile.cache_bytes = 1 << 25;
  const Profile read = Profile::from_json(profile.to_json()).value();
  EXPECT_EQ(read.to_json(), profile.to_json());
  EXPECT_EQ(read.memories[0].threshold_bytes, 1 << 16);
  EXPECT_EQ(read.memories[1].threshold_bytes, 0);
  EXPECT_EQ(read.find_memory("node0/file0"), 1);
  EXPECT_EQ(read.find_memory("node9/file0"), -1);
  EXPECT(read.channels[0].throughput.samples() == profile.channels[0].throughput.samples());
  EXPECT_EQ(read.nodes, 0);
  profile.nodes = 3;
  EXPECT_EQ(Profile::from_json(profile.to_json()).value().nodes, 3);
}

TEST(sizes_may_be_written_with_exponents) {
  const auto read =
      Profile::from_json(changed("\"buffer_bytes_max\": 1048576", "\"buffer_bytes_max\": 1e6"));
  REQUIRE(read.ok());
  EXPECT_EQ(read->memories[0].buffer_bytes_max, 1000000);
}

TEST(memories_that_nothing_joins_are_a_machine_too) {
  Profile profile = small_machine();
  profile.channels.clear();
  EXPECT(Profile::from_json(profile.to_json()).ok());
}

TEST(samples_that_fall_are_raised_when_read) {
  Profile profile = small_machine();
  profile.channels[0].throughput = Throughput({{4096, 4096, 2e9}, {1 << 20, 4096, 1e9}});
  const Profile read = Profile::from_json(profile.to_json()).value();
  EXPECT_EQ(read.channels[0].throughput.at(1 << 20, 4096), 2e9);
  EXPECT_EQ(read.channels[0].throughput.samples()[1].bytes_per_second, 1e9);
}

TEST(what_is_no_profile_is_refused_with_what_to_do) {
  expect_refused("", "it is no JSON");
  expect_refused("{\"format\": ", "tranship calibrate");
  expect_refused("[1, 2]", "the profile is [1,2]; write an object");
  expect_refused("{}", "\"format\" must be \"tranship-profile-1\"; measure a new one with");
  expect_refused(changed("tranship-profile-1", "tranship-profile-9"), "\"format\" must be");
}

TEST(missing_keys_are_named_with_their_entry) {
  expect_refused(changed("\"memories\"", "\"memory\""), "the profile has no \"memories\"; add it");
  expect_refused(changed("\"channels\"", "\"channel\""), "the profile has no \"channels\"");
  expect_refused(changed("\"kind\": \"host\"", "\"x\": 1"),
                 "memory 0 \"node0/host0\" has no \"kind\"; add it");
  expect_refused(changed("\"name\": \"node0/file0\"", "\"x\": 1"), "memory 1 has no \"name\"");
  expect_refused(changed("\"bytes_per_second\"", "\"rate\""),
                 "resource 0 \"disk\" has no \"bytes_per_second\"");
  for (const char* key : {"source", "target", "samples"}) {
    expect_refused(changed("\"" + std::string(key) + "\"", "\"x\""),
                   "channel 0 \"node0 file_write\" has no \"" + std::string(key) + "\"; add it");
  }
  expect_refused(changed("\"kind\": \"file_write\"", "\"x\": 1"),
                 "channel 0 \"node0 file_write\" has no \"kind\"");
}

TEST(values_of_the_wrong_type_are_shown) {
  expect_refused(changed("\"disk\"", "7"), "\"name\" of resource 0 is 7; write a text");
  expect_refused(changed("2000000000.0", "\"fast\""),
                 "\"bytes_per_second\" of resource 0 \"disk\" is \"fast\"; write a number");
  expect_refused(changed("1048576", "1.5"),
                 "\"buffer_bytes_max\" of memory 0 \"node0/host0\" is 1.5; write a whole number");
  expect_refused(changed("1048576", "18446744073709551615"), "write a whole number");
  expect_refused(changed("[\n    \"disk\"\n   ]", "\"disk\""), "is \"disk\"; write a list");
  expect_refused(changed("\"memories\": [", "\"memories\": [5, "),
                 "memory 0 is 5; write an object");
  expect_refused(changed("1000000000.0\n", "1000000000.0, 3\n"),
                 "sample 1 of channel 0 \"node0 file_write\" is [1048576,4096,1000000000.0,3]; "
                 "write [request bytes, run bytes, bytes per second]");
  expect_refused(
      changed("1000000000.0\n", "\"a rate that fills more than the line has room for\"\n"),
      "...; write");
}

TEST(unknown_names_are_shown_with_the_known_ones) {
  expect_refused(changed("\"kind\": \"host\"", "\"kind\": \"ram\""),
                 "the kind of memory 0 \"node0/host0\": \"ram\" is none of host, pinned");
  expect_refused(changed("\"file_write\",", "\"teleport\","),
                 "the kind of channel 0 \"node0 file_write\": \"teleport\" is none of memcpy");
  expect_refused(changed("\"source\": \"node0/host0\"", "\"source\": \"node7/host0\""),
                 "the source of channel 0 \"node0 file_write\", \"node7/host0\", is no memory");
  expect_refused(changed("\"target\": \"node0/file0\"", "\"target\": \"\""), "the target of");
  expect_refused(changed("    \"disk\"\n", "    \"disc\"\n"),
                 "the resource \"disc\" of channel 0 \"node0 file_write\" is none of this profile");
}

TEST(numbers_that_cannot_be_meant_are_refused) {
  using Change = std::function<void(Profile&)>;
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const auto rates = [](Sample sample) {
    return Throughput(std::vector<Sample>{{4096, 4096, 1e9}, sample});
  };
  const std::vector<std::pair<Change, const char*>> cases = {
      {[](Profile& p) { p.handoff_s = -1; }, "\"handoff_s\" is -1; write seconds, 0 or more"},
      {[&](Profile& p) { p.handoff_s = nan; }, "\"handoff_s\" is nan"},
      {[](Profile& p) { p.planning_s = -1; }, "\"planning_s\" is -1; write seconds, 0 or more"},
      {[](Profile& p) { p.cache_bytes = -5; }, "\"cache_bytes\" is -5; write a number of bytes"},
      {[](Profile& p) { p.nodes = -2; }, "\"nodes\" is -2; write how many nodes like node0"},
      {[](Profile& p) { p.memories[0].buffer_bytes_max = -1; },
       "\"buffer_bytes_max\" of memory \"node0/host0\" is -1; write a number of bytes, or 0"},
      {[](Profile& p) { p.memories[1].threshold_bytes = -1; },
       "\"threshold_bytes\" of memory \"node0/file0\" is -1; write a number of bytes, or 0"},
      {[](Profile& p) { p.resources[0].bytes_per_second = -2; },
       "\"bytes_per_second\" of resource \"disk\" is -2; write its rate, or 0"},
      {[&](Profile& p) { p.resources[0].bytes_per_second = infinity; }, "is inf; write its rate"},
      {[](Profile& p) { p.channels[0].latency_s = -1e-6; },
       "\"latency_s\" of channel \"node0 file_write\" is -1e-06; write seconds, 0 or more"},
      {[&](Profile& p) { p.channels[0].latency_s = nan; }, "is nan; write seconds"},
      {[](Profile& p) { p.channels[0].throughput = Throughput(); },
       "channel \"node0 file_write\" has no samples; write [request bytes"},
      {[&](Profile& p) { p.channels[0].throughput = rates({4096, 4096, -1e9}); },
       "sample 1 of channel \"node0 file_write\" is [4096, 4096, -1e+09]; write sizes of 1 byte"},
      {[&](Profile& p) { p.channels[0].throughput = rates({4096, 4096, 0}); }, "a rate above 0"},
      {[&](Profile& p) { p.channels[0].throughput = rates({4096, 4096, nan}); }, "4096, nan]"},
      {[&](Profile& p) { p.channels[0].throughput = rates({0, 4096, 1e9}); }, "[0, 4096, 1e+09]"},
      {[&](Profile& p) { p.channels[0].throughput = rates({4096, -1, 1e9}); }, "[4096, -1, 1e+09]"},
  };
  for (const auto& [change, words] : cases) {
    Profile profile = small_machine();
    change(profile);
    expect_refused(profile.check(), words);
    // If JSON can express the value, the JSON is refused as well, for the same reason.
    if (profile.to_json().find("null") == std::string::npos) {
      expect_refused(profile.to_json(), words);
    }
  }
  expect_refused(changed("1000000000.0", "1e999"), "it is no JSON");
  expect_refused(changed("\"comment\": \"\"", "\"nodes\": 1e12"), "write 1073741824 at most");
  expect_refused(changed("\"comment\": \"\"", "\"nodes\": -1e12"), "\"nodes\" is -");
}

TEST(names_and_references_that_cannot_be_meant_are_refused) {
  using Change = std::function<void(Profile&)>;
  const std::vector<std::pair<Change, const char*>> cases = {
      {[](Profile& p) { p.memories.clear(); }, "it has no memories; list one at least"},
      {[](Profile& p) { p.memories[1].name = ""; }, "memory 1 has an empty name; give it one"},
      {[](Profile& p) { p.memories[1].name = p.memories[0].name; },
       "there are two of memory \"node0/host0\"; give each its own name"},
      {[](Profile& p) { p.resources.push_back(p.resources[0]); }, "two of resource \"disk\""},
      {[](Profile& p) { p.channels.push_back(p.channels[0]); },
       "two of channel \"node0 file_write\""},
      {[](Profile& p) { p.channels[0].target = 2; }, "joins memories that are not listed"},
      {[](Profile& p) { p.channels[0].source = -1; }, "list them under \"memories\""},
      {[](Profile& p) { p.channels[0].resources = {3}; },
       "uses a resource that is not listed; list it under \"resources\""},
      {[](Profile& p) { p.channels[0].resources = {0, 0}; },
       "names a resource twice; name it once"},
  };
  for (const auto& [change, words] : cases) {
    Profile profile = small_machine();
    change(profile);
    expect_refused(profile.check(), words);
  }
}

TEST(no_text_stops_the_program) {
  Random random(11);
  Profile profile = small_machine();
  profile.nodes = 2;
  const std::string text = profile.to_json();
  const std::vector<std::string> parts = {"-1",
                                          "0",
                                          "null",
                                          "\"\"",
                                          "{}",
                                          "[]",
                                          "1e308",
                                          "{",
                                          "]",
                                          ",",
                                          "true",
                                          "\"\\u00",
                                          "nodes",
                                          "node1",
                                          "\xff",
                                          "9223372036854775807",
                                          "-9223372036854775808"};
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = text;
    for (std::int64_t k = random.between(1, 3); k > 0; --k) {
      const auto at =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(mutated.size())));
      const auto length = static_cast<std::size_t>(random.between(0, 12));
      const auto part =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(parts.size())));
      mutated.replace(at, length, parts[part]);
    }
    const auto read = Profile::from_json(mutated);
    if (read.ok()) {
      EXPECT(read->check().ok());
      EXPECT(Profile::from_json(read->to_json()).ok());
    } else {
      ++refused;
      EXPECT(read.error().text().find("machine profile cannot be used: ") != std::string::npos);
    }
  }
  EXPECT(refused > 1000);
}

TEST(no_value_in_any_place_stops_the_program) {  // well-formed JSON with one value exchanged
  Random random(12);
  const std::string text = small_machine().to_json();
  const std::vector<std::string> values = {
      "-1",    "0",    "null", "\"\"",          "{}",  "[]",
      "1e308", "true", "[[]]", "{\"name\": 3}", "2.5", "\"node0/host0\""};
  std::vector<std::size_t> colons;
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    if (text[at] == ':' && text[at + 1] == ' ') colons.push_back(at + 2);
  }
  int read_count = 0;
  for (const std::size_t begin : colons) {
    if (text[begin] == '[') continue;
    const std::size_t end = text.find_first_of(",\n", begin);
    for (const std::string& value : values) {
      std::string mutated = text;
      mutated.replace(begin, end - begin, value);
      const auto read = Profile::from_json(mutated);
      if (read.ok()) ++read_count;
      EXPECT(read.ok() || read.error().text().find("; ") != std::string::npos);
    }
  }
  EXPECT(read_count > 10);
}
