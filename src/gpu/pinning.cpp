#include "gpu/pinning.hpp"

#include <unistd.h>

#include <algorithm>

namespace tranship {
namespace {

/// Bytes of a part of shared memory that is pinned in the background. The driver takes some 7 ms
/// for each (9 GB/s on an H200's host).
constexpr std::int64_t background_part_bytes = std::int64_t{64} << 20;

/// Pins whole pages until the last reference to the result is released.
Result<std::shared_ptr<void>> pin_pages(const std::shared_ptr<Gpus>& gpus, std::byte* pages,
                                        std::int64_t bytes) {
  if (Status status = gpus->pin(pages, bytes); !status) return status.error();
  return std::shared_ptr<void>(
      pages, [gpus](void* pinned) { gpus->unpin(static_cast<std::byte*>(pinned)); });
}

}  // namespace

bool Pinning::reaches(const std::byte* first, const std::byte* last) const {
  for (std::int64_t bytes = gpus_->pinned_bytes_from(first); bytes > 0;
       bytes = gpus_->pinned_bytes_from(first)) {
    if (bytes > last - first) return true;
    first += bytes;
  }
  // Another library may have pinned it.
  return reaches(first) && reaches(last);
}

std::shared_ptr<PinnedParts> Pinning::parts_of(SharedMemory& memory) const {
  return std::static_pointer_cast<PinnedParts>(memory.registration([&] {
    const PinnedParts::Options whole{memory.data(), memory.bytes(), memory.bytes()};
    auto parts = std::make_shared<PinnedParts>(gpus_, whole);
    return parts->pin_all() ? parts : nullptr;
  }));
}

bool Pinning::pin(SharedMemory& memory) const {
  const auto parts = parts_of(memory);
  return parts != nullptr && parts->are_pinned();
}

bool Pinning::pin_for_copy(SharedMemory& memory, const std::byte* first, std::int64_t bytes) const {
  const auto parts = parts_of(memory);
  if (parts == nullptr || !parts->in_background()) return parts != nullptr;
  pinner_->want(*parts, first - memory.data(), bytes);
  return false;
}

void Pinning::pin_in_background(const std::shared_ptr<SharedMemory>& memory, std::int64_t bytes,
                                bool ahead) const {
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  const std::int64_t pages = std::min((bytes + page - 1) / page, memory->bytes() / page);
  if (pages <= 0) return;
  const auto parts = std::static_pointer_cast<PinnedParts>(memory->registration([&] {
    const PinnedParts::Options options{memory->data(), pages * page, background_part_bytes, true};
    return std::make_shared<PinnedParts>(gpus_, options);
  }));
  if (parts == nullptr || !parts->in_background()) return;
  if (ahead) parts->pin_ahead();
  pinner_->add(memory, parts);
}

Result<std::shared_ptr<void>> Pinning::pin(std::byte* begin, std::int64_t bytes) const {
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  const auto before = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin) %
                                                static_cast<std::uintptr_t>(page));
  std::byte* first = begin - before;
  const std::int64_t whole = (before + bytes + page - 1) / page * page;
  const bool pinned = reaches(begin) && reaches(begin + bytes - 1);
  if (pinned) return std::shared_ptr<void>(begin, [](void*) {});
  return pin_pages(gpus_, first, whole);
}

bool Pinning::reaches(const std::byte* address) const {
  return gpus_->where(address).kind != MemoryKind::host;
}

}  // namespace tranship
