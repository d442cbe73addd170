// Emulated GPUs, whose memory is host memory. Work runs at once on the calling thread, unless its
// stream is held or captured (EmulatedStreams), or waits for one that is held; an event is
// reached only at the second query, so that a caller that does not poll fails here too. Calls for
// which CUDA may fail silently are refused: ranges beyond an allocation, pageable memory in
// kernels, released handles.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "gpu/gpus.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/pieces_body.hpp"
#include "gpu/pitches.hpp"
#include "os/shared_memory.hpp"

namespace tranship {
namespace {

constexpr std::int64_t memory_bytes_of_each = std::int64_t{4} << 30;
constexpr std::int64_t page_bytes = 4096;
constexpr int multiprocessors_of_each = 4;
/// Largest handle of CUDA's named streams (default, legacy, per thread).
constexpr std::uintptr_t named_stream_max = 2;

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Contents of the bytes of an IPC handle.
struct Handle {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
};
static_assert(sizeof(Handle) <= sizeof(IpcHandle::handle));

/// Maps the memory of another process through /proc, in place of the driver.
Result<std::shared_ptr<SharedMemory>> open_memory(const Handle& handle) {
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  FileDescriptor descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor) {
    return Error{ErrorCode::permission, "memory of an emulated GPU could not be opened (" + path +
                                            ": " + std::strerror(errno) + ")"};
  }
  auto memory = SharedMemory::map(std::move(descriptor), handle.bytes);
  if (memory && (*memory)->inode() != handle.inode) {
    return Error{ErrorCode::io,
                 path + " is not the memory that was offered: it may have been freed"};
  }
  return memory;
}

struct FreeMemory {
  void operator()(std::byte* address) const { std::free(address); }
};

/// A range of addresses that a GPU can access.
struct AddressRange {
  PointerInfo info;
  std::int64_t bytes = 0;
  bool registered = false;                       ///< pinned by pin()
  int opened_for = -1;                           ///< GPU for which an IPC handle was opened
  std::int64_t users = 1;                        ///< open IPC handles, if `opened_for`
  std::shared_ptr<SharedMemory> device_memory;   ///< owner, for device memory
  std::unique_ptr<std::byte, FreeMemory> block;  ///< owner, for pinned memory allocated here
};

/// Whether the work before an event has run. Each record of an event has a mark of its own.
using Mark = std::shared_ptr<std::atomic<bool>>;

/// Work that waits in a stream.
struct Queued {
  std::function<void()> run;
  Mark after;  ///< it waits for this mark as well; null: for nothing
};

struct EmulatedStream {
  int device = 0;
  std::mutex lock;  ///< held while work runs; guards what follows
  bool held = false;
  std::deque<Queued> queue;
  std::vector<std::function<void()>> graph;  ///< work since the capture began
  std::atomic<bool> captured = false;        ///< changes while `lock` is held
};

struct EmulatedEvent {
  int device = 0;
  int questions_left = 0;  ///< number of queries that are still answered with false
  Mark mark;               ///< of the last record; null: it was never recorded
};

class EmulatedGpus final : public Gpus, public EmulatedStreams {
 public:
  EmulatedGpus(int count, EmulatedPinning pinning);

  const std::vector<GpuInfo>& list() const override { return list_; }
  bool emulated() const override { return true; }
  bool peers(int from, int to) const override { return known(from) && known(to); }
  PointerInfo where(const void* address) const override;

  Result<std::byte*> allocate(int device, std::int64_t bytes) override;
  void release(int device, std::byte* address) override;
  Result<std::byte*> allocate_pinned(std::int64_t bytes) override;
  void release_pinned(std::byte* address) override;
  Status pin(std::byte* address, std::int64_t bytes) override;
  void unpin(std::byte* address) override;
  std::int64_t pinned_bytes_from(const std::byte* address) const override;

