// Calls every member of the C++ interface, and compares what it moved: face CONTACT. Built by
// tests/python/test_cpp_api.py against the installed package, and not with the other tests, because
// the core has names of its own in the same namespace.
#include <algorithm>
#include <complex>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <tranship/tranship.hpp>
#include "expect.hpp"

namespace {

void check_types() {
  static_assert(std::string_view(ts::type_name<double>()) == "f8");
  static_assert(std::string_view(ts::type_name<bool>()) == "b1");
  static_assert(std::string_view(ts::type_name<std::int16_t>()) == "i2");
  static_assert(std::string_view(ts::type_name<std::byte>()) == "u1");
  static_assert(std::string_view(ts::type_name<std::complex<float>>()) == "c8");
  static_assert(!std::is_copy_constructible_v<ts::Engine>);
  static_assert(std::is_nothrow_move_constructible_v<ts::Event>);
  static_assert(std::is_nothrow_move_assignable_v<ts::Instance>);
}

void check_arrays(const ts::Engine& engine) {
  const std::vector<double> source = counted(12);
  std::vector<double> target(12);
  engine.copy(ts::Array(source, {3, 4}), ts::Array(target, {3, 4}, ts::Order::fortran)).wait();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) EXPECT(target[i + 3 * j] == source[4 * i + j]);
  }
  engine
      .copy(ts::Array(source.data(), {2, 2}).with_strides({32, 16}),
            ts::Array(target.data(), {2, 2}))
      .wait(patience);
  EXPECT(target[1] == 2.0 && target[2] == 4.0 && target[3] == 6.0);
  std::string hint;
  EXPECT(throws<ts::InvalidArgument>([&] { engine.copy(ts::Array(target), ts::Array(source)); },
                                     &hint));
  EXPECT(hint == "pass an array of elements that may be written");
  const ts::Instance constant = engine.instance(ts::Array(source));
  EXPECT(throws<ts::InvalidArgument>([&] { engine.copy(ts::Array(target), constant); }));
  EXPECT(throws<ts::InvalidArgument>([&] { ts::Array(source, {3, 5}); }));
  EXPECT(throws<ts::InvalidArgument>([&] { ts::Array(source).with_strides({8, 8}); }));
  EXPECT(throws<ts::InvalidArgument>(
      [&] { (void)engine.plan(ts::Array(source), ts::Array(target, {3, 4})); }));
}

void check_prepared(const ts::Engine& engine, const ts::Instance& source,
                    const ts::Instance& target) {
  std::vector<double> values = counted(1200);
  std::vector<double> back(1200);
  const ts::PreparedCopy copy = engine.prepare(ts::Array(values), ts::Array(back));
  for (int turn = 0; turn < 3; ++turn) {
    for (double& value : values) value += 1;
    const ts::Event first = copy.start();
    copy.start({.after = {&first}}).wait();
    EXPECT(back == values);
  }
  std::vector<double> other(1200);
  const ts::Instance landing = engine.instance(ts::Array(other));
  copy.start({.target = &landing}).wait();
  EXPECT(other == values);
  EXPECT(throws<ts::InvalidArgument>([&] { copy.start({.target = &target}); }));
  const ts::CopyPair pair{&source, &target};
  engine.prepare_all({&pair, 1}).start().wait();
  const std::vector<std::int64_t> pages{0, 1};
  const ts::PreparedCopy some = engine.prepare_pages(source, target, pages, pages);
  some.start().wait();
  EXPECT(throws<ts::InvalidArgument>(
      [&] { engine.prepare_pages(source, target, pages, {pages.data(), 1}); }));
}

