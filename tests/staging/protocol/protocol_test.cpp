// Messages of the staging service: a message is read as it was written, and invalid bytes are
// refused.
#include "staging/protocol/messages.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include "staging/model/boxes.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

namespace {

const PutRequest nothing{"energy", -7, box_of({4}, {5}), "f8", 8, {3, 4}};
const PutRequest object{"energy", -7, box_of({-1, 2, 3}, {4, 5, 6}), "f8", 8, {3, 4}, 6};
const GetRequest window{"energy", VersionChoice::next, 12, box_of({0}, {9}), {3, 4}};
const std::vector<Orphan> orphans{{2, 15}, {0, 1}};
const protocol::IndexEntryId entry{"energy", -7, {2, 15}};

const OfferedMemory memory{"unix:@there,tcp:host:5000", "staging/offer/1", "sim"};

const StepContents contents{{{"energy", "f8", 8, box_of({-5}, {5}), 2}, {"empty", "i4", 4, {}, 0}},
                            {{"", "dt", "0.5"}, {"energy", "unit", "\"J\""}}};

Status three_bytes(std::span<std::byte> room) {
  for (std::byte& one : room) one = std::byte{7};
  return {};
}

const Payload payload{{}, 3, three_bytes};

VariableMetadata metadata() {
  const Box first = box_of({1}, {2});
  const Box domain = box_of({-100}, {400});
  VariableMetadata made{"f2", 2, first, Cells::around(first, 2, 64, domain), domain, 7, 5, 3,
                        1,    2, {3, 4}};
  return made;
}

VariableInfo variable() {
  VariableInfo info{"v", "c16", 16, box_of({0, 0}, {3, 4}), {{5, 6, 7}, {8, 9, 10}}, 2};
  info.traffic.puts.add(1, 96, message_path);
  info.traffic.gets.add(1, 1000, "a > b");
  info.traffic.gets.add(0, 24, "a > b");
  return info;
}

FoundObjects found() {
  return {3, "f4", 4, 77, {{2, 15, box_of({0}, {9}), 21, {1, 256, 512}, 0, {1, 9}}}, 6};
}

const protocol::StepPage page{contents.variables, contents.attributes, 1, 2};

/// One of each message, without default values.
const std::tuple requests{
    protocol::Hello{staging_version, "a client", {1, 2}},
    protocol::Join{staging_version, 1, 3, "unix:@there"},
    protocol::Define{object, 4},
    protocol::Declare{object, true},
    protocol::Describe{"energy", true, true, 3},
    protocol::Bounds{"energy"},
    protocol::Put{object, payload, {1, 5}, true},
    protocol::Begin{object, Effort::discard, false, {1, 2}, 9},
    protocol::TakePages{15},
    protocol::Commit{15, 20, "energy", 216, "memcpy", {1, 5}, true, 3},
    protocol::Abort{15},
    protocol::Index{object, {2, 15}, true},
    protocol::Unindex{entry},
    protocol::Confirm{entry, 21},
    protocol::Get{window, 9},
    protocol::QueryVersion{window, 9},
    protocol::Find{window, true, 9},
    protocol::Lease{"energy", 3, true, {15, 16}, 9},
    protocol::More{77, 100},
    protocol::Recall{77, 15},
    protocol::Release{77, "energy", true, 216, "memcpy"},
    protocol::Undo{9},
    protocol::DropOrphans{1, orphans},
    protocol::Discard{"energy", 3},
    protocol::DiscardToo{object},
    protocol::Finish{"energy", 3, 5, false, true},
    protocol::PutEmpty{nothing, 1, true},
    protocol::FindExtent{"energy", VersionChoice::next, 3, {3, 4}, true},
    protocol::Remove{"energy", 5},
    protocol::List{"energy", 3},
    protocol::QueryStatus{},
    protocol::BeginStep{-7, 4},
    protocol::AddToStep{6, contents},
    protocol::EndStep{6, contents},
    protocol::GiveUpStep{6, "an exception", -7},
    protocol::SettleStep{6, StepState::whole},
    protocol::StepSettled{6, StepState::freed, true, {2}},
    protocol::QueryStep{6},
    protocol::FindStep{{VersionChoice::latest, -7}, true},
    protocol::MoreOfStep{6, 1, 2},
    protocol::FreeStep{6},
    protocol::SetAttributes{contents.attributes},
    protocol::GetAttributes{"energy", "dt"},
    protocol::DefineQueue{{8, QueueFull::drop_newest, 2, true}},
    protocol::JoinReaders{"viz", Sharing::round_robin, -7},
    protocol::LeaveReaders{"viz"},
    protocol::TakeStep{"viz", 6, -7, true},
    protocol::ReleaseStep{"viz", 6},
    protocol::Batch{{payload, payload}},
    protocol::Reduce{3, 7, box_of({-5}, {5}), "f4", {ReductionKind::histogram, {0, 0.5, 2}}},
    protocol::Offer{object, memory, 9},
    protocol::EndOffers{{15, 16}, true},
    protocol::WithdrawEntry{entry},
    protocol::QueryOffer{77, 15},
};

const std::tuple replies{
    protocol::Done{},
    protocol::Wait{"the memory is full"},
    protocol::Wait{"it lacks (0:4)", Ending::died, true, 3, 6},
    protocol::Stale{},
    protocol::NeedsOtherServers{},
    protocol::Welcome{4096, 1024, 0, 2, 8, {"unix:@one", "unix:@two"}},
    protocol::Welcome{4096, 1024, 1, 2, 0, {}},
    protocol::Declared{metadata()},
    protocol::Described{metadata(), box_of({-5}, {5}), 2, 1, true},
    protocol::ExtentFound{{3, box_of({-5}, {5}), box_of({7}, {8}), 1, 6}},
    protocol::BoundsReply{box_of({-5}, {5})},
    protocol::BoundsReply{},
    protocol::DoneWithOrphans{orphans},
    protocol::RoomGranted{15, {1, 256, 512}, orphans},
    protocol::Ordered{21, orphans},
    protocol::Objects{found(), 12},
    protocol::InlineData{3, "i1", 1, payload, 6},
    protocol::VersionFound{3, 6},
    protocol::LeaseGranted{77, {{LeasedObject::State::here, 9, {4, 5, 6}, {1, 3}, 6}, {}}},
    protocol::Recalled{{1, 256, 512}},
    protocol::Removed{5, true, orphans},
    protocol::Listed{{variable(), variable()}},
    protocol::ServerStatus{{1, "unix:@here", 100, 50, 25, 2, {"one", "two"}}},
    protocol::StepBegun{6, true, {{5, StepState::broken}}},
    protocol::StepsFreed{{{5, StepState::freed}}},
    protocol::StepStateFound{StepState::broken, "a writer was lost", true, {{5, StepState::whole}}},
    page,
    protocol::StepFound{6,
                        -7,
                        true,
                        "step 3 is open",
                        Ending::died,
                        {{-8, "given up"}},
                        {{5, StepState::freed}},
                        page},
    protocol::AttributesFound{contents.attributes, true},
    protocol::ReducedPart{{4, 1.5, -0.25, 2, 0.125, 9, 1, 8, {2, 0, 2}, {1.5, -2}}},
    protocol::BatchReplies{
        {{Error{ErrorCode::not_found, "there is none", "look again"}, {}}, {{}, payload}}},
    protocol::OfferBegun{15, orphans},
    protocol::OffersLeft{{15, 16}, "it is being read"},
    protocol::OfferFound{memory},
};

template <typename Message>
std::vector<std::byte> body_of(const Message& message) {
  const fabric::MessageWriter whole = message_of(message);
  const auto body = std::span(whole.bytes()).subspan(sizeof(Message::kind));
  std::vector<std::byte> bytes(body.size());
  std::copy(body.begin(), body.end(), bytes.begin());
  return bytes;
}

/// Encodes a message that was read, whose payload is a view of the bytes that were read.
template <typename Message>
std::vector<std::byte> written_again(Message message) {
  const auto copy = [](Payload& data) {
    const auto bytes = data.bytes;
    data.write = [bytes](std::span<std::byte> room) {
      std::copy(bytes.begin(), bytes.end(), room.begin());
      return Status{};
    };
  };
  if constexpr (requires { message.data.bytes; }) copy(message.data);
  if constexpr (std::is_same_v<Message, protocol::Batch>) {
    std::for_each(message.requests.begin(), message.requests.end(), copy);
  }
  if constexpr (std::is_same_v<Message, protocol::BatchReplies>) {
    for (auto& one : message.replies) copy(one.reply);
  }
  return body_of(message);
}

template <typename Message>
void is_read_as_it_was_written(const Message& message) {
  const auto body = body_of(message);
  EXPECT_EQ(body.size(), encoded_bytes(message));
  Message read;
  REQUIRE(read_body(body, read).ok());
  EXPECT(written_again(read) == body);
  for (std::size_t length = 0; length < body.size(); ++length) {
    Message shorter;
    EXPECT(!read_body(std::span(body).first(length), shorter).ok());
  }
  auto longer = body;
  longer.push_back(std::byte{0});
  EXPECT(!read_body(longer, read).ok());
}

/// Checks that the reader refuses a message after a change.
template <typename Message>
void refuses(Message message, const std::function<void(Message&)>& change) {
  Message read;
  REQUIRE(read_body(body_of(message), read).ok());
  change(message);
  EXPECT(!read_body(body_of(message), read).ok());
}

template <typename Message, typename Tuple>
const Message& one_of(const Tuple& all) {
  return std::get<Message>(all);
}

}  // namespace

