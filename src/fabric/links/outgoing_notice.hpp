// A notice that is to be sent to the owner of an array.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/links/remote_array.hpp"

namespace tranship::fabric {

/// The target of a request without a payload, which RemoteChannel carries: the owner of the array
/// gets the notice. Threads: the one that sends it, then the channel's.
class OutgoingNotice : public Attachment {
 public:
  /// body: As encode_notice() returns it.
  OutgoingNotice(std::shared_ptr<RemoteArray> array, std::vector<std::byte> body)
      : array_(std::move(array)), body_(std::move(body)) {}
  ~OutgoingNotice() override {
    if (queued_) array_->link().notices_queued.fetch_sub(1);
  }

  RemoteArray& array() const { return *array_; }
  const std::vector<std::byte>& body() const { return body_; }

  /// Sends the notice on the caller's thread, if nothing else is under way on its link and it would
  /// overtake no notice, and waits for its end. Returns whether it has arrived. Otherwise a channel
  /// carries it on: from its start, or, after `at_most` or an error, to the end of what was begun
  /// here.
  bool send_here(std::chrono::nanoseconds at_most);
  /// Notes that a channel will carry the notice, until it is destroyed.
  void queue() {
    array_->link().notices_queued.fetch_add(1);
    queued_ = true;
  }
  /// Returns what gets the end of a notice that send_here() has sent; null if it has sent none.
  const std::shared_ptr<FinishedQueue>& sent() const { return sent_; }

 private:
  std::shared_ptr<RemoteArray> array_;
  std::vector<std::byte> body_;
  std::shared_ptr<FinishedQueue> sent_;
  bool queued_ = false;
};

}  // namespace tranship::fabric