void check_instances(const ts::Engine& engine) {
  const ts::Layout layout({{"x", 40}, {"y", 30}}, {{"a", "f8"}}, "y, x");
  const ts::Layout blocked({{"x", 40}, {"y", 30}}, {{"a", "f8"}}, "x:4, y, x");
  EXPECT(layout.bytes() == 9600);
  std::vector<double> values = counted(1200);
  const ts::Instance source = engine.instance(values, layout);
  const ts::Instance shared = engine.allocate(blocked);
  EXPECT(source.data() == values.data() && source.size_bytes() == 9600);
  const ts::Event first = engine.copy(source, shared);
  std::vector<double> back(1200);
  const ts::Instance target = engine.instance(back, layout);
  const ts::Event second = engine.copy(shared, target, {.priority = 1, .after = {&first}});
  second.wait();
  EXPECT(first.done() && second.done() && back == values);
  const ts::Progress progress = second.progress();
  EXPECT(progress.bytes_done == 9600 && progress.bytes_total == 9600 &&
         progress.left->count() == 0);
  second.cancel();  // cancelling a copy that has ended does nothing
  const std::span<const double> inside = shared.elements<double>();
  EXPECT(inside.size() == 1200 && inside[1] == values[30]);
  EXPECT(second.plan().explain().find("node0/host0") != std::string::npos);
  EXPECT(engine.plan(source, shared).to_json().find("\"hops\"") != std::string::npos);
  EXPECT(engine.plan(source, shared).predicted().count() > 0);

  std::fill(back.begin(), back.end(), -1.0);
  engine.copy(shared, target, {.region = {{"x", 3, 5}}}).wait();
  EXPECT(back[89] == -1.0 && back[90] == 90.0 && back[149] == 149.0 && back[150] == -1.0);
  const ts::Instance row = target.part({{"x", 7, 8}});
  const ts::CopyPair pair{&source, &target};
  engine.copy_all({&pair, 1}).wait();
  EXPECT(back == values && row.size_bytes() == 240);
  const std::vector<std::int64_t> from{39, 0};
  const std::vector<std::int64_t> to{0, 5};
  engine.copy_pages(source, target, from, to).wait();
  EXPECT(back[0] == 1170.0 && back[150] == 0.0 && back[30] == 30.0);
  EXPECT(throws<ts::InvalidArgument>(
      [&] { engine.copy_pages(source, target, from, {to.data(), 1}); }));
  const std::vector<std::int64_t> offsets{8, 0};
  const std::vector<std::int64_t> lengths{8, 4};
  engine.copy_pieces(source, target, offsets, offsets, lengths).wait();
  EXPECT(back[1] == 1.0);
  EXPECT(throws<ts::InvalidArgument>(
      [&] { engine.copy_pieces(source, target, offsets, offsets, {lengths.data(), 1}); }));
  check_prepared(engine, source, target);
  EXPECT(throws<ts::OutOfRange>([&] { source.part({{"y", 0, 31}}); }));
  EXPECT(throws<ts::InvalidArgument>([&] { engine.copy(source, target, {.planner = "best"}); }));
  std::vector<float> rounded(1200);
  engine.copy(ts::Array(values), ts::Array(rounded), {.cast = "same_kind"}).wait();
  EXPECT(rounded[1199] == 1199.0F);
  EXPECT(throws<ts::InvalidArgument>(
      [&] { engine.copy(ts::Array(values), ts::Array(rounded), {.cast = "safe"}); }));
  try {
    engine.allocate(layout, "device0");
  } catch (const ts::Error& error) {
    EXPECT(error.code() == ts::Code::unsupported && std::string(error.name()) == "unsupported");
  }
}

void check_files(const ts::Engine& engine) {
  const ts::Layout layout({{"n", 1000}}, {{"a", "f8"}});
  std::vector<double> values = counted(1000);
  const ts::Instance memory = engine.instance(values, layout);
  ts::File made = engine.open("face.bin", layout, {.mode = "w", .offset = 80, .durable = true});
  engine.copy(memory, made).wait();
  made.flush();
  made.close();
  std::vector<double> found(500);
  const ts::Layout half({{"n", 500}}, {{"a", "f8"}});
  const ts::File file = engine.open("face.bin", half, {.offset = 80 + 4000, .cached = true});
  engine.copy(file, ts::Array(found)).wait();
  EXPECT(std::equal(found.begin(), found.end(), values.begin() + 500));
  EXPECT(throws<ts::NotFound>([&] { engine.open("none.bin", layout); }));
  EXPECT(throws<ts::OutOfRange>([&] { engine.open("face.bin", layout, {.offset = 88}); }));
}