TEST(what_is_written_is_read_and_nothing_shorter_or_longer) {
  std::apply([](const auto&... one) { (is_read_as_it_was_written(one), ...); }, requests);
  std::apply([](const auto&... one) { (is_read_as_it_was_written(one), ...); }, replies);
}

TEST(each_request_finds_its_reader) {
  static_assert(std::tuple_size_v<protocol::Requests> == std::tuple_size_v<decltype(requests)>);
  const auto check = []<typename Request>(const Request& request) {
    const auto take = []<typename Read>(const Read&) -> Result<bool> {
      return std::is_same_v<Read, Request>;
    };
    const auto same = read_request<Result<bool>>(message_of(request).bytes(), take);
    EXPECT(same.ok() && *same);
    EXPECT(std::string(to_string(Request::kind)) != "unknown");
  };
  std::apply([&](const auto&... one) { (check(one), ...); }, requests);
  const auto any = [](const auto&) -> Result<bool> { return true; };
  for (const std::uint32_t kind : {0U, 55U, 1000U, ~0U}) {
    fabric::MessageWriter strange;
    EXPECT(!read_request<Result<bool>>(strange.add(kind).bytes(), any).ok());
  }
}

TEST(values_arrive_as_they_were_sent) {
  protocol::Described described;
  REQUIRE(read_body(body_of(one_of<protocol::Described>(replies)), described).ok());
  const VariableMetadata& read = described.metadata;
  EXPECT(read.type == "f2" && read.producers == 3 && read.cells.origin[0] == 1 &&
         read.cells.extents[0] == 32 && read.lost_producer());
  EXPECT_EQ(read.cells.lower[0], -4);
  EXPECT_EQ(read.cells.upper[0], 13);
  EXPECT(read.domain == box_of({-100}, {400}) && read.writers == 7 && read.came == 5);
  EXPECT(described.bounds == box_of({-5}, {5}));
  protocol::Listed listed;
  REQUIRE(read_body(body_of(one_of<protocol::Listed>(replies)), listed).ok());
  const VariableTraffic& traffic = listed.variables[0].traffic;
  EXPECT(traffic.puts.count == 1 && traffic.puts.bytes == 96 && traffic.puts.paths.size() == 1);
  EXPECT(traffic.gets.count == 1 && traffic.gets.bytes == 1024);
  EXPECT_EQ(traffic.gets.paths.at("a > b"), 1);
  EXPECT_EQ(listed.variables[1].versions[1].objects, 9);
  protocol::Put put;
  const auto body = body_of(one_of<protocol::Put>(requests));
  REQUIRE(read_body(body, put).ok());
  EXPECT(put.data.bytes.size() == 3 && put.data.bytes[2] == std::byte{7});
  EXPECT(put.object.box == object.box && put.object.version == -7 && put.checksum.crc == 5);
}

