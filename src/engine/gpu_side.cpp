#include "engine/gpu_side.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/at.hpp"
#include "engine/checks.hpp"
#include "fabric/messages/protocol.hpp"

namespace tranship {
namespace {

constexpr const char* device_prefix = "node0/device";
/// Enough that a link never waits for the next request, and little for an urgent one to wait for.
constexpr std::int64_t link_bytes_in_flight = std::int64_t{32} << 20;
constexpr std::int64_t gpu_bytes_in_flight = std::int64_t{256} << 20;
/// Tiles end in the order in which slots are used again; two streams would let one fall behind.
constexpr int link_streams = 1;
constexpr int memory_streams = 2;
/// Enough that a GPU sends to three others at once. GPUs that each send to one after another fall
/// out of step, until several send to the same one (3 GiB among four H200: 2.45 ms in two streams,
/// 2.15 in three).
constexpr int peer_streams = 3;

int streams_for(ChannelKind kind) {
  if (traits_of(kind).crosses_bus) return link_streams;
  return kind == ChannelKind::gpu_peer ? peer_streams : memory_streams;
}

}  // namespace

Result<std::unique_ptr<GpuSide>> GpuSide::open(const Config& config) {
  if (!config.gpus) return std::unique_ptr<GpuSide>();
  if (config.emulated_gpus < 0 || config.emulated_gpus > 64) {
    return Error{ErrorCode::invalid_argument, "emulated_gpus is a number from 0 to 64"};
  }
  std::shared_ptr<Gpus> gpus;
  if (config.emulated_gpus > 0) {
    gpus = Gpus::emulate(static_cast<int>(config.emulated_gpus), {config.emulated_pinning});
  } else {
    auto opened = Gpus::open();
    if (!opened) return std::unique_ptr<GpuSide>();  // a machine without GPUs
    gpus = std::move(*opened);
  }
  std::unique_ptr<GpuSide> side(new GpuSide(std::move(gpus)));
  if (Status status = side->open_files(config); !status) return status.error();
  return side;
}

Status GpuSide::open_files(const Config& config) {
  const std::string& wanted = config.gpu_direct_storage;
  const bool automatic = wanted == "automatic";
  if (wanted == "off" || (automatic && (gpus_->emulated() || !CuFile::in_kernel()))) return {};
  auto library = CuFile::open(automatic ? "libcufile.so.0" : wanted);
  if (library) {
    cufile_ = std::move(*library);
    return {};
  }
  return automatic ? Status{} : Status(library.error());
}

int GpuSide::device_of(const Memory& memory) {
  const std::string prefix = device_prefix;
  if (memory.kind != MemoryKind::device || memory.name.rfind(prefix, 0) != 0) return -1;
  const std::string number = memory.name.substr(prefix.size());
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::stoi(number);
}

void GpuSide::extend(Profile& profile, std::int64_t buffer_bytes_max) const {
  const auto add = [&](const std::string& name, ChannelKind kind, int source, int target) {
    ChannelSpec channel;
    channel.name = name;
    channel.kind = kind;
    channel.source = source;
    channel.target = target;
    channel.throughput = Throughput({{1, 1, 1.0}});
    profile.channels.push_back(std::move(channel));
  };
  const int pinned = static_cast<int>(profile.memories.size());
  profile.memories.push_back({"node0/pinned0", MemoryKind::pinned, buffer_bytes_max});
  const int count = static_cast<int>(gpus_->list().size());
  const int first = static_cast<int>(profile.memories.size());
  for (int device = 0; device < count; ++device) {
    const std::string name = std::to_string(device);
    profile.memories.push_back({device_prefix + name, MemoryKind::device, buffer_bytes_max});
    add("gpu_write device" + name, ChannelKind::gpu_write, pinned, first + device);
    add("gpu_read device" + name, ChannelKind::gpu_read, first + device, pinned);
    add("gpu_copy device" + name, ChannelKind::gpu_copy, first + device, first + device);
    const int file = cufile_ ? profile.find_memory("node0/file0") : -1;
    if (file < 0) continue;
    add("file_read to device" + name, ChannelKind::file_read, file, first + device);
    add("file_write from device" + name, ChannelKind::file_write, first + device, file);
  }
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to || !gpus_->peers(from, to)) continue;
      add("gpu_peer device" + std::to_string(from) + " device" + std::to_string(to),
          ChannelKind::gpu_peer, first + from, first + to);
    }
  }
}

