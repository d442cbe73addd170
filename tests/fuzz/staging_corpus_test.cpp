// The first inputs of the staging service's fuzzers: well-formed messages, made from its protocol.
// After a change of the protocol run: test_fuzz corpus_of_the_staging rewrite
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "staging/protocol/messages.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

using Inputs = std::map<std::string, std::string>;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns a message as service_targets.cpp reads it from an input: a byte, the length, the bytes.
std::string framed(char first, std::span<const std::byte> message) {
  const auto length = static_cast<std::uint16_t>(message.size());
  return std::string(1, first) + text_of(std::as_bytes(std::span(&length, 1))) + text_of(message);
}

template <typename... Requests>
std::string asked(const Requests&... requests) {
  return (framed(0, message_of(requests).bytes()) + ...);
}

template <typename... Replies>
std::string said(const Replies&... replies) {
  std::string all;
  const auto add = [&](const auto& reply) {
    std::vector<std::byte> room(4096);
    all += framed(0, std::span(room).first(write_reply(room, reply).value()));
  };
  (add(replies), ...);
  return all;
}

Status zeros(std::span<std::byte> room) {
  std::fill(room.begin(), room.end(), std::byte{0});
  return {};
}

Inputs service_inputs() {
  const Box box = *Box::make({0}, {16});
  const auto put = [&](std::int64_t version) {
    return PutRequest{"v", version, box, "i8", 8, {1, 1}};
  };
  const auto get = [&](VersionChoice choice) { return GetRequest{"v", choice, 1, box, {1, 1}}; };
  const std::string life = asked(
      protocol::Declare{put(1)}, protocol::Put{put(1), {{}, 128, zeros}, {}},
      protocol::Get{get(VersionChoice::exact), 5},
      protocol::Begin{put(2), Effort::all, false, {}, 9}, protocol::TakePages{2},
      protocol::Commit{2, 0, "v", 128, "memcpy", {}}, protocol::Get{get(VersionChoice::latest), 6},
      protocol::QueryVersion{get(VersionChoice::latest), 6},
      protocol::Find{get(VersionChoice::exact), true, 7}, protocol::Lease{"v", 1, false, {1}, 8},
      protocol::Recall{2, 1}, protocol::Reduce{1, 1, box, "i8", {ReductionKind::summary}},
      protocol::Reduce{1, 1, box, "i8", {ReductionKind::histogram, {0, 1}}},
      protocol::Reduce{1, 1, box, "i8", {ReductionKind::block_sums, {}, {0}, {4}}},
      protocol::Release{1, "v", true, 128, "memcpy"}, protocol::List{}, protocol::QueryStatus{},
      protocol::Discard{"v", 1}, protocol::Remove{"v", 0});
  PutRequest nothing = put(4);
  nothing.box.upper[0] = 1;
  const std::string others = asked(
      protocol::Define{put(1), 2}, protocol::Declare{put(1)}, protocol::Describe{"v", true},
      protocol::Bounds{"v"}, protocol::Index{put(1), {1, 3}, true},
      protocol::Unindex{{"v", 1, {1, 3}}}, protocol::Index{put(1), {2, 4}, true},
      protocol::Confirm{{"v", 1, {2, 4}}, 4}, protocol::Join{staging_version, 1, 3, "unix:@there"},
      protocol::More{1, 0}, protocol::Undo{9}, protocol::DropOrphans{1, {{0, 3}}},
      protocol::Discard{"v", 1}, protocol::DiscardToo{put(3)}, protocol::Abort{1},
      protocol::Finish{"v", 4, 5, true, true}, protocol::PutEmpty{nothing, 1, true},
      protocol::FindExtent{"v", VersionChoice::latest, 9, {}, true});
  const std::string offers = asked(
      protocol::Declare{put(1)}, protocol::Offer{put(1), {"unix:@there", "a name", "sim"}, 9},
      protocol::Commit{1, 0, "v", 128, "offer", {}}, protocol::Get{get(VersionChoice::exact), 5},
      protocol::QueryOffer{1, 1}, protocol::EndOffers{{1}, false}, protocol::EndOffers{{1}, true},
      protocol::WithdrawEntry{{"v", 1, {1, 3}}}, protocol::Release{1, "v", true, 128, "memcpy"});
  PutRequest within = put(9);
  within.step = 4;
  const StepContents contents{{{"v", "i8", 8, box, 1}}, {{"", "dt", "0.5"}}};
  const std::string steps =
      asked(protocol::BeginStep{9, 1}, protocol::Put{within, {{}, 128, zeros}, {}},
            protocol::Get{{"v", VersionChoice::exact, 9, box, {1, 1}}, 5},
            protocol::AddToStep{4, contents}, protocol::EndStep{4, contents},
            protocol::QueryStep{4}, protocol::StepSettled{4, StepState::whole, true, {1}},
            protocol::FindStep{{VersionChoice::next, 0}, true},
            protocol::FindStep{{VersionChoice::latest, 9}, true}, protocol::MoreOfStep{4, 0, 0},
            protocol::GiveUpStep{3, "an exception"}, protocol::SettleStep{3, StepState::broken},
            protocol::DefineQueue{{2, QueueFull::drop_oldest, 0, true}},
            protocol::JoinReaders{"g", Sharing::demand, 0}, protocol::TakeStep{"g", 0, 0, true},
            protocol::ReleaseStep{"g", 4}, protocol::LeaveReaders{"g"}, protocol::FreeStep{1},
            protocol::SetAttributes{{{"v", "unit", "\"J\""}}}, protocol::GetAttributes{"v", ""},
            protocol::Discard{"s", 1}, protocol::Remove{"s", 0});
  const auto begin = message_of(protocol::Begin{put(7), Effort::all, false, {}, 12});
  const auto finish = message_of(protocol::Finish{"v", 7, 7});
  const auto empty = message_of(protocol::Batch{});
  const std::string batches =
      asked(protocol::Batch{{payload_of(begin.bytes()), payload_of(finish.bytes())}},
            protocol::Batch{{payload_of(empty.bytes())}});
  Inputs inputs;
  for (const char kind : {'\x40', '\x43'})
    inputs["batches" + std::to_string(kind)] = kind + batches;
  for (const char kind : {'\x40', '\x41', '\x42', '\x43'})
    inputs["steps" + std::to_string(kind)] = kind + steps;
  for (const char kind : {'\0', '\2', '\4'}) inputs["life" + std::to_string(kind)] = kind + life;
  for (const char kind : {'\0', '\1', '\3'})
    inputs["others" + std::to_string(kind)] = kind + others;
  for (const char kind : {'\0', '\1'}) inputs["offers" + std::to_string(kind)] = kind + offers;
  return inputs;
}