TEST(each_name_of_a_request_is_checked) {
  const auto put = one_of<protocol::Put>(requests);
  for (const std::string& name : {std::string(), std::string(1025, 'x'), std::string("a\nb")}) {
    refuses<protocol::Put>(put, [&](auto& one) { one.object.variable = name; });
    refuses<protocol::Unindex>({entry}, [&](auto& one) { one.entry.variable = name; });
    refuses<protocol::Find>({window}, [&](auto& one) { one.get.variable = name; });
    refuses<protocol::Discard>({"v", 1}, [&](auto& one) { one.variable = name; });
    refuses<protocol::DiscardToo>({object}, [&](auto& one) { one.object.variable = name; });
    refuses<protocol::Remove>({"v", 1}, [&](auto& one) { one.variable = name; });
    refuses<protocol::Describe>({"v"}, [&](auto& one) { one.variable = name; });
    refuses<protocol::Bounds>({"v"}, [&](auto& one) { one.variable = name; });
    refuses<protocol::Lease>({"v"}, [&](auto& one) { one.variable = name; });
    refuses<protocol::Finish>({"v"}, [&](auto& one) { one.variable = name; });
    refuses<protocol::FindExtent>({"v"}, [&](auto& one) { one.variable = name; });
  }
}

TEST(each_value_of_a_put_is_checked) {
  const auto put = one_of<protocol::Put>(requests);
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{-1}, element_bytes_most + 1, INT64_MAX}) {
    refuses<protocol::Put>(put, [&](auto& one) { one.object.element_bytes = bytes; });
  }
  refuses<protocol::Put>(
      put, [](auto& one) { one.object.type = std::string(type_bytes_most + 1, 'f'); });
  refuses<protocol::Put>(put, [](auto& one) { one.object.incarnation = {5, 4}; });
  refuses<protocol::Put>(put, [](auto& one) { one.object.step = step_max + 1; });
  refuses<protocol::Put>(put, [](auto& one) { one.checksum.known = 2; });
  refuses<protocol::Put>(put, [](auto& one) { one.object.box.upper[1] = 2; });
  refuses<protocol::Put>(put, [](auto& one) { one.object.box.lower[1] = -index_most - 1; });
  refuses<protocol::Put>(put, [](auto& one) { one.object.box.upper[1] = index_most + 1; });
  refuses<protocol::Put>(put, [](auto& one) {
    one.object.box = *Box::make_bounds({0, 0}, {std::int64_t{1} << 40, std::int64_t{1} << 40});
  });
  refuses<protocol::Put>(put, [](auto& one) {  // the number of bytes overflows
    one.object.box = box_of({0}, {std::int64_t{1} << 61});
  });
}

