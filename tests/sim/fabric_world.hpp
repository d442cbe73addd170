// Simulated processes that export memory, and read and write each other's, on virtual time. The
// sessions, handshakes, slots, leases and fences are the real ones; they run one step at a time, in
// an order that a seed decides.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fabric/sessions/core.hpp"
#include "sim/sim_wire.hpp"

namespace tranship::test {

using namespace fabric;

class FabricWorld;

/// Memory that a process exports, and later uses for something else. Each time that it is reused
/// its generation rises: an access for an earlier generation fails the run.
struct Region : Attachment {
  static constexpr std::int64_t part_bytes = 32;
  static constexpr int parts = 8;
  static constexpr std::int64_t bytes = part_bytes * parts;
  static constexpr std::uint64_t fresh = 0xe0e0e0e0e0e0e0e0;   ///< Content of a new export.
  static constexpr std::uint64_t secret = 0xeeeeeeeeeeeeeeee;  ///< Content of memory not lent.

  int process = 0;
  std::string name;
  std::shared_ptr<SharedMemory> shared;  ///< Null: peers cannot map the region.
  std::vector<std::byte> own;
  std::byte* data = nullptr;
  bool attached = false;  ///< Only `execute` reaches the memory.
  bool pool = false;      ///< The region's parts are lent to requesters that ask.
  std::uint64_t generation = 1;
  std::uint64_t id = 0;  ///< The export's id.
  bool exported = false;
  bool withdrawing = false;
  struct Part {
    bool busy = false;        ///< An operation uses the part.
    std::uint64_t value = 0;  ///< The value written last; 0: none.
    bool certain = true;      ///< `value` is known.
    // The next two fields are those of a pool's part.
    RequesterId owner;
    std::uint64_t serial = 0;  ///< The loan's number; 0: the part is free.
  };
  std::array<Part, parts> part{};

  std::byte* part_data(int index) const { return data + index * part_bytes; }
};

/// A link, as its requester sees it.
struct SimLink {
  int from = 0;
  int to = 0;  ///< The process that the connection reached.
  ConnectionId connection = 0;
  PeerId peer;
  std::shared_ptr<Link> link;
  bool leaving = false;
  std::int64_t leaving_since_ns = never_ns;
  struct Found {
    std::shared_ptr<RemoteArray> array;
    Region* region = nullptr;
    std::uint64_t generation = 0;
  };
  std::vector<Found> arrays;
  std::int64_t told = 0;  ///< Number of notes that were sent.
};

/// An operation of a process that takes many steps.
class Task {
 public:
  virtual ~Task() = default;
  /// Takes one step; returns whether the task has ended.
  virtual bool step(FabricWorld& world) = 0;
  virtual std::string name() const = 0;
  std::int64_t began_ns = 0;
};

struct Process {
  int node = 0;
  std::shared_ptr<FabricCore> core;
  SimWire* wire = nullptr;
  bool alive = true;
  bool inside = false;  ///< A step of this process is under way.
  bool closing = false;
  std::int64_t closing_since_ns = never_ns;
  bool closed = false;
  bool keeps_memory = false;  ///< The engine closed while a peer still used its memory.
  std::int64_t stalled_until_ns = 0;
  std::int64_t copies_stalled_until_ns = 0;  ///< Time until which copies make no progress.
  std::vector<std::unique_ptr<Region>> regions;
  std::vector<std::shared_ptr<SimLink>> links;
  std::vector<std::unique_ptr<Task>> tasks;
  /// Tasks that disconnect; their copies may stand still.
  std::vector<std::unique_ptr<Task>> departing;
  /// Tasks of a killed process, which never end.
  std::vector<std::unique_ptr<Task>> left;
  struct Execution {
    Request request;
    std::vector<LoopNest> nests;
    std::function<void(Status)> done;
    std::int64_t copied = 0;
  };
  std::vector<Execution> executions;
  std::map<std::uint64_t, std::int64_t> requesters_lost;  ///< Step of the loss, by requester.
  std::set<std::uint64_t> requesters_gone;
  std::map<std::uint64_t, std::int64_t> notes;  ///< Notes that arrived, by requester.
};

class FabricWorld {
 public:
  /// What may happen besides delays, mostly as probabilities; the seed chooses them.
  struct Chances {
    double stall = 0;
    double silence = 0;
    double partition = 0;
    double reset = 0;
    double kill = 0;
    double close = 0;
    bool withdraws = false;
    bool impatient = false;  ///< Operations have limits, and are cancelled.
    bool gentle() const {
      return reset == 0 && kill == 0 && close == 0 && !withdraws && !impatient;
    }
  };
  struct Counts {
    std::int64_t links = 0;
    std::int64_t written = 0;
    std::int64_t read = 0;
    std::int64_t mapped = 0;    ///< Copies into mapped memory that succeeded.
    std::int64_t outlived = 0;  ///< Copies that continued after their link was lost.
    std::int64_t straight = 0;  ///< Pieces that came over a network past the slots.
    std::int64_t executed = 0;
    std::int64_t loans = 0;
    std::int64_t failed = 0;
    std::int64_t withdrawn = 0;
    /// Withdrawals refused because a peer still used the array.
    std::int64_t refused_withdrawals = 0;
    /// Requesters that were gone later than they were lost.
    std::int64_t fenced = 0;
    std::int64_t resumed = 0;
    std::int64_t killed = 0;
    std::int64_t closed = 0;
    std::int64_t steps = 0;
  };

