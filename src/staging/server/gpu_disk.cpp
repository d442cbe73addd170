#include "staging/server/gpu_disk.hpp"

#include <string>

namespace tranship::staging {
namespace {

Array bytes_at(std::byte* address, std::size_t bytes) {
  Array array;
  array.view = View::whole(Mapping::make({{"byte", static_cast<std::int64_t>(bytes)}},
                                         {{"f0", "u1", 1}}, Layout::parse("F, byte").value())
                               .value());
  array.place.address = address;
  array.name = "an object that goes to disk or comes back";
  return array;
}

}  // namespace

Result<std::span<std::byte>> GpuDisk::buffer(std::size_t bytes) {
  if (buffer_bytes_ < bytes) {
    buffer_.reset();
    buffer_bytes_ = 0;
    // Aligned, so that it may go around the system's cache of files.
    constexpr auto unit = static_cast<std::size_t>(disk_alignment);
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(unit, whole)));
    if (!buffer_) {
      return Error{ErrorCode::out_of_memory, "the host has no " + std::to_string(bytes) +
                                                 " bytes for an object of a GPU on its way between "
                                                 "GPU and disk"};
    }
    buffer_bytes_ = bytes;
  }
  return std::span(buffer_.get(), bytes);
}

Status GpuDisk::copy(std::byte* on_gpu, std::span<std::byte> on_host, bool to_host) {
  Array gpu = bytes_at(on_gpu, on_host.size());
  gpu.memory_kind = MemoryKind::device;
  gpu.device = device_;
  const Array host = bytes_at(on_host.data(), on_host.size());
  const auto event = engine_.copy(to_host ? gpu : host, to_host ? host : gpu, {});
  return event ? event->wait({}) : Status(event.error());
}

Status GpuDisk::write(std::int64_t offset, std::span<const std::byte> data) {
  const auto host = buffer(data.size());
  if (!host) return host.error();
  if (Status s = copy(const_cast<std::byte*>(data.data()), *host, true); !s) return s;
  return disk_->write(offset, *host);
}

Status GpuDisk::read(std::int64_t offset, std::span<std::byte> data) {
  const auto host = buffer(data.size());
  if (!host) return host.error();
  if (Status status = disk_->read(offset, *host); !status) return status;
  return copy(data.data(), *host, false);
}

}  // namespace tranship::staging
