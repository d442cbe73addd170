// The memcpy channel: copies between memories that this process can address.
#pragma once

#include <string>

#include "runtime/channel.hpp"

namespace tranship {

/// Copies within the address space of this process, on the threads that call submit(). Owns
/// nothing. Threads: submit() from up to `width` threads at the same time. A request costs some
/// tens of nanoseconds over the bare copy, and some 300 KiB of the submitter's stack.
class HostChannel : public Channel {
 public:
  /// width: Number of worker threads that will submit; one for each core that may copy.
  explicit HostChannel(int width);

  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }

  /// Carries out `request` before it returns; memory cannot fail.
  Status submit(const Request& request) override;

 private:
  std::string name_ = "host";
  Capabilities capabilities_;
};

}  // namespace tranship