  FabricWorld(std::uint64_t seed, Counts& counts);
  ~FabricWorld();

  /// Runs the world to its end; returns what was wrong, or an empty text.
  std::string run();

  // The following members serve tasks.
  Random& random() { return random_; }
  std::int64_t now_ns() const { return clock_->now_ns(); }
  Process& process(int index) { return *processes_[static_cast<std::size_t>(index)]; }
  SimNetwork& network() { return network_; }
  const Chances& chances() const { return chances_; }
  Counts& counts() { return counts_; }
  bool quiet() const { return quiet_; }
  void fail(const std::string& what);
  std::uint64_t new_value() { return ++last_value_; }
  /// Fails the run unless a requester may still read or write a part of a region, which it is about
  /// to do.
  void check_touch(const SimLink& link, const SimLink::Found& found, const char* what);
  void check_loan(const SimLink& link, const Region& region, int part, std::uint64_t serial);
  /// Records for which link an operation writes a value; the process that stores the value looks
  /// the link up.
  void remember(std::uint64_t value, const SimLink& link, const SimLink::Found& found);
  /// Local memory of an operation, which may be touched while the operation lasts. The memory stays
  /// allocated until the world ends, so that no later memory lies at the same address.
  using Local = std::array<std::byte, Region::part_bytes>;
  Local& new_local() { return local_memory_.emplace_back(); }
  void lend_local(const std::byte* begin, bool lent);
  void add(const std::shared_ptr<SimLink>& link) { links_.push_back(link); }
  void give_on(Region& region);
  /// Lets other processes take some steps in the middle of a step of one process.
  void others_step();
  bool can_run(const Process& process) const;
  void copy(std::span<const LoopNest> nests, const std::byte* source, std::byte* target);

 private:
  void choose_chances();
  int start_process(const std::string& name, int machine);
  FabricOptions options_of(int index);
  void add_region(Process& process, int index, bool pool);
  void export_region(Process& process, Region& region);
  Result<std::size_t> answer(int server, RequesterId from, std::span<const std::byte> question,
                             std::span<std::byte> reply);
  void on_lost(int server, RequesterId requester, bool cleanly);
  void on_gone(int server, RequesterId requester);
  void step(bool fate);
  void step_process(Process& process);
  void step_core(Process& process);
  void step_task(Process& process);
  void step_execution(Process& process);
  void begin_something(Process& process);
  void begin_transfer(Process& process, const std::shared_ptr<SimLink>& link);
  void fate();
  void kill(Process& process);
  void start_close(Process& process);
  void finish_close(Process& process);
  /// Returns what has not ended yet, as text; empty if all has ended.
  std::string unfinished();
  void settle();
  void close_all();
  void judge_links();
  void judge();
  void fill(Region& region, int part, std::uint64_t value);
  void check_filled(const Region& region, int part, std::uint64_t value);
  void check_served(const Region& region, std::int64_t offset, std::uint64_t value, bool write);
  void check_address(const std::byte* address, const std::byte* source, bool write);
  void check_written(const std::byte* source, const std::byte* target, std::size_t bytes);
  const Region* region_at(const std::byte* address) const;

  std::uint64_t seed_;
  Random random_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  Counts& counts_;
  Chances chances_;
  SimNetwork network_;
  std::deque<Local> local_memory_;
  std::vector<std::unique_ptr<Process>> processes_;
  struct Writer {
    int to = 0;
    ConnectionId connection = 0;
    std::uint64_t generation = 0;
  };
  std::vector<std::weak_ptr<SimLink>> links_;
  std::map<std::uint64_t, Writer> writers_;  ///< Writers by the value that they write.
  std::map<const std::byte*, bool> local_;
  std::map<const std::byte*, Region*> regions_;  ///< Regions by the address of their first byte.
  std::uint64_t last_value_ = 0;
  std::int64_t steps_ = 0;
  int depth_ = 0;
  bool quiet_ = false;
  bool ending_ = false;  ///< Every disturbance has ended, and the processes close.
  std::string wrong_;
};

}  // namespace tranship::test
