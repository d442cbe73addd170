// Small transfers straight between two processes' memories.
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fabric/requester.hpp"

namespace tranship {
namespace {

// The kernel pins each page that it copies, so this way loses to the slots as requests grow.
constexpr std::int64_t direct_bytes_max = 16 * 1024;
constexpr std::size_t direct_runs_max = 16;

struct Runs {
  std::array<iovec, direct_runs_max> local;
  std::array<iovec, direct_runs_max> remote;
  std::size_t count = 0;
};

struct Bases {
  std::byte* local = nullptr;
  std::uint64_t remote = 0;
};

std::int64_t points(const LoopNest& nest) {
  return nest.element_bytes == 0 ? 0 : nest.bytes() / nest.element_bytes;
}

void add_runs(const LoopNest& nest, const Bases& bases, bool write, Runs& runs) {
  std::array<std::int64_t, LoopNest::loops_max> position{};
  for (std::int64_t left = points(nest); left > 0; --left) {
    std::int64_t source = nest.source_offset;
    std::int64_t target = nest.target_offset;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      source += position[k] * nest.loops[k].source_stride;
      target += position[k] * nest.loops[k].target_stride;
    }
    const auto length = static_cast<std::size_t>(nest.element_bytes);
    const std::int64_t remote = write ? target : source;
    runs.local[runs.count] = {bases.local + (write ? source : target), length};
    runs.remote[runs.count] = {
        reinterpret_cast<void*>(bases.remote + static_cast<std::uint64_t>(remote)), length};
    ++runs.count;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      if (++position[k] < nest.loops[k].extent) break;
      position[k] = 0;
    }
  }
}

}  // namespace

bool Requester::direct_possible(const Transfer& transfer) const {
  if (options_.direct_pid == 0 || transfer.remote.address == 0 || lost()) return false;
  if (transfer.request.bytes > direct_bytes_max) return false;
  std::int64_t runs = 0;
  for (const LoopNest& nest : transfer.request.nests) {
    runs += points(nest);
    if (runs > static_cast<std::int64_t>(direct_runs_max)) return false;
  }
  return true;
}

bool Requester::stands(const RemoteExport& remote) const {
  const Lease& lease = options_.segment.header().leases[static_cast<std::size_t>(remote.index)];
  return lease.export_id.load(std::memory_order_seq_cst) == remote.id;
}

std::optional<Status> Requester::direct(const Transfer& transfer) {
  if (!direct_possible(transfer)) return std::nullopt;
  const bool write = transfer.operation == Operation::write;
  const Request& request = transfer.request;
  const Bases bases{write ? request.source.address : request.target.address,
                    transfer.remote.address};
  Runs runs;
  for (const LoopNest& nest : request.nests) add_runs(nest, bases, write, runs);
  if (runs.count == 0) return Status{};
  Lease& lease = options_.segment.header().leases[static_cast<std::size_t>(transfer.remote.index)];
  lease.users.fetch_add(1, std::memory_order_seq_cst);
  if (lease.export_id.load(std::memory_order_seq_cst) != transfer.remote.id) {
    lease.users.fetch_sub(1, std::memory_order_release);
    return std::nullopt;  // withdrawn: the command's answer says so
  }
  const ssize_t moved = (write ? process_vm_writev : process_vm_readv)(
      options_.direct_pid, runs.local.data(), runs.count, runs.remote.data(), runs.count, 0);
  lease.users.fetch_sub(1, std::memory_order_release);
  // Anything but a complete copy is left to a command: it is carried out again, from the start,
  // or fails with a reason.
  if (moved != request.bytes) return std::nullopt;
  return Status{};
}

}  // namespace tranship
