// gpu_read, gpu_write, gpu_copy and gpu_peer: requests of one GPU in one direction.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpu/gpu_work.hpp"
#include "os/fork.hpp"
#include "runtime/channel.hpp"
#include "runtime/completion.hpp"

namespace tranship {

class GpuChannel;

/// The work of one flight: its own, or prepared work that other flights share.
struct FlightWork {
  std::unique_ptr<GpuWork> own;
  std::shared_ptr<const GpuWork> prepared;
};

/// A copy that the caller's thread has put into a stream, or an event behind other work there.
/// Dropping the last reference does not wait: the channel keeps a copy that still runs until it has
/// ended. Threads: all.
class GpuFlight : public PolledEvent, public std::enable_shared_from_this<GpuFlight> {
 public:
  GpuFlight(std::shared_ptr<GpuChannel> channel, GpuEvent event, FlightWork work)
      : channel_(std::move(channel)), event_(event), work_(std::move(work)) {}
  ~GpuFlight() override;

  const GpuEvent& event() const { return event_; }
  bool done() const override;
  /// Notes that the copy has succeeded: a later copy of its stream has.
  void mark_done() const;
  /// Keeps what the copy reads and writes until a call sees that the copy is done.
  void keep_alive(std::array<std::shared_ptr<void>, 3> owners) { owners_ = std::move(owners); }
  /// Keeps leases until a call sees that the copy is done.
  void hold(std::vector<std::shared_ptr<void>> leases) { leases_ = std::move(leases); }
  /// Lets the flight keep arrays and leases a while after its end: its release does not ask the GPU
  /// whether it has ended, which takes half as long as a start. Call it before other threads refer
  /// to the flight.
  void ask_late() { asked_late_ = true; }
  /// Sets a check that runs once, when the copy has ended well; its error makes the copy fail.
  void check_at_end(std::function<Status()> check) { final_check_ = std::move(check); }
  Status status() const override;

 private:
  friend class GpuChannel;
  std::shared_ptr<GpuChannel> channel_;
  GpuEvent event_;
  FlightWork work_;
  std::uint64_t stream_ = 0;  ///< Gpus::identity() of the stream
  std::uint64_t number_ = 0;  ///< Number of its event among those that the channel recorded.
  bool asked_late_ = false;
  std::size_t place_ = 0;  ///< in the channel's list of flights, under its lock
  mutable std::array<std::shared_ptr<void>, 3> owners_;
  std::function<Status()> final_check_;
  mutable std::vector<std::shared_ptr<void>> leases_;
  mutable std::mutex mutex_;
  mutable std::atomic<bool> done_{false};
  mutable Status status_;

  /// The arrays and leases that a copy kept. They are released without the lock: an array's owner
  /// may take locks of its own, such as Python's.
  struct Kept {
    std::vector<std::shared_ptr<void>> leases;
    std::array<std::shared_ptr<void>, 3> owners;
  };
  /// Ends the flight, under the lock.
  void end(Status status, Kept& kept) const;
};

/// Feeds several streams of one GPU; urgent requests have a stream of their own. An event behind
/// each request says when it has ended. Only the destructor waits for the GPU. Owns its streams and
/// events; flights keep it alive.
class GpuChannel : public Channel, public std::enable_shared_from_this<GpuChannel> {
 public:
  struct Options {
    std::string name;  ///< such as "gpu_write device0"
    std::shared_ptr<Gpus> gpus;
    int device = 0;
    bool over_link = false;  ///< one side is host memory
    int streams = 2;
    std::int64_t bytes_in_flight_max = 0;
  };
  /// @error what the driver refused
  static Result<std::shared_ptr<GpuChannel>> open(Options options);
  ~GpuChannel() override;

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return capabilities_; }
  int device() const { return options_.device; }
  Status submit(const Request& request) override;
  std::size_t poll(std::span<Finished> finished) override;
  void idle(std::chrono::nanoseconds at_most) override;

