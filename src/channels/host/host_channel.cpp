#include "channels/host/host_channel.hpp"

#include "base/check.hpp"
#include "channels/host/copy.hpp"

namespace tranship {

HostChannel::HostChannel(int width) {
  CHECK(width > 0, "the host channel needs at least one worker");
  capabilities_.width = width;
  capabilities_.synchronous = true;
  capabilities_.lists = Lists::all;
  capabilities_.casts = true;
}

Status HostChannel::submit(const Request& request) {
  CHECK(request.source.attachment == nullptr && request.target.attachment == nullptr,
        "the host channel carries plain memory only");
  copy_nests(request.payload.nests(), request.source.address, request.target.address, request.cold);
  if (request.payload.indexed().empty()) return {};
  copy_indexed(request.payload.indexed(), request.source.address, request.target.address,
               request.cold);
  return {};
}

}  // namespace tranship