  Status enter(int) const override { return {}; }
  Result<GpuStream> make_stream(int device, bool urgent) override;
  void release(const GpuStream& stream) override;
  Result<GpuEvent> make_event(int device) override;
  void release(const GpuEvent& event) override;
  Status record(const GpuEvent& event, const GpuStream& stream) override;
  Result<bool> reached(const GpuEvent& event) override;
  Status wait(const GpuStream& stream, const GpuEvent& event) override;
  bool has_stream(const GpuStream& stream) const override { return stream_of(stream).ok(); }
  bool capturing(const GpuStream& stream) const override {
    const auto lane = stream_of(stream);
    return lane && (*lane)->captured;
  }
  std::uint64_t identity(const GpuStream& stream) const override {
    // Work runs within the call, so that another stream of this address does not overtake it.
    return number_of(stream.handle) <= named_stream_max ? 0 : number_of(stream.handle);
  }

  Result<GpuStream> make_held_stream(int device) override;
  void hold(const GpuStream& stream) override;
  void let_go(const GpuStream& stream) override;
  void begin_capture(const GpuStream& stream) override;
  std::function<void()> end_capture(const GpuStream& stream) override;
  Status fill(const GpuStream& stream, std::byte* target, std::int64_t bytes,
              std::byte value) override;

  Status copy(const GpuStream& stream, const std::byte* source, std::byte* target,
              std::int64_t bytes) override;
  Status copy(const GpuStream& stream, const std::byte* source, std::byte* target,
              const PitchedCopy& shape) override;
  Status launch(const GpuStream& stream, const gpu::KernelPlan& plan, const gpu::Repeats& repeats,
                const std::byte* source, std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::CastPlan& plan, const std::byte* source,
                std::byte* target) override;
  Status launch(const GpuStream& stream, const Run* pieces, std::int64_t count,
                const std::byte* source, std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::RunTable& table, const std::byte* source,
                std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::PlaceLaunch& places, const std::byte* source,
                std::byte* target) override;
  Status launch(const GpuStream& stream, const gpu::NestTable& table, const std::byte* source,
                std::byte* target) override;

  Result<IpcHandle> ipc_handle(const std::byte* address) const override;
  Result<std::byte*> open_ipc_handle(const IpcHandle& ipc, int device) override;
  void close_ipc_handle(std::byte* address) override;

 private:
  using Ranges = std::map<std::uintptr_t, AddressRange>;  // by base address; ranges do not overlap

  bool known(int device) const { return device >= 0 && device < static_cast<int>(list_.size()); }
  int device_of(const std::string& bus) const;
  /// Returns the range that holds `address`, or end(). The caller holds memory_lock_.
  Ranges::const_iterator find(const void* address) const;
  void add(std::byte* base, AddressRange range);
  void remove(std::byte* base, MemoryKind kind);
  /// Returns an error if `bytes` from `address` go beyond the range in which they start.
  Status fits(const char* side, const std::byte* address, std::int64_t bytes) const;
  /// Returns an error if a kernel of that GPU may not access the address.
  Status reaches(int device, const char* side, const std::byte* address) const;
  Status reaches(int device, const std::byte* source, const std::byte* target) const;
  Result<std::shared_ptr<EmulatedStream>> stream_of(const GpuStream& stream) const;
  /// Runs work of a stream now, or once what is before it in the stream has run.
  void put(EmulatedStream& stream, std::function<void()> work);
  /// Runs what waits in streams and need not wait any more.
  void run_waiting();
  static bool run_waiting(EmulatedStream& stream);

  std::vector<GpuInfo> list_;
  const EmulatedPinning pinning_;

  mutable std::shared_mutex memory_lock_;
  Ranges ranges_;
  std::vector<std::int64_t> used_bytes_;  // one entry for each GPU
  /// Address here of each opened IPC handle, by process, inode, descriptor and GPU.
  std::map<std::tuple<std::int32_t, std::uint64_t, std::int32_t, int>, std::byte*> opened_;

