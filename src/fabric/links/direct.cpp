// Small transfers directly between the memories of two processes.
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "fabric/links/requester.hpp"
#include "fabric/messages/runs.hpp"
#include "os/fork.hpp"

namespace tranship::fabric {
namespace {

// The kernel pins each page that it copies, so that on one thread a direct transfer becomes slower
// than the slots as requests grow.
constexpr std::int64_t direct_bytes_max = 16 * 1024;
constexpr std::size_t direct_runs_max = 16;
/// Shortest runs on average, in bytes, for which several threads gain more than the kernel's work
/// for each run costs: it takes the lock of the other process's memory for each.
constexpr std::int64_t run_bytes_least = 2 * 1024;
/// Shortest runs on average, in bytes, for which that work is small beside the copy.
constexpr std::int64_t long_run_bytes = 16 * 1024;
/// Smallest request, in bytes, that is worth waking another thread for.
constexpr std::int64_t long_request_bytes = 256 * 1024;
/// Most runs of one system call (the kernel's UIO_MAXIOV).
constexpr std::size_t batch_runs_max = 1024;

/// Collects runs, and moves as many at once as a system call accepts. `batch`: Most of one call.
template <std::size_t batch>
class Mover {
 public:
  Mover(pid_t pid, bool write, std::byte* local, std::uint64_t remote)
      : pid_(pid), write_(write), local_base_(local), remote_base_(remote) {}

  /// Moves a run, or keeps it for flush(). Returns false if not every byte was moved.
  bool add(const Run& run) {
    const auto length = static_cast<std::size_t>(run.bytes);
    const std::int64_t here = write_ ? run.source_offset : run.target_offset;
    const std::int64_t there = write_ ? run.target_offset : run.source_offset;
    local_[count_] = {local_base_ + here, length};
    remote_[count_] = {reinterpret_cast<void*>(remote_base_ + static_cast<std::uint64_t>(there)),
                       length};
    bytes_ += run.bytes;
    return ++count_ < batch || flush();
  }

  bool flush() {
    if (count_ == 0) return true;
    const ssize_t moved = (write_ ? process_vm_writev : process_vm_readv)(
        pid_, local_.data(), count_, remote_.data(), count_, 0);
    const bool all = moved == bytes_;
    count_ = 0;
    bytes_ = 0;
    return all;
  }

 private:
  pid_t pid_;
  bool write_;
  std::byte* local_base_;
  std::uint64_t remote_base_;
  std::array<iovec, batch> local_;
  std::array<iovec, batch> remote_;
  std::size_t count_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

bool Requester::direct_open(const RemoteExport& remote) const {
  return options_.direct_pid != 0 && remote.address != 0 && !lost();
}

bool Requester::direct_possible(const Transfer& transfer) const {
  return direct_open(transfer.remote) && transfer.request.bytes <= direct_bytes_max &&
         runs_of(transfer.request) <= static_cast<std::int64_t>(direct_runs_max);
}

bool Requester::direct_at_length_possible(const Transfer& transfer) const {
  return direct_open(transfer.remote) && transfer.request.bytes >= long_request_bytes &&
         transfer.request.bytes >= run_bytes_least * runs_of(transfer.request);
}

bool Requester::is_scattered(const Transfer& transfer) {
  return transfer.request.bytes < long_run_bytes * runs_of(transfer.request);
}

bool Requester::stands(const RemoteExport& remote) const {
  const ExportLease& lease =
      options_.segment.header().leases[static_cast<std::size_t>(remote.index)];
  return lease.export_id.load(std::memory_order_seq_cst) == remote.id;
}

ExportLease& Requester::lease_of(const RemoteExport& remote) const {
  return options_.segment.header().leases[static_cast<std::size_t>(remote.index)];
}

bool Requester::begin_use(const RemoteExport& remote) const {
  lease_of(remote).users.fetch_add(1, std::memory_order_seq_cst);
  // Count first, then check the export: a withdrawal clears the export first, then reads the count.
  if ((!options_.leases || stands(remote)) && !lost()) return true;
  end_use(remote);
  return false;
}

void Requester::end_use(const RemoteExport& remote) const {
  lease_of(remote).users.fetch_sub(1, std::memory_order_seq_cst);
}

bool Requester::in_use() const {
  std::uint64_t users = 0;
  for (const ExportLease& lease : options_.segment.header().leases) {
    users += lease.users.load(std::memory_order_seq_cst);
  }
  return users > lasting_uses_->load(std::memory_order_seq_cst);
}

/// A use that begin_use() has counted; its destructor ends the use.
struct Requester::Use {
  explicit Use(std::shared_ptr<SharedMemory> m, ExportLease& l) : memory(std::move(m)), lease(l) {}
  ~Use() { lease.users.fetch_sub(1, std::memory_order_seq_cst); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  std::shared_ptr<SharedMemory> memory;  ///< The memory in which the lease lies.
  ExportLease& lease;
};

/// A use that may outlast the connection. Its count among the lasting ones begins before that of
/// the lease and ends after it, so that nobody takes it for a copy.
class Requester::LastingUse {
 public:
  LastingUse(const Requester& requester, const RemoteExport& remote)
      : count_(requester.lasting_uses_), generation_(fork_generation()) {
    count_->fetch_add(1, std::memory_order_seq_cst);
    use_ = requester.use(remote);
  }
  ~LastingUse() {
    if (generation_ == fork_generation()) {
      use_.reset();
      count_->fetch_sub(1, std::memory_order_seq_cst);
    } else {
      // The lease lies in memory that a fork does not have.
      (void)new (std::nothrow) std::shared_ptr<void>(std::move(use_));
    }
  }
  LastingUse(const LastingUse&) = delete;
  LastingUse& operator=(const LastingUse&) = delete;