void check_peers(const ts::Engine& engine) {
  ts::Engine other({.settings = {{"threads", "1"}}, .contact_file = "face.contact"});
  EXPECT(!other.contact().empty() && engine.contact().empty());
  const ts::Layout layout({{"x", 50}, {"y", 20}}, {{"a", "i4"}});
  const ts::Instance exported = other.allocate(layout);
  const std::span<std::int32_t> values = exported.elements<std::int32_t>();
  std::iota(values.begin(), values.end(), 0);
  other.export_as("grid", exported);
  {
    const ts::Peer peer = engine.connect("face.contact", patience);
    EXPECT(peer.names() == std::vector<std::string>{"grid"});
    std::vector<std::int32_t> found(200);
    engine.copy(peer["grid"].part({{"x", 10, 20}}), ts::Array(found, {10, 20})).wait(patience);
    EXPECT(std::equal(found.begin(), found.end(), values.begin() + 200));
    EXPECT(throws<ts::NotFound>([&] { (void)peer["none"]; }));
    other.withdraw("grid");
    EXPECT(throws<ts::NotFound>([&] { other.withdraw("grid"); }));
  }
  other.close();
  other.close();
  EXPECT(throws<ts::Closed>([&] { other.allocate(layout); }));
}

void check_notices(const ts::Engine& alone) {
  const ts::Engine owner(
      {.settings = {{"threads", "1"}, {"notices_max", "3"}}, .contact_file = "owner.contact"});
  const ts::Engine sender({.settings = {{"threads", "1"}}, .accept = true});
  const ts::Layout layout({{"x", 100}}, {{"a", "f8"}});
  const ts::Instance inbox = owner.allocate(layout);
  const std::span<double> received = inbox.elements<double>();
  owner.export_as("inbox", inbox, {.notices = true});
  owner.export_as("silent", inbox);
  const ts::Peer peer = sender.connect("owner.contact", patience);
  const ts::Instance remote = peer["inbox"];
  std::vector<double> values = counted(100);
  const ts::Event event = sender.copy(ts::Array(values), remote, {.notify = "step 1"});
  const std::vector<ts::Notice> first = owner.notices(patience);
  EXPECT(first.size() == 1 && first[0].name == "step 1" && first[0].array == "inbox");
  EXPECT(first[0].written && !first[0].sender.empty());
  EXPECT(std::equal(values.begin(), values.end(), received.begin()));
  event.wait(patience);
  EXPECT(owner.notices().empty());

  const ts::PreparedCopy prepared = sender.prepare(remote, ts::Array(values));
  prepared.start({.notify = "read"}).wait(patience);
  prepared.start().wait(patience);
  const std::vector<ts::Notice> second = owner.notices();
  EXPECT(second.size() == 1 && second[0].name == "read" && !second[0].written);

  std::string hint;
  const ts::Array source(values);
  EXPECT(throws<ts::InvalidArgument>([&] { sender.copy(source, peer["silent"], {.notify = "x"}); },
                                     &hint));
  EXPECT(hint == "let it export the array with the option notices, or leave out notify");
  EXPECT(throws<ts::InvalidArgument>([&] { sender.copy(source, remote, {.notify = "a\nb"}); }));
  const std::string cut("a\0b", 3);
  EXPECT(throws<ts::InvalidArgument>([&] { sender.copy(source, remote, {.notify = cut}); }));
  EXPECT(throws<ts::InvalidArgument>(
      [&] { (void)sender.prepare(source, remote, {.notify = "too early"}); }));
  EXPECT(throws<ts::InvalidArgument>([&] { (void)alone.notices(); }));
  EXPECT(throws<ts::InvalidArgument>([&] { (void)owner.notices(ts::Seconds(-1)); }));
  EXPECT(owner.notices().empty());

  for (const char* name : {"1", "2", "3"}) {
    sender.copy(source, remote, {.notify = name}).wait(patience);
  }
  try {
    sender.copy(source, remote, {.notify = "4"}).wait(patience);
    EXPECT(false);
  } catch (const ts::Error& error) {
    EXPECT(error.code() == ts::Code::out_of_memory);
  }
  EXPECT(owner.notices().size() == 3);

  const ts::Peer back = owner.connect(sender.contact(), patience);
  sender.copy(source, remote, {.notify = "of a peer"}).wait(patience);
  EXPECT(back.notices().size() == 1 && back.notices().empty());
}