  mutable std::mutex work_lock_;
  std::map<const void*, std::shared_ptr<EmulatedStream>> streams_;
  std::vector<std::shared_ptr<EmulatedStream>> released_;  ///< with work that waited then
  std::map<const void*, std::unique_ptr<EmulatedEvent>> events_;
  std::vector<std::shared_ptr<EmulatedStream>> default_streams_;
};

EmulatedGpus::EmulatedGpus(int count, EmulatedPinning pinning)
    : pinning_(pinning), used_bytes_(static_cast<std::size_t>(count)) {
  for (int device = 0; device < count; ++device) {
    GpuInfo info;
    info.name = "emulated GPU";
    info.bus = "emulated:" + std::to_string(device);
    info.memory_bytes = memory_bytes_of_each;
    info.multiprocessors = multiprocessors_of_each;
    list_.push_back(std::move(info));
    auto stream = std::make_shared<EmulatedStream>();
    stream->device = device;
    default_streams_.push_back(std::move(stream));
  }
}

int EmulatedGpus::device_of(const std::string& bus) const {
  for (std::size_t k = 0; k < list_.size(); ++k) {
    if (list_[k].bus == bus) return static_cast<int>(k);
  }
  return -1;
}

EmulatedGpus::Ranges::const_iterator EmulatedGpus::find(const void* address) const {
  auto after = ranges_.upper_bound(number_of(address));
  if (after == ranges_.begin()) return ranges_.end();
  const auto before = std::prev(after);
  const auto distance = number_of(address) - before->first;
  return distance < static_cast<std::uintptr_t>(before->second.bytes) ? before : ranges_.end();
}

void EmulatedGpus::add(std::byte* base, AddressRange range) {
  const bool added = ranges_.emplace(number_of(base), std::move(range)).second;
  CHECK(added, "two ranges of an emulated GPU start at one address");
}

PointerInfo EmulatedGpus::where(const void* address) const {
  std::shared_lock held(memory_lock_);
  const auto found = find(address);
  return found == ranges_.end() ? PointerInfo{} : found->second.info;
}

Result<std::byte*> EmulatedGpus::allocate(int device, std::int64_t bytes) {
  CHECK(known(device), "a GPU of that number does not exist");
  CHECK(bytes > 0, "an allocation has at least one byte");
  std::unique_lock held(memory_lock_);
  auto& used = used_bytes_[static_cast<std::size_t>(device)];
  if (bytes > memory_bytes_of_each - used) {
    return Error{ErrorCode::out_of_memory,
                 "emulated GPU " + std::to_string(device) + " has no " + std::to_string(bytes) +
                     " bytes left (" + std::to_string(memory_bytes_of_each - used) + " of " +
                     std::to_string(memory_bytes_of_each) + " are free): free arrays on it"};
  }
  auto memory = SharedMemory::allocate({.bytes = bytes, .huge_pages = true});
  if (!memory) return memory.error();
  AddressRange range;
  range.info = {MemoryKind::device, device};
  range.bytes = bytes;
  range.device_memory = *memory;
  std::byte* base = (*memory)->data();
  add(base, std::move(range));
  used += bytes;
  return base;
}

void EmulatedGpus::remove(std::byte* base, MemoryKind kind) {
  const auto found = ranges_.find(number_of(base));
  CHECK(found != ranges_.end(), "no memory of an emulated GPU starts at this address");
  CHECK(found->second.info.kind == kind, "the memory at this address is of another kind");
  ranges_.erase(found);
}

void EmulatedGpus::release(int device, std::byte* address) {
  if (address == nullptr) return;
  std::unique_lock held(memory_lock_);
  const auto found = ranges_.find(number_of(address));
  CHECK(found != ranges_.end(), "no allocation of an emulated GPU starts at this address");
  CHECK(found->second.info.device == device && found->second.opened_for < 0,
        "the allocation is not of this emulated GPU");
  used_bytes_[static_cast<std::size_t>(device)] -= found->second.bytes;
  remove(address, MemoryKind::device);
}

Result<std::byte*> EmulatedGpus::allocate_pinned(std::int64_t bytes) {
  CHECK(bytes > 0, "an allocation has at least one byte");
  const auto rounded = (static_cast<std::size_t>(bytes) + page_bytes - 1) / page_bytes * page_bytes;
  AddressRange range;
  range.block.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, rounded)));
  if (!range.block) {
    return Error{ErrorCode::out_of_memory, "the host has no " + std::to_string(bytes) +
                                               " bytes for pinned memory: free some memory"};
  }
  range.info = {MemoryKind::pinned, -1};
  range.bytes = bytes;
  std::byte* base = range.block.get();
  std::unique_lock held(memory_lock_);
  add(base, std::move(range));
  return base;
}

