#include "fabric/messages/copy_notice.hpp"

#include <cstdint>

#include "base/text.hpp"
#include "fabric/messages/protocol.hpp"

namespace tranship::fabric {

Status check_notice_name(std::string_view name) {
  if (name.size() > notice_name_bytes_max) {
    return Error{ErrorCode::invalid_argument,
                 "notify has " + std::to_string(name.size()) + " bytes: " + in_quotes(name),
                 "give a text of at most " + std::to_string(notice_name_bytes_max) + " bytes"};
  }
  if (!name.empty() && is_plain_text(name)) return {};
  return Error{ErrorCode::invalid_argument, "notify=" + in_quotes(name) + " names no notice",
               "give a text of one character or more, without control characters"};
}

std::vector<std::byte> encode_notice(std::string_view name, bool written) {
  MessageWriter out;
  out.add(static_cast<std::uint32_t>(written ? 1 : 0)).text(std::string(name));
  return out.bytes();
}

bool decode(std::span<const std::byte> bytes, CopyNotice& notice) {
  MessageReader in(bytes);
  const auto written = in.get<std::uint32_t>();
  notice.written = written == 1;
  notice.name = in.text();
  return in.ok() && in.at_end() && written <= 1 && check_notice_name(notice.name).ok();
}

}  // namespace tranship::fabric