void check_staging(const std::string& contact) {
  ts::Staging writer(contact, {.name = "writer", .timeout = ts::Seconds(20)});
  ts::Staging reader(contact);
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::vector<float> found(6);
  writer.define("plane", "f4", ts::Array(values, {2, 3}), 1);
  writer.put("plane", 3, ts::Array(values, {2, 3}));
  reader.get("plane", 3, ts::Array(found, {2, 3}));
  EXPECT(found == values);
  const ts::Request late = reader.get_async("plane", 5, ts::Array(found, {2, 3}));
  EXPECT(!late.done());
  writer.put_async("plane", 5, ts::Array(values, {2, 3})).wait(patience);
  late.wait(patience);
  EXPECT(reader.get_next("plane", ts::Staging::before_first, ts::Array(found, {2, 3})) == 3);
  EXPECT(reader.wait_next("plane", 3, ts::Array(values, {2, 3})) == 5);
  std::vector<float> one(1);
  EXPECT(reader.get_latest("plane", ts::Array(one, {1, 1}).at({1, 2})) == 5 && one[0] == 6);
  const ts::Variable described = reader.describe("plane");
  EXPECT(described.type == "f4" && described.upper == std::vector<std::int64_t>({2, 3}));
  const std::vector<ts::Variable> listed = reader.list();
  EXPECT(listed.size() == 1 && listed[0].name == "plane" && listed[0].versions == 2);
  writer.discard("plane", 3);
  EXPECT(throws<ts::NotFound>([&] { reader.get("plane", 3, ts::Array(found, {2, 3})); }));
  EXPECT(throws<ts::InvalidArgument>([&] { reader.get("plane", 5, ts::Array(values, {2, 3})); }));
  writer.close();
  EXPECT(!reader.get_next("plane", 5, ts::Array(found, {2, 3})));
  reader.close();
  EXPECT(throws<ts::Closed>([&] { reader.get_next("plane", 5, ts::Array(found, {2, 3})); }));
}

void check_threads(const ts::Engine& engine) {
  const std::vector<double> source = counted(200'000);
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (int& mine : good) {
    threads.emplace_back([&] {
      std::vector<double> target(source.size());
      engine.copy(ts::Array(source), ts::Array(target)).wait();
      mine = target == source ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(std::count(good.begin(), good.end(), 1) == 4);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  check_types();
  const ts::Engine engine({.settings = {{"threads", "2"}, {"gpus", "0"}}});
  check_arrays(engine);
  check_instances(engine);
  check_files(engine);
  check_peers(engine);
  check_notices(engine);
  check_threads(engine);
  check_staging(argv[1]);
  EXPECT(throws<ts::InvalidArgument>([] { ts::Engine({.settings = {{"speed", "high"}}}); }));
  EXPECT(throws<ts::NotFound>([&] { (void)engine.connect("nowhere.contact", ts::Seconds(0.2)); }));
}
