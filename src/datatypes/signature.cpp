#include "datatypes/signature.hpp"

#include <charconv>

#include "base/hash.hpp"

namespace tranship {
namespace {

constexpr std::uint64_t modulus = (std::uint64_t{1} << 61) - 1;
/// Arbitrary numbers below the modulus.
constexpr std::array<std::uint64_t, 2> bases{0x1d2c8a5f3b9e7641, 0x0f6a1e93c4d857b3};

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  const std::uint64_t sum =
      static_cast<std::uint64_t>(product & modulus) + static_cast<std::uint64_t>(product >> 61);
  return sum >= modulus ? sum - modulus : sum;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= modulus ? sum - modulus : sum;
}

std::int64_t alignment_of(char kind, std::int64_t bytes) {
  switch (kind) {
    case 'i':
    case 'u':
    case 'f':
    case 'b':
    case 'M':
    case 'm': return bytes;
    case 'c': return bytes / 2;
    case 'U': return 4;
    default: return 1;
  }
}

}  // namespace

Result<Element> Element::parse(const std::string& given) {
  const Error error{ErrorCode::invalid_argument, "\"" + given + "\" is not a type of an element",
                    "write a letter and the number of bytes, such as f8, i4, c16 or V3"};
  const bool swapped = given.starts_with('>');
  const std::size_t begin = swapped ? 1 : 0;
  const std::size_t bracket = given.find('[');
  const std::string type = given.substr(begin, bracket - begin);
  const std::string unit = bracket == std::string::npos ? "" : given.substr(bracket);
  if (!unit.empty() && !unit.ends_with(']')) return error;
  if (type.size() < 2 || std::string("iufcbSUMmV").find(type[0]) == std::string::npos) return error;
  Element element{type[0], 0, 1};
  const char* end = type.data() + type.size();
  const auto [last, failed] = std::from_chars(type.data() + 1, end, element.bytes);
  if (failed != std::errc() || last != end || element.bytes <= 0) return error;
  const bool number = std::string("SUV").find(element.kind) == std::string::npos;
  if (number && (element.bytes > 32 || (element.bytes & (element.bytes - 1)) != 0)) return error;
  element.alignment = alignment_of(element.kind, element.bytes);
  if (swapped || !unit.empty()) element.rest = hash_of((swapped ? ">" : "") + unit);
  return element;
}

Signature Signature::of(const Element& element) {
  const bool raw = element.kind == 'V' && element.rest == 0;
  Signature one;
  one.elements_ = 1;
  one.raw_ = raw;
  const auto bytes = static_cast<std::uint64_t>(raw ? 1 : element.bytes);
  const auto plain = (static_cast<std::uint64_t>(element.kind) << 40) + bytes + 1;
  const std::uint64_t value = plus(plain % modulus, element.rest % modulus);
  one.sum_ = {value, value};
  one.power_ = bases;
  return raw ? one.repeated(element.bytes) : one;
}

Signature Signature::followed_by(const Signature& other) const {
  Signature both;
  both.elements_ = elements_ + other.elements_;
  both.raw_ = raw_ && other.raw_;
  for (std::size_t k = 0; k < bases.size(); ++k) {
    both.sum_[k] = plus(times(sum_[k], other.power_[k]), other.sum_[k]);
    both.power_[k] = times(power_[k], other.power_[k]);
  }
  return both;
}

Signature Signature::repeated(std::int64_t count) const {
  Signature result;
  Signature doubled = *this;
  for (; count > 0; count /= 2) {
    if (count % 2 == 1) result = result.followed_by(doubled);
    if (count > 1) doubled = doubled.followed_by(doubled);
  }
  return result;
}

}  // namespace tranship
