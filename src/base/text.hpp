// Text that came from elsewhere: what may be kept, and how it is shown in a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tranship {

/// Whether it is UTF-8 without control characters: what any terminal and any language shows.
bool is_plain_text(std::string_view text);

/// The text in quotation marks, for a message: bytes that are not plain text become \xNN, and what
/// is longer than `bytes_max` is cut and ends with "...".
std::string in_quotes(std::string_view text, std::size_t bytes_max = 80);

}  // namespace tranship