  bool held() const { return use_ != nullptr; }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> count_;
  std::uint64_t generation_;
  std::shared_ptr<void> use_;
};

/// A use of a call, for which the requester lives.
class Requester::UseHere {
 public:
  UseHere(const Requester& requester, const RemoteExport& remote)
      : requester_(requester), remote_(remote), held_(requester.begin_use(remote)) {}
  ~UseHere() {
    if (held_) requester_.end_use(remote_);
  }
  UseHere(const UseHere&) = delete;
  UseHere& operator=(const UseHere&) = delete;

  explicit operator bool() const { return held_; }

 private:
  const Requester& requester_;
  const RemoteExport& remote_;
  bool held_;
};

std::shared_ptr<void> Requester::use(const RemoteExport& remote) const {
  if (!begin_use(remote)) return nullptr;
  return std::make_shared<Use>(options_.segment.memory(), lease_of(remote));
}

std::shared_ptr<void> Requester::lasting_use(const RemoteExport& remote) const {
  auto use = std::make_shared<LastingUse>(*this, remote);
  return use->held() ? use : nullptr;
}

/// `batch`: Most runs of one system call.
template <std::size_t batch>
std::optional<Status> Requester::move_directly(const Transfer& transfer) {
  const bool write = transfer.operation == Operation::write;
  const Request& request = transfer.request;
  const UseHere held(*this, transfer.remote);
  if (!held) return std::nullopt;  // withdrawn: the answer to the command reports that
  Mover<batch> mover(options_.direct_pid, write,
                     write ? request.source.address : request.target.address,
                     transfer.remote.address);
  const bool all = for_each_run(request.payload.nests(), request.payload.indexed(),
                                [&](const Run& run) { return mover.add(run); }) &&
                   mover.flush();
  // Unless the copy is complete, it is left to a command, which carries it out again from the
  // start, or fails with a reason.
  if (!all) return std::nullopt;
  return Status{};
}

std::optional<Status> Requester::direct(const Transfer& transfer) {
  if (!direct_possible(transfer)) return std::nullopt;
  return move_directly<direct_runs_max>(transfer);
}

std::optional<Status> Requester::direct_at_length(const Transfer& transfer) {
  if (!direct_at_length_possible(transfer)) return std::nullopt;
  return move_directly<batch_runs_max>(transfer);
}

std::optional<Status> Requester::carried(const Transfer& transfer, BulkCarrier::Memory& memory,
                                         const std::atomic<bool>& cancelled) {
  const bool write = transfer.operation == Operation::write;
  const auto held = use(transfer.remote);
  if (!held) return std::nullopt;  // withdrawn: the answer to the command reports that
  const Request& request = transfer.request;
  const BulkCarrier::Movement movement{request.payload.nests(), request.payload.indexed(),
                                       write ? request.source.address : request.target.address,
                                       transfer.operation};
  Status status = memory.move(movement, [&] { return lost() || cancelled.load(); });
  if (status || cancelled.load()) return status;
  return std::nullopt;
}

}  // namespace tranship::fabric
