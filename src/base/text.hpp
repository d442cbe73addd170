// Checks text of unknown origin, and shows it in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tranship {

/// Returns whether `text` is UTF-8 without control characters, so that every terminal can show it.
bool is_plain_text(std::string_view text);

/// Returns the text in quotation marks, for a message. Bytes that are not plain text become \xNN;
/// text of more than `bytes_max` bytes is truncated and ends with "...".
std::string in_quotes(std::string_view text, std::size_t bytes_max = 80);

}  // namespace tranship
