// Carries copies: the caller's thread, a GPU or the driver's workers do, as the plan says.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "channels/host/host_program.hpp"
#include "engine/array.hpp"
#include "engine/copy_options.hpp"
#include "engine/copy_planner.hpp"
#include "engine/event.hpp"
#include "engine/gpu_side.hpp"
#include "engine/known_works.hpp"
#include "engine/lifetime.hpp"
#include "engine/link_usage.hpp"
#include "machine/profile.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

/// What one hop moves when the caller's thread carries or starts it.
struct Cargo {
  std::span<const LoopNest> nests{};
  /// Carried in addition; a copy that goes on after the call takes them. Null: nothing.
  IndexedCopy* indexed = nullptr;
  /// The same, of a copy that is started again and again, in place of `indexed`.
  std::shared_ptr<const IndexedCopy> kept = nullptr;
  /// What a GPU carries in place of `nests` and the lists, if not null.
  const RunList* runs = nullptr;
  /// What a GPU carries, planned ahead by prepare_work() for arrays of this alignment; null: it is
  /// planned now.
  std::shared_ptr<const GpuWork> prepared = nullptr;
  /// What the caller's thread carries in place of `nests` and the lists; null: those are carried.
  const HostProgram* program = nullptr;

  /// Whether it is what the plan says, and no more.
  bool is_all_of(const Plan& plan) const {
    return !nests.empty() && nests.data() == plan.nests.data() && indexed == nullptr &&
           kept == nullptr && runs == nullptr;
  }
  std::span<const IndexedNest> lists() const {
    const IndexedCopy* copy = kept ? kept.get() : indexed;
    return copy != nullptr ? copy->nests() : std::span<const IndexedNest>();
  }
};

/// Carries one copy at a time for each of its callers, between arrays whose memories are known
/// (is_resolved()). A copy that is shorter than a hand-off runs on the caller's thread, one hop of
/// a GPU is started there, and all others become transfers of the driver. Owns no threads, channels
/// or arrays: it refers to the parts that it was made of, which outlive it. Threads: all, after
/// the last add_channel().
class CopyRunner {
 public:
  struct Parts {
    const Profile& profile;
    CopyPlanner& planner;
    Lifetime& lifetime;
    std::shared_ptr<ThreadDriver> driver;
    GpuSide* gpus = nullptr;     ///< null: no GPUs
    LinkUsage* links = nullptr;  ///< null: the uses of links are not known
    Trace* trace = nullptr;      ///< null: nothing is traced
    const Clock& clock;
  };
  explicit CopyRunner(Parts parts)
      : profile_(parts.profile),
        planner_(parts.planner),
        lifetime_(parts.lifetime),
        driver_(std::move(parts.driver)),
        gpus_(parts.gpus),
        links_(parts.links),
        trace_(parts.trace),
        clock_(parts.clock) {}

  /// Tells the runner the driver's number of a channel that is not a GPU's.
  void add_channel(ChannelKind kind, int number) { channel_numbers_[kind] = number; }

  CopyPlanner& planner() { return planner_; }
  const Profile& profile() const { return profile_; }
  /// Whether a single hop of a GPU carries the copy.
  bool one_gpu_hop(const Plan& plan) const;
  /// Whether the driver has to start the copy later: it follows a transfer, which no GPU's stream
  /// can wait for. In a stream of the caller's it must stand before the call returns.
  static bool must_be_queued(const CopyOptions& options);

  /// Returns the plan that copy() would run now.
  Result<std::shared_ptr<const Plan>> plan(const Array& source, const Array& target,
                                           const CopyOptions& options);
  /// Plans and carries a copy.
  /// @error as Engine::copy()
  Result<Event> copy(const Array& source, const Array& target, const CopyOptions& options);
  /// As Engine::copy_now().
  std::optional<Event> copy_now(const Array& source, const Array& target,
                                const CopyOptions& options);
  /// As Engine::copy_again().
  bool copy_again(const Plan& plan, const std::byte* source, std::byte* target) const;
  /// Carries a short copy along a plan as copy_now() does. `cargo` is what the caller's thread
  /// moves.
  std::optional<Event> carry_now(const std::shared_ptr<const Plan>& plan, const Array& source,
                                 const Array& target, const CopyOptions& options,
                                 const Cargo& cargo);
  /// Returns the lists of a copy made ready for the caller's thread, if that carries them; null if
  /// not.
  static std::shared_ptr<const HostProgram> prepare_program(const Plan& plan, const CopyPair& ends,
                                                            const IndexedCopy& lists);
  /// Carries a copy along a plan; `cargo` is what a plan of one hop moves when it does not go in
  /// the plan's tiles. A copy that goes on after the call has taken the cargo's lists.
  Result<Event> carry(const std::shared_ptr<const Plan>& plan, const Array& source,
                      const Array& target, const CopyOptions& options, const Cargo& cargo);
  /// Carries a copy of no bytes: it ends when those have ended that it follows, and in the caller's
  /// stream later work follows them, too.
  Result<Event> carry_nothing(const std::shared_ptr<const Plan>& plan, const Array& source,
                              const Array& target, const CopyOptions& options);
  /// Starts a plan of one hop on its GPU.
  Result<Event> start_on_gpu(const std::shared_ptr<const Plan>& plan, const Array& source,
                             const Array& target, const CopyOptions& options, Leases leases,
                             const Cargo& cargo);
  /// Plans the work of a GPU for any number of starts; null if the plan is not one hop of a GPU.
  /// @error what the driver refused
  Result<std::shared_ptr<const GpuWork>> prepare_work(const Plan& plan, const CopyPair& ends,
                                                      const CopyOptions& options,
                                                      const Cargo& cargo);
  /// Begins the same; nothing if the caller's stream is being captured, or the driver refuses.
  /// table_bytes_most: What the work may keep, too, of tables of before.
  std::optional<GpuChannel::Preparation> begin_prepare(const Plan& plan, const CopyPair& ends,
                                                       const CopyOptions& options,
                                                       const Cargo& cargo,
                                                       std::int64_t table_bytes_most);
  /// Checks that arrays which were pinned still are: a GPU that met pageable memory would fail.
  /// @error invalid_argument if one is not
  Status check_pinned(const CopyPair& ends) const;
  /// Waits until a copy has ended, as calls wait that other threads may close and signals
  /// interrupt.
  /// @error how the copy ended; cancelled if `interrupted` returned true, and closed: then a copy
  ///        that no GPU carries was cancelled, and has ended
  Status wait_for_end(const Event& event, bool (*interrupted)()) const;
  /// As Engine::copy_along().
  Event copy_along(const std::shared_ptr<const Plan>& plan, const Array& source,
                   const Array& target);
  /// Runs the nests of a peer's access as one job of a channel; `done` is called when it has ended.
  void run_nests(const Request& request, std::function<void(Status)> done);

