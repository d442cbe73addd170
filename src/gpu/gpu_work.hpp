// Execution of loop nests in a stream: by copy engines for long runs, by kernels for all others.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/gpus.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// How the bytes of a request are moved.
enum class GpuWay {
  in_memory,    ///< within GPU memory: kernels, and the driver's copy for a single run
  over_link,    ///< to or from the host: copy engines for long runs, else kernels
  past_engines  ///< to or from the host by kernels alone, which wait for no copy engine
};

/// Enqueues nests in streams of one GPU. Owns the tables of pieces and nests that kernels read, so
/// that each request in flight needs its own GpuWork. Not thread-safe.
class GpuWork {
 public:
  explicit GpuWork(std::shared_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}
  ~GpuWork();
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;

  /// Enqueues all nests of the request, plain and indexed, in the stream. The work of an earlier
  /// call must have ended. The request's nests are not read after the call.
  Status enqueue(const GpuStream& stream, const Request& request, GpuWay way);

 private:
  Status enqueue_nests(const GpuStream& stream, std::span<const LoopNest> nests,
                       const std::byte* source, std::byte* target, GpuWay way);
  /// Enqueues a nest on a copy engine, or keeps it for kernels.
  Status enqueue_nest(const GpuStream& stream, const LoopNest& nest, const std::byte* source,
                      std::byte* target, GpuWay way);
  Status enqueue_pieces(const GpuStream& stream, std::span<const LoopNest> nests,
                        const std::byte* source, std::byte* target);
  /// Enqueues the runs of indexed nests in one launch.
  Status enqueue_pieces(const GpuStream& stream, std::span<const IndexedNest> nests,
                        const std::byte* source, std::byte* target);
  /// Launches the nests that lists can carry, in at most two launches; leaves the others in
  /// `rest_`.
  Status enqueue_lists(const GpuStream& stream, std::span<const LoopNest> nests,
                       const std::byte* source, std::byte* target, GpuWay way);
  Status reserve_table(std::int64_t bytes);
  Status reserve_on_gpu(int device, std::int64_t bytes);

  std::shared_ptr<Gpus> gpus_;
  std::vector<LoopNest> for_kernels_;   ///< nests of this request
  std::vector<gpu::KernelPlan> plans_;  ///< member, so that a request allocates nothing
  std::vector<LoopNest> rest_;
  std::vector<LoopNest> expanded_;  ///< indexed nests that are not carried as pieces
  gpu::NestLists lists_;
  std::byte* table_ = nullptr;  ///< in pinned memory
  std::int64_t table_bytes_ = 0;
  std::byte* on_gpu_ = nullptr;  ///< copy of a table in GPU memory; every block reads a part of it
  std::int64_t on_gpu_bytes_ = 0;
  int on_gpu_device_ = 0;
};

}  // namespace tranship
