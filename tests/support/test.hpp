// The smallest test framework that runs from a bare machine: GoogleTest and its kin are not on the
// package index. TEST(name) registers a case; EXPECT records a failure, REQUIRE ends the case.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tranship::test {

struct CaseEnded : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Ends a case whose library or hardware is not here. The report counts and names it.
struct CaseSkipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool add_case(const char* name, std::function<void()> body);
/// The command line's argument of that number, or nothing.
std::string argument(int number);
void record_failure(const char* file, int line, const std::string& text);

template <typename A, typename B>
std::string unequal(const char* expression, const A& a, const B& b) {
  std::ostringstream out;
  out << expression << ": " << a << " against " << b;
  return out.str();
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

#define EXPECT_EQ(a, b)                                                                            \
  do {                                                                                             \
    const auto& value_a = (a);                                                                     \
    const auto& value_b = (b);                                                                     \
    if (!(value_a == value_b))                                                                     \
      ::tranship::test::record_failure(__FILE__, __LINE__,                                         \
                                       ::tranship::test::unequal(#a " == " #b, value_a, value_b)); \
  } while (false)

#define REQUIRE(condition)                                              \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::tranship::test::record_failure(__FILE__, __LINE__, #condition); \
      throw ::tranship::test::CaseEnded(#condition);                    \
    }                                                                   \
  } while (false)
