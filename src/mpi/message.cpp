#include "mpi/message.hpp"

#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

namespace tranship::mpi {
namespace {

/// What has arrived cannot be written where it belongs, and nobody else can.
[[noreturn]] void give_up(const std::exception& error) {
  (void)std::fprintf(stderr, "tranship-mpi: a message cannot be unpacked: %s\n", error.what());
  (void)PMPI_Abort(MPI_COMM_WORLD, 1);
  std::terminate();
}

}  // namespace

std::optional<Message> Message::of(Task task, const void* items, MPI_Count count, MPI_Datatype type,
                                   std::int64_t bytes_max) {
  if (count <= 0) return {};
  Message message;
  message.plan_ = plan_of(type);
  if (!message.plan_) return {};
  const TypePlan& plan = *message.plan_;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(plan.bytes(), static_cast<std::int64_t>(count), &bytes) ||
      bytes > bytes_max) {
    report().left(Report::too_long, 0);
    return {};
  }
  if (plan.contiguous()) {
    report().left(Report::contiguous, bytes);
    return {};
  }
  if (!packing_is_faster(task, plan.run_bytes(), bytes)) {
    report().left(Report::faster_by_mpi, bytes);
    return {};
  }
  try {
    message.all_ = message.plan_->items(count);
  } catch (const std::exception&) {
    return {};
  }
  message.bytes_ = bytes;
  // MPI's buffers are not const where it writes to them.
  message.items_ = const_cast<std::byte*>(static_cast<const std::byte*>(items));
  return message;
}

std::optional<Message> Message::to_pack(Task task, const void* items, MPI_Count count,
                                        MPI_Datatype type, std::int64_t bytes_max) {
  return of(task, items, count, type, bytes_max);
}

std::optional<Message> Message::to_unpack(Task task, void* items, MPI_Count count,
                                          MPI_Datatype type, std::int64_t bytes_max) {
  auto message = of(task, items, count, type, bytes_max);
  // A type whose elements share bytes is an error of the program, which MPI may tell it.
  if (message && !message->all_->type.disjoint()) return {};
  return message;
}

bool Message::take_buffer() {
  buffer_ = Buffer::of(bytes_);
  if (buffer_.data() == nullptr) report().left(Report::no_memory, bytes_);
  return buffer_.data() != nullptr;
}

bool Message::pack_to(std::byte* packed, Report::Work work) {
  try {
    all_->packer.pack(items_, packed);
  } catch (const std::exception&) {
    return false;
  }
  report().did(work, bytes_, false);
  return true;
}

void Message::unpack_from(const std::byte* packed, std::int64_t arrived, Report::Work work) {
  try {
    const std::int64_t whole = arrived / plan_->bytes();
    if (whole == all_->count) {
      all_->packer.unpack(packed, items_);
    } else {
      if (whole > 0) plan_->items(whole)->packer.unpack(packed, items_);
      unpack_part(packed, whole, arrived);
    }
  } catch (const std::exception& error) {
    give_up(error);
  }
  report().did(work, arrived, false);
}

void Message::unpack_part(const std::byte* packed, std::int64_t whole, std::int64_t arrived) {
  const std::int64_t done = whole * plan_->bytes();
  if (arrived == done) return;
  // The elements that did not arrive are written back as they are.
  const auto one = plan_->items(1);
  Buffer item = Buffer::of(plan_->bytes());
  if (item.data() == nullptr) throw std::bad_alloc();
  std::byte* const place = items_ + whole * plan_->type().extent();
  one->packer.pack(place, item.data());
  std::memcpy(item.data(), packed + done, static_cast<std::size_t>(arrived - done));
  one->packer.unpack(item.data(), place);
}

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

}  // namespace tranship::mpi
