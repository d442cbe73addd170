// The memory that a requester and an exporting process share: command slots and leases.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_order.hpp"
#include "fabric/messages/command.hpp"
#include "os/bell.hpp"
#include "os/shared_memory.hpp"

namespace tranship::fabric {

constexpr int exports_max = 4096;
constexpr int slots_max = 64;

/// The owner of a slot.
enum class SlotState : std::uint32_t {
  free = 0,       ///< The requester may fill it.
  submitted = 1,  ///< The exporter carries out its command.
  done = 2,       ///< The requester may take the answer.
};

/// State and result of a slot's command. The text of an error lies in the slot's command area.
struct SlotControl {
  std::atomic<std::uint32_t> state{0};
  std::uint32_t error_code = 0;  ///< 0: success; otherwise 1 + ErrorCode
  std::uint32_t text_bytes = 0;
  std::uint32_t reply_bytes = 0;  ///< Length of a call's answer, which replaces the question.
  std::uint32_t reserved[12]{};
};
static_assert(sizeof(SlotControl) == 64);

/// Lets a requester access exported memory without a command (process_vm_writev). The requester
/// increments `users`, checks that `export_id` is still set, copies, and decrements `users`. A
/// withdrawal clears `export_id` and waits until `users` is 0.
struct ExportLease {
  std::atomic<std::uint64_t> export_id{0};
  std::atomic<std::uint32_t> users{0};
  std::uint32_t reserved = 0;
};

struct SlotGeometry {
  std::int32_t slots = 8;
  std::int64_t slot_bytes = 256 * 1024;
  /// Largest payload, in bytes, that is sent inside a message over a network, and so through the
  /// slot. The sender may reuse its memory at once.
  std::int64_t inside_bytes = 8 * 1024;
  /// Most bytes that one command moves over a network directly between two arrays, without slots:
  /// few messages for many bytes, but no message so long that others wait.
  std::int64_t straight_bytes = std::int64_t{1} << 20;

  /// Shortest runs, on average, that go directly between two arrays: for shorter ones the kernel
  /// takes longer than the copies through the slots.
  std::int64_t straight_run_bytes() const { return 3 * inside_bytes / 8; }

  bool valid() const {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    return slots >= 1 && slots <= slots_max && slot_bytes >= 4096 && slot_bytes <= most &&
           slot_bytes % 4096 == 0 && inside_bytes >= 0 && inside_bytes <= slot_bytes &&
           straight_bytes > inside_bytes && straight_bytes <= most;
  }
};

struct SlotHeader {
  std::array<SlotControl, slots_max> control;
  std::array<ExportLease, exports_max> leases;
};

/// The layout of the slots' memory. On one machine both processes map the same memory; over a
/// network each side has its own, and messages copy a slot across.
/// Owns a share of the memory. Threads: all; the slots' states order accesses to their contents.
class SlotSegment {
 public:
  SlotSegment() = default;
  SlotSegment(std::shared_ptr<SharedMemory> memory, SlotGeometry geometry)
      : memory_(std::move(memory)), geometry_(geometry) {}

  static std::int64_t bytes(const SlotGeometry& geometry) {
    return header_bytes + geometry.slots * (command_bytes_max + geometry.slot_bytes);
  }

  const SlotGeometry& geometry() const { return geometry_; }
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }
  SlotHeader& header() const { return *reinterpret_cast<SlotHeader*>(memory_->data()); }
  SlotControl& control(int slot) const { return header().control[static_cast<std::size_t>(slot)]; }

  /// Returns which side owns the slot. Stores made before `set_state` are visible to the thread
  /// that reads that state. Sequentially consistent, as the doorbell is: a requester that submits
  /// either finds that its slots are watched, or rings.
  SlotState state(int slot) const {
    const auto value = control(slot).state.load();
    order_after(order_key(slot));
    return static_cast<SlotState>(value);
  }
  void set_state(int slot, SlotState state) const {
    order_before(order_key(slot));
    control(slot).state.store(static_cast<std::uint32_t>(state));
  }

  std::byte* command(int slot) const {
    return memory_->data() + header_bytes + slot * command_bytes_max;
  }
  /// Returns where a slot's packed bytes begin, in bytes from the start of the memory.
  std::int64_t data_offset(int slot) const {
    return header_bytes + geometry_.slots * command_bytes_max + slot * geometry_.slot_bytes;
  }
  std::byte* data(int slot) const { return memory_->data() + data_offset(slot); }

 private:
  static constexpr std::int64_t header_bytes =
      (static_cast<std::int64_t>(sizeof(SlotHeader)) + 4095) / 4096 * 4096;

  /// Returns an address that identifies a slot to the thread sanitizer: both ends of a link may be
  /// in one process (in tests), which then has a state at two addresses.
  static void* order_key(int slot) {
    static std::array<char, slots_max> keys{};
    return &keys[static_cast<std::size_t>(slot)];
  }

  std::shared_ptr<SharedMemory> memory_;
  SlotGeometry geometry_;
};

}  // namespace tranship::fabric
