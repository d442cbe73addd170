#include "mpi/message.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace tranship::mpi {
namespace {

/// Ends the process: the bytes of a message have arrived and cannot be unpacked, and MPI cannot
/// deliver them again.
[[noreturn]] void give_up(const std::exception& error) {
  (void)std::fprintf(stderr, "tranship-mpi: a message cannot be unpacked: %s\n", error.what());
  (void)PMPI_Abort(MPI_COMM_WORLD, 1);
  std::terminate();
}

/// Returns how many bytes a message brought that was received packed.
std::int64_t bytes_of(const MPI_Status& status) {
#ifdef TRANSHIP_MPI_LARGE_COUNTS
  MPI_Count bytes = 0;
  if (PMPI_Get_count_c(&status, MPI_PACKED, &bytes) != MPI_SUCCESS) return 0;
#else
  int bytes = 0;
  if (PMPI_Get_count(&status, MPI_PACKED, &bytes) != MPI_SUCCESS) return 0;
#endif
  return bytes != MPI_UNDEFINED ? bytes : 0;
}

}  // namespace

std::optional<Message> Message::to_pack(Task task, const void* places, MPI_Count count,
                                        MPI_Datatype type, std::int64_t bytes_max) {
  if (count <= 0) return {};
  Message message;
  message.items_ = items_of(type, count);
  if (!message.items_) return {};
  const Items& items = *message.items_;
  if (items.contiguous) {
    report().left(Report::contiguous, items.bytes());
    return {};
  }
  const auto* origin = static_cast<const std::byte*>(places);
  // The address is in the first page: the program passed null, which MPI reports.
  constexpr std::uintptr_t first_page_end = 4096;
  if (reinterpret_cast<std::uintptr_t>(origin + items.lowest) < first_page_end) return {};
  const auto gpu = gpu_of(origin + items.lowest, origin + items.highest - 1);
  if (!gpu) return {};
  message.gpu_ = *gpu;
  // MPI libraries copy each run in a GPU's memory by a call of its own, or cannot at all.
  if (!message.on_gpu() && !items.faster[static_cast<std::size_t>(task)]) {
    report().left(Report::faster_by_mpi, items.bytes());
    return {};
  }
  if (items.bytes() > bytes_max) {
    report().left(Report::too_long, items.bytes());
    return {};
  }
  // MPI's buffers are not const where it writes to them.
  message.places_ = const_cast<std::byte*>(static_cast<const std::byte*>(places));
  return message;
}

std::optional<Message> Message::to_unpack(Task task, void* items, MPI_Count count,
                                          MPI_Datatype type, std::int64_t bytes_max) {
  auto message = to_pack(task, items, count, type, bytes_max);
  // A type whose elements share bytes is an error of the program, which MPI reports.
  if (message && !message->items_->disjoint()) return {};
  return message;
}

Message Message::of_bytes(void* places, std::int64_t bytes) {
  Message message;
  message.items_ = make_items({types::element("V1")}, bytes);
  message.places_ = static_cast<std::byte*>(places);
  message.gpu_ = gpu_of(places);
  return message;
}

bool Message::take_buffer() {
  buffer_ = Buffer::of(bytes(), on_gpu());
  if (buffer_.data() == nullptr) report().left(Report::no_memory, bytes());
  return buffer_.data() != nullptr;
}

bool Message::take_buffer_to_receive() {
#ifdef OMPI_MAJOR_VERSION
  // If a message is too long for a contiguous receive, Open MPI may write all of it before it
  // reports the error. The buffer has room for that; pages that are not touched cost nothing.
  constexpr std::int64_t room = std::int64_t{512} << 10;
  if (!on_gpu()) {
    buffer_ = Buffer::of(bytes() + std::max(bytes(), room));
    if (buffer_.data() != nullptr) return true;
  }
#endif
  return take_buffer();
}

bool Message::pack_to(std::byte* packed, Report::Call call) {
  try {
    pack_items(packed);
  } catch (const std::exception&) {
    return false;
  }
  report().did(call, bytes(), on_gpu());
  return true;
}

void Message::unpack_from(const std::byte* packed, std::int64_t arrived, Report::Call call) {
  try {
    if (arrived == bytes()) {
      unpack_items(packed);
    } else {
      unpack_part(packed, arrived);
    }
  } catch (const std::exception& error) {
    give_up(error);
  }
  report().did(call, arrived, on_gpu());
}

void Message::pack_items(std::byte* packed) {
  for (std::int64_t k = 0; k < items_->groups; ++k) {
    const OnGpu group = there(k);
    if (on_gpu()) {
      pack_on_gpu(group, packed + k * items_->packer.bytes());
    } else {
      items_->packer.pack(group.places, packed + k * items_->packer.bytes());
    }
  }
}

void Message::unpack_items(const std::byte* packed) {
  for (std::int64_t k = 0; k < items_->groups; ++k) {
    const OnGpu group = there(k);
    if (on_gpu()) {
      unpack_on_gpu(group, packed + k * items_->packer.bytes());
    } else {
      items_->packer.unpack(packed + k * items_->packer.bytes(), group.places);
    }
  }
}

void Message::unpack_part(const std::byte* packed, std::int64_t arrived) {
  const Datatype& one = items_->one.type;
  const std::int64_t whole = arrived / one.bytes();
  const std::int64_t done = whole * one.bytes();
  if (whole > 0) some(0, whole).unpack_items(packed);
  if (arrived == done) return;
  // The elements of the last item that did not arrive are written back as they are.
  Message last = some(whole, 1);
  if (!last.take_buffer()) throw std::bad_alloc();
  last.pack_items(last.packed());
  std::memcpy(last.packed(), packed + done, static_cast<std::size_t>(arrived - done));
  last.unpack_items(last.packed());
}

void Message::unpack_arrived(const MPI_Status& status) {
  // Some libraries count the bytes that were sent, others those that fit.
  const std::int64_t arrived = std::min(bytes_of(status), bytes());
  if (arrived > 0) unpack_from(packed(), arrived, Report::received);
}

Message Message::some(std::int64_t first, std::int64_t count) const {
  Message made;
  made.items_ = make_items(items_->one, count);
  made.places_ = places_ + first * items_->one.type.extent();
  made.gpu_ = gpu_;
  return made;
}

}  // namespace tranship::mpi
