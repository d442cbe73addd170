// The C API with a server in the same process: what goes on in several threads, for the sanitizers.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "c/workers.hpp"
#include "engine/kept_profile.hpp"
#include "staging/server.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using namespace tranship;

namespace {

constexpr double patience = 60;

/// Of a machine that was measured with all its ways between processes.
std::string profile_text() {
  const std::filesystem::directory_iterator measured(TRANSHIP_SOURCE_DIR "/machines/measured");
  const std::ifstream file(measured->path());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A server, and a folder in which the C API finds a profile: nothing is measured here.
class Service {
 public:
  Service() {
    std::string folder = std::filesystem::temp_directory_path() / "tranship-c-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    setenv("TRANSHIP_CACHE_FOLDER", folder.c_str(), 1);
    setenv("TRANSHIP_GPUS", "0", 1);
    setenv("TRANSHIP_THREADS", "2", 1);
    staging::Server::Options options;
    options.config = config_from_environment(std::getenv).value();
    options.profile = Profile::from_json(profile_text()).value();
    options.memory_bytes = 64 << 20;
    REQUIRE(save_profile(profile_text(), profile_path(options.config)).ok());
    auto server = staging::Server::open(std::move(options));
    REQUIRE(server.ok());
    server_ = std::move(*server);
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() { std::filesystem::remove_all(folder_); }

  std::string contact() const { return server_->contact(); }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<staging::Server> server_;
};

tranship_array described(std::vector<double>& values) {
  tranship_array array{};
  array.data = values.data();
  array.type = "f8";
  array.rank = 1;
  array.extents[0] = static_cast<int64_t>(values.size());
  return array;
}

}  // namespace

TEST(jobs_all_run_before_their_workers_end) {
  std::array<int, 1000> done{};
  {
    c_api::Workers workers;
    for (int& one : done) workers.run([&one] { ++one; });
  }
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), 1000);
}

TEST(threads_put_and_get_and_list_at_once) {
  const Service service;
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

TEST(errors_are_each_thread_s_own) {
  int ended = 0;
  EXPECT_EQ(tranship_request_test(nullptr, &ended), TRANSHIP_INVALID_ARGUMENT);
  std::thread([] {
    EXPECT_EQ(std::string(tranship_last_error()), "");
    EXPECT_EQ(tranship_ls(nullptr, nullptr), TRANSHIP_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(std::string(tranship_last_error()), "the argument `request` is NULL; give it");
}