Status GpuSide::start(const Profile& profile, ThreadDriver& driver) {
  for (const Memory& memory : profile.memories) devices_.push_back(device_of(memory));
  for (const ChannelSpec& spec : profile.channels) {
    if (!traits_of(spec.kind).gpu && serves(spec)) {
      if (Status status = start_files(spec, driver); !status) return status;
    }
    if (spec.kind == ChannelKind::gpu_peer) {
      joined_.emplace_back(devices_[at(spec.source)], devices_[at(spec.target)]);
    }
    if (!traits_of(spec.kind).gpu || find(spec) != nullptr) continue;
    const int device =
        devices_[at(spec.kind == ChannelKind::gpu_write ? spec.target : spec.source)];
    if (device < 0 || device >= static_cast<int>(gpus_->list().size())) continue;
    GpuChannel::Options options;
    options.name = std::string(to_string(spec.kind)) + " device" + std::to_string(device);
    options.gpus = gpus_;
    options.device = device;
    options.over_link = traits_of(spec.kind).crosses_bus;
    options.streams = streams_for(spec.kind);
    options.bytes_in_flight_max = options.over_link ? link_bytes_in_flight : gpu_bytes_in_flight;
    auto channel = GpuChannel::open(std::move(options));
    if (!channel) return channel.error();
    entries_.push_back({spec.kind, device, driver.add_channel(**channel), *channel});
  }
  return {};
}

Status GpuSide::start_files(const ChannelSpec& spec, ThreadDriver& driver) {
  const int device = device_at(spec);
  if (!cufile_ || number_of(spec) >= 0) return {};
  GpuFileChannel::Options options;
  options.name = std::string(to_string(spec.kind)) + " device" + std::to_string(device);
  options.gpus = gpus_;
  options.library = cufile_;
  options.device = device;
  auto channel = std::make_unique<GpuFileChannel>(std::move(options));
  const int number = driver.add_channel(*channel);
  file_entries_.push_back({spec.kind, device, number, std::move(channel)});
  return {};
}

int GpuSide::device_at(const ChannelSpec& channel) const {
  return std::max(devices_[at(channel.source)], devices_[at(channel.target)]);
}

bool GpuSide::serves(const ChannelSpec& channel) const {
  return traits_of(channel.kind).gpu || device_at(channel) >= 0;
}

const GpuSide::Entry* GpuSide::find(ChannelKind kind, int device) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.kind == kind && entry.device == device;
  });
  return found == entries_.end() ? nullptr : &*found;
}

const GpuSide::Entry* GpuSide::find(const ChannelSpec& channel, int carrier) const {
  if (channel.kind == ChannelKind::gpu_peer && carrier >= 0) {
    if (const Entry* entry = find(channel.kind, carrier)) return entry;
  }
  const bool writes = channel.kind == ChannelKind::gpu_write;
  return find(channel.kind, devices_[at(writes ? channel.target : channel.source)]);
}

int GpuSide::number_of(const ChannelSpec& channel, int carrier) const {
  if (!traits_of(channel.kind).gpu) {
    for (const FileEntry& entry : file_entries_) {
      if (entry.kind == channel.kind && entry.device == device_at(channel)) return entry.number;
    }
    return -1;
  }
  const Entry* entry = find(channel, carrier);
  return entry == nullptr ? -1 : entry->number;
}

int GpuSide::number_of(ChannelKind kind, int device) const {
  const Entry* entry = find(kind, device);
  return entry == nullptr ? -1 : entry->number;
}

GpuChannel& GpuSide::channel(const ChannelSpec& channel, int carrier) const {
  return *find(channel, carrier)->channel;
}

GpuChannel& GpuSide::channel_on(int device, GpuChannel& usual) const {
  const Entry* entry = usual.device() == device ? nullptr : find(ChannelKind::gpu_copy, device);
  return entry == nullptr ? usual : *entry->channel;
}

Result<std::shared_ptr<GpuFlight>> GpuSide::event_behind(const GpuStream& stream) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.device == stream.device;
  });
  if (found == entries_.end()) {
    return Error{ErrorCode::unsupported,
                 "the profile has no channel of GPU " + std::to_string(stream.device) +
                     ", in one of whose streams an array is written",
                 "measure the machine anew: tranship calibrate"};
  }
  return found->channel->event_behind(stream);
}

void GpuSide::wait_for_flights(std::chrono::steady_clock::time_point deadline) const {
  for (const Entry& entry : entries_) entry.channel->close(deadline);
}

void GpuSide::release_ended() const {
  for (const Entry& entry : entries_) (void)entry.channel->delete_ended();
}