void EmulatedGpus::release_pinned(std::byte* address) {
  if (address == nullptr) return;
  std::unique_lock held(memory_lock_);
  const auto found = ranges_.find(number_of(address));
  CHECK(found == ranges_.end() || !found->second.registered,
        "memory that pin() registered is given back by unpin()");
  remove(address, MemoryKind::pinned);
}

Status EmulatedGpus::pin(std::byte* address, std::int64_t bytes) {
  if (number_of(address) % page_bytes != 0 || bytes < page_bytes || bytes % page_bytes != 0) {
    return Error{ErrorCode::invalid_argument, "memory is pinned in whole pages of " +
                                                  std::to_string(page_bytes) +
                                                  " bytes: align its start and its length"};
  }
  if (pinning_.bytes_per_second == 0) {
    return Error{ErrorCode::out_of_memory, "this emulated GPU was told to refuse to pin memory"};
  }
  if (pinning_.bytes_per_second > 0) {
    const double seconds =
        static_cast<double>(bytes) / static_cast<double>(pinning_.bytes_per_second);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  AddressRange range;
  range.info = {MemoryKind::pinned, -1};
  range.bytes = bytes;
  range.registered = true;
  std::unique_lock held(memory_lock_);
  const auto next = ranges_.lower_bound(number_of(address));
  const bool overlaps_next = next != ranges_.end() &&
                             next->first < number_of(address) + static_cast<std::uintptr_t>(bytes);
  if (overlaps_next || find(address) != ranges_.end()) {
    return Error{ErrorCode::invalid_argument,
                 "this memory is pinned already, or a part of it is: pin it once"};
  }
  add(address, std::move(range));
  return {};
}

void EmulatedGpus::unpin(std::byte* address) {
  std::unique_lock held(memory_lock_);
  const auto found = ranges_.find(number_of(address));
  CHECK(found != ranges_.end() && found->second.registered, "this memory was not pinned by pin()");
  remove(address, MemoryKind::pinned);
}

std::int64_t EmulatedGpus::pinned_bytes_from(const std::byte* address) const {
  std::shared_lock held(memory_lock_);
  const auto found = find(address);
  if (found == ranges_.end() || found->second.info.kind != MemoryKind::pinned) return 0;
  return found->second.bytes - static_cast<std::int64_t>(number_of(address) - found->first);
}

Result<GpuStream> EmulatedGpus::make_stream(int device, bool) {
  CHECK(known(device), "a GPU of that number does not exist");
  auto stream = std::make_shared<EmulatedStream>();
  stream->device = device;
  void* handle = stream.get();
  std::lock_guard held(work_lock_);
  streams_.emplace(handle, std::move(stream));
  return GpuStream{device, handle};
}

void EmulatedGpus::release(const GpuStream& stream) {
  if (stream.handle == nullptr) return;
  std::lock_guard held(work_lock_);
  const auto found = streams_.find(stream.handle);
  CHECK(found != streams_.end(), "the stream is not of these emulated GPUs");
  released_.push_back(std::move(found->second));
  streams_.erase(found);
  std::erase_if(released_, [](const auto& one) {
    const std::lock_guard running(one->lock);
    return one->queue.empty();
  });
}

void EmulatedGpus::put(EmulatedStream& stream, std::function<void()> work) {
  const std::lock_guard running(stream.lock);
  if (stream.captured) return stream.graph.push_back(std::move(work));
  if (!stream.held && stream.queue.empty()) return work();
  stream.queue.push_back({std::move(work), nullptr});
}

bool EmulatedGpus::run_waiting(EmulatedStream& stream) {
  const std::lock_guard running(stream.lock);
  bool ran = false;
  while (!stream.held && !stream.queue.empty()) {
    Queued& first = stream.queue.front();
    if (first.after && !first.after->load()) break;
    first.run();
    stream.queue.pop_front();
    ran = true;
  }
  return ran;
}

void EmulatedGpus::run_waiting() {
  std::vector<std::shared_ptr<EmulatedStream>> streams = default_streams_;
  {
    const std::lock_guard held(work_lock_);
    for (const auto& [handle, stream] : streams_) streams.push_back(stream);
    streams.insert(streams.end(), released_.begin(), released_.end());
  }
  bool ran = true;
  while (ran) {
    ran = false;
    for (const auto& stream : streams) ran = run_waiting(*stream) || ran;
  }
}

Result<GpuStream> EmulatedGpus::make_held_stream(int device) {
  auto stream = make_stream(device, false);
  if (stream) hold(*stream);
  return stream;
}

Result<std::shared_ptr<EmulatedStream>> EmulatedGpus::stream_of(const GpuStream& stream) const {
  CHECK(known(stream.device), "a GPU of that number does not exist");
  if (number_of(stream.handle) <= named_stream_max) {
    return default_streams_[static_cast<std::size_t>(stream.device)];
  }
  std::lock_guard held(work_lock_);
  const auto found = streams_.find(stream.handle);
  if (found == streams_.end() || found->second->device != stream.device) {
    return Error{ErrorCode::invalid_argument,
                 "the stream is not of emulated GPU " + std::to_string(stream.device) +
                     ", or was released: pass a stream of the same engine"};
  }
  return found->second;
}

Result<GpuEvent> EmulatedGpus::make_event(int device) {
  CHECK(known(device), "a GPU of that number does not exist");
  auto event = std::make_unique<EmulatedEvent>();
  event->device = device;
  void* handle = event.get();
  std::lock_guard held(work_lock_);
  events_.emplace(handle, std::move(event));
  return GpuEvent{device, handle};
}

void EmulatedGpus::release(const GpuEvent& event) {
  if (event.handle == nullptr) return;
  std::lock_guard held(work_lock_);
  CHECK(events_.erase(event.handle) == 1, "the event is not of these emulated GPUs");
}

Status EmulatedGpus::record(const GpuEvent& event, const GpuStream& stream) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  const auto mark = std::make_shared<std::atomic<bool>>(false);
  {
    std::lock_guard held(work_lock_);
    const auto found = events_.find(event.handle);
    CHECK(found != events_.end(), "the event is not of these emulated GPUs");
    CHECK(found->second->device == stream.device, "an event is recorded on its own GPU");
    found->second->questions_left = 1;
    found->second->mark = mark;
  }
  put(**lane, [mark] { mark->store(true); });  // after the work that another thread runs
  return {};
}

