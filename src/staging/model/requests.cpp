#include "staging/model/requests.hpp"

#include "base/text.hpp"
#include "staging/model/limits.hpp"

namespace tranship::staging {
namespace {

/// Returns an element type fit to be shown: a hostile client may send any bytes.
std::string shown(const std::string& type) {
  const bool plain = std::ssize(type) <= type_bytes_most && is_plain_text(type);
  return plain ? type : in_quotes(type);
}

}  // namespace

std::string version_of(const std::string& variable, std::int64_t version) {
  return "version " + std::to_string(version) + " of " + in_quotes(variable);
}

Status check_name(const std::string& variable, std::int64_t bytes_max) {
  const bool fits = !variable.empty() && std::ssize(variable) <= bytes_max;
  if (fits && is_plain_text(variable)) return {};
  return Error{ErrorCode::invalid_argument,
               "a variable's name has 1 to " + std::to_string(bytes_max) +
                   " bytes (staging_name_bytes) of UTF-8 without control characters, and " +
                   in_quotes(variable) + " has " + std::to_string(variable.size())};
}

Error no_lease() { return {ErrorCode::not_found, "there is no such lease"}; }

Error wrong_rank(const std::string& variable, int rank, const Box& box) {
  return {ErrorCode::invalid_argument, in_quotes(variable) + " has " + std::to_string(rank) +
                                           " dimensions, and the box " + box.text() + " has " +
                                           std::to_string(box.rank)};
}

Status check_element(const PutRequest& request) {
  std::int64_t bytes = 0;
  if (!possible_element_bytes(request.element_bytes)) {
    return Error{ErrorCode::invalid_argument,
                 "elements have 1 to " + std::to_string(element_bytes_most) + " bytes, not " +
                     std::to_string(request.element_bytes)};
  }
  if (std::ssize(request.type) > type_bytes_most || !is_plain_text(request.type)) {
    return Error{ErrorCode::invalid_argument, "the element type " + in_quotes(request.type) +
                                                  " is none: it has at most " +
                                                  std::to_string(type_bytes_most) + " bytes"};
  }
  if (__builtin_mul_overflow(request.box.points(), request.element_bytes, &bytes)) {
    return Error{ErrorCode::invalid_argument,
                 "the box " + request.box.text() + " has more bytes than 63 bits count"};
  }
  return {};
}

Status check_fits(const PutRequest& request, const std::string& type, std::int64_t element_bytes,
                  int rank) {
  if (type != request.type || element_bytes != request.element_bytes) {
    return Error{ErrorCode::invalid_argument,
                 in_quotes(request.variable) + " has elements of " + shown(type) + ", not of " +
                     shown(request.type),
                 "put another variable, or convert the array"};
  }
  if (rank != request.box.rank) return wrong_rank(request.variable, rank, request.box);
  return {};
}

}  // namespace tranship::staging
