// An engine: the channels of this process, put together with a profile, a planner and a runtime.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/gate.hpp"
#include "base/trace.hpp"
#include "engine/array.hpp"
#include "engine/gpu_side.hpp"
#include "engine/trace_file.hpp"
#include "fabric/links/slot_server.hpp"
#include "machine/profile.hpp"
#include "os/fork.hpp"
#include "plan/cache.hpp"
#include "plan/plan.hpp"
#include "plan/planner.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

class Engine;
class Processes;
class SharedMemory;

/// The end of a copy, to wait for. A value; copies refer to the same transfer. Any thread.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const Plan> plan, std::shared_ptr<Transfer> transfer, Engine* engine);
  /// A copy that the caller's thread has put into a stream of a GPU.
  Event(std::shared_ptr<const Plan> plan, std::shared_ptr<GpuFlight> flight)
      : plan_(std::move(plan)), flight_(std::move(flight)) {}

  bool done() const;
  /// Whether it is known, without a look at a GPU or a lock, that the copy has ended well.
  bool ended_well() const;
  /// @error timeout if the transfer has not ended by then; closed in a fork of the process that
  ///        started it; else how it ended
  Status wait(std::optional<std::chrono::nanoseconds> timeout) const;
  /// Asks the transfer to end as cancelled. What had been written stays written.
  void cancel() const;
  /// Copies that end together.
  explicit Event(std::vector<Event> parts) : plan_(parts[0].plan_), parts_(std::move(parts)) {}
  /// Whether its threads live in the process that this one was forked from: then it never ends
  /// here.
  bool forked() const { return fork_generation_ != fork_generation(); }
  /// The copies that it stands for: itself, if it is one.
  std::vector<Event> parts() const { return parts_.empty() ? std::vector{*this} : parts_; }
  /// Null for a copy of nothing; of several copies that of the first.
  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  /// Null if the copy ended within the call, or is in flight().
  std::shared_ptr<Completion> completion() const;
  /// Null if the copy does not run on a GPU by itself.
  const std::shared_ptr<GpuFlight>& flight() const { return flight_; }

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<Transfer> transfer_;
  std::shared_ptr<GpuFlight> flight_;
  std::weak_ptr<ThreadDriver> driver_;
  std::vector<Event> parts_;
  std::uint64_t fork_generation_ = fork_generation();
};

struct CopyOptions {
  int priority = 0;          ///< higher goes first on every channel
  std::vector<Event> after;  ///< start when these have ended
  PlannerKind planner = PlannerKind::automatic;
  std::int64_t buffer_bytes_max = 0;  ///< of this transfer; 0: the memories' own limits
  /// A cudaStream_t: the copy starts after what is in the stream. A copy in one hop of a GPU runs
  /// in the stream itself, so that later work of it starts after the copy, too.
  std::optional<std::uintptr_t> stream;
  /// Bytes of all copies that this one belongs to: what the caches do not hold is written past
  /// them.
  std::int64_t together_bytes = 0;
  /// Others are to start meanwhile: the call does not wait for a peer's answer.
  bool among_others = false;
  /// Asked now and then by a call that waits, which fails with `cancelled` then; null: nobody.
  bool (*interrupted)() = nullptr;
};

/// One of several copies that are asked for together.
struct CopyPair {
  Array source;
  Array target;
};

/// What one hop moves when the caller's thread carries or starts it.
struct Cargo {
  std::span<const LoopNest> nests;
  const IndexedCopy* indexed = nullptr;  ///< carried in addition; null: nothing
};

/// Owns channels, workers, buffers and the links to other processes. Any thread may call any
/// member. A copy that is shorter than a hand-off runs on the caller's thread; any other is queued
/// and returns at once. close(), or the destructor, ends everything that is outstanding.
class Engine {
 public:
  struct Options {
    Config config;
    Profile profile;
    std::string trace_file;     ///< where close() writes a trace; empty: see Config::trace_folder
    std::string program;        ///< whose trace it is; empty: the process's name
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

