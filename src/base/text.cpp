#include "base/text.hpp"

#include <array>
#include <cstdint>

namespace tranship {
namespace {

/// The length of the UTF-8 character at the start of `text`; 0 if there is none, or if it is a
/// control character.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<std::uint8_t>(text[k]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  std::uint32_t code = first & (0xffU >> (length + 1));
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(k) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool control = code >= 0x80 && code < 0xa0;
  return code < least[length] || code > 0x10ffff || surrogate || control ? 0 : length;
}

}  // namespace

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view text, std::size_t bytes_max) {
  constexpr const char* digits = "0123456789abcdef";
  std::string shown = "\"";
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const std::size_t added = length > 0 ? length : 4;
    if (shown.size() - 1 + added > bytes_max) return shown + "...\"";
    if (length > 0) {
      shown += text.substr(0, length);
    } else {
      const auto byte = static_cast<std::uint8_t>(text[0]);
      shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return shown + "\"";
}

}  // namespace tranship