TEST(each_value_of_a_request_is_checked) {
  for (const std::uint32_t dimensions : {0U, 2U, 3U, ~0U}) {
    refuses<protocol::PutEmpty>({nothing, 1},
                                [&](auto& one) { one.empty_dimensions = dimensions; });
  }
  refuses<protocol::PutEmpty>({nothing, 1}, [](auto& one) { one.object.box.upper[0] = 6; });
  refuses<protocol::FindExtent>({"v"},
                                [](auto& one) { one.choice = static_cast<VersionChoice>(3); });
  refuses<protocol::List>({"v"}, [](auto& one) { one.after = "a\nb"; });
  refuses<protocol::Get>({window},
                         [](auto& one) { one.get.choice = static_cast<VersionChoice>(3); });
  refuses<protocol::Begin>({object}, [](auto& one) { one.effort = static_cast<Effort>(0); });
  refuses<protocol::Begin>({object}, [](auto& one) { one.effort = static_cast<Effort>(4); });
  refuses<protocol::Commit>({}, [](auto& one) { one.order_before = order_max + 1; });
  refuses<protocol::Commit>({}, [](auto& one) { one.bytes = -1; });
  refuses<protocol::Confirm>({entry}, [](auto& one) { one.order = order_max + 1; });
  refuses<protocol::Confirm>({entry}, [](auto& one) { one.entry.id.primary = -1; });
  refuses<protocol::Release>({}, [](auto& one) { one.bytes = -1; });
  refuses<protocol::Remove>({"v"}, [](auto& one) { one.number = deletion_max + 1; });
  refuses<protocol::Join>({1, 1, 2, "x"}, [](auto& one) { one.contact = ""; });
  refuses<protocol::Join>({1, 1, 2, "x"}, [](auto& one) { one.contact = std::string(257, 'x'); });
  refuses<protocol::DropOrphans>({}, [](auto& one) { one.index_server = -1; });
  refuses<protocol::DropOrphans>({0, orphans}, [](auto& one) { one.orphans[0].primary = -1; });
}

