// The disk of a server whose objects lie on a GPU.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "engine/engine.hpp"
#include "staging/server/disk.hpp"

namespace tranship::staging {

/// Reads and writes memory of a GPU, through a bounce buffer in host memory as large as the largest
/// object so far. The engine must outlive it.
class GpuDisk final : public Disk {
 public:
  GpuDisk(std::unique_ptr<Disk> disk, Engine& engine, int device)
      : disk_(std::move(disk)), engine_(engine), device_(device) {}

  // Disk
  Status write(std::int64_t offset, std::span<const std::byte> data) override;
  Status read(std::int64_t offset, std::span<std::byte> data) override;
  Status flush() override { return disk_->flush(); }
  void drop(std::int64_t offset, std::int64_t bytes) override { disk_->drop(offset, bytes); }

 private:
  /// @error out_of_memory
  Result<std::span<std::byte>> buffer(std::size_t bytes);
  Status copy(std::byte* on_gpu, std::span<std::byte> on_host, bool to_host);

  std::unique_ptr<Disk> disk_;
  Engine& engine_;
  int device_;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> buffer_;
  std::size_t buffer_bytes_ = 0;
};

}  // namespace tranship::staging
