// The staging client of the C API in several threads, with a server in the same process, so that
// sanitizers see both.
#include <array>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "c/staging_service.hpp"
#include "c/workers.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using namespace tranship;
using test::described;
using test::patience;
using test::StagingService;

TEST(jobs_all_run_before_their_workers_end) {
  std::array<int, 1000> done{};
  {
    c_api::Workers workers({});
    const auto job = [](int& one) {
      return [&one](std::chrono::milliseconds, bool) {
        ++one;
        return true;
      };
    };
    for (int& one : done) EXPECT(workers.run({job(one), {}, true}));
  }
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), 1000);
}

TEST(gets_that_wait_keep_no_put_from_running) {
  const StagingService service;
  tranship_staging* staging = nullptr;
  REQUIRE(tranship_open(service.contact().c_str(), nullptr, patience, &staging) == TRANSHIP_OK);
  constexpr int count = 20;
  std::vector<std::vector<double>> found(count, std::vector<double>(3));
  std::vector<tranship_request*> gets(count);
  std::vector<tranship_request*> puts(count);
  std::vector<double> values{1, 2, 3};
  const tranship_array source = described(values);
  for (std::size_t k = 0; k < count; ++k) {
    const tranship_array target = described(found[k]);
    REQUIRE(tranship_get_async(staging, "v", static_cast<int64_t>(k), &target, patience,
                               &gets[k]) == TRANSHIP_OK);
  }
  for (std::size_t k = 0; k < count; ++k) {
    REQUIRE(tranship_put_async(staging, "v", static_cast<int64_t>(k), &source, patience,
                               &puts[k]) == TRANSHIP_OK);
  }
  for (std::size_t k = 0; k < count; ++k) {
    EXPECT_EQ(tranship_request_wait(gets[k], patience), TRANSHIP_OK);
    EXPECT_EQ(tranship_request_wait(puts[k], patience), TRANSHIP_OK);
    EXPECT(found[k] == values);
    tranship_request_free(gets[k]);
    tranship_request_free(puts[k]);
  }
  tranship_request* late = nullptr;
  const tranship_array target = described(found[0]);
  REQUIRE(tranship_get_async(staging, "v", 99, &target, patience, &late) == TRANSHIP_OK);
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
  EXPECT_EQ(tranship_request_wait(late, patience), TRANSHIP_CLOSED);
  tranship_request_free(late);
}

TEST(threads_put_and_get_and_list_at_once) {
  const StagingService service;
  tranship_staging* staging = nullptr;
  REQUIRE(tranship_open(service.contact().c_str(), nullptr, patience, &staging) == TRANSHIP_OK);
  std::vector<std::thread> threads;
  std::array<int, 3> good{};
  for (std::size_t k = 0; k < good.size(); ++k) {
    threads.emplace_back([&, k] {
      const std::string name = "variable " + std::to_string(k);
      for (int version = 0; version < 5; ++version) {
        std::vector<double> values(k == 0 ? 10 : 50'000, version + 0.5);
        std::vector<double> found(values.size());
        const tranship_array source = described(values);
        const tranship_array target = described(found);
        tranship_listing* listing = nullptr;
        tranship_request* get = nullptr;
        tranship_request* put = nullptr;
        const bool begun =
            tranship_get_async(staging, name.c_str(), version, &target, patience, &get) == 0 &&
            tranship_put_async(staging, name.c_str(), version, &source, patience, &put) == 0;
        const bool ended = begun && tranship_request_wait(get, patience) == TRANSHIP_OK &&
                           tranship_request_wait(put, patience) == TRANSHIP_OK;
        const bool listed =
            tranship_ls(staging, &listing) == TRANSHIP_OK && tranship_listing_size(listing) > 0;
        if (ended && listed && found == values) ++good[k];
        tranship_listing_free(listing);
        tranship_request_free(get);
        tranship_request_free(put);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
  for (const int versions : good) EXPECT_EQ(versions, 5);
}

TEST(a_closed_client_answers_every_call_with_closed) {
  const StagingService service;
  tranship_staging* staging = nullptr;
  REQUIRE(tranship_open(service.contact().c_str(), nullptr, patience, &staging) == TRANSHIP_OK);
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
  std::vector<double> values(10);
  const tranship_array array = described(values);
  tranship_request* request = nullptr;
  tranship_listing* listing = nullptr;
  tranship_variable variable{};
  int64_t version = 0;
  EXPECT_EQ(tranship_put(staging, "x", 1, &array, patience), TRANSHIP_CLOSED);
  EXPECT_EQ(std::string(tranship_last_error()), "this staging client was closed");
  EXPECT_EQ(std::string(tranship_last_hint()), "open another one");
  EXPECT_EQ(tranship_is_open(staging), 0);
  EXPECT_EQ(tranship_get(staging, "x", 1, &array, patience), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_get_next(staging, "x", 1, &array, patience, &version), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_get_latest(staging, "x", &array, patience, &version), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_wait_next(staging, "x", 1, &array, patience, &version), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_define(staging, "x", "f8", &array, 0), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_discard(staging, "x", 1), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_describe(staging, "x", patience, &variable), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_put_async(staging, "x", 1, &array, patience, &request), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_get_async(staging, "x", 1, &array, patience, &request), TRANSHIP_CLOSED);
  EXPECT(request == nullptr);
  EXPECT_EQ(tranship_ls(staging, &listing), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
}

TEST(closing_ends_the_calls_of_other_threads_and_finishes_puts) {
  const StagingService service;
  tranship_staging* staging = nullptr;
  REQUIRE(tranship_open(service.contact().c_str(), nullptr, patience, &staging) == TRANSHIP_OK);
  std::vector<double> values(100'000, 1.5);
  std::vector<double> found(10);
  const tranship_array source = described(values);
  const tranship_array target = described(found);
  std::vector<tranship_request*> gets(8);
  for (tranship_request*& get : gets) {
    REQUIRE(tranship_get_async(staging, "never", 1, &target, patience, &get) == TRANSHIP_OK);
  }
  tranship_request* put = nullptr;
  REQUIRE(tranship_put_async(staging, "put", 1, &source, patience, &put) == TRANSHIP_OK);
  tranship_code waited = TRANSHIP_OK;
  std::thread waiting([&] { waited = tranship_get(staging, "never", 1, &target, patience); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tranship_close(staging), TRANSHIP_OK);
  waiting.join();
  EXPECT(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  EXPECT_EQ(waited, TRANSHIP_CLOSED);
  for (tranship_request* get : gets) {
    EXPECT_EQ(tranship_request_wait(get, patience), TRANSHIP_CLOSED);
    tranship_request_free(get);
  }
  EXPECT_EQ(tranship_request_wait(put, patience), TRANSHIP_OK);
  tranship_request_free(put);
}

TEST(each_thread_has_its_own_last_error) {
  int ended = 0;
  EXPECT_EQ(tranship_request_test(nullptr, &ended), TRANSHIP_INVALID_ARGUMENT);
  std::thread([] {
    EXPECT_EQ(std::string(tranship_last_error()), "");
    EXPECT_EQ(std::string(tranship_last_hint()), "");
    EXPECT_EQ(tranship_ls(nullptr, nullptr), TRANSHIP_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(std::string(tranship_last_error()), "the argument `request` is NULL");
  EXPECT_EQ(std::string(tranship_last_hint()), "pass an address");
}