TEST(where_an_offer_lies_is_checked) {
  const auto refuses_both = [](const std::function<void(OfferedMemory&)>& change) {
    refuses<protocol::Offer>({object, memory}, [&](auto& one) { change(one.memory); });
    refuses<protocol::OfferFound>({memory}, [&](auto& one) { change(one.memory); });
  };
  for (const std::string& contact :
       {std::string(), std::string("/etc/passwd"), std::string("host:5000"),
        "unix:@" + std::string(256, 'x'), std::string("unix:@a\nb")}) {
    refuses_both([&](OfferedMemory& one) { one.contact = contact; });
  }
  for (const std::string& name : {std::string(), std::string(257, 'x'), std::string("a\nb")}) {
    refuses_both([&](OfferedMemory& one) { one.name = name; });
  }
  for (const std::string& producer : {std::string(257, 'x'), std::string("a\nb")}) {
    refuses_both([&](OfferedMemory& one) { one.producer = producer; });
  }
  refuses<protocol::EndOffers>({}, [](auto& one) { one.objects.resize(offers_max + 1); });
  refuses<protocol::OffersLeft>({}, [](auto& one) { one.objects.resize(offers_max + 1); });
  refuses<protocol::RoomGranted>({15, {1, 256, 512}},
                                 [](auto& one) { one.range.segment = offered_segment; });
  refuses<protocol::Recalled>({{1, 256, 512}},
                              [](auto& one) { one.range.segment = offered_segment; });
}

TEST(each_value_of_a_request_about_steps_is_checked) {
  refuses<protocol::FindStep>({},
                              [](auto& one) { one.query.choice = static_cast<VersionChoice>(3); });
  for (const StepId id : {StepId{0}, step_max + 1}) {
    refuses<protocol::SettleStep>({6, StepState::whole}, [&](auto& one) { one.id = id; });
  }
  for (const std::string& text : {std::string(1025, 'x'), std::string("a\nb")}) {
    refuses<protocol::SetAttributes>({contents.attributes},
                                     [&](auto& one) { one.attributes[0].key = text; });
    refuses<protocol::SetAttributes>({contents.attributes},
                                     [&](auto& one) { one.attributes[0].variable = text; });
    refuses<protocol::GetAttributes>({}, [&](auto& one) { one.variable = text; });
    refuses<protocol::GetAttributes>({}, [&](auto& one) { one.after = text; });
    refuses<protocol::EndStep>({6, contents},
                               [&](auto& one) { one.contents.variables[0].name = text; });
  }
  refuses<protocol::SetAttributes>({contents.attributes},
                                   [](auto& one) { one.attributes[0].key = ""; });
  refuses<protocol::EndStep>({6, contents},
                             [](auto& one) { one.contents.variables[0].element_bytes = 0; });
  refuses<protocol::EndStep>({6, contents},
                             [](auto& one) { one.contents.variables[0].boxes = -1; });
  for (const std::uint32_t other : {0U, 5U}) {
    const auto state = static_cast<StepState>(other);
    refuses<protocol::SettleStep>({6, StepState::whole}, [&](auto& one) { one.state = state; });
    refuses<protocol::DefineQueue>(
        {}, [&](auto& one) { one.queue.full = static_cast<QueueFull>(other); });
    refuses<protocol::JoinReaders>({"viz"},
                                   [&](auto& one) { one.sharing = static_cast<Sharing>(other); });
  }
  refuses<protocol::SettleStep>({6, StepState::whole},
                                [](auto& one) { one.state = StepState::open; });
  refuses<protocol::DefineQueue>({}, [](auto& one) { one.queue.steps = -1; });
  refuses<protocol::DefineQueue>({}, [](auto& one) { one.queue.readers = -1; });
  for (const std::string& name : {std::string(), std::string("a\nb")}) {
    refuses<protocol::JoinReaders>({"viz"}, [&](auto& one) { one.group = name; });
    refuses<protocol::LeaveReaders>({"viz"}, [&](auto& one) { one.group = name; });
    refuses<protocol::TakeStep>({"viz"}, [&](auto& one) { one.group = name; });
    refuses<protocol::ReleaseStep>({"viz"}, [&](auto& one) { one.group = name; });
  }
  refuses<protocol::StepSettled>({6, StepState::whole, true, {}},
                                 [](auto& one) { one.lost.resize(servers_max + 1); });
}

