// Loop nests as work in a stream: copy engines for long runs, kernels for everything else.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/gpus.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// What moves the bytes of a request.
enum class GpuWay {
  in_memory,    ///< GPU memory: kernels, and the driver's own copy for one run
  over_link,    ///< to or from the host: copy engines where the runs are long, else kernels
  past_engines  ///< the same by kernels alone: behind nothing that waits for a copy engine
};

/// Puts nests into streams of one GPU. Owns the tables of pieces and nests that kernels read, so
/// that each request in flight has an object of its own. Not thread-safe.
class GpuWork {
 public:
  explicit GpuWork(std::shared_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}
  ~GpuWork();
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;

  /// Puts all nests of the request, plain and indexed, into the stream. The work of an earlier call
  /// must have ended. The request's nests are not needed any more when it returns.
  Status enqueue(const GpuStream& stream, const Request& request, GpuWay way);

 private:
  Status enqueue_nests(const GpuStream& stream, std::span<const LoopNest> nests,
                       const std::byte* source, std::byte* target, GpuWay way);
  /// Gives a nest to a copy engine, or keeps it for kernels.
  Status enqueue_nest(const GpuStream& stream, const LoopNest& nest, const std::byte* source,
                      std::byte* target, GpuWay way);
  Status enqueue_pieces(const GpuStream& stream, std::span<const LoopNest> nests,
                        const std::byte* source, std::byte* target);
  /// Runs of indexed nests, in one launch.
  Status enqueue_pieces(const GpuStream& stream, std::span<const IndexedNest> nests,
                        const std::byte* source, std::byte* target);
  /// Launches the nests that lists carry, in at most two launches; leaves the others in `rest_`.
  Status enqueue_lists(const GpuStream& stream, std::span<const LoopNest> nests,
                       const std::byte* source, std::byte* target, GpuWay way);
  Status reserve_table(std::int64_t bytes);
  Status reserve_on_gpu(int device, std::int64_t bytes);

  std::shared_ptr<Gpus> gpus_;
  std::vector<LoopNest> for_kernels_;   ///< of this request
  std::vector<gpu::KernelPlan> plans_;  ///< kept, so that a request allocates nothing
  std::vector<LoopNest> rest_;
  std::vector<LoopNest> expanded_;  ///< indexed nests that pieces do not carry
  gpu::NestLists lists_;
  std::byte* table_ = nullptr;  ///< pinned
  std::int64_t table_bytes_ = 0;
  std::byte* on_gpu_ = nullptr;  ///< a table that every block reads a part of
  std::int64_t on_gpu_bytes_ = 0;
  int on_gpu_device_ = 0;
};

}  // namespace tranship