BufferSource GpuSide::buffers(const Memory& memory) const {
  const int device = device_of(memory);
  const bool here = device >= 0 && device < static_cast<int>(gpus_->list().size());
  if (memory.kind != MemoryKind::pinned && !here) return {};
  auto source = here ? memory_->source_on(device) : memory_->pinned_source();
  return {std::move(source.allocate), std::move(source.release)};
}

Status GpuSide::resolve(Array& array) const {
  const std::byte* first = first_byte(array);
  if (array.memory_kind == MemoryKind::device && array.device < 0) {
    const PointerInfo info = gpus_->where(first);
    if (info.kind == MemoryKind::host) {
      return Error{ErrorCode::invalid_argument,
                   "the array says that it lies on a GPU, but the driver knows no memory at its "
                   "address (" +
                       array.name + ")",
                   "keep the array until its copies have ended"};
    }
    if (info.kind == MemoryKind::pinned) {
      array.memory_kind = MemoryKind::pinned;
    } else {
      array.device = info.device;
    }
  } else if (array.memory_kind == MemoryKind::host || array.memory_kind == MemoryKind::shared) {
    const PointerInfo info = gpus_->where(first);
    // An array that is pinned in part goes as pageable memory: a GPU that met the rest would fail.
    const std::byte* last = array.place.address + array.view.mapping->end_bytes() - 1;
    if (info.kind == MemoryKind::pinned && pinning_->reaches(first, last)) {
      array.memory_kind = MemoryKind::pinned;
    }
    if (info.kind == MemoryKind::device || info.kind == MemoryKind::managed) {
      array.memory_kind = MemoryKind::device;
      array.device = info.device;
    }
  }
  return {};
}

std::string GpuSide::ipc_handle_of(const std::byte* address) const {
  const auto ipc = gpus_->ipc_handle(address);
  if (!ipc) return {};
  fabric::MessageWriter out;
  out.add(static_cast<std::int64_t>(getpid())).add(reinterpret_cast<std::uint64_t>(address));
  out.add(ipc->handle).text(ipc->bus).add(ipc->offset_bytes).add(ipc->allocation);
  return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
}

Result<std::shared_ptr<IpcMemory>> GpuSide::open_ipc_handle(const std::string& text) const {
  fabric::MessageReader in(std::as_bytes(std::span(text.data(), text.size())));
  const auto pid = in.get<std::int64_t>();
  const auto address = in.get<std::uint64_t>();
  IpcHandle ipc;
  ipc.handle = in.get<decltype(ipc.handle)>();
  ipc.bus = in.text();
  ipc.offset_bytes = in.get<std::int64_t>();
  ipc.allocation = in.get<std::uint64_t>();
  if (!in.ok())
    return Error{ErrorCode::invalid_argument, "the IPC handle of a GPU array cannot be read"};
  const auto& gpus = gpus_->list();
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const GpuInfo& info) { return info.bus == ipc.bus; });
  // A GPU that is hidden from this process is reached from the first one that is not: CUDA opens
  // its memory all the same.
  const int device = found == gpus.end() ? 0 : static_cast<int>(found - gpus.begin());
  // A driver opens no IPC handle in the process that wrote it: the memory is there already.
  if (pid == getpid() && !gpus_->emulated()) {
    return std::make_shared<IpcMemory>(reinterpret_cast<std::byte*>(address), device);
  }
  return IpcMemory::open(gpus_, ipc, device);
}

Status GpuSide::open_for_one(Array& source, Array& target) const {
  const bool on_gpus =
      source.memory_kind == MemoryKind::device && target.memory_kind == MemoryKind::device;
  if (!on_gpus || !(is_opened(source) || is_opened(target))) return {};
  const int gpu = is_opened(source) ? target.device : source.device;
  const std::pair ends{source.device, target.device};
  const bool joined = ends.first == ends.second ||
                      (std::find(joined_.begin(), joined_.end(), ends) != joined_.end() &&
                       find(ChannelKind::gpu_peer, gpu) != nullptr);
  if (!joined) return {};
  for (Array* array : {&source, &target}) {
    if (!is_opened(*array) || array->opened_for == gpu) continue;
    const auto before = array->liveness->address_for(array->opened_for);
    const auto address = before ? array->liveness->address_for(gpu) : before;
    if (address) {
      array->place.address += *address - *before;
      array->opened_for = gpu;
    } else if (is_opened(source) && is_opened(target)) {
      Status alive = check_liveness(source.liveness, target.liveness);
      return alive ? Status(address.error()) : alive;
    }
  }
  return {};
}

}  // namespace tranship