TEST(each_element_of_a_reply_is_checked) {
  const auto objects = one_of<protocol::Objects>(replies);
  const auto inside = one_of<protocol::InlineData>(replies);
  const auto declared = one_of<protocol::Declared>(replies);
  const auto listed = one_of<protocol::Listed>(replies);
  const auto described = one_of<protocol::Described>(replies);
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{-1}, element_bytes_most + 1, INT64_MAX}) {
    refuses<protocol::Objects>(objects, [&](auto& one) { one.found.element_bytes = bytes; });
    refuses<protocol::InlineData>(inside, [&](auto& one) { one.element_bytes = bytes; });
    refuses<protocol::Declared>(declared, [&](auto& one) { one.metadata.element_bytes = bytes; });
    refuses<protocol::Listed>(listed, [&](auto& one) { one.variables[1].element_bytes = bytes; });
  }
  refuses<protocol::InlineData>(
      inside, [](auto& one) { one.type = std::string(type_bytes_most + 1, 'i'); });
}

TEST(each_value_of_a_reply_is_checked) {
  const auto objects = one_of<protocol::Objects>(replies);
  const auto declared = one_of<protocol::Declared>(replies);
  const auto listed = one_of<protocol::Listed>(replies);
  const auto described = one_of<protocol::Described>(replies);
  refuses<protocol::Objects>(objects, [](auto& one) { one.found.objects[0].primary = -1; });
  refuses<protocol::Objects>(objects, [](auto& one) { one.found.objects[0].range.segment = -3; });
  refuses<protocol::Objects>(objects, [](auto& one) { one.found.objects[0].range.offset = -1; });
  refuses<protocol::Objects>(objects, [](auto& one) { one.found.objects[0].range.bytes = -1; });
  refuses<protocol::Objects>(objects, [](auto& one) { one.left = list_max + 1; });
  refuses<protocol::Declared>(declared, [](auto& one) { one.metadata.cells.extents[0] = 0; });
  refuses<protocol::Declared>(declared, [](auto& one) { one.metadata.cells.origin[0] = 32; });
  refuses<protocol::Declared>(declared, [](auto& one) { one.metadata.cells.origin[0] = -1; });
  refuses<protocol::Declared>(declared,
                              [](auto& one) { one.metadata.domain = box_of({0, 0}, {1, 1}); });
  refuses<protocol::Declared>(declared, [](auto& one) { one.metadata.producers = -1; });
  refuses<protocol::Described>(described, [](auto& one) { one.bounds = box_of({0, 0}, {1, 1}); });
  refuses<protocol::Described>(described, [](auto& one) { one.awaited = -1; });
  refuses<protocol::Wait>({}, [](auto& one) { one.ending = static_cast<Ending>(3); });
  const auto extent = one_of<protocol::ExtentFound>(replies);
  for (const std::uint32_t dimensions : {0U, 2U, ~0U}) {
    refuses<protocol::ExtentFound>(extent,
                                   [&](auto& one) { one.extent.empty_dimensions = dimensions; });
  }
  refuses<protocol::ExtentFound>(extent, [](auto& one) { one.extent.empty->upper[0] = 9; });
  refuses<protocol::ExtentFound>({}, [](auto& one) { one.extent.empty_dimensions = 1; });
  refuses<protocol::RoomGranted>({}, [](auto& one) { one.range.segment = -1; });
  refuses<protocol::Ordered>({}, [](auto& one) { one.order = order_max + 1; });
  refuses<protocol::Removed>({1}, [](auto& one) { one.number = 0; });
  refuses<protocol::Welcome>({4096, 0, 1, 2}, [](auto& one) { one.message_bytes = 4095; });
  refuses<protocol::Welcome>({4096, 0, 1, 2}, [](auto& one) { one.data_bytes = 4096; });
  refuses<protocol::Welcome>({4096, 0, 1, 2}, [](auto& one) { one.server = 2; });
  refuses<protocol::Welcome>({4096, 0, 1, 2}, [](auto& one) { one.servers = 0; });
  refuses<protocol::Welcome>({4096, 0, 1, 2}, [](auto& one) { one.segments_ahead = -1; });
  // server 0 must list the contacts of all servers
  refuses<protocol::Welcome>({4096, 0, 1, 2}, [](auto& one) { one.server = 0; });
  refuses<protocol::LeaseGranted>({1, {LeasedObject{}}}, [](auto& one) {
    one.objects[0].state = static_cast<LeasedObject::State>(4);
  });
  refuses<protocol::Listed>(listed, [](auto& one) { one.variables[0].traffic.puts.count = -1; });
  refuses<protocol::Listed>(listed, [](auto& one) { one.variables[0].name = "a\nb"; });
}

