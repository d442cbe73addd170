// A server of the staging service in this process, for tests of the C API.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "c/opened.hpp"
#include "calibration/kept_profile.hpp"
#include "staging/server/server.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

namespace tranship::test {

/// Returns the text of a measured profile, which has all channels between processes.
inline std::string profile_text() {
  const std::ifstream file(profile_file());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A server, and a folder that holds a profile for the C API, so that nothing is measured here.
class StagingService {
 public:
  StagingService() {
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
  StagingService(const StagingService&) = delete;
  StagingService& operator=(const StagingService&) = delete;
  ~StagingService() { std::filesystem::remove_all(folder_); }

  std::string contact() const { return server_->contact(); }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<staging::Server> server_;
};

/// Describes an array of one dimension, for puts and gets.
inline tranship_array described(std::vector<double>& values) {
  tranship_array array{};
  array.data = values.data();
  array.type = "f8";
  array.rank = 1;
  array.extents[0] = static_cast<int64_t>(values.size());
  return array;
}

}  // namespace tranship::test
