#include "staging/protocol/messages.hpp"

namespace tranship::staging {

bool lies_inside(const Range& range, std::int64_t bytes, std::int64_t segment_bytes) {
  return range.offset >= 0 && bytes >= 0 && bytes <= segment_bytes &&
         range.offset <= segment_bytes - bytes;
}

bool is_contact(const std::string& text) {
  const bool names_address = text.starts_with("unix:@") || text.starts_with("tcp:");
  return names_address && text.size() <= label_bytes_max && is_plain_text(text);
}

bool is_countable(const Box& box) {
  std::int64_t points = 1;
  for (int k = 0; k < box.rank; ++k) {
    if (__builtin_mul_overflow(points, box.extent(k), &points)) return false;
  }
  return true;
}

Status check_name(const std::string& variable) { return check_name(variable, name_bytes_most); }

bool is_empty_part(const Box& box, std::uint32_t empty_dimensions) {
  if (empty_dimensions == 0 || empty_dimensions >> box.rank != 0) return false;
  for (int k = 0; k < box.rank; ++k) {
    if ((empty_dimensions >> k & 1U) != 0 && box.extent(k) != 1) return false;
  }
  return true;
}

bool is_empty_part(const Extent& extent) {
  if (extent.empty) return is_empty_part(*extent.empty, extent.empty_dimensions);
  return extent.empty_dimensions == 0;
}

bool is_element(const std::string& type, std::int64_t bytes) {
  return possible_element_bytes(bytes) && std::ssize(type) <= type_bytes_most &&
         is_plain_text(type);
}

Error not_a_server() {
  return {ErrorCode::unsupported, "what answers there is no staging server",
          "start one with: tranship serve"};
}

const char* to_string(RequestKind kind) {
  switch (kind) {
    case RequestKind::hello: return "hello";
    case RequestKind::join: return "join";
    case RequestKind::define: return "define";
    case RequestKind::declare: return "declare";
    case RequestKind::describe: return "describe";
    case RequestKind::bounds: return "bounds";
    case RequestKind::put: return "put";
    case RequestKind::begin: return "begin";
    case RequestKind::commit: return "commit";
    case RequestKind::abort: return "abort";
    case RequestKind::index: return "index";
    case RequestKind::unindex: return "unindex";
    case RequestKind::confirm: return "confirm";
    case RequestKind::get: return "get";
    case RequestKind::find: return "find";
    case RequestKind::lease: return "lease";
    case RequestKind::more: return "more";
    case RequestKind::recall: return "recall";
    case RequestKind::release: return "release";
    case RequestKind::undo: return "undo";
    case RequestKind::drop_orphans: return "drop orphans";
    case RequestKind::wait: return "wait";
    case RequestKind::discard: return "discard";
    case RequestKind::remove: return "remove";
    case RequestKind::list: return "list";
    case RequestKind::status: return "status";
    case RequestKind::take_pages: return "take pages";
    case RequestKind::discard_too: return "discard too";
    case RequestKind::finish: return "finish";
    case RequestKind::put_empty: return "put empty";
    case RequestKind::extent: return "extent";
    case RequestKind::begin_step: return "begin step";
    case RequestKind::add_to_step: return "add to step";
    case RequestKind::end_step: return "end step";
    case RequestKind::give_up_step: return "give up step";
    case RequestKind::settle_step: return "settle step";
    case RequestKind::step_settled: return "step settled";
    case RequestKind::query_step: return "query step";
    case RequestKind::find_step: return "find step";
    case RequestKind::more_of_step: return "more of step";
    case RequestKind::free_step: return "free step";
    case RequestKind::set_attributes: return "set attributes";
    case RequestKind::get_attributes: return "get attributes";
    case RequestKind::define_queue: return "define queue";
    case RequestKind::join_readers: return "join readers";
    case RequestKind::leave_readers: return "leave readers";
    case RequestKind::take_step: return "take step";
    case RequestKind::release_step: return "release step";
    case RequestKind::batch: return "batch";
    case RequestKind::reduce: return "reduce";
    case RequestKind::offer: return "offer";
    case RequestKind::end_offers: return "end offers";
    case RequestKind::withdraw_entry: return "withdraw entry";
    case RequestKind::query_offer: return "query offer";
  }
  return "unknown";
}

RequestKind kind_of(std::span<const std::byte> request) {
  fabric::MessageReader in(request);
  const auto kind = in.get<RequestKind>();
  return in.ok() ? kind : RequestKind{};
}

bool says_waiting(std::span<const std::byte> reply) {
  return fabric::MessageReader(reply).get<ReplyKind>() == ReplyKind::waiting;
}

}  // namespace tranship::staging