TEST(each_value_of_a_reply_about_steps_is_checked) {
  refuses<protocol::Wait>({}, [](auto& one) { one.step = step_max + 1; });
  refuses<protocol::Objects>(one_of<protocol::Objects>(replies),
                             [](auto& one) { one.found.step = step_max + 1; });
  refuses<protocol::InlineData>(one_of<protocol::InlineData>(replies),
                                [](auto& one) { one.step = step_max + 1; });
  refuses<protocol::VersionFound>({3}, [](auto& one) { one.step = step_max + 1; });
  refuses<protocol::ExtentFound>({}, [](auto& one) { one.extent.step = step_max + 1; });
  refuses<protocol::LeaseGranted>({1, {LeasedObject{}}},
                                  [](auto& one) { one.objects[0].step = step_max + 1; });
  const auto many = [](auto& one) {
    one.unsettled.resize(unsettled_max + 1, {5, StepState::whole});
  };
  const auto strange = [](auto& one) { one.unsettled[0].id = 0; };
  refuses<protocol::StepBegun>({6}, [](auto& one) { one.id = 0; });
  refuses<protocol::StepBegun>({6, false, {{5, StepState::whole}}}, strange);
  refuses<protocol::StepBegun>({6, false, {{5, StepState::whole}}},
                               [](auto& one) { one.unsettled[0].state = StepState::open; });
  refuses<protocol::StepBegun>({6}, many);
  refuses<protocol::StepsFreed>({}, many);
  for (const std::uint32_t state : {0U, 5U}) {
    refuses<protocol::StepStateFound>(
        {}, [&](auto& one) { one.state = static_cast<StepState>(state); });
  }
  refuses<protocol::StepStateFound>({}, many);
  refuses<protocol::StepFound>({}, many);
  const auto& reduce = one_of<protocol::Reduce>(requests);
  refuses<protocol::Reduce>(reduce, [](auto& one) { one.reduction.kind = ReductionKind{0}; });
  refuses<protocol::Reduce>(reduce, [](auto& one) { one.reduction.kind = ReductionKind{4}; });
  refuses<protocol::Reduce>(reduce,
                            [](auto& one) { one.reduction.edges.resize(edges_max + 1, 3.0); });
  refuses<protocol::Reduce>(reduce,
                            [](auto& one) { one.reduction.extents.resize(dimensions_max + 1, 1); });
  refuses<protocol::ReducedPart>(one_of<protocol::ReducedPart>(replies),
                                 [](auto& one) { one.result.count = -1; });
  refuses<protocol::StepPage>(page, [](auto& one) { one.variables_left = list_max + 1; });
  refuses<protocol::StepPage>(page, [](auto& one) { one.attributes_left = list_max + 1; });
  refuses<protocol::StepFound>({}, [](auto& one) { one.id = step_max + 1; });
  refuses<protocol::StepFound>({}, [](auto& one) { one.ending = static_cast<Ending>(3); });
}