Result<bool> EmulatedGpus::reached(const GpuEvent& event) {
  std::unique_lock held(work_lock_);
  const auto found = events_.find(event.handle);
  CHECK(found != events_.end(), "the event is not of these emulated GPUs");
  if (found->second->mark && !found->second->mark->load()) {
    held.unlock();
    run_waiting();  // what another thread let go may have been put into its stream since
    return false;
  }
  if (found->second->questions_left == 0) return true;
  --found->second->questions_left;
  return false;
}

Status EmulatedGpus::wait(const GpuStream& stream, const GpuEvent& event) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  Mark mark;
  {
    std::lock_guard held(work_lock_);
    const auto found = events_.find(event.handle);
    CHECK(found != events_.end(), "the event is not of these emulated GPUs");
    mark = found->second->mark;
  }
  if (!mark || mark->load()) return {};  // the work before the event has run
  const std::lock_guard running((*lane)->lock);
  if ((*lane)->captured) {
    return Error{ErrorCode::invalid_argument,
                 "the stream is being captured, and would wait for work outside of its graph",
                 "wait for the event before the capture"};
  }
  (*lane)->queue.push_back({[] {}, std::move(mark)});
  return {};
}

void EmulatedGpus::hold(const GpuStream& stream) {
  const auto lane = stream_of(stream);
  CHECK(lane.ok(), "the stream is not of these emulated GPUs");
  const std::lock_guard running((*lane)->lock);
  (*lane)->held = true;
}

