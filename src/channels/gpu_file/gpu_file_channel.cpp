#include "channels/gpu_file/gpu_file_channel.hpp"

#include "base/at.hpp"
#include "base/check.hpp"
#include "channels/file/file.hpp"

namespace tranship {
namespace {

/// Returns the file's handle of GPUDirect Storage, made at its first use and kept with the file.
Result<std::shared_ptr<CuFile::Handle>> handle_of(File& file, const CuFile& library) {
  auto kept = file.companion([&]() -> Result<std::shared_ptr<void>> {
    const bool direct = file.direct_descriptor() >= 0;
    auto made = library.attach(direct ? file.direct_descriptor() : file.cached_descriptor());
    if (!made) return made.error();
    return std::shared_ptr<void>(*made);
  });
  if (!kept) return kept.error();
  return std::static_pointer_cast<CuFile::Handle>(*kept);
}

/// The walk over one request's runs.
struct Runs {
  const CuFile& library;
  const CuFile::Handle& handle;
  File& file;
  std::byte* memory;
  std::int64_t offset;  ///< of the array in the file
  bool reads;

  Status move(std::int64_t source, std::int64_t target, std::int64_t bytes) const {
    std::int64_t in_file = offset + (reads ? source : target);
    std::byte* in_memory = memory + (reads ? target : source);
    while (bytes > 0) {
      auto moved = reads ? library.read(handle, in_memory, bytes, in_file)
                         : library.write(handle, in_memory, bytes, in_file);
      if (!moved) return moved.error();
      if (*moved == 0) {
        return Error{ErrorCode::out_of_range, file.path() + " ends at byte " +
                                                  std::to_string(in_file) + ", and " +
                                                  std::to_string(bytes) + " more are needed"};
      }
      in_file += *moved;
      in_memory += *moved;
      bytes -= *moved;
    }
    return {};
  }

  Status walk(const LoopNest& nest, int loop, std::int64_t source, std::int64_t target) const {
    if (loop < 0) return move(source, target, nest.element_bytes);
    const Loop& step = nest.loops[at(loop)];
    for (std::int64_t k = 0; k < step.extent; ++k) {
      Status status =
          walk(nest, loop - 1, source + k * step.source_stride, target + k * step.target_stride);
      if (!status) return status;
    }
    return {};
  }

  Status walk(const LoopNest& nest) const {
    return walk(nest, nest.rank - 1, nest.source_offset, nest.target_offset);
  }

  Status walk(const Request& request) const {
    for (const LoopNest& nest : request.payload.nests()) {
      if (Status status = walk(nest); !status) return status;
    }
    for (const IndexedNest& indexed : request.payload.indexed()) {
      for (const IndexedEntry& entry : indexed.entries) {
        if (Status status = walk(nest_of(indexed, entry)); !status) return status;
      }
    }
    return {};
  }
};

}  // namespace

GpuFileChannel::GpuFileChannel(Options options) : options_(std::move(options)) {
  capabilities_.synchronous = true;
  capabilities_.lists = Lists::all;
  capabilities_.width = options_.threads;
}

Status GpuFileChannel::submit(const Request& request) {
  const bool reads = request.source.attachment != nullptr;
  const Place& in_file = reads ? request.source : request.target;
  auto* file = dynamic_cast<File*>(in_file.attachment);
  CHECK(file != nullptr, "one side of the request is a file");
  if (Status admitted = file->admits(reads); !admitted) return admitted;
  auto handle = handle_of(*file, *options_.library);
  if (!handle) return handle.error();
  if (Status status = options_.gpus->enter(options_.device); !status) return status;
  const Runs runs{*options_.library,
                  **handle,
                  *file,
                  (reads ? request.target : request.source).address,
                  static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(in_file.address)),
                  reads};
  Status status = runs.walk(request);
  if (!status && !reads) file->mark_incomplete();
  return status;
}

}  // namespace tranship