TEST(explanations_are_made_fit_to_be_shown) {
  for (const std::string& why : {std::string("a\x1b[2Jb"), std::string(5000, 'x')}) {
    protocol::Wait wait;
    REQUIRE(read_body(body_of(protocol::Wait{why}), wait).ok());
    EXPECT(is_plain_text(wait.why) && wait.why.size() <= 2000);
  }
}

TEST(a_reply_that_does_not_fit_its_room_is_refused_and_writes_nothing_behind_it) {
  const auto body = body_of(one_of<protocol::Listed>(replies));
  for (std::size_t length = 0; length < body.size() + 4; ++length) {
    std::vector<std::byte> room(length + 8, std::byte{0x5a});
    const auto wrote =
        write_reply(std::span(room).first(length), one_of<protocol::Listed>(replies));
    EXPECT(!wrote.ok());
    for (std::size_t k = length; k < room.size(); ++k) EXPECT(room[k] == std::byte{0x5a});
  }
}

TEST(only_so_many_paths_are_told_apart_and_sums_have_an_end) {
  TransferTotals moved;
  for (int k = 0; k < 20; ++k) moved.add(1, 8, std::string(200, static_cast<char>('a' + k)));
  EXPECT_EQ(moved.count, 20);
  EXPECT_EQ(moved.paths.size(), 5U);
  EXPECT_EQ(moved.paths.at("others"), 16);
  EXPECT_EQ(moved.paths.begin()->first.size(), 96U);
  moved.add(0, INT64_MAX, "");
  EXPECT_EQ(moved.bytes, INT64_MAX);
  EXPECT_EQ(moved.paths.size(), 5U);
}

TEST(garbage_is_refused_and_does_no_harm) {
  std::mt19937_64 random(1);
  const auto any = [](const auto&) -> Result<bool> { return true; };
  int read_well = 0;
  for (std::uint64_t k = 0; k < test::seed_count(200000); ++k) {
    std::vector<std::byte> bytes(random() % 200);
    for (auto& one : bytes) one = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
    if (bytes.size() >= 4) bytes[1] = bytes[2] = bytes[3] = std::byte{0};
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 49);
    read_well += read_request<Result<bool>>(bytes, any).ok() ? 1 : 0;
    std::apply([&](auto... one) { ((read_well += read_body(bytes, one).ok() ? 1 : 0), ...); },
               replies);
  }
  EXPECT(read_well < 2'000'000);
}

TEST(an_object_lies_inside_its_segment_whatever_a_server_says) {
  EXPECT(lies_inside({0, 0, 100}, 100, 100));
  EXPECT(lies_inside({0, 36, 64}, 64, 100));
  EXPECT(!lies_inside({0, 37, 64}, 64, 100));
  EXPECT(!lies_inside({0, -1, 64}, 64, 100));
  EXPECT(!lies_inside({0, 0, 64}, 101, 100));
  EXPECT(!lies_inside({0, INT64_MAX, 64}, 64, 100));
  EXPECT(!lies_inside({0, INT64_MIN, 64}, 64, 100));
}

TEST(boxes_of_more_dimensions_than_there_are_are_refused) {
  for (const int rank : {dimensions_max, dimensions_max + 1}) {
    fabric::MessageWriter out;
    out.add(static_cast<std::uint32_t>(1)).add(rank);
    for (int k = 0; k < rank; ++k) out.add(std::int64_t{0}).add(std::int64_t{1});
    protocol::BoundsReply here;
    EXPECT_EQ(read_body(out.bytes(), here).ok(), rank == dimensions_max);
  }
}