void EmulatedGpus::let_go(const GpuStream& stream) {
  const auto lane = stream_of(stream);
  CHECK(lane.ok(), "the stream is not of these emulated GPUs");
  {
    const std::lock_guard running((*lane)->lock);
    (*lane)->held = false;
  }
  run_waiting();
}

void EmulatedGpus::begin_capture(const GpuStream& stream) {
  const auto lane = stream_of(stream);
  CHECK(lane.ok(), "the stream is not of these emulated GPUs");
  const std::lock_guard running((*lane)->lock);
  CHECK(!(*lane)->captured, "the stream is being captured already");
  (*lane)->captured = true;
}

std::function<void()> EmulatedGpus::end_capture(const GpuStream& stream) {
  const auto lane = stream_of(stream);
  CHECK(lane.ok(), "the stream is not of these emulated GPUs");
  const std::lock_guard running((*lane)->lock);
  CHECK((*lane)->captured, "the stream is not being captured");
  (*lane)->captured = false;
  return [graph = std::exchange((*lane)->graph, {})] {
    for (const auto& work : graph) work();
  };
}

Status EmulatedGpus::fill(const GpuStream& stream, std::byte* target, std::int64_t bytes,
                          std::byte value) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  if (auto status = fits("target", target, bytes); !status) return status;
  put(**lane,
      [=] { std::memset(target, static_cast<int>(value), static_cast<std::size_t>(bytes)); });
  return {};
}

Status EmulatedGpus::fits(const char* side, const std::byte* address, std::int64_t bytes) const {
  std::shared_lock held(memory_lock_);
  const auto found = find(address);
  if (found == ranges_.end()) return {};
  const auto left =
      found->second.bytes - static_cast<std::int64_t>(number_of(address) - found->first);
  if (bytes <= left) return {};
  return Error{ErrorCode::invalid_argument,
               "a copy of " + std::to_string(bytes) + " bytes leaves the allocation at its " +
                   side + ", where " + std::to_string(left) + " bytes are left"};
}

Status EmulatedGpus::reaches(int device, const char* side, const std::byte* address) const {
  std::shared_lock held(memory_lock_);
  const auto found = find(address);
  if (found == ranges_.end()) {
    return Error{ErrorCode::invalid_argument, std::string("a kernel cannot reach the pageable ") +
                                                  side + ": pin it, or copy through pinned memory"};
  }
  const int opened_for = found->second.opened_for;
  if (opened_for < 0 || opened_for == device) return {};
  return Error{ErrorCode::invalid_argument,
               std::string("a kernel of GPU ") + std::to_string(device) + " cannot reach the " +
                   side + " of another process, which is open for GPU " +
                   std::to_string(opened_for)};
}

Status EmulatedGpus::reaches(int device, const std::byte* source, const std::byte* target) const {
  if (Status status = reaches(device, "source", source); !status) return status;
  return reaches(device, "target", target);
}

Status EmulatedGpus::copy(const GpuStream& stream, const std::byte* source, std::byte* target,
                          std::int64_t bytes) {
  CHECK(bytes >= 0, "a copy has a length");
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  if (auto status = fits("source", source, bytes); !status) return status;
  if (auto status = fits("target", target, bytes); !status) return status;
  if (bytes == 0) return {};
  put(**lane, [=] { std::memcpy(target, source, static_cast<std::size_t>(bytes)); });
  return {};
}

