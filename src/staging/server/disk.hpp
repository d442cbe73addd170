// A staging server's place on disk, for objects that have no room in its memory.
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

/// Bytes by their offset. One thread at a time.
class Disk {
 public:
  virtual ~Disk() = default;
  /// @error io, which says what to do: the disk is full, or fails
  virtual Status write(std::int64_t offset, std::span<const std::byte> data) = 0;
  virtual Status read(std::int64_t offset, std::span<std::byte> data) = 0;
  /// Until the disk has all that was written: only then may their memory be used anew, because
  /// some systems say no sooner that they could not write.
  virtual Status flush() = 0;
  /// Gives bytes back that nobody needs any more.
  virtual void drop(std::int64_t offset, std::int64_t bytes) = 0;
};

/// A disk whose bytes are checked: each range that is read must be one that was written, and have
/// the bytes that were written, by their CRC-32C, which is kept in memory.
class CheckedDisk final : public Disk {
 public:
  explicit CheckedDisk(std::unique_ptr<Disk> disk) : disk_(std::move(disk)) {}

  // Disk
  Status write(std::int64_t offset, std::span<const std::byte> data) override;
  /// @error io if the bytes are not those that were written
  Status read(std::int64_t offset, std::span<std::byte> data) override;
  Status flush() override { return disk_->flush(); }
  void drop(std::int64_t offset, std::int64_t bytes) override;

 private:
  struct Written {
    std::size_t bytes = 0;
    std::uint32_t checksum = 0;
  };
  std::unique_ptr<Disk> disk_;
  std::unordered_map<std::int64_t, Written> written_;  ///< by offset
};

/// A file without a name: nothing is left of it when its process ends, however it does. Large
/// aligned runs go around the page cache.
class SpillFile final : public Disk {
 public:
  /// @error not_found, permission or io if no file can be made in the folder, and what to do
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
  /// How many bytes at the start of a run go around the page cache.
  std::size_t direct_bytes(std::int64_t offset, std::span<const std::byte> data) const;
  Error failure(const char* operation, int error_number) const;

  std::string folder_;
  int descriptor_ = -1;
  int direct_descriptor_ = -1;  ///< -1: the file system has no way around its cache
};

}  // namespace tranship::staging
