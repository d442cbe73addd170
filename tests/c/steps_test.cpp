// Steps of the C API in several threads, with a server in the same process, so that sanitizers see
// both.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "c/staging_service.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using namespace tranship;
using test::described;
using test::patience;
using test::StagingService;

namespace {

tranship_staging* opened(const StagingService& service) {
  tranship_staging* staging = nullptr;
  REQUIRE(tranship_open(service.contact().c_str(), nullptr, patience, &staging) == TRANSHIP_OK);
  return staging;
}

tranship_step_writer* begun(tranship_staging* staging, std::int64_t number) {
  tranship_step_writer* step = nullptr;
  REQUIRE(tranship_step_begin(staging, number, 1, patience, &step) == TRANSHIP_OK);
  return step;
}

tranship_array part(std::vector<double>& values, std::int64_t lower) {
  tranship_array array = described(values);
  array.lower[0] = lower;
  return array;
}

constexpr std::int64_t part_size = 3000;

/// Puts parts of a variable within a step from several threads, in both ways, until a call is
/// refused. Stops when `enough` were put.
struct Putters {
  explicit Putters(tranship_step_writer* step) {
    for (int k = 0; k < 4; ++k) {
      threads.emplace_back([this, step] {
        while (true) {
          const int number = next++;
          std::vector<double> values(part_size, number);
          const tranship_array array = part(values, number * part_size);
          tranship_request* request = nullptr;
          const tranship_code code =
              number % 2 == 0 ? tranship_step_put(step, "v", &array, patience)
                              : tranship_step_put_async(step, "v", &array, patience, &request);
          if (code != TRANSHIP_OK) {
            last_refusal = code;
            return;
          }
          if (request != nullptr) {
            if (tranship_request_wait(request, patience) == TRANSHIP_OK) ++put;
            tranship_request_free(request);
          } else {
            ++put;
          }
        }
      });
    }
  }
  void wait_for(int count) const {
    while (put < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
  }

  std::atomic<int> next{0};
  std::atomic<int> put{0};
  std::atomic<int> last_refusal{TRANSHIP_OK};
  std::vector<std::thread> threads;
};

}  // namespace

TEST(what_was_put_before_the_end_of_a_step_is_in_it_whole) {
  const StagingService service;
  tranship_staging* staging = opened(service);
  tranship_step_writer* writer = begun(staging, 1);
  Putters putters(writer);
  putters.wait_for(8);
  EXPECT_EQ(tranship_step_end(writer, patience), TRANSHIP_OK);
  putters.join();
  EXPECT_EQ(putters.last_refusal.load(), TRANSHIP_INVALID_ARGUMENT);
  tranship_step_writer_free(writer);

  // The step has each part whose put has succeeded, and no other: puts that had entered were let
  // end.
  tranship_step* step = nullptr;
  REQUIRE(tranship_step_find(staging, 1, patience, &step) == TRANSHIP_OK);
  int found = 0;
  for (int number = 0; number < putters.next; ++number) {
    std::vector<double> values(part_size);
    const tranship_array array = part(values, number * part_size);
    const tranship_code code = tranship_step_get(step, "v", &array, patience);
    if (code != TRANSHIP_OK) {
      EXPECT_EQ(code, TRANSHIP_NOT_FOUND);
      continue;
    }
    ++found;
    EXPECT(values == std::vector<double>(part_size, number));
  }
  EXPECT_EQ(found, putters.put.load());
  tranship_step_free(step);
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
}

TEST(giving_a_step_up_waits_for_no_put) {
  const StagingService service;
  tranship_staging* staging = opened(service);
  tranship_step_writer* writer = begun(staging, 1);
  Putters putters(writer);
  putters.wait_for(4);
  EXPECT_EQ(tranship_step_give_up(writer, "enough"), TRANSHIP_OK);
  putters.join();
  EXPECT(putters.last_refusal == TRANSHIP_INVALID_ARGUMENT ||
         putters.last_refusal == TRANSHIP_NOT_FOUND);
  tranship_step_writer_free(writer);
  tranship_step* step = nullptr;
  EXPECT_EQ(tranship_step_find(staging, 1, patience, &step), TRANSHIP_NOT_FOUND);
  EXPECT(step == nullptr);
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
}

TEST(what_a_step_has_outlives_its_connection) {
  const StagingService service;
  tranship_staging* staging = opened(service);
  tranship_step_writer* writer = begun(staging, 7);
  std::vector<double> values(10);
  const tranship_array array = described(values);
  EXPECT_EQ(tranship_step_put(writer, "v", &array, patience), TRANSHIP_OK);
  EXPECT_EQ(tranship_step_set_text(writer, "v", "unit", "J"), TRANSHIP_OK);
  EXPECT_EQ(tranship_step_end(writer, patience), TRANSHIP_OK);
  tranship_step* step = nullptr;
  REQUIRE(tranship_step_latest(staging, patience, &step) == TRANSHIP_OK);
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
  tranship_step_writer_free(writer);
  const tranship_attributes* attributes = nullptr;
  const char* unit = nullptr;
  tranship_variable variable{};
  EXPECT_EQ(tranship_step_number(step), 7);
  EXPECT_EQ(tranship_step_describe(step, "v", &variable), TRANSHIP_OK);
  EXPECT_EQ(variable.upper[0], 10);
  EXPECT_EQ(tranship_step_attributes(step, "v", &attributes), TRANSHIP_OK);
  EXPECT_EQ(tranship_attributes_text(attributes, "unit", &unit), TRANSHIP_OK);
  EXPECT_EQ(std::string(unit), "J");
  EXPECT_EQ(tranship_step_get(step, "v", &array, patience), TRANSHIP_CLOSED);
  tranship_step_free(step);
}