Status EmulatedGpus::copy(const GpuStream& stream, const std::byte* source, std::byte* target,
                          const PitchedCopy& given) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  auto plain = plain_pitches(given);
  if (!plain) return plain.error();
  const PitchedCopy shape = *plain;
  if (shape.width_bytes == 0 || shape.rows == 0 || shape.planes == 0) return {};
  const auto span = [&](std::int64_t pitch, std::int64_t plane) {
    return (shape.planes - 1) * plane + (shape.rows - 1) * pitch + shape.width_bytes;
  };
  const auto source_bytes = span(shape.source_pitch, shape.source_plane);
  const auto target_bytes = span(shape.target_pitch, shape.target_plane);
  if (auto status = fits("source", source, source_bytes); !status) return status;
  if (auto status = fits("target", target, target_bytes); !status) return status;
  put(**lane, [=] {
    for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        std::memcpy(target + plane * shape.target_plane + row * shape.target_pitch,
                    source + plane * shape.source_plane + row * shape.source_pitch,
                    static_cast<std::size_t>(shape.width_bytes));
      }
    }
  });
  return {};
}

Status EmulatedGpus::launch(const GpuStream& stream, const gpu::KernelPlan& plan,
                            const gpu::Repeats& repeats, const std::byte* source,
                            std::byte* target) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  const auto* origins = repeats.origins;
  CHECK(origins == nullptr || where(origins).kind != MemoryKind::host,
        "a kernel reads the origins of nests from memory that the GPU reaches");
  for (std::int64_t k = 0; k < repeats.count; ++k) {
    const gpu::NestOrigin origin = origins == nullptr ? gpu::NestOrigin{} : origins[k];
    const std::byte* from = source + plan.source_offset + origin.source;
    std::byte* to = target + plan.target_offset + origin.target;
    if (auto status = reaches(stream.device, from, to); !status) return status;
  }
  put(**lane, [=] { gpu::run_on_host(plan, source, target, repeats); });
  return {};
}

Status EmulatedGpus::launch(const GpuStream& stream, const gpu::CastPlan& plan,
                            const std::byte* source, std::byte* target) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  if (auto status =
          reaches(stream.device, source + plan.source_offset, target + plan.target_offset);
      !status)
    return status;
  put(**lane, [=] { gpu::run_cast_on_host(plan, source, target); });
  return {};
}

Status EmulatedGpus::launch(const GpuStream& stream, const Run* pieces, std::int64_t count,
                            const std::byte* source, std::byte* target) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  if (count == 0) return {};
  CHECK(count > 0 && where(pieces).kind != MemoryKind::host,
        "a kernel reads its list of pieces from pinned memory");
  for (std::int64_t k = 0; k < count; ++k) {
    const auto& piece = pieces[k];
    if (auto status =
            reaches(stream.device, source + piece.source_offset, target + piece.target_offset);
        !status)
      return status;
  }
  put(**lane, [=] { gpu::run_pieces_on_host(pieces, count, source, target); });
  return {};
}

Status EmulatedGpus::launch(const GpuStream& stream, const gpu::RunTable& table,
                            const std::byte* source, std::byte* target) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  CHECK(where(table.numbers).kind != MemoryKind::host,
        "a kernel reads its table of runs from memory that the GPU reaches");
  for (std::int64_t k = 0; k < table.count; ++k) {
    const Run piece = gpu::piece_of(table, k);
    if (piece.bytes == 0) continue;  // it may begin at the end of the memory
    if (auto status =
            reaches(stream.device, source + piece.source_offset, target + piece.target_offset);
        !status)
      return status;
  }
  put(**lane, [=] { gpu::run_runs_on_host(table, source, target); });
  return {};
}

Status EmulatedGpus::launch(const GpuStream& stream, const gpu::NestTable& table,
                            const std::byte* source, std::byte* target) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  CHECK(where(table.plans).kind != MemoryKind::host,
        "a kernel reads its list of nests from memory that the GPU reaches");
  for (std::int32_t k = 0; k < table.nests_count; ++k) {
    const gpu::ListedNest& nest = table.nests[k];
    if (auto status = reaches(stream.device, source + nest.source, target + nest.target); !status)
      return status;
  }
  put(**lane, [=] { gpu::run_list_on_host(table, source, target); });
  return {};
}