  /// Starts `request` from any thread: in `stream` if it is not null, else in one of the channel's.
  /// Returns null if the stream is being captured: then launches of the graph carry the request.
  /// @error what the driver refused
  Result<std::shared_ptr<GpuFlight>> start(const Request& request, const GpuStream* stream,
                                           std::span<const GpuEvent> after);
  /// Starts work that prepare() returned, between the request's ends; the request's nests are not
  /// read.
  Result<std::shared_ptr<GpuFlight>> start(const std::shared_ptr<const GpuWork>& work,
                                           const Request& request, const GpuStream* stream,
                                           std::span<const GpuEvent> after);
  struct Preparation {
    std::shared_ptr<const GpuWork> work;
    std::shared_ptr<GpuFlight> ready;  ///< Once it is done, the work may be started.
  };
  /// Plans `request` for any number of starts, and begins to put its table on the GPU.
  /// table_bytes_most: Largest table of earlier work, in bytes, that the work may keep.
  /// @error what the driver refused
  Result<Preparation> begin_prepare(const Request& request,
                                    std::int64_t table_bytes_most = any_bytes);
  /// Does as begin_prepare(), and waits until the table lies on the GPU.
  /// @error what the driver refused
  Result<std::shared_ptr<const GpuWork>> prepare(const Request& request);
  static constexpr std::int64_t any_bytes = std::numeric_limits<std::int64_t>::max();
  /// Plans `request` for any number of starts, if it needs no table on the GPU; null if it does.
  std::shared_ptr<const GpuWork> plan(const Request& request);
  /// Returns an event behind what a caller's stream holds now; null if the stream is being
  /// captured.
  Result<std::shared_ptr<GpuFlight>> event_behind(const GpuStream& stream);

  /// Waits until the flights have ended, at most until `deadline`. From then on, dropping the last
  /// reference to a flight that has not ended waits for it.
  void close(std::chrono::steady_clock::time_point deadline);

  /// Deletes the ended flights to which nothing refers any more.
  void delete_ended();
  bool all_ended();

 private:
  friend class GpuFlight;
  struct InFlight {
    std::uint64_t tag = 0;
    GpuEvent event;
    std::unique_ptr<GpuWork> work;
  };

  explicit GpuChannel(Options options) : options_(std::move(options)) {}
  Status make_streams();
  const GpuStream& stream_for(int priority);
  GpuWay way_of(const Request& request) const;
  const GpuStream& stream_for(const GpuStream* given, int priority) {
    return given != nullptr ? *given : stream_for(priority);
  }
  Result<GpuEvent> take_event();
  std::shared_ptr<const GpuWork> shared_work(std::unique_ptr<GpuWork> work);
  /// Returns unused work, whose table from earlier requests has at most so many bytes.
  std::unique_ptr<GpuWork> take_work(std::int64_t table_bytes_most = any_bytes);
  Status wait_in(const GpuStream& stream, std::span<const GpuEvent> after);
  /// Returns the flight of work that was enqueued in `stream` with the given status; null if the
  /// stream, a caller's, is being captured.
  Result<std::shared_ptr<GpuFlight>> flight_of(Status enqueued, const GpuStream& stream,
                                               bool callers, const GpuEvent& event,
                                               FlightWork work);
  void wait_for(const GpuEvent& event);
  void abandon(const GpuEvent& event, bool recorded, std::unique_ptr<GpuWork> work);
  void give_back(const GpuEvent& event, std::unique_ptr<GpuWork> work);
  static void retire(GpuFlight* flight);
  bool keep_unowned(GpuFlight* flight);
  void forget(GpuFlight& flight);
  static void mark_ended(std::vector<GpuFlight*> flights);

  Options options_;
  Capabilities capabilities_;
  std::vector<GpuStream> streams_;
  GpuStream urgent_;
  bool has_urgent_ = false;
  std::atomic<unsigned> next_stream_{0};
  std::mutex order_mutex_;  ///< held while an event is recorded, so that numbers are in order
  std::uint64_t numbers_ = 0;
  std::mutex mutex_;  ///< guards what follows
  std::vector<GpuEvent> events_;
  std::vector<std::unique_ptr<GpuWork>> works_;
  /// Work of captured graphs, which may be launched again at any time.
  std::set<std::shared_ptr<const GpuWork>> captured_;
  std::vector<GpuFlight*> flights_;  ///< all flights of the channel
  std::vector<GpuFlight*> unowned_;  ///< flights that run, and that nothing refers to
  /// Number of unowned flights from which on dropping one more deletes those that have ended.
  static constexpr std::size_t unowned_least = 64;
  std::size_t unowned_max_ = unowned_least;
  bool closed_ = false;
  std::atomic<int> unowned_count_{0};
  const std::uint64_t fork_generation_ = fork_generation();
  std::vector<InFlight> in_flight_;  ///< of the thread that submits and polls
};

}  // namespace tranship
