// The disk of a staging server, for objects that have no room in its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "staging/model/move.hpp"

namespace tranship::staging {

/// Storage of bytes by offset. One thread at a time may use it.
class Disk {
 public:
  virtual ~Disk() = default;
  /// @error io if the disk is full, or fails; the hint says what to do
  virtual Status write(std::int64_t offset, std::span<const std::byte> data) = 0;
  virtual Status read(std::int64_t offset, std::span<std::byte> data) = 0;
  /// Waits until the disk has all that was written. Only then may the memory be reused: some
  /// systems report a failed write no sooner.
  virtual Status flush() = 0;
  /// Frees bytes on disk.
  virtual void drop(std::int64_t offset, std::int64_t bytes) = 0;
};

/// A disk with checksums: each range that is read must have been written, with the same CRC-32C,
/// which is kept in memory.
class CheckedDisk final : public Disk {
 public:
  explicit CheckedDisk(std::unique_ptr<Disk> disk) : disk_(std::move(disk)) {}

  // Disk
  Status write(std::int64_t offset, std::span<const std::byte> data) override;
  /// @error io if the bytes differ from those that were written
  Status read(std::int64_t offset, std::span<std::byte> data) override;
  Status flush() override { return disk_->flush(); }
  void drop(std::int64_t offset, std::int64_t bytes) override;

 private:
  struct Written {
    std::size_t bytes = 0;
    std::uint32_t checksum = 0;
  };
  std::unique_ptr<Disk> disk_;
  std::unordered_map<std::int64_t, Written> written_;  ///< By offset.
};

/// A file without a name: nothing is left of it when its process ends, in whatever way. Large
/// aligned runs bypass the page cache.
class SpillFile final : public Disk {
 public:
  /// @error not_found, permission or io if no file can be made in the folder; the hint says what to
  /// do
  static Result<std::unique_ptr<SpillFile>> open(const std::string& folder);
  ~SpillFile() override;
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Disk
  Status write(std::int64_t offset, std::span<const std::byte> data) override;
  Status read(std::int64_t offset, std::span<std::byte> data) override;
  Status flush() override;
  void drop(std::int64_t offset, std::int64_t bytes) override;

 private:
  SpillFile(std::string folder, int descriptor);
  /// Returns how many bytes at the start of a run bypass the page cache.
  std::size_t direct_bytes(std::int64_t offset, std::span<const std::byte> data) const;
  Error failure(const char* operation, int error_number) const;

  std::string folder_;
  int descriptor_ = -1;
  int direct_descriptor_ = -1;  ///< -1: the file system does not bypass its cache.
};

}  // namespace tranship::staging
