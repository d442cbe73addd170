// An engine: the channels of this process, put together with a profile, a planner and a runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/trace.hpp"
#include "data/piece_lowering.hpp"
#include "engine/array.hpp"
#include "engine/copy_options.hpp"
#include "engine/copy_planner.hpp"
#include "engine/copy_runner.hpp"
#include "engine/described_copies.hpp"
#include "engine/event.hpp"
#include "engine/gpu_side.hpp"
#include "engine/lifetime.hpp"
#include "engine/link_usage.hpp"
#include "engine/prepared_copy.hpp"
#include "engine/stream_order.hpp"
#include "engine/trace_file.hpp"
#include "fabric/links/slot_server.hpp"
#include "machine/profile.hpp"
#include "os/mapped_files.hpp"
#include "plan/cache.hpp"
#include "plan/plan.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

class Processes;
class SharedMemory;

/// Owns channels, workers, buffers and the links to other processes. Any thread may call any
/// member. A copy that is shorter than a hand-off runs on the caller's thread; any other is queued
/// and returns at once. close(), or the destructor, ends everything that is outstanding.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  struct Options {
    Config config;
    Profile profile;
    std::string trace_file;     ///< where close() writes a trace; empty: see Config::trace_folder
    std::string program;        ///< program's name in the trace; empty: the process's name
    bool accept = false;        ///< listen for other processes
    std::string contact_file;   ///< where to write how to connect, if not empty
    fabric::AnswerCall answer;  ///< answers what other processes ask of this one; empty: refused
    /// As FabricOptions says. On the fabric's thread: they must not block.
    std::function<void(fabric::RequesterId, bool cleanly)> on_requester_lost;
    std::function<void(fabric::RequesterId, bool cleanly)> on_requester_gone;
  };

  /// @error what the operating system refused; invalid_argument for unusable settings
  static Result<std::unique_ptr<Engine>> open(Options options);
  ~Engine();

  /// @error invalid_argument for arrays that do not match, overlap or cannot be written; no_route;
  ///        closed. What fails later is reported by the event.
  Result<Event> copy(const Array& source, const Array& target, const CopyOptions& options);

  /// Carries a copy within memory of this process, or mapped into it, if that needs no lock that
  /// another thread holds, no planning and no other thread, and if all of `options.after` have
  /// ended. Returns nothing otherwise, or if the process that owns the memory was lost meanwhile:
  /// call copy() then. For callers that hold a lock, such as Python's. The arrays need no owners.
  std::optional<Event> copy_now(const Array& source, const Array& target,
                                const CopyOptions& options);

  /// Carries a copy again along the plan of an event of copy_now(), between other memory of this
  /// process that no engine maps from elsewhere: the same bytes, counted from two addresses, which
  /// do not overlap. Returns false if the engine is closed, or traces.
  bool copy_again(const Plan& plan, const std::byte* source, std::byte* target) const {
    return lifetime_.usable() && runner_->copy_again(plan, source, target);
  }

  /// Copies each source to its target; no two targets may overlap. In one launch where one hop of
  /// one GPU carries the largest and reaches all the others; else each by itself, beside the
  /// others. The event is that of all, and its plan that of the largest, or of the first.
  /// @error as copy(): then none of them goes on
  Result<Event> copy_all(std::span<const CopyPair> pairs, const CopyOptions& options);

  /// The same for arrays inside one GPU, of this process. It remembers how, by numbers that say
  /// where the arrays lie, what they are and all else that is asked of the copy: the same numbers
  /// always mean the same copy, and start_described() starts it again.
  /// @error as copy_all()
  Result<Event> copy_described(std::span<const std::int64_t> description,
                               std::span<const CopyPair> pairs, const CopyOptions& options);
  /// Starts a copy that copy_described() remembers; nothing if it does not. held: Keeps the arrays
  /// until the copy has ended.
  /// @error closed; what the driver refused
  std::optional<Result<Event>> start_described(std::span<const std::int64_t> description,
                                               const CopyOptions& options,
                                               std::shared_ptr<void> held);

  /// Copies blocks of memory of one GPU of this process, each from the address `source_offsets[k]`
  /// to `target_offsets[k]`; no two targets may overlap. Returns nothing, before anything moves, if
  /// no single launch carries them. held: Keeps the memory until the copy has ended.
  /// @error closed; unsupported without GPUs; invalid_argument for two blocks of a pair that
  /// overlap
  Result<std::optional<Event>> copy_blocks(int device, const PieceLists& blocks,
                                           const CopyOptions& options, std::shared_ptr<void> held);

  /// Copies pages, indices along the first dimension: each of `source_pages` to the one of
  /// `target_pages` at the same place in the list. As one copy of an indexed nest, or, if pages
  /// are longer than a tile, run by run.
  /// @error as copy(); out_of_range for an index outside its array; invalid_argument for lists of
  ///        different lengths, a target page that is named twice, or one that is also a source
  Result<Event> copy_pages(const Array& source, const Array& target,
                           std::span<const std::int64_t> source_pages,
                           std::span<const std::int64_t> target_pages, const CopyOptions& options);

  /// Copies pieces, byte ranges of two arrays that each fill one block of memory: `lengths[k]`
  /// bytes at `source_offsets[k]` of the source to `target_offsets[k]` of the target, in bytes from
  /// the blocks' first bytes. As one copy of an indexed nest.
  /// @error as copy(); out_of_range for a piece outside its array; invalid_argument for lists of
  ///        different lengths, a negative length, a byte that would be written twice, or read and
  ///        written, and an array with gaps
  Result<Event> copy_pieces(const Array& source, const Array& target, const PieceLists& pieces,
                            const CopyOptions& options);

  /// Copies elements at the places that types name: those of `source` of each pair to those of
  /// `target`, one by one in their order. Each array fills one block of memory, from whose first
  /// byte its type counts. Pairs between the same two memories are one copy of an indexed nest;
  /// no two targets may overlap, nor a target the source of another pair.
  /// @error as copy(); out_of_range for a type that reaches outside its array; invalid_argument for
  ///        types of different elements, a target's type that names a byte twice, ends that share a
  ///        byte, and an array with gaps; unsupported for two types that divide each other into
  ///        millions of pieces
  Result<Event> copy_types(std::span<const TypedPair> pairs, const CopyOptions& options);

  /// Checks and plans a copy, and plans the kernels of one hop of a GPU, for any number of starts.
  /// May wait for the GPU.
  /// @error as copy()
  Result<PreparedCopy> prepare(const Array& source, const Array& target,
                               const CopyOptions& options);
  /// The same for copy_all(). @error as copy_all()
  Result<PreparedCopy> prepare_all(std::span<const CopyPair> pairs, const CopyOptions& options);
  /// The same for copy_pages(). @error as copy_pages()
  Result<PreparedCopy> prepare_pages(const Array& source, const Array& target,
                                     std::span<const std::int64_t> source_pages,
                                     std::span<const std::int64_t> target_pages,
                                     const CopyOptions& options);
  /// The same for copy_pieces(). @error as copy_pieces()
  Result<PreparedCopy> prepare_pieces(const Array& source, const Array& target,
                                      const PieceLists& pieces, const CopyOptions& options);

  /// The same for copy_types(). @error as copy_types()
  Result<PreparedCopy> prepare_types(std::span<const TypedPair> pairs, const CopyOptions& options);

  /// Starts a copy that this engine has prepared.
  /// @error closed; why the process of one of the arrays is lost; invalid_argument for an array
  ///        that is not pinned any more. What fails later is reported by the event.
  Result<Event> start(const PreparedCopy& copy, const StartOptions& options);
  /// Starts it between other arrays, which lie as those did that it was prepared for.
  /// @error as the other; invalid_argument for arrays that differ in memory, shape, type or layout,
  ///        overlap or cannot be written, and for a copy of several pairs
  Result<Event> start(const PreparedCopy& copy, const CopyPair& ends, const StartOptions& options);
  /// Starts it if that is as quick as copy_now() asks for; returns nothing otherwise: call start().
  std::optional<Event> start_now(const PreparedCopy& copy, const StartOptions& options);

  /// As tranship::begin_order(), for copies of this engine.
  Result<OrderedStart> begin_order(const StreamOrder& order, int device) const;
  /// As tranship::end_order().
  Status end_order(const OrderedStart& started, const Event& event, bool (*interrupted)()) const;
  /// As tranship::wait_for_streams().
  Status wait_for_streams(const StreamOrder& order, int device, bool (*interrupted)()) const;

  /// The plan that copy() would run, with what it costs now: behind what goes before it.
  Result<std::shared_ptr<const Plan>> plan(const Array& source, const Array& target,
                                           const CopyOptions& options);

  /// Runs a plan that the caller has made, which must fit the arrays: for measurements, and for
  /// comparisons with the planner's own.
  Event copy_along(const std::shared_ptr<const Plan>& plan, const Array& source,
                   const Array& target);

  /// Returns the links to other processes, which are opened on first use. A holder's reference may
  /// outlive the engine; every call fails with `closed` from the engine's close() on.
  Result<std::shared_ptr<Processes>> processes();

  /// Null if this machine has no GPUs that can be used, or the settings forbid them.
  std::shared_ptr<Gpus> gpus() const { return gpu_side_ ? gpu_side_->gpus() : nullptr; }

  /// The GPUs with their channels; null as gpus() is.
  const GpuSide* gpu_side() const { return gpu_side_.get(); }

  /// Memory that other processes of this machine can map, once it is exported.
  Result<std::shared_ptr<SharedMemory>> allocate_shared(std::int64_t bytes);

  /// Lets a thread of the engine pin shared memory of another process, part by part, as its pages
  /// appear. Copies to and from GPUs go through bounce buffers until then, and none waits.
  /// bytes: How many of its first bytes are used; no more gets pages. ahead: Whether to pin it
  /// before a GPU uses it. Does nothing without GPUs.
  void pin_in_background(const std::shared_ptr<SharedMemory>& memory, std::int64_t bytes,
                         bool ahead) const;

  /// Allocates memory of a GPU, or pinned memory, which is shared too unless it is small. Returns
  /// the owner, whose get() is the address.
  /// @error unsupported without GPUs; out_of_memory
  Result<std::shared_ptr<void>> allocate(MemoryKind kind, int device, std::int64_t bytes);

  /// Pins memory of the caller's where it lies, whole pages around it, until nobody refers to the
  /// answer; copies with the array must have ended by then. GPUs then reach it at the link's rate.
  /// @error unsupported without GPUs; invalid_argument for an array that is not in this process's
  ///        memory, or of which a part is pinned; what the driver refused
  Result<std::shared_ptr<void>> pin(const Array& array);

  /// Returns a number that no other engine of this process has or had.
  std::uint64_t number() const { return number_; }
  const Profile& profile() const { return options_.profile; }
  const Config& config() const { return options_.config; }
  /// Null: nothing is traced.
  Trace* trace() const { return trace_file_ ? &trace_file_->trace() : nullptr; }
  PlanCache::Counters cache_counters() const { return planner_->cache_counters(); }
  std::int64_t buffer_bytes_in_use() const;
  /// Cores on which host copies run.
  int threads() const { return threads_; }

  /// Ends what is outstanding: copies first, then the links that carry them; bounded in time. Waits
  /// until no thread copies any more. Later calls fail with `closed`, as calls of other threads
  /// that are inside do. In a fork it does nothing.
  /// @error timeout if a peer, which may be stopped, may still access an exported array: its memory
  ///        is kept; io if the trace could not be written. The engine is closed all the same
  Status close();
  bool closed() const { return lifetime_.closed(); }

  /// @error closed if the engine was closed, or the process is a fork of the one that opened it
  Status usable() const { return lifetime_.usable(); }

 private:
  friend class Processes;
  explicit Engine(Options options);
  Status start();
  void leak();
  void drop_absent_gpus();
  /// Finds the memories in which both arrays lie.
  Status resolve(Array& source, Array& target) const;
  /// The same for one array of a copy to or from a GPU.
  Status resolve(Array& array) const;
  /// Returns the same pairs, in memories that are known.
  Result<std::vector<CopyPair>> resolved(std::span<const CopyPair> pairs) const;
  Result<std::vector<TypedPair>> resolved(std::span<const TypedPair> pairs) const;
  Status uses_gpus() const;
  void reach_shared(Array& array) const;

  Options options_;
  const std::uint64_t number_;
  int threads_ = 1;
  SteadyClock clock_;
  Lifetime lifetime_;
  std::unique_ptr<TraceFile> trace_file_;
  std::unique_ptr<LinkUsage> links_;    ///< null: the uses of links are not known
  std::optional<KeptMaps> kept_maps_;   ///< until close()
  std::optional<CopyPlanner> planner_;  ///< on options_.profile
  SharedMemories shared_memories_;
  std::unique_ptr<GpuSide> gpu_side_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::shared_ptr<ThreadDriver> driver_;
  std::unique_ptr<CopyRunner> runner_;
  std::unique_ptr<DescribedCopies> described_;
  std::mutex processes_mutex_;
  std::shared_ptr<Processes> processes_;
  std::mutex closing_;  ///< held by the thread that closes
};

}  // namespace tranship
