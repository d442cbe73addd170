#include "base/error.hpp"

#include <cstdio>
#include <cstdlib>

#include "base/check.hpp"

namespace tranship {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::out_of_range: return "out_of_range";
    case ErrorCode::no_route: return "no_route";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::io: return "io";
    case ErrorCode::permission: return "permission";
    case ErrorCode::peer_lost: return "peer_lost";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::closed: return "closed";
  }
  return "unknown";
}

void check_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "tranship: bug: %s (%s) at %s:%d\n", message, condition, file, line);
  std::abort();
}

}  // namespace tranship