/// Returns inputs whose first byte says what the client does first (service_targets.cpp).
Inputs answers_inputs() {
  const Box box = *Box::make({0, -4}, {16, 12});
  VariableMetadata metadata{"i8", 8, box, Cells::around(box, 8, 1), {}, 0, 1, 1, 0, 0, {1, 1}};
  const protocol::Described described{metadata, box};
  const protocol::Declared declared{metadata};
  const protocol::Done done;
  const protocol::DoneWithOrphans with_orphans{{{2, 7}}};
  const auto objects = [&](std::int64_t version) {
    StoredObject seen{0, 1, box, 1, {0, 0, 2048}, 0, {}};
    return protocol::Objects{{version, "i8", 8, 1, {seen}}, 0};
  };
  const auto data = [](std::int64_t element_bytes) {
    const auto bytes = static_cast<std::size_t>(4 * element_bytes);
    return protocol::InlineData{4, "i8", element_bytes, {{}, bytes, zeros}};
  };
  const VariableInfo info{"v", "i8", 8, box, {{1, 1, 2048}}, 1};
  const protocol::ServerStatus status{{0, "x", 1, 1, 1, 1, {"a"}}};
  Inputs inputs;
  inputs["get"] = '\0' + said(described, objects(4), done);
  inputs["data"] = '\x80' + said(described, data(8));
  inputs["odd"] = '\x80' + said(described, data(17));  // a length that was once accepted
  inputs["put"] = '\x01' + said(declared, protocol::RoomGranted{1, {0, 0, 2048}, {}},
                                protocol::Ordered{1, {}}, done);
  inputs["inline"] = '\x02' + said(declared, with_orphans, done);
  inputs["list"] = '\x03' + said(protocol::Listed{{info}}, protocol::Listed{}, protocol::Listed{},
                                 protocol::Listed{});
  inputs["status"] = '\x04' + said(status, status, status);
  inputs["describe"] =
      '\x05' + said(described, protocol::BoundsReply{box}, protocol::BoundsReply{});
  inputs["wait"] = '\x06' + said(described, protocol::VersionFound{-1});
  const protocol::ExtentFound extent{{4, box, {}, 0}};
  inputs["next"] = '\x1e' + said(described, extent, extent, extent, described, extent, extent,
                                 extent, objects(4), objects(4), objects(4), done);
  inputs["extent"] =
      '\x3e' + said(described, extent, extent, extent, described, extent, extent, extent,
                    objects(3), objects(3), objects(3), done, declared, with_orphans, done);
  inputs["remove"] = '\x07' + said(protocol::Removed{3, true, {}}, protocol::Removed{3, false, {}},
                                   protocol::Removed{3, false, {}});
  const protocol::StepFound found{4,
                                  4,
                                  false,
                                  "",
                                  Ending::none,
                                  {{3, "given up"}},
                                  {{3, StepState::broken}},
                                  {{{"v", "i8", 8, box, 1}}, {}, 0, 1}};
  const protocol::StepPage rest{{}, {{"", "dt", "0.5"}}, 0, 0};
  const protocol::StepStateFound whole{StepState::whole, "", true, {}};
  protocol::StepFound later = found;
  later.broken = {};
  inputs["attributes"] = '\x0d' + said(protocol::AttributesFound{rest.attributes, false});
  inputs["set"] = '\x1d' + said(done);
  inputs["settle"] = '\x2d' + said(whole, with_orphans, done, with_orphans, done);
  inputs["write"] =
      '\x5d' + said(protocol::StepBegun{7, false, {{3, StepState::broken}}}, with_orphans, done,
                    with_orphans, done, whole, with_orphans, done);
  inputs["find"] = '\x7d' + said(later, with_orphans, done, with_orphans, done, rest, with_orphans,
                                 done, with_orphans, done);
  inputs["discard"] = '\x0f' + said(with_orphans, done, with_orphans, done, with_orphans, done);
  return inputs;
}

void check(const std::string& target, const Inputs& inputs) {
  const auto folder = std::filesystem::path(TRANSHIP_SOURCE_DIR) / "tests/fuzz/corpus" / target;
  for (const auto& [name, input] : inputs) {
    if (test::argument(2) == "rewrite") {
      std::ofstream(folder / name, std::ios::binary) << input;
    }
    std::ifstream file(folder / name, std::ios::binary);
    EXPECT(std::string(std::istreambuf_iterator<char>(file), {}) == input);
  }
}

}  // namespace

TEST(the_corpus_of_the_staging_service_is_what_its_protocol_says) {
  check("service", service_inputs());
  check("answers", answers_inputs());
}
