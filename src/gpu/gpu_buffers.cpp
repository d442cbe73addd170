#include "gpu/gpu_buffers.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

namespace tranship {
namespace {

/// Size of a bounce buffer: copies on the caller's thread are seldom larger.
constexpr std::int64_t bounce_bytes = std::int64_t{1} << 20;

/// Pinned buffers consist of large pages, which CUDA would not allocate: files are read into them
/// and written from them, and direct I/O with small pages is slow on virtual disks.
constexpr std::size_t pinned_align_bytes = std::size_t{2} << 20;

std::byte* allocate_pinned_pages(Gpus& gpus, std::int64_t bytes) {
  const std::size_t size = (static_cast<std::size_t>(bytes) + pinned_align_bytes - 1) /
                           pinned_align_bytes * pinned_align_bytes;
  auto* buffer = static_cast<std::byte*>(std::aligned_alloc(pinned_align_bytes, size));
  if (buffer == nullptr) return nullptr;
  (void)madvise(buffer, size, MADV_HUGEPAGE);
  if (gpus.pin(buffer, static_cast<std::int64_t>(size))) return buffer;
  std::free(buffer);
  return nullptr;
}

void release_pinned_pages(Gpus& gpus, void* buffer) {
  gpus.unpin(static_cast<std::byte*>(buffer));
  std::free(buffer);
}

/// Pinned buffers that CUDA allocates, for systems that refuse to pin pages of this process.
/// Threads: all.
class PlainBuffers {
 public:
  std::byte* allocate(Gpus& gpus, std::int64_t bytes) {
    auto made = gpus.allocate_pinned(bytes);
    if (!made) return nullptr;
    std::lock_guard lock(mutex_);
    buffers_.insert(*made);
    return *made;
  }
  /// Releases a buffer. Returns false if allocate() did not return it.
  bool release(Gpus& gpus, std::byte* buffer) {
    std::lock_guard lock(mutex_);
    if (buffers_.erase(buffer) == 0) return false;
    gpus.release_pinned(buffer);
    return true;
  }

 private:
  std::mutex mutex_;
  std::set<std::byte*> buffers_;
};

}  // namespace

Result<std::shared_ptr<void>> GpuBuffers::allocate(MemoryKind kind, int device,
                                                   std::int64_t bytes) const {
  const auto gpus = gpus_;
  if (kind == MemoryKind::pinned) {
    auto made = gpus->allocate_pinned(bytes);
    if (!made) return made.error();
    return std::shared_ptr<void>(
        *made, [gpus](void* address) { gpus->release_pinned(static_cast<std::byte*>(address)); });
  }
  if (device < 0 || device >= static_cast<int>(gpus->list().size())) {
    return Error{ErrorCode::invalid_argument, "there is no GPU number " + std::to_string(device) +
                                                  "; this machine has " +
                                                  std::to_string(gpus->list().size())};
  }
  auto made = gpus->allocate(device, bytes);
  if (!made) return made.error();
  return std::shared_ptr<void>(*made, [gpus, device](void* address) {
    gpus->release(device, static_cast<std::byte*>(address));
  });
}

GpuBuffers::BounceBuffers::~BounceBuffers() {
  for (std::byte* buffer : free) gpus->release_pinned(buffer);
}

Result<std::shared_ptr<std::byte>> GpuBuffers::bounce_buffer(std::int64_t bytes) const {
  const auto give_back = [buffers = bounces_, bytes](std::byte* buffer) {
    if (bytes > bounce_bytes) return buffers->gpus->release_pinned(buffer);
    std::lock_guard lock(buffers->mutex);
    buffers->free.push_back(buffer);
  };
  if (bytes <= bounce_bytes) {
    std::lock_guard lock(bounces_->mutex);
    if (!bounces_->free.empty()) {
      std::byte* buffer = bounces_->free.back();
      bounces_->free.pop_back();
      return std::shared_ptr<std::byte>(buffer, give_back);
    }
  }
  auto made = gpus_->allocate_pinned(std::max(bytes, bounce_bytes));
  if (!made) return made.error();
  return std::shared_ptr<std::byte>(*made, give_back);
}

GpuBuffers::Source GpuBuffers::pinned_source() const {
  const auto gpus = gpus_;
  auto plain = std::make_shared<PlainBuffers>();
  return {[gpus, plain](std::int64_t bytes) -> std::byte* {
            std::byte* pages = allocate_pinned_pages(*gpus, bytes);
            return pages != nullptr ? pages : plain->allocate(*gpus, bytes);
          },
          [gpus, plain](std::byte* buffer, std::int64_t) {
            if (!plain->release(*gpus, buffer)) release_pinned_pages(*gpus, buffer);
          }};
}

GpuBuffers::Source GpuBuffers::source_on(int device) const {
  const auto gpus = gpus_;
  return {[gpus, device](std::int64_t bytes) -> std::byte* {
            auto made = gpus->allocate(device, bytes);
            return made ? *made : nullptr;
          },
          [gpus, device](std::byte* buffer, std::int64_t) { gpus->release(device, buffer); }};
}

}  // namespace tranship
