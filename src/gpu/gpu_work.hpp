// Execution of loop nests in a stream: by copy engines for long runs, by kernels for all others.
#pragma once

#include <cstdint>
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

/// Plans nests for one GPU and enqueues them in its streams. Owns the tables of pieces and nests
/// that kernels read, so that each request in flight needs its own GpuWork, unless it was prepared.
/// Not thread-safe, but for launch().
class GpuWork {
 public:
  explicit GpuWork(std::shared_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}
  ~GpuWork();
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;

  /// Enqueues all nests of the request, plain and indexed, in the stream. The work of an earlier
  /// call must have ended. The request's nests are not read after the call.
  Status enqueue(const GpuStream& stream, const Request& request, GpuWay way);

  /// Plans all nests of the request for any number of launches, and enqueues the copy of their
  /// table to GPU memory in the stream: launches may begin when it has ended.
  Status prepare(const GpuStream& stream, const Request& request, GpuWay way);
  /// Plans all nests of the request for any number of launches, if they need no table. Returns
  /// false if they do: then nothing is planned.
  bool plan_without_table(const Request& request, GpuWay way);
  /// Enqueues what prepare() or plan_without_table() planned, between two addresses for which
  /// fits() holds. Threads: all; launches may overlap.
  Status launch(const GpuStream& stream, const std::byte* source, std::byte* target) const;
  /// Returns the part of an address that a plan depends on: its offset in a line of a GPU's cache.
  static std::uintptr_t alignment_of(const std::byte* address);
  /// Returns whether two addresses are aligned like those for which the work was planned.
  bool fits(const std::byte* source, const std::byte* target) const;
  /// Returns the number of pieces in the table of a launch; 0: no kernel carries pieces.
  std::int64_t pieces() const { return pieces_; }
  /// Returns the bytes of pinned memory that this object keeps for tables.
  std::int64_t kept_table_bytes() const { return table_bytes_; }
  /// Returns the number of places in the table of a launch.
  std::int64_t places() const { return static_cast<std::int64_t>(places_.places.size()); }

 private:
  /// A copy engine's command. Its offsets count from the two addresses of a launch.
  struct EngineCopy {
    std::int64_t source_offset = 0;
    std::int64_t target_offset = 0;
    PitchedCopy shape;
  };

  bool may_have_table_ = true;  ///< False: reserve_table() fails.
  bool over_link_ = false;      ///< whether one side is the host's
  /// Returns whether kernels read a table in pinned or GPU memory.
  bool gpu_reads_table() const {
    return reads_lists() || pieces_ > 0 || runs_.count > 0 || !places_.places.empty();
  }
  /// often: The plan is launched many times.
  Status plan(const Request& request, GpuWay way, bool often);
  /// Plans the indexed nests of short runs as lists of places; returns the others.
  std::span<const IndexedNest> plan_places(const Request& request, bool often);
  /// Plans runs as one launch of a kernel.
  Status plan_runs(const RunList& runs);
  /// Plans the nests that convert numbers, one launch each; returns the others.
  std::span<const LoopNest> plan_casts(const Request& request);
  /// Plans what is left of a request.
  Status plan_rest(const Request& request, GpuWay way);
  /// Writes the places' table behind the others.
  Status write_places();
  Status plan_nests(std::span<const LoopNest> nests, const Request& request, GpuWay way);
  Status plan_loops(std::span<const LoopNest> nests, const Request& request, GpuWay way);
  /// Plans a nest for a copy engine, or keeps it for kernels.
  void plan_nest(const LoopNest& nest, GpuWay way);
  Status plan_pieces(std::span<const LoopNest> nests);
  /// Plans the runs of indexed nests as one launch.
  Status plan_pieces(std::span<const IndexedNest> nests);
  /// Plans the nests that lists can carry, as at most two launches, and of the others those of one
  /// shape as one launch each; returns what is left.
  Result<std::span<const LoopNest>> plan_lists(std::span<const LoopNest> nests,
                                               const Request& request);
  /// Returns the bytes of the table of runs.
  std::int64_t bytes_of_runs() const;
  /// Returns the bytes of the tables of pieces and of nests, which precede the table of places.
  std::int64_t bytes_before_places() const;
  /// Enqueues a command of a copy engine as one command for each pinned range that a side lies in.
  Status copy_by_engine(const GpuStream& stream, const std::byte* source, std::byte* target,
                        PitchedCopy shape) const;
  Status launch_places(const GpuStream& stream, const std::byte* source, std::byte* target) const;
  /// Returns whether a list of nests is too long for the parameters of its launch, or whether there
  /// are origins.
  bool reads_lists() const;
  /// Returns whether the table will be read so often that it is copied to the GPU first.
  bool reads_often() const;
  /// Enqueues a copy of the table to GPU memory, from which kernels then read it. If the GPU has no
  /// room for it, they read it in pinned memory.
  Status upload(const GpuStream& stream);
  /// Makes room for a table of `bytes` bytes, and keeps the contents of the first `kept`.
  Status reserve_table(std::int64_t bytes, std::int64_t kept = 0);
  Status reserve_on_gpu(int device, std::int64_t bytes);

  std::shared_ptr<Gpus> gpus_;
  std::vector<LoopNest> for_kernels_;  ///< nests of this request
  std::vector<LoopNest> rest_;
  std::vector<LoopNest> single_;    ///< nests without others of their shape
  std::vector<LoopNest> expanded_;  ///< indexed nests that are not carried as pieces
  std::vector<LoopNest> not_casts_;
  std::vector<IndexedNest> not_places_;
  std::vector<IndexedNest> as_pieces_;
  std::vector<IndexedNest> as_loops_;
  std::vector<bool> as_they_are_;  ///< by list: whether are_pieces()
  // The parts of the plan. They are members, so that a further request allocates nothing.
  std::vector<EngineCopy> engine_copies_;
  std::vector<gpu::KernelPlan> plans_;
  std::vector<gpu::CastPlan> casts_;
  gpu::RunTable runs_;       ///< of a request of a RunList; its numbers are at the table's begin
  std::int64_t pieces_ = 0;  ///< number of pieces at the table's begin; lists and places follow
  gpu::NestLists lists_;
  std::vector<gpu::RepeatedNest> repeated_;
  std::vector<gpu::NestOrigin> origins_;  ///< of the repeated nests; in the table behind the lists
  std::int64_t lists_bytes_ = 0;          ///< bytes of the lists and origins in the table; 0: none
  gpu::PlaceLists places_;
  std::uintptr_t source_alignment_ = 0;
  std::uintptr_t target_alignment_ = 0;
  const std::byte* read_table_ = nullptr;  ///< where kernels read the table
  std::byte* table_ = nullptr;             ///< in pinned memory
  std::int64_t table_bytes_ = 0;
  std::byte* on_gpu_ = nullptr;  ///< copy of a table in GPU memory; every block reads a part of it
  std::int64_t on_gpu_bytes_ = 0;
  int on_gpu_device_ = 0;
};

}  // namespace tranship
