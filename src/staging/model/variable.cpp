#include "staging/model/variable.hpp"

#include "base/text.hpp"

namespace tranship::staging {

Error never_complete(const VariableMetadata& metadata, const std::string& why) {
  if (metadata.lost_producer()) {
    return {ErrorCode::peer_lost, why + ", and a process that put to it has died"};
  }
  return {ErrorCode::closed, why + ", and all processes that put to it have ended"};
}

Status check_within(const PutRequest& request, const VariableMetadata& metadata) {
  if (!metadata.domain || intersection(request.box, *metadata.domain) == request.box) return {};
  return Error{ErrorCode::invalid_argument,
               "the box " + request.box.text() + " is not within the domain " +
                   metadata.domain->text() + " of " + in_quotes(request.variable),
               "put it elsewhere, or define a larger domain"};
}

}  // namespace tranship::staging
