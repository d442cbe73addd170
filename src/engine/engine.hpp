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
#include "engine/array.hpp"
#include "engine/carriers/carriers.hpp"
#include "engine/copy_options.hpp"
#include "engine/engine_channels.hpp"
#include "engine/event.hpp"
#include "engine/gpu_side.hpp"
#include "engine/lifetime.hpp"
#include "engine/link_usage.hpp"
#include "engine/prepared_copy.hpp"
#include "engine/recipe/copy_planner.hpp"
#include "engine/recipe/recipe_cache.hpp"
#include "engine/stream_order.hpp"
#include "fabric/links/slot_server.hpp"
#include "machine/profile.hpp"
#include "os/mapped_files.hpp"
#include "os/trace_file.hpp"
#include "plan/plan.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

class Processes;
class RecipeMaker;
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
    std::function<void(fabric::RequesterId, bool cleanly)> on_requester_served;
    std::function<void(fabric::RequesterId, bool cleanly)> on_requester_gone;
  };

  /// @error what the operating system refused; invalid_argument for unusable settings
  static Result<std::unique_ptr<Engine>> open(Options options);
  ~Engine();

  /// Copies what a request asks for. Its recipe comes from a cache, if the same was asked for
  /// before; the event is that of all its copies.
  ///
  /// Whole arrays: each source to its target; no two targets may overlap. In one launch where one
  /// hop of one GPU carries the largest pair and reaches all the others; else each by itself,
  /// beside the others.
  ///
  /// Pages: indices along the first dimension; each of the source list to the one of the target
  /// list at the same place.
  ///
  /// Pieces: byte ranges of two arrays that each fill one block of memory, from whose first bytes
  /// offsets count.
  ///
  /// Types: elements at the places that types name, one by one in their order. Each array fills one
  /// block of memory, from whose first byte its type counts. No two targets may overlap, nor a
  /// target the source of another pair.
  ///
  /// Blocks: from and to memory of one GPU. The event is empty, before anything moves, if no single
  /// launch carries them.
  ///
  /// What fails after the start is reported by the event.
  /// @error invalid_argument for arrays that do not match, overlap or cannot be written, for lists
  ///        of different lengths, for a page or byte that would be written twice, or read and
  ///        written, and for types of different elements; out_of_range for an index, a piece or a
  ///        type outside its array; unsupported for two types that divide each other into millions
  ///        of pieces; no_route; closed
  Result<Event> copy(const CopyRequest& request);
  /// Copies one whole array to another. @error as the other
  Result<Event> copy(const Array& source, const Array& target, const CopyOptions& options);
  /// Copies whole arrays. @error as copy()
  Result<Event> copy_all(std::span<const CopyPair> pairs, const CopyOptions& options) {
    return copy(CopyRequest{pairs, {}, options});
  }

  /// Carries a copy within memory of this process, or mapped into it, or a short one to or from
  /// other memory of a process of this machine, whose recipe is remembered, if that needs no lock
  /// that another thread holds and no other thread, and if all that it follows has ended. Returns
  /// nothing otherwise, or if the process that owns the memory was lost meanwhile: call copy()
  /// then. For callers that hold a lock, such as Python's. The arrays need no owners.
  std::optional<Event> copy_now(const Array& source, const Array& target,
                                const CopyOptions& options);

  /// Returns the recipe of a key, if it is remembered; does not wait.
  std::shared_ptr<const KnownRecipe> find(const RecipeKey& key) {
    return recipes_->find(key.numbers());
  }
  /// Notes a key whose recipe find() did not return. Returns whether it has come before: then the
  /// next copy of such arrays is remembered.
  bool comes_again(const RecipeKey& key) { return recipes_->seen_before(key.numbers()); }
  /// Starts a recipe of one step that find() has returned for these arrays, of which a plain array
  /// needs no more than its place. owner: Keeps all arrays until the copy has ended.
  /// @error closed; what the driver refused
  Result<Event> start(const KnownRecipe& known, const CopyPair& ends, const StartOptions& options,
                      const std::shared_ptr<void>& owner);
  /// Returns whether known copies within memory may be carried by Carriers::move() alone: the
  /// engine is open, and traces nothing.
  bool moves_known() const { return lifetime_.usable() && !carriers_->traces(); }

  /// Checks and plans what a request asks for, and what the GPUs do, for any number of starts. May
  /// wait for the GPU.
  /// @error as copy()
  Result<PreparedCopy> prepare(const CopyRequest& request);
  /// Prepares the copy of one whole array to another. @error as the other
  Result<PreparedCopy> prepare(const Array& source, const Array& target,
                               const CopyOptions& options) {
    const CopyPair pair{source, target};
    return prepare(CopyRequest{{&pair, 1}, {}, options});
  }

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

  /// Returns the plan that copy() would run. Its predicted time includes the work that is queued
  /// before it now.
  /// @error as copy()
  Result<std::shared_ptr<const Plan>> plan(const Array& source, const Array& target,
                                           const CopyOptions& options);

  /// Runs a plan that the caller has made, which must fit the arrays. For measurements of plans
  /// that the planner would not choose.
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
  /// are allocated. Until a part is pinned, copies between it and GPUs go through bounce buffers;
  /// no copy waits for the thread. Does nothing without GPUs.
  /// bytes: How many of its first bytes are used; no others get pages. ahead: Whether to pin it
  /// before the first copy with a GPU.
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

  const Profile& profile() const { return options_.profile; }
  const Config& config() const { return options_.config; }
  /// Null: nothing is traced.
  Trace* trace() const { return trace_file_ ? &trace_file_->trace() : nullptr; }
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
  /// Finds the memory of one array of a copy to or from a GPU.
  Status resolve(Array& array) const;
  /// Returns the pairs in memories that are known: the given ones, or those that it puts into
  /// `own`.
  Result<std::span<const CopyPair>> resolve(std::span<const CopyPair> pairs,
                                            std::vector<CopyPair>& own) const;
  /// Makes and starts a recipe, and remembers it if its key has come before.
  Result<Event> make_and_start(const CopyRequest& request, const std::optional<RecipeKey>& key);
  Status uses_gpus() const;
  void reach_shared(Array& array) const;

  Options options_;
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
  std::unique_ptr<EngineChannels> engine_channels_;
  std::unique_ptr<RecipeMaker> maker_;
  std::unique_ptr<Carriers> carriers_;
  std::unique_ptr<RecipeCache> recipes_ = std::make_unique<RecipeCache>();
  std::mutex processes_mutex_;
  std::shared_ptr<Processes> processes_;
  std::mutex closing_;  ///< held by the thread that closes
};

}  // namespace tranship
