#include "data/reachable.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace tranship {
namespace {

/// Divides by a positive number, and rounds down, or up.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

void StrideSum::add(std::int64_t stride, std::int64_t most) {
  if (stride == 0 || most == 0) return;
  if (stride < 0) {  // count the term from its other end
    shift_ += stride * most;
    stride = -stride;
  }
  std::size_t at = 0;
  while (at < count_ && terms_[at].stride > stride) ++at;
  if (at < count_ && terms_[at].stride == stride) {
    terms_[at].most += most;
  } else {
    CHECK(count_ < terms_max, "two nests have no more loops");
    std::copy_backward(terms_.begin() + static_cast<std::ptrdiff_t>(at),
                       terms_.begin() + static_cast<std::ptrdiff_t>(count_),
                       terms_.begin() + static_cast<std::ptrdiff_t>(count_ + 1));
    terms_[at] = {stride, most, 0, 0};
    ++count_;
  }
  std::int64_t rest = 0;
  std::int64_t divisor = 0;
  for (std::size_t k = count_; k-- > 0;) {
    divisor = std::gcd(divisor, terms_[k].stride);
    terms_[k].rest = rest;
    terms_[k].divisor = divisor;
    rest += terms_[k].stride * terms_[k].most;
  }
}

StrideSum::Answer StrideSum::reaches(std::int64_t low, std::int64_t high,
                                     std::int64_t& steps) const {
  return search(0, low - shift_, high - shift_, steps);
}

/// Looks for a sum of the terms from number `term` on in [low, high].
StrideSum::Answer StrideSum::search(std::size_t term, std::int64_t low, std::int64_t high,
                                    std::int64_t& steps) const {
  if (low > high || high < 0) return Answer::no;
  if (low <= 0) return Answer::yes;  // all of them 0
  if (term == count_) return Answer::no;
  const Term& one = terms_[term];
  if (low > one.rest + one.stride * one.most) return Answer::no;
  if (ceil_divide(low, one.divisor) > floor_divide(high, one.divisor)) return Answer::no;
  if (--steps < 0) return Answer::unknown;
  const std::int64_t first = std::max<std::int64_t>(0, ceil_divide(low - one.rest, one.stride));
  const std::int64_t last = std::min(one.most, floor_divide(high, one.stride));
  for (std::int64_t x = last; x >= first; --x) {
    const Answer answer = search(term + 1, low - x * one.stride, high - x * one.stride, steps);
    if (answer != Answer::no) return answer;
  }
  return Answer::no;
}

}  // namespace tranship
