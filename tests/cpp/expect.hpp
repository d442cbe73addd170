// What the programs that try the C++ interface share.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <tranship/tranship.hpp>

namespace ts = tranship;

constexpr ts::Seconds patience(60);

inline void expect(bool truth, int line) {
  if (truth) return;
  std::cerr << "line " << line << " is not as expected; the last error: " << tranship_last_error()
            << '\n';
  std::exit(1);
}
#define EXPECT(truth) expect(truth, __LINE__)

/// Returns whether `call` throws this class with a message; stores the hint.
template <typename Failure, typename Call>
bool throws(const Call& call, std::string* hint = nullptr) {
  try {
    call();
  } catch (const Failure& failure) {
    if (hint != nullptr) *hint = failure.hint();
    return !failure.message().empty() && std::string(failure.what()).find(failure.message()) == 0;
  } catch (const ts::Error& other) {
    std::cerr << other.name() << ": " << other.what() << '\n';
  }
  return false;
}

/// Returns the numbers 0, 1 and so on.
inline std::vector<double> counted(std::size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}
