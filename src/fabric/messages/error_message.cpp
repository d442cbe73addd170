#include "fabric/messages/error_message.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "fabric/messages/protocol.hpp"

namespace tranship::fabric {

std::string plain_text(const std::string& text) {
  constexpr std::size_t bytes_max = 2000;
  return text.size() <= bytes_max && is_plain_text(text) ? text : in_quotes(text, bytes_max / 10);
}

std::uint32_t wire_code_of(ErrorCode code) { return static_cast<std::uint32_t>(code) + 1; }

ErrorCode error_code_of(std::uint32_t wire) {
  const auto last = wire_code_of(ErrorCode::closed);
  return static_cast<ErrorCode>(std::clamp<std::uint32_t>(wire, 1, last) - 1);
}

void put(MessageWriter& out, const std::optional<Error>& error) {
  out.add(error ? wire_code_of(error->code) : std::uint32_t{0});
  out.text(error ? error->message : std::string()).text(error ? error->hint : std::string());
}

void get(MessageReader& in, std::optional<Error>& error) {
  const auto code = in.get<std::uint32_t>();
  std::string message = plain_text(in.text());
  std::string hint = plain_text(in.text());
  error.reset();
  if (code != 0) error = Error{error_code_of(code), std::move(message), std::move(hint)};
}

std::string slot_text_of(const Error& error) {
  std::string text = error.message + '\n' + error.hint;
  if (text.size() > slot_error_bytes_max) text.resize(slot_error_bytes_max);
  return text;
}

Error error_of_slot(std::uint32_t wire_code, const std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  return {error_code_of(wire_code), plain_text(text.substr(0, end)),
          plain_text(text.substr(std::min(end + 1, text.size())))};
}

}  // namespace tranship::fabric