 private:
  std::vector<double> waiting_s(int priority) const;
  int channel_number(const ChannelSpec& channel, int carrier = -1) const;
  /// Moves what the caller's thread carries within memory.
  static void move(const Cargo& cargo, const Array& source, const Array& target, bool past_caches);
  /// Runs a short copy on the caller's thread; nothing if it must be queued after all.
  std::optional<Status> carry_directly(const Plan& plan, const Array& source, const Array& target,
                                       const CopyOptions& options, const Cargo& cargo);
  Result<Event> copy_here(const std::shared_ptr<const Plan>& plan, const Array& source,
                          const Array& target, const CopyOptions& options, const Cargo& cargo);
  /// Whether a short copy may go through a bounce buffer within the call, if what it follows has
  /// ended: not behind a stream in which the caller's later work need not follow it.
  bool bounces(const Plan& plan, const CopyOptions& options) const;
  /// Carries a short copy to or from a GPU through a bounce buffer, on the caller's thread. In the
  /// stream of the options, if they have one.
  Result<Event> carry_bounced(const std::shared_ptr<const Plan>& plan, const Array& source,
                              const Array& target, const CopyOptions& options, Leases leases);
  /// Waits on the caller's thread by `wait`, which gets a time until which to wait.
  /// @error timeout; closed or cancelled if that is so meanwhile; else what `wait` says
  Status wait_here(const CopyOptions& options, std::chrono::steady_clock::time_point end,
                   const std::function<Status(std::chrono::steady_clock::time_point)>& wait) const;
  Status wait_here(const CopyOptions& options, const Event& event) const;
  /// A channel of a GPU that this engine has; null if there is none.
  const ChannelSpec* any_gpu_channel() const;
  /// Returns what a stream must wait for; waits here for all that no stream can wait for.
  /// @error that of a copy which has failed
  Result<std::vector<GpuEvent>> gpu_waits_of(const CopyOptions& options) const;
  /// Returns what the copy must wait for: events, and what is in the caller's stream, which is one
  /// of the GPU `own` if the options name none (-1: of one that the plan goes through).
  Result<std::vector<std::shared_ptr<Completion>>> waits_of(const Plan& plan,
                                                            const CopyOptions& options, int own);
  Event start_transfer(const Array& source, const Array& target, const CopyOptions& options,
                       const std::shared_ptr<const Plan>& plan,
                       const std::vector<std::shared_ptr<Completion>>& after, Leases leases,
                       const Cargo& cargo);
  /// Returns the work of a short copy that was planned before; null: it is planned now.
  std::shared_ptr<const GpuWork> known_work(const std::shared_ptr<const Plan>& plan,
                                            GpuChannel& channel, const Request& request,
                                            const CopyOptions& options, const Cargo& cargo);
  bool is_captured(const CopyOptions& options, const GpuChannel& channel) const;
  /// Shows other processes that a copy will use a GPU's link: before its plan, and at its start.
  void mark_link(const Array& source, const Array& target) const;
  void mark_link(const Array& source, const Array& target, const Plan& plan) const;
  bool cold(const Plan& plan, const CopyOptions& options) const;
  /// Whether the caller's thread writes the target of a copy past the caches.
  bool past_caches(const Plan& plan, const CopyOptions& options) const;

  const Profile& profile_;
  CopyPlanner& planner_;
  Lifetime& lifetime_;
  std::shared_ptr<ThreadDriver> driver_;
  GpuSide* gpus_;
  LinkUsage* links_;
  Trace* trace_;
  const Clock& clock_;
  KnownWorks known_works_;
  std::map<ChannelKind, int> channel_numbers_;  ///< the driver's number of each kind
};

}  // namespace tranship
