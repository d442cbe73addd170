// The arrays that this process exports.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/messages/slots.hpp"
#include "os/memory_name.hpp"
#include "os/shared_memory.hpp"
#include "runtime/channel.hpp"

namespace tranship::fabric {

/// An array that peers may read and, if `writable`, write.
struct ExportedArray {
  std::string name;
  std::string description;  ///< opaque to the fabric; at most description_bytes_max
  Place place;              ///< plain memory, or an attachment for FabricOptions::execute
  std::int64_t bytes = 0;
  bool writable = true;
  /// The shared memory that the place lies in, which peers on this machine map; null: none.
  std::shared_ptr<SharedMemory> memory;
  /// The handle by which a process of this machine opens an attachment by itself; opaque to the
  /// fabric.
  std::string ipc_handle{};
  MemoryName memory_name{};  ///< of the first byte
  /// Whether requesters may send notices of their copies, which FabricOptions::take_notice gets.
  bool takes_notices = false;
};

constexpr std::size_t name_bytes_max = 1024;
constexpr std::size_t description_bytes_max = 256 * 1024;

/// An export, and the number of its current users.
class Export {
 public:
  Export(ExportedArray array, std::uint64_t id, int index)
      : array_(std::move(array)), id_(id), index_(index) {}

  const ExportedArray& array() const { return array_; }
  std::uint64_t id() const { return id_; }
  int index() const { return index_; }

 private:
  friend class ExportTable;
  ExportedArray array_;
  std::uint64_t id_;
  int index_;
  int users_ = 0;  ///< guarded by the table's mutex
};

/// The exports by name and id; at most exports_max.
class ExportTable {
 public:
  /// @error invalid_argument if a value is not usable or the name is taken; out_of_memory if full
  Status add(ExportedArray array);

  std::shared_ptr<const Export> find(const std::string& name) const;
  std::vector<std::string> names() const;

  /// Finds an export and counts the caller as its user until release().
  std::shared_ptr<Export> use(std::uint64_t id);
  void release(Export& one);

  /// Removes an export from the table: use() and find() no longer return it. Null if there is no
  /// export of that name.
  std::shared_ptr<Export> remove(const std::string& name);

  /// Removes an export as remove() does, and reserves its name until end_withdrawal(): add()
  /// refuses the name, and a further call returns the same export.
  std::shared_ptr<Export> begin_withdrawal(const std::string& name);
  void end_withdrawal(const Export& one);

  /// Waits until a removed export has no users. Returns false if that takes longer than `at_most`.
  bool wait_unused(const Export& one, std::chrono::milliseconds at_most);

 private:
  std::shared_ptr<Export> take(const std::string& name);

  mutable std::mutex mutex_;  ///< guards all following members
  std::condition_variable unused_;
  std::vector<std::shared_ptr<Export>> slots_;                  ///< by index; empty where free
  std::map<std::string, std::shared_ptr<Export>> withdrawing_;  ///< Removed, but still in use.
  std::uint64_t generation_ = 0;
};

}  // namespace tranship::fabric
