// A small test framework without dependencies, because GoogleTest and similar frameworks are not on
// the package index. TEST(name) registers a case; EXPECT records a failure, REQUIRE ends the case.
#pragma once

#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tranship::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// Returns how many of `usual` seeds a test draws: sanitizers make a run some twenty times slower.
constexpr std::uint64_t seed_count(std::uint64_t usual) { return sanitized ? usual / 20 : usual; }

struct CaseEnded : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Ends a case whose library or hardware is missing. The report counts and names the case.
struct CaseSkipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool add_case(const char* name, std::function<void()> body);
/// Returns the command-line argument of that number, or an empty text.
std::string argument(int number);
void record_failure(const char* file, int line, const std::string& text);

/// Records a failure unless `a` equals `b`. It is a function, so that temporaries live
/// until they have been compared.
template <typename A, typename B>
void expect_equal(const A& a, const B& b, const char* expression, const char* file, int line) {
  if (a == b) return;
  std::ostringstream out;
  out << expression << ": " << a << " against " << b;
  record_failure(file, line, out.str());
}

}  // namespace tranship::test

#define TEST(name)                                    \
  static void test_##name();                          \
  [[maybe_unused]] static const bool added_##name =   \
      ::tranship::test::add_case(#name, test_##name); \
  static void test_##name()

#define EXPECT(condition)                                                               \
  do {                                                                                  \
    if (!(condition)) ::tranship::test::record_failure(__FILE__, __LINE__, #condition); \
  } while (false)

#define EXPECT_EQ(a, b) ::tranship::test::expect_equal((a), (b), #a " == " #b, __FILE__, __LINE__)

#define REQUIRE(condition)                                              \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::tranship::test::record_failure(__FILE__, __LINE__, #condition); \
      throw ::tranship::test::CaseEnded(#condition);                    \
    }                                                                   \
  } while (false)
