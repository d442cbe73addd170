// The events of a simulated world, and the checks at its end.
#include <algorithm>
#include <cstring>

#include "base/at.hpp"
#include "sim/fabric_tasks.hpp"

namespace tranship::test {
namespace {

constexpr std::int64_t end_max_ns = 120 * second_ns;

}  // namespace

bool FabricWorld::can_run(const Process& process) const {
  return process.alive && !process.inside && now_ns() >= process.stalled_until_ns;
}

void FabricWorld::others_step() {
  if (depth_ >= 2 || !random_.chance(0.3)) return;
  ++depth_;
  step(true);
  --depth_;
}

void FabricWorld::step(bool with_fate) {
  ++steps_;
  ++counts_.steps;
  const auto draw = random_.below(100);
  std::int64_t passes_ns = random_.below(100 * microsecond_ns);
  if (draw < 20) passes_ns = random_.below(5 * millisecond_ns);
  if (draw < 2) passes_ns = random_.below(300 * millisecond_ns);
  clock_->set_ns(now_ns() + passes_ns);
  if (with_fate && !quiet_) fate();
  std::vector<Process*> ready;
  for (const auto& one : processes_) {
    if (can_run(*one)) ready.push_back(one.get());
  }
  if (ready.empty()) return;
  Process& chosen = *ready[at(static_cast<int>(random_.below(std::ssize(ready))))];
  chosen.inside = true;
  step_process(chosen);
  chosen.inside = false;
}

void FabricWorld::step_process(Process& process) {
  const auto draw = random_.below(100);
  if (draw < 30) return step_core(process);
  if (draw < 40 && !process.closed) return (void)process.core->serve();
  if (draw < 45) return step_execution(process);
  if (draw < 80 || quiet_ || process.closing) return step_task(process);
  begin_something(process);
}

void FabricWorld::step_core(Process& process) {
  if (process.closed) {
    // The process exits once its operations have ended.
    const bool idle = process.tasks.empty() && process.departing.empty();
    if (idle && !network_.node(process.node).dead) network_.kill(process.node);
    return;
  }
  if (random_.chance(0.5)) {
    for (const ConnectionId id : network_.of(process.node)) {
      const auto& connection = *network_.connection(id);
      const int side = SimNetwork::side_of(connection, process.node);
      const int other = connection.ends[at(1 - side)].node;
      if (!connection.local || !connection.open(side) || !network_.node(other).dead) continue;
      process.core->on_process_ended(id);
    }
  }
  if (!process.core->finished()) {
    (void)process.core->step();
  } else if (random_.chance(0.3)) {
    finish_close(process);
  }
}

void FabricWorld::step_task(Process& process) {
  if (!process.departing.empty() && process.departing.back()->step(*this)) {
    process.departing.pop_back();
  }
  if (process.tasks.empty() || now_ns() < process.copies_stalled_until_ns) return;
  const auto index = static_cast<std::ptrdiff_t>(random_.below(std::ssize(process.tasks)));
  if (process.tasks[static_cast<std::size_t>(index)]->step(*this)) {
    process.tasks.erase(process.tasks.begin() + index);
  }
}

void FabricWorld::step_execution(Process& process) {
  if (process.executions.empty()) return;
  const auto index = static_cast<std::ptrdiff_t>(random_.below(std::ssize(process.executions)));
  Process::Execution& one = process.executions[static_cast<std::size_t>(index)];
  const bool write = one.request.target.attachment != nullptr;
  const Place& place = write ? one.request.target : one.request.source;
  auto& region = static_cast<Region&>(*place.attachment);
  // A part has two runs, and each step carries one of them.
  LoopNest nest = one.nests.front();
  const auto run = nest.rank == 1 ? nest.element_bytes : nest.element_bytes / 2;
  nest.rank = 0;
  nest.element_bytes = run;
  nest.source_offset += one.copied;
  nest.target_offset += one.copied;
  const std::byte* source = write ? one.request.source.address : region.data;
  std::byte* target = write ? region.data : one.request.target.address;
  copy({&nest, 1}, source, target);
  one.copied += run;
  if (one.copied < Region::part_bytes) return;
  const auto done = std::move(one.done);
  process.executions.erase(process.executions.begin() + index);
  ++counts_.executed;
  done(Status{});
}

void FabricWorld::begin_something(Process& process) {
  if (process.tasks.size() >= 8) return;
  const auto add = [&](std::unique_ptr<Task> task) { process.tasks.push_back(std::move(task)); };
  std::erase_if(process.links, [&](const auto& link) {
    return link->link->requester->lost() && random_.chance(0.3);
  });
  if (process.links.size() < 3 && (process.links.empty() || random_.chance(0.05))) {
    const int other = static_cast<int>(random_.below(std::ssize(processes_)));
    const bool runs = processes_[at(other)]->alive && !processes_[at(other)]->closing;
    const bool itself = network_.node(other).name == network_.node(process.node).name;
    if (!itself && (runs || random_.chance(0.1))) {
      add(connect_task(*this, process.node, other));
    }
    return;
  }
  if (chances_.withdraws && random_.chance(0.08)) {
    Region& region = *process.regions[at(static_cast<int>(random_.between(1, 3)))];
    if (!region.exported) return export_region(process, region);
    if (!region.withdrawing) add(withdraw_task(*this, process, region));
    return;
  }
  if (process.links.empty()) return;
  const auto link = process.links[at(static_cast<int>(random_.below(std::ssize(process.links))))];
  if (link->leaving) return;
  if (chances_.withdraws && random_.chance(0.04)) {
    if (random_.chance(0.3)) process.copies_stalled_until_ns = now_ns() + 3 * second_ns;
    process.departing.push_back(disconnect_task(*this, link));
    return;
  }
  if (random_.chance(0.05)) return tell(*this, *link);
  if (link->arrays.empty() || random_.chance(0.1)) {
    Process& there = *processes_[at(link->to)];
    return add(lookup_task(*this, link, *there.regions[at(static_cast<int>(random_.below(4)))]));
  }
  begin_transfer(process, link);
}

void FabricWorld::begin_transfer(Process& process, const std::shared_ptr<SimLink>& link) {
  const auto found = at(static_cast<int>(random_.below(std::ssize(link->arrays))));
  const SimLink::Found& array = link->arrays[found];
  if (array.region->pool) {
    process.tasks.push_back(loan_task(*this, link, found));
    return;
  }
  const int part = process.node % Region::parts;
  // A part of an older export has no owner any more: the operation must fail.
  const bool current = array.region->generation == array.generation;
  if (current && array.region->part[at(part)].busy) return;
  const bool mapped = array.array->mapped() != nullptr && random_.chance(0.7);
  process.tasks.push_back(mapped ? mapped_task(*this, link, found, part)
                                 : transfer_task(*this, link, found, part));
}

void FabricWorld::fate() {
  const auto some_process = [&]() -> Process& {
    return *processes_[at(static_cast<int>(random_.below(std::ssize(processes_))))];
  };
  if (random_.chance(chances_.stall)) {
    auto& process = some_process();
    (random_.chance(0.5) ? process.stalled_until_ns : process.copies_stalled_until_ns) =
        now_ns() + random_.below(5 * second_ns);
  }
  if (random_.chance(chances_.partition)) {
    network_.part(0, 1, now_ns() + random_.below(2 * second_ns));
  }
  if (network_.connections() > 0) {
    const auto id = static_cast<ConnectionId>(
        1 + random_.below(static_cast<std::int64_t>(network_.connections())));
    auto& connection = *network_.connection(id);
    if (random_.chance(chances_.silence)) {
      connection.ends[at(static_cast<int>(random_.below(2)))].silent_until_ns =
          now_ns() + random_.below(2 * second_ns);
    }
    if (random_.chance(chances_.reset)) network_.reset(connection);
  }
  if (random_.chance(chances_.kill)) kill(some_process());
  if (random_.chance(chances_.close)) start_close(some_process());
}

void FabricWorld::kill(Process& process) {
  if (!process.alive || process.inside) return;
  process.alive = false;
  process.left = std::move(process.tasks);
  process.tasks.clear();
  for (auto& task : process.departing) process.left.push_back(std::move(task));
  process.departing.clear();
  network_.kill(process.node);
  ++counts_.killed;
  if (processes_.size() < Region::parts && random_.chance(0.5)) {
    const auto& node = network_.node(process.node);
    (void)start_process(node.name, node.machine);
  }
}

void FabricWorld::start_close(Process& process) {
  if (!process.alive || process.inside || process.closing) return;
  if (!quiet_ && random_.chance(0.3)) process.copies_stalled_until_ns = now_ns() + 3 * second_ns;
  process.closing = true;
  process.closing_since_ns = now_ns();
  process.core->start_close();
}

void FabricWorld::finish_close(Process& process) {
  process.closed = true;
  ++counts_.closed;
  if (process.core->seats() != 0) fail("an engine closed and still serves somebody");
  const Status status = process.core->close();
  if (!status) {
    process.keeps_memory = true;
    if (ending_) fail("an engine kept fences though nobody copies: " + status.error().text());
    for (const auto& region : process.regions) {
      if (!region->exported || region->withdrawing) continue;
      process.tasks.push_back(withdraw_task(*this, process, *region));
    }
    return;
  }
  if (process.core->fenced()) fail("an engine closed well and left a fence");
  if (process.core->sessions() != 0) fail("an engine closed and left a session");
  for (const auto& [requester, step] : process.requesters_lost) {
    if (!process.requesters_gone.contains(requester)) fail("a requester was lost and never gone");
  }
  if (!process.executions.empty()) fail("an engine closed beside its own commands");
  for (const auto& region : process.regions) {
    if (region->exported) give_on(*region);
  }
}

std::string FabricWorld::unfinished() {
  for (const auto& process : processes_) {
    if (!process->alive) continue;
    const std::string who = "process " + std::to_string(process->node);
    if (!process->departing.empty()) return who + " still disconnects";
    if (!process->tasks.empty()) return who + " still waits: " + process->tasks.front()->name();
    if (process->closing && !process->closed) return who + " never closed";
    for (const auto& link : process->links) {
      if (link->link->requester->lost()) continue;
      if (!processes_[at(link->to)]->alive) return who + " did not notice a death";
    }
  }
  return "";
}

/// Ends all disturbances, and runs until every operation has ended.
void FabricWorld::settle() {
  quiet_ = true;
  network_.part(0, 1, 0);
  network_.part(0, 0, 0);
  for (const auto& process : processes_) {
    process->stalled_until_ns = process->copies_stalled_until_ns = 0;
  }
  for (ConnectionId id = 1; id <= network_.connections(); ++id) {
    for (auto& end : network_.connection(id)->ends) end.silent_until_ns = 0;
  }
  const std::int64_t end_ns = now_ns() + end_max_ns;
  while (wrong_.empty() && !unfinished().empty()) {
    step(false);
    if (now_ns() > end_ns) fail("it hangs: " + unfinished());
  }
}

/// Checks that all that was sent over links that still stand has arrived.
void FabricWorld::judge_links() {
  for (const auto& process : processes_) {
    if (!process->alive || process->closing) continue;
    for (const auto& link : process->links) {
      if (link->link->requester->lost()) continue;
      if (this->process(link->to).notes[link->connection] != link->told) fail("a note was lost");
      for (const auto& found : link->arrays) {
        const bool stands = found.region->exported && found.array->remote().id == found.region->id;
        if (!stands && !found.array->withdrawn()) fail("nobody was told of a withdrawal");
      }
    }
  }
}

void FabricWorld::close_all() {
  for (const std::int64_t until_ns = now_ns() + 3 * second_ns; now_ns() < until_ns;) step(false);
  judge_links();
  ending_ = true;
  for (const auto& process : processes_) start_close(*process);
  const std::int64_t end_ns = now_ns() + end_max_ns;
  while (wrong_.empty() && !unfinished().empty()) {
    step(false);
    if (now_ns() > end_ns) fail("closing hangs: " + unfinished());
  }
}

void FabricWorld::judge() {
  for (const auto& process : processes_) {
    for (const auto& link : process->links) {
      if (process->alive && link->link->requester->in_use()) fail("a lease was left in use");
    }
    if (!process->alive) continue;
    for (const auto& region : process->regions) {
      for (int part = 0; part < Region::parts && !region->exported; ++part) {
        check_filled(*region, part, Region::secret);
      }
    }
  }
}

std::string FabricWorld::run() {
  const auto steps = random_.between(300, 1800);
  while (steps_ < steps && wrong_.empty()) step(true);
  settle();
  close_all();
  if (wrong_.empty()) judge();
  counts_.resumed += network_.resumed;
  return wrong_;
}

}  // namespace tranship::test