  /// Carries a copy within memory that this process has, or has mapped, at once, if that needs
  /// nobody: no lock that is taken, no planning, no other thread, nothing in `options.after` that
  /// has not ended. Returns nothing if it does, or if the process whose memory it is was lost
  /// meanwhile: call copy(). For callers that hold a lock which others need. The arrays need no
  /// owners.
  std::optional<Event> copy_now(const Array& source, const Array& target,
                                const CopyOptions& options);

  /// Copies each source to its target; no two targets may overlap. In one launch where one hop of
  /// one GPU carries the largest and reaches all the others; else each by itself, beside the
  /// others. The event is that of all, and its plan that of the largest, or of the first.
  /// @error as copy(): then none of them goes on
  Result<Event> copy_all(std::span<const CopyPair> pairs, const CopyOptions& options);

  /// Copies pages, indices along the first dimension: each of `source_pages` to the one of
  /// `target_pages` at the same place in the list. As one copy of an indexed nest if one channel
  /// joins the memories; else run by run.
  /// @error as copy(); out_of_range for an index outside its array; invalid_argument for lists of
  ///        different lengths, a target page that is named twice, or one that is also a source
  Result<Event> copy_pages(const Array& source, const Array& target,
                           std::span<const std::int64_t> source_pages,
                           std::span<const std::int64_t> target_pages, const CopyOptions& options);

  /// The plan that copy() would run, with what it costs now: behind what goes before it.
  Result<std::shared_ptr<const Plan>> plan(const Array& source, const Array& target,
                                           const CopyOptions& options);

  /// Runs a plan of the caller's own making, which must fit the arrays: for measuring, and for
  /// comparing with what the planner finds.
  Event copy_along(const std::shared_ptr<const Plan>& plan, const Array& source,
                   const Array& target);

  /// Links to other processes; opened on first use. They outlive the engine where somebody holds
  /// them, and answer every call with `closed` from its close() on.
  Result<std::shared_ptr<Processes>> processes();

  /// Null if this machine has no GPUs that can be used, or the settings forbid them.
  std::shared_ptr<Gpus> gpus() const { return gpu_side_ ? gpu_side_->gpus() : nullptr; }

  /// The same, with what drives them.
  const GpuSide* gpu_side() const { return gpu_side_.get(); }

  /// Memory that other processes of this machine can map, once it is exported.
  Result<std::shared_ptr<SharedMemory>> allocate_shared(std::int64_t bytes);

  /// Memory of a GPU, or pinned memory, which is shared too unless it is small: the owner, whose
  /// get() is the address.
  /// @error unsupported without GPUs; out_of_memory
  Result<std::shared_ptr<void>> allocate(MemoryKind kind, int device, std::int64_t bytes);

  /// Pins memory of the caller's where it lies, whole pages around it, until nobody refers to the
  /// answer; copies with the array must have ended by then. GPUs then reach it at the link's rate.
  /// @error unsupported without GPUs; invalid_argument for an array that is not in this process's
  ///        memory, or of which a part is pinned; what the driver refused
  Result<std::shared_ptr<void>> pin(const Array& array);

  const Profile& profile() const { return options_.profile; }
  const Config& config() const { return options_.config; }
  /// Null: nothing is traced.
  Trace* trace() const { return trace_file_ ? &trace_file_->trace() : nullptr; }
  PlanCache::Counters cache_counters() const { return cache_.counters(); }
  std::int64_t buffer_bytes_in_use() const;
  /// Cores on which host copies run.
  int threads() const { return threads_; }

  /// Ends what is outstanding: copies first, then the links over which they go; bounded in time.
  /// Waits until nobody copies any more. Later calls fail with `closed`, calls of other threads end
  /// with it. In a fork it does nothing.
  /// @error io if the trace could not be written; the engine is closed all the same
  Status close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  /// @error closed if the engine was closed, or the process is a fork of the one that opened it
  Status usable() const;

