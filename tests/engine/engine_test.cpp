// The engine in C++: copies between host arrays, regions, pages, errors, cancelling and closing.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "engine/matrices.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

using namespace std::chrono_literals;

Status copied(Engine& engine, const Array& source, const Array& target) {
  auto event = engine.copy(source, target, {});
  return event ? event->wait(60s) : Status(event.error());
}

TEST(a_copy_between_host_arrays_ends_with_its_bytes) {
  const auto engine = open_engine();
  for (const std::int64_t rows : {3, 2000}) {  // copied on the caller's thread, and by workers
    const Matrix source = counted(rows, 300);
    Matrix target(rows, 300);
    EXPECT(copied(*engine, source.array, target.array).ok());
    EXPECT(target.values == source.values);
  }
  EXPECT_EQ(engine->buffer_bytes_in_use(), 0);
}

TEST(a_copy_between_layouts_transposes) {
  const auto engine = open_engine();
  const Matrix source = counted(40, 30);
  Matrix target(40, 30, "F, x, y");
  EXPECT(copied(*engine, source.array, target.array).ok());
  for (std::size_t x = 0; x < 40; ++x) {
    for (std::size_t y = 0; y < 30; ++y) {
      EXPECT_EQ(target.values[x + 40 * y], source.values[30 * x + y]);
    }
  }
}

TEST(a_region_changes_nothing_beside_it) {
  const auto engine = open_engine();
  const Matrix source = counted(10, 8);
  Matrix target(10, 8);
  Array from = source.array;
  Array to = target.array;
  from.view.lower = {2, 3};
  to.view.lower = {4, 1};
  from.view.extents[0] = to.view.extents[0] = 5;
  from.view.extents[1] = to.view.extents[1] = 4;
  EXPECT(copied(*engine, from, to).ok());
  for (std::size_t x = 0; x < 10; ++x) {
    for (std::size_t y = 0; y < 8; ++y) {
      const bool inside = x >= 4 && x < 9 && y >= 1 && y < 5;
      EXPECT_EQ(target.values[8 * x + y], inside ? source.values[8 * (x - 2) + y + 2] : 0);
    }
  }
}

TEST(pages_land_where_the_lists_say) {
  const auto engine = open_engine();
  const std::int64_t pages = 600;
  const Matrix source = counted(pages, 100);
  std::vector<std::int64_t> from(static_cast<std::size_t>(pages));
  std::iota(from.begin(), from.end(), 0);
  std::vector<std::int64_t> to = from;
  std::rotate(from.begin(), from.begin() + 250, from.end());
  for (std::size_t k = 0; k + 1 < to.size(); k += 3) std::swap(to[k], to[k + 1]);
  for (const std::size_t count : {std::size_t{2}, to.size()}) {
    Matrix target(pages, 100);
    const CopyPair ends{source.array, target.array};
    auto event = engine->copy({{&ends, 1}, PageLists{{from.data(), count}, {to.data(), count}}});
    REQUIRE(event.ok());
    EXPECT(event->wait(60s).ok());
    EXPECT_EQ(event->plan()->bytes, static_cast<std::int64_t>(count) * 400);
    Matrix expected(pages, 100);
    for (std::size_t k = 0; k < count; ++k) {
      std::copy_n(source.values.begin() + 100 * from[k], 100,
                  expected.values.begin() + 100 * to[k]);
    }
    EXPECT(target.values == expected.values);
  }
}

TEST(a_failed_check_says_what_to_do_and_copies_nothing) {
  const auto engine = open_engine();
  const Matrix source = counted(4, 4);
  Matrix target(4, 4);
  target.array.writable = false;
  const auto refused = engine->copy(source.array, target.array, {});
  REQUIRE(!refused.ok());
  EXPECT(refused.error().message.find("read-only") != std::string::npos);
  EXPECT(!refused.error().hint.empty());
  EXPECT(target.values == Matrix(4, 4).values);

  Array lost = target.array;
  lost.writable = true;
  lost.memory_kind = MemoryKind::device;
  const auto without_gpu = engine->copy(source.array, lost, {});
  REQUIRE(!without_gpu.ok());
  EXPECT(without_gpu.error().code == ErrorCode::unsupported);
  EXPECT(!without_gpu.error().hint.empty());
}

TEST(copies_go_after_others_and_can_be_cancelled_before_they_begin) {
  const auto engine = open_engine();
  const Matrix source = counted(4000, 1000);
  Matrix first(4000, 1000);
  Matrix second(4000, 1000);
  Matrix third(4000, 1000);
  auto before = engine->copy(source.array, first.array, {});
  REQUIRE(before.ok());
  CopyOptions options;
  options.start.after = {*before};
  auto after = engine->copy(first.array, second.array, options);
  auto unwanted = engine->copy(first.array, third.array, options);
  REQUIRE(after.ok() && unwanted.ok());
  unwanted->cancel();
  const Status ended = unwanted->wait(60s);
  EXPECT(ended.ok() || ended.error().code == ErrorCode::cancelled);
  EXPECT(after->wait(60s).ok());
  EXPECT(before->done());
  EXPECT(second.values == source.values);
}

TEST(a_copy_of_nothing_ends_after_what_it_follows_or_when_it_is_cancelled) {
  const auto engine = open_engine();
  const Matrix source = counted(4000, 1000);
  Matrix target(4000, 1000);
  const Matrix from(0, 5);
  Matrix empty(0, 5);
  CopyOptions options;
  options.start.after = {engine->copy(source.array, target.array, {}).value()};
  auto after = engine->copy(from.array, empty.array, options);
  auto of_no_pairs = engine->copy_all({}, options);
  auto unwanted = engine->copy(from.array, empty.array, options);
  REQUIRE(after.ok() && of_no_pairs.ok() && unwanted.ok());
  unwanted->cancel();
  (void)unwanted->wait(60s);
  EXPECT(of_no_pairs->wait(60s).ok());
  EXPECT(options.start.after[0].done());
  EXPECT(after->wait(60s).ok());
  EXPECT(target.values == source.values);
  options.start.after[0] = engine->copy(source.array, target.array, {}).value();
  options.start.after[0].cancel();
  if (!options.start.after[0].wait(60s)) EXPECT(!engine->copy(from.array, empty.array, options));
}

TEST(closing_ends_what_is_outstanding_and_later_calls) {
  auto engine = open_engine();
  const Matrix source = counted(4000, 1000);
  std::vector<Matrix> targets;
  std::vector<Event> events;
  for (int k = 0; k < 6; ++k) targets.emplace_back(4000, 1000);
  for (Matrix& target : targets) {
    auto event = engine->copy(source.array, target.array, {});
    REQUIRE(event.ok());
    events.push_back(*event);
  }
  EXPECT(engine->close().ok());
  for (const Event& event : events) {
    EXPECT(event.done());
    const Status ended = event.wait(0s);
    EXPECT(ended.ok() || ended.error().code == ErrorCode::closed);
  }
  const auto refused = engine->copy(source.array, targets[0].array, {});
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::closed);
  EXPECT(!refused.error().hint.empty());
  EXPECT(engine->close().ok());
}

}  // namespace
}  // namespace tranship
