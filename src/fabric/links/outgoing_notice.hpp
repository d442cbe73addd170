// A notice that is to be sent to the owner of an array.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/links/remote_array.hpp"

namespace tranship::fabric {

/// The target of a request without a payload, which RemoteChannel carries: the owner of the array
/// gets the notice. Immutable. Threads: all.
class OutgoingNotice : public Attachment {
 public:
  /// body: As encode_notice() returns it.
  OutgoingNotice(std::shared_ptr<RemoteArray> array, std::vector<std::byte> body)
      : array_(std::move(array)), body_(std::move(body)) {}

  RemoteArray& array() const { return *array_; }
  const std::vector<std::byte>& body() const { return body_; }

 private:
  std::shared_ptr<RemoteArray> array_;
  std::vector<std::byte> body_;
};

}  // namespace tranship::fabric
