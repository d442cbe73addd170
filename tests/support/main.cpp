#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "support/test.hpp"

namespace tranship::test {
namespace {

struct Case {
  const char* name;
  std::function<void()> body;
};

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

int failures_in_case = 0;
std::vector<std::string> arguments;

int skipped = 0;

bool run_case(const Case& one) {
  failures_in_case = 0;
  try {
    one.body();
  } catch (const CaseSkipped& why) {
    ++skipped;
    std::printf("SKIPPED %s: %s\n", one.name, why.what());
  } catch (const CaseEnded&) {
    // The failure was recorded where it happened.
  } catch (const std::exception& error) {
    record_failure(one.name, 0, std::string("exception: ") + error.what());
  }
  return failures_in_case == 0;
}

}  // namespace

bool add_case(const char* name, std::function<void()> body) {
  cases().push_back({name, std::move(body)});
  return true;
}

std::string argument(int number) {
  const auto index = static_cast<std::size_t>(number);
  return index < arguments.size() ? arguments[index] : std::string();
}

void record_failure(const char* file, int line, const std::string& text) {
  ++failures_in_case;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
}

}  // namespace tranship::test

/// Runs all cases, or those whose name contains the first argument.
int main(int argc, char** argv) {
  using namespace tranship::test;
  arguments.assign(argv, argv + argc);
  const char* filter = argc > 1 ? argv[1] : "";
  int passed = 0;
  int failed = 0;
  for (const auto& one : cases()) {
    if (std::strstr(one.name, filter) == nullptr) continue;
    if (run_case(one)) {
      ++passed;
    } else {
      ++failed;
      std::fprintf(stderr, "FAILED %s\n", one.name);
    }
  }
  passed -= skipped;
  if (skipped > 0) std::printf("%d skipped\n", skipped);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed + skipped > 0 ? 0 : 1;
}
