// The tasks of the processes of a simulated world.
#pragma once

#include "sim/fabric_world.hpp"

namespace tranship::test {

std::unique_ptr<Task> connect_task(FabricWorld& world, int from, int to);
std::unique_ptr<Task> lookup_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                  Region& region);
/// Returns a task that reads or writes a part of an array through the link's slots.
std::unique_ptr<Task> transfer_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                    std::size_t found, int part);
/// Returns a task that reads or writes a part of a mapped array, some bytes at a time.
std::unique_ptr<Task> mapped_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                  std::size_t found, int part);
/// Returns a task that asks for a part of a pool, writes to it and commits it.
std::unique_ptr<Task> loan_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                std::size_t found);
/// Sends a note, whose answer is dropped.
void tell(FabricWorld& world, SimLink& link);
std::unique_ptr<Task> withdraw_task(FabricWorld& world, Process& process, Region& region);
std::unique_ptr<Task> disconnect_task(FabricWorld& world, std::shared_ptr<SimLink> link);

/// A question about a pool.
struct LoanQuestion {
  enum class Kind : std::uint32_t { take, commit, give_back, note } kind = Kind::take;
  std::int32_t part = 0;
  std::uint64_t serial = 0;
};

}  // namespace tranship::test
