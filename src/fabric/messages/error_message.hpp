// Errors in messages and slots: a code, a message and a hint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace tranship::fabric {

class MessageReader;
class MessageWriter;

/// Largest text of an error in a slot, in bytes; longer texts are cut.
constexpr std::size_t slot_error_bytes_max = 1024;

/// Returns a peer's text in a form fit for display: of bounded length, without control characters.
std::string plain_text(const std::string& text);

/// Returns the code by which an error is sent; codes begin with 1, since 0 means success.
std::uint32_t wire_code_of(ErrorCode code);
/// Returns the error code that a peer sent as `wire`, which is not 0. Codes that this version does
/// not have are replaced by the nearest one.
ErrorCode error_code_of(std::uint32_t wire);

/// Adds an error, or success, to a message: its code, its message, its hint.
void put(MessageWriter& out, const std::optional<Error>& error);
/// Reads an error that put() added, with texts fit for display.
void get(MessageReader& in, std::optional<Error>& error);

/// Returns the text of an error in a slot: the message, a line feed, the hint; cut to
/// slot_error_bytes_max.
std::string slot_text_of(const Error& error);
/// Returns the error that a peer left in a slot, with texts fit for display.
Error error_of_slot(std::uint32_t wire_code, const std::string& text);

}  // namespace tranship::fabric
