#include "mpi/blocks.hpp"

#include <cstring>
#include <utility>

#include "mpi/type_reader.hpp"

namespace tranship::mpi {
namespace {

/// Returns the bytes of a block whose items lie one behind the other from the address on; nothing
/// for others. A derived type without gaps may have its elements in another order.
std::optional<std::int64_t> dense_bytes(std::int64_t count, MPI_Datatype type) {
  if (const auto items = items_of(type, count)) {
    return items->contiguous ? std::optional(items->bytes()) : std::nullopt;
  }
  MPI_Count bytes = 0;
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  if (type == MPI_DATATYPE_NULL || !is_basic(type) ||
      PMPI_Type_size_x(type, &bytes) != MPI_SUCCESS ||
      PMPI_Type_get_extent_x(type, &lower_bound, &extent) != MPI_SUCCESS || extent != bytes) {
    return {};
  }
  std::int64_t all = 0;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(bytes), count, &all)) return {};
  return all;
}

}  // namespace

bool Blocks::add(const Block& block, bool received, std::int64_t count_max) {
  const std::size_t number = bytes_.size();
  // Displacements count from the buffer's address, as a number, which may be 0.
  auto* items = const_cast<std::byte*>(block.items);
  std::int64_t bytes = 0;
  if (block.count > 0) {
    auto message =
        received ? Message::to_unpack(Task::message, items, block.count, block.type, count_max)
                 : Message::to_pack(Task::message, items, block.count, block.type, count_max);
    if (message) {
      gains_ = gains_ || !block.absent;
      bytes = message->bytes();
    } else {
      const auto dense = dense_bytes(block.count, block.type);
      if (!dense || *dense > count_max) return false;
      bytes = *dense;
      if (gpu_of(items) >= 0) {
        message = Message::of_bytes(items, bytes);
      } else if (!block.absent) {
        dense_.push_back({items, number});
      }
    }
    if (message && !block.absent) {
      on_gpu_ = on_gpu_ || message->on_gpu();
      strided_.push_back({std::move(*message), number});
    }
  } else if (block.count < 0) {
    return false;  // an error of the program, which MPI reports
  }
  bytes_.push_back(bytes);
  places_.push_back(total_);
  return !__builtin_add_overflow(total_, bytes, &total_);
}

bool Blocks::pack() {
  for (Strided& block : strided_) {
    if (!block.message.pack_to(at(block.number), Report::collective)) return false;
  }
  for (const Dense& block : dense_) std::memcpy(at(block.number), block.items, size_of(block));
  return true;
}

void Blocks::unpack() {
  for (Strided& block : strided_) {
    block.message.unpack_from(at(block.number), block.message.bytes(), Report::collective);
  }
  for (const Dense& block : dense_) std::memcpy(block.items, at(block.number), size_of(block));
}

}  // namespace tranship::mpi