 private:
  friend class Event;
  friend class Processes;
  explicit Engine(Options options);
  Status start();
  /// @error as usable()
  Result<Gate::Pass> enter();
  void leak();
  void drop_absent_gpus();
  void find_memories();
  /// Does not look whether the arrays overlap.
  Result<PlanQuery> query_of(const Array& source, const Array& target,
                             const CopyOptions& options) const;
  Result<Event> copy_runs(const Array& source, const Array& target,
                          std::span<const std::int64_t> source_pages,
                          std::span<const std::int64_t> target_pages, const CopyOptions& options);
  Result<Event> copy_each(std::span<const CopyPair> pairs, const CopyOptions& options);
  /// Nothing if no single launch carries them.
  Result<std::optional<Event>> start_together(std::span<const CopyPair> pairs,
                                              const CopyOptions& options);
  Result<Event> copy_resolved(const Array& source, const Array& target, const CopyOptions& options);
  Result<Event> carry(const std::shared_ptr<const Plan>& plan, const Array& source,
                      const Array& target, const CopyOptions& options, const Cargo& cargo);
  /// Says of both ends in which memory they lie.
  Status resolve(Array& source, Array& target) const;
  /// Of an array whose other end lies on a GPU, or which does so itself.
  Status resolve(Array& array) const;
  Status uses_gpus() const;
  void reach_shared(Array& array) const;
  Result<std::shared_ptr<const Plan>> plan_of(const PlanQuery& query);
  std::vector<double> waiting_s(int priority) const;
  int memory_of(const Array& array) const;
  int channel_number(const ChannelSpec& channel, int opened_on = -1) const;
  /// Runs a short copy on the caller's thread; nothing if it must be queued after all.
  std::optional<Status> carry_directly(const Plan& plan, const Array& source, const Array& target,
                                       const CopyOptions& options, const Cargo& cargo);
  /// Puts a copy of one hop into a stream of its GPU, on the caller's thread.
  Result<Event> copy_here(const std::shared_ptr<const Plan>& plan, const Array& source,
                          const Array& target, const CopyOptions& options, const Cargo& cargo);
  Result<Event> start_on_gpu(const std::shared_ptr<const Plan>& plan, const Array& source,
                             const Array& target, const CopyOptions& options, Leases leases,
                             const Cargo& cargo);
  /// Carries a short copy to or from a GPU through pinned memory, on the caller's thread.
  Result<Event> carry_staged(const std::shared_ptr<const Plan>& plan, const Array& source,
                             const Array& target, const CopyOptions& options, Leases leases);
  /// Waits on the caller's thread by `wait`, which gets a time until which to wait.
  /// @error timeout; closed or cancelled if that is so meanwhile; else what `wait` says
  Status wait_here(const CopyOptions& options, std::chrono::steady_clock::time_point end,
                   const std::function<Status(std::chrono::steady_clock::time_point)>& wait) const;
  Status wait_here(const CopyOptions& options, const Event& event) const;
  /// What the copy must wait for: events, and what is in the caller's stream.
  Result<std::vector<std::shared_ptr<Completion>>> waits_of(const Plan& plan,
                                                            const CopyOptions& options);
  std::shared_ptr<Completion> completion_of(std::shared_ptr<GpuFlight> flight, int channel);
  Event start_transfer(const Array& source, const Array& target, const CopyOptions& options,
                       const std::shared_ptr<const Plan>& plan,
                       const std::vector<std::shared_ptr<Completion>>& after, Leases leases,
                       const IndexedCopy* indexed);
  bool cold(const Plan& plan, const CopyOptions& options) const;
  /// Runs nests as one job of a channel; `done` is called when it has ended.
  void run_nests(const Request& request, std::function<void(Status)> done);

  Options options_;
  int threads_ = 1;
  SteadyClock clock_;
  std::unique_ptr<TraceFile> trace_file_;
  std::optional<Planner> planner_;  ///< on options_.profile
  /// The profile's number of the memory of each kind, but for devices; -1: none.
  std::array<int, memory_kind_count> memories_{};
  std::vector<int> device_memories_;  ///< the profile's number of each GPU's; -1: none
  PlanCache cache_;
  SharedMemories shared_memories_;
  std::unique_ptr<GpuSide> gpu_side_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::map<ChannelKind, int> channel_numbers_;  ///< the driver's number of each kind
  std::shared_ptr<ThreadDriver> driver_;
  std::mutex processes_mutex_;
  std::shared_ptr<Processes> processes_;
  Gate copying_;        ///< threads that carry copies elsewhere, or start them there
  std::mutex closing_;  ///< of who closes
  std::atomic<bool> closed_{false};
  std::uint64_t fork_generation_ = 0;
};

}  // namespace tranship
