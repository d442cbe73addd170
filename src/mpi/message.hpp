// Items of a type that are packed here instead of by MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "mpi/buffers.hpp"
#include "mpi/choices.hpp"
#include "mpi/gpu_memory.hpp"
#include "mpi/handles.hpp"
#include "mpi/report.hpp"
#include "mpi/type_plan.hpp"

namespace tranship::mpi {

/// The items of one side of a call. The packed bytes are those that MPI would send, the elements
/// one behind the other, so that the other side may be without this library.
class Message {
 public:
  /// Returns the items of a call that are packed here; nothing if the call is left to MPI.
  /// bytes_max: Most bytes that the call can count.
  static std::optional<Message> to_pack(Task task, const void* items, MPI_Count count,
                                        MPI_Datatype type, std::int64_t bytes_max);
  static std::optional<Message> to_unpack(Task task, void* items, MPI_Count count,
                                          MPI_Datatype type, std::int64_t bytes_max);

  /// Returns a message of contiguous bytes, in the memory of the host or of a GPU.
  static Message of_bytes(void* places, std::int64_t bytes);

  std::int64_t bytes() const { return items_->bytes(); }
  bool on_gpu() const { return gpu_ >= 0; }
  /// Returns the memory that take_buffer() took.
  std::byte* packed() const { return buffer_.data(); }

  /// Takes memory for the packed items. Returns false if there is none: leave the call to MPI then.
  bool take_buffer();
  /// Takes memory for items that MPI receives, as take_buffer() does.
  bool take_buffer_to_receive();

  /// Packs the items. Returns false if that is not possible: leave the call to MPI then.
  bool pack_to(std::byte* packed, Report::Call call);
  bool pack(Report::Call call) { return pack_to(packed(), call); }

  /// Unpacks the bytes that have arrived, which may end within an item. Ends the process with a
  /// message if that is not possible.
  void unpack_from(const std::byte* packed, std::int64_t arrived, Report::Call call);
  /// Unpacks the bytes that MPI received into packed(). Of a message that was too long, unpacks the
  /// part that fits, as MPI libraries do; they report the error.
  void unpack_arrived(const MPI_Status& status);

 private:
  void unpack_part(const std::byte* packed, std::int64_t arrived);

  /// Returns a group of the items, by its number.
  OnGpu there(std::int64_t group) const {
    return {gpu_, items_, places_ + group * items_->group_extent, buffer_.data() != nullptr};
  }
  void pack_items(std::byte* packed);
  void unpack_items(const std::byte* packed);
  /// Returns some of the items, by their number.
  Message some(std::int64_t first, std::int64_t count) const;

  std::shared_ptr<const Items> items_;
  std::byte* places_ = nullptr;  ///< where the first item begins
  int gpu_ = -1;                 ///< the GPU on which they lie; -1: in host memory
  Buffer buffer_;
};

/// Returns the most bytes that a call counts in MPI's type `Count`.
template <typename Count>
constexpr std::int64_t most_of() {
  return static_cast<std::int64_t>(std::numeric_limits<Count>::max());
}

/// Returns the message of a call that sends, packed; nothing if the call is left to MPI.
template <typename Count>
std::optional<Message> packed_to_send(const void* items, Count count, MPI_Datatype type, int peer) {
  if (peer == MPI_PROC_NULL) return {};
  auto message = Message::to_pack(Task::message, items, count, type, most_of<Count>());
  if (!message || !message->take_buffer() || !message->pack(Report::sent)) return {};
  return message;
}

/// Returns memory for the message of a call that receives; nothing if the call is left to MPI.
template <typename Count>
std::optional<Message> ready_to_receive(void* items, Count count, MPI_Datatype type, int peer) {
  if (peer == MPI_PROC_NULL) return {};
  auto message = Message::to_unpack(Task::message, items, count, type, most_of<Count>());
  if (!message || !message->take_buffer_to_receive()) return {};
  return message;
}

}  // namespace tranship::mpi