Status EmulatedGpus::launch(const GpuStream& stream, const gpu::PlaceLaunch& places,
                            const std::byte* source, std::byte* target) {
  auto lane = stream_of(stream);
  if (!lane) return lane.error();
  const bool looks_up = std::any_of(
      places.lists, places.lists + places.count,
      [](const auto& list) { return list.source.table >= 0 || list.target.table >= 0; });
  CHECK(!looks_up || where(places.places).kind != MemoryKind::host,
        "a kernel reads its places from memory that the GPU reaches");
  for (const gpu::PlaceList& list :
       std::span(places.lists, static_cast<std::size_t>(places.count))) {
    if (auto status =
            reaches(stream.device, source + list.source.offset, target + list.target.offset);
        !status)
      return status;
  }
  put(**lane, [=] { gpu::run_places_on_host(places, source, target); });
  return {};
}

Result<IpcHandle> EmulatedGpus::ipc_handle(const std::byte* address) const {
  std::shared_lock held(memory_lock_);
  const auto found = find(address);
  if (found == ranges_.end() || found->second.info.kind != MemoryKind::device ||
      found->second.opened_for >= 0) {
    return Error{ErrorCode::invalid_argument,
                 "only memory that this process allocated on a GPU can be offered to others"};
  }
  const AddressRange& range = found->second;
  const SharedMemory& memory = *range.device_memory;
  const Handle handle{static_cast<std::int32_t>(getpid()), memory.descriptor(), memory.inode(),
                      memory.bytes()};
  IpcHandle ipc;
  std::memcpy(ipc.handle.data(), &handle, sizeof handle);
  ipc.bus = list_[static_cast<std::size_t>(range.info.device)].bus;
  ipc.offset_bytes = static_cast<std::int64_t>(number_of(address) - found->first);
  ipc.allocation = handle.inode;
  return ipc;
}

Result<std::byte*> EmulatedGpus::open_ipc_handle(const IpcHandle& ipc, int device) {
  CHECK(known(device), "a GPU of that number does not exist");
  Handle handle;
  std::memcpy(&handle, ipc.handle.data(), sizeof handle);
  if (ipc.offset_bytes < 0 || ipc.offset_bytes >= handle.bytes) {
    return Error{ErrorCode::invalid_argument, "the IPC handle points outside its allocation"};
  }
  const std::tuple key{handle.process, handle.inode, handle.descriptor, device};
  std::unique_lock held(memory_lock_);
  if (const auto found = opened_.find(key); found != opened_.end()) {
    ++ranges_.at(number_of(found->second)).users;
    return found->second + ipc.offset_bytes;
  }
  auto memory = open_memory(handle);
  if (!memory) return memory.error();
  AddressRange range;
  const int owner = device_of(ipc.bus);
  range.info = {MemoryKind::device, owner < 0 ? device : owner};
  range.bytes = handle.bytes;
  range.opened_for = device;
  range.device_memory = *memory;
  std::byte* base = (*memory)->data();
  add(base, std::move(range));
  opened_.emplace(key, base);
  return base + ipc.offset_bytes;
}

void EmulatedGpus::close_ipc_handle(std::byte* address) {
  std::unique_lock held(memory_lock_);
  const auto found = find(address);
  CHECK(found != ranges_.end() && found->second.opened_for >= 0,
        "no memory of an IPC handle is open at this address");
  AddressRange& range = ranges_.at(found->first);
  if (--range.users > 0) return;
  std::erase_if(opened_,
                [&](const auto& entry) { return number_of(entry.second) == found->first; });
  ranges_.erase(found);
}

}  // namespace

std::shared_ptr<Gpus> Gpus::emulate(int count, EmulatedPinning pinning) {
  CHECK(count > 0, "there is at least one emulated GPU");
  return std::make_shared<EmulatedGpus>(count, pinning);
}

}  // namespace tranship
