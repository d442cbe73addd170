// An engine of the C API for tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/test.hpp"
#include "tranship/tranship.h"

namespace tranship::test {

/// Most seconds that a copy of a test takes.
constexpr double patience = 60;

/// Returns the file of a profile that was measured once.
inline std::string profile_file() {
  std::string first;
  for (const auto& file :
       std::filesystem::directory_iterator(TRANSHIP_SOURCE_DIR "/machines/measured")) {
    if (first.empty() || file.path().string() < first) first = file.path().string();
  }
  return first;
}

/// An engine with two threads and no GPU, and a folder for its files.
class Opened {
 public:
  /// more: Settings. contact_file: A file to write, by which other processes find the engine.
  explicit Opened(bool accept = false, const std::vector<tranship_setting>& more = {},
                  const char* contact_file = nullptr) {
    folder_ = std::filesystem::temp_directory_path() / "tranship-engine-XXXXXX";
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
    const std::string profile = profile_file();
    std::vector<tranship_setting> settings{{"threads", "2"}, {"gpus", "0"}};
    settings.insert(settings.end(), more.begin(), more.end());
    tranship_engine_options options{};
    options.size = sizeof options;
    options.settings = settings.data();
    options.setting_count = static_cast<std::int64_t>(settings.size());
    options.profile = profile.c_str();
    options.accept = accept ? 1 : 0;
    options.contact_file = contact_file;
    REQUIRE(tranship_engine_open(&options, &engine_) == TRANSHIP_OK);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    EXPECT_EQ(tranship_engine_close(engine_), TRANSHIP_OK);
    std::filesystem::remove_all(folder_);
  }

  tranship_engine* get() const { return engine_; }
  std::string path(const char* name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
  tranship_engine* engine_ = nullptr;
};

/// Returns the message and the hint of this thread's last failure.
inline std::string last() {
  return std::string(tranship_last_error()) + "|" + tranship_last_hint();
}

}  // namespace tranship::test
