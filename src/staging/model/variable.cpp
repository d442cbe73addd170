#include "staging/model/variable.hpp"

#include "base/text.hpp"

namespace tranship::staging {

Error never_complete(Ending ending, const std::string& why) {
  if (ending == Ending::died) {
    return {ErrorCode::peer_lost, why + ", and a process that put to it has died",
            "get a box that is there: ask for the bounds or boxes of the version"};
  }
  return {ErrorCode::closed, why + ", and all processes that put to it have ended",
          "get a box that is there, and let each process that has nothing in a version say so"};
}

Status check_within(const PutRequest& request, const VariableMetadata& metadata) {
  if (!metadata.domain || intersection(request.box, *metadata.domain) == request.box) return {};
  return Error{ErrorCode::invalid_argument,
               "the box " + request.box.text() + " is not within the domain " +
                   metadata.domain->text() + " of " + in_quotes(request.variable),
               "put it elsewhere, or define a larger domain"};
}

}  // namespace tranship::staging
