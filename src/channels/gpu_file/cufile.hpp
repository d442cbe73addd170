// GPUDirect Storage: files to and from GPU memory without host memory between. NVIDIA's libcufile
// is loaded when an engine starts, since most systems do not have it; its functions and types are
// those of its manual (docs.nvidia.com/gpudirect-storage/api-reference-guide).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.hpp"

namespace tranship {

/// The library, opened. Threads: all.
class CuFile {
 public:
  /// A file as the library knows it. It must end before the descriptor is closed.
  class Handle {
   public:
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

   private:
    friend class CuFile;
    Handle(std::shared_ptr<const CuFile> library, void* handle)
        : library_(std::move(library)), handle_(handle) {}
    std::shared_ptr<const CuFile> library_;
    void* handle_;
  };

  /// `library`: a path, or a name that the linker finds.
  /// @error unsupported if it is not there, lacks a function, or finds no driver
  static Result<std::shared_ptr<const CuFile>> open(const std::string& library);
  ~CuFile();
  CuFile(const CuFile&) = delete;
  CuFile& operator=(const CuFile&) = delete;

  /// Whether the kernel has what the library needs for more than a detour over the host.
  static bool in_kernel();

  /// @error io: what the library refused, with its number
  Result<std::shared_ptr<Handle>> attach(int descriptor) const;

  /// Bytes that were moved between a file, from `offset` on, and memory of the calling thread's
  /// current GPU: fewer than asked for at the file's end.
  /// @error io
  Result<std::int64_t> read(const Handle& file, std::byte* memory, std::int64_t bytes,
                            std::int64_t offset) const;
  Result<std::int64_t> write(const Handle& file, const std::byte* memory, std::int64_t bytes,
                             std::int64_t offset) const;

 private:
  struct Functions;
  CuFile(void* library, std::unique_ptr<Functions> functions);

  void* library_;
  std::unique_ptr<Functions> functions_;
  mutable std::weak_ptr<const CuFile> self_;
};

}  // namespace tranship
