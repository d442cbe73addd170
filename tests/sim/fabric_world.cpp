#include "sim/fabric_world.hpp"

#include <algorithm>
#include <cstring>

#include "base/at.hpp"
#include "sim/fabric_tasks.hpp"

namespace tranship::test {
namespace {

std::uint64_t word(const std::byte* address) {
  std::uint64_t value = 0;
  std::memcpy(&value, address, sizeof value);
  return value;
}

}  // namespace

FabricWorld::FabricWorld(std::uint64_t seed, Counts& counts)
    : seed_(seed), random_(seed), counts_(counts), network_(random_, *clock_) {
  network_.on_written = [this](const std::byte* source, std::byte* target, std::size_t bytes) {
    check_written(source, target, bytes);
  };
  clock_->set_ns(second_ns);
  choose_chances();
  const auto processes = random_.between(2, 4);
  const auto machines = random_.between(1, 2);
  for (int k = 0; k < processes; ++k) {
    (void)start_process("p" + std::to_string(k), static_cast<int>(random_.below(machines)));
  }
}

/// Marks all processes as dead; operations of killed processes are released only with the world.
FabricWorld::~FabricWorld() {
  for (const auto& process : processes_) process->alive = false;
}

void FabricWorld::choose_chances() {
  const auto some = [&](double most) {
    return random_.chance(0.5) ? 0 : most * static_cast<double>(random_.below(100)) / 100;
  };
  chances_.stall = some(0.02);
  chances_.silence = some(0.02);
  chances_.partition = some(0.01);
  if (random_.chance(0.2)) return;
  chances_.reset = some(0.03);
  chances_.kill = some(0.006);
  chances_.close = some(0.006);
  chances_.withdraws = random_.chance(0.6);
  chances_.impatient = random_.chance(0.4);
}

FabricOptions FabricWorld::options_of(int index) {
  FabricOptions options;
  options.service_threads = 0;
  options.slots_per_peer = 2;
  options.slot_bytes = 4096;
  options.inside_bytes = random_.chance(0.5) ? Region::part_bytes / 2 : Region::part_bytes;
  options.peers_max = chances_.gentle() ? 64 : 8;
  options.copy.nests = [this](std::span<const LoopNest> nests, const std::byte* source,
                              std::byte* target, bool) { copy(nests, source, target); };
  options.copy.runs = [this](std::span<const Run> runs, const std::byte* source, std::byte* target,
                             bool) {
    for (const Run& run : runs) {
      const LoopNest nest{run.bytes, run.source_offset, run.target_offset, 0, {}};
      copy({&nest, 1}, source, target);
    }
  };
  options.execute = [this, index](const Request& request, std::function<void(Status)> done) {
    Process::Execution execution{
        request, {request.payload.nests().begin(), request.payload.nests().end()}, std::move(done)};
    process(index).executions.push_back(std::move(execution));
  };
  options.answer = [this, index](RequesterId from, std::span<const std::byte> question,
                                 std::span<std::byte> reply) {
    return answer(index, from, question, reply);
  };
  options.on_requester_lost = [this, index](RequesterId id, bool cleanly) {
    on_lost(index, id, cleanly);
  };
  options.on_requester_gone = [this, index](RequesterId id, bool) { on_gone(index, id); };
  return options;
}

int FabricWorld::start_process(const std::string& name, int machine) {
  const int index = network_.add(name, machine);
  processes_.push_back(std::make_unique<Process>());
  Process& process = *processes_.back();
  process.node = index;
  FabricSeams seams;
  seams.clock = clock_;
  seams.identity = [index, machine] {
    Identity identity;
    identity.pid = index + 1;
    identity.boot = "boot";
    identity.host = "machine" + std::to_string(machine);
    return identity;
  };
  seams.make_wire = [this, &process](Wire::Handlers handlers) -> Result<std::shared_ptr<Wire>> {
    auto wire = std::make_shared<SimWire>(network_, process.node, std::move(handlers));
    process.wire = wire.get();
    return std::shared_ptr<Wire>(std::move(wire));
  };
  process.core = std::make_shared<FabricCore>(options_of(index), std::move(seams));
  if (const Status status = process.core->open(); !status) fail(status.error().text());
  add_region(process, 0, true);
  for (int k = 1; k < 4; ++k) add_region(process, k, false);
  return index;
}

void FabricWorld::add_region(Process& process, int index, bool pool) {
  auto region = std::make_unique<Region>();
  region->process = process.node;
  region->name = "r" + std::to_string(index);
  region->pool = pool;
  region->attached = index == 3;
  if (index < 2) {
    auto memory = SharedMemory::allocate({Region::bytes, false, false});
    if (!memory) return fail(memory.error().text());
    region->shared = *memory;
    region->data = region->shared->data();
  } else {
    region->own.resize(static_cast<std::size_t>(Region::bytes));
    region->data = region->own.data();
  }
  regions_[region->data] = region.get();
  for (int part = 0; part < Region::parts; ++part) fill(*region, part, Region::secret);
  process.regions.push_back(std::move(region));
  export_region(process, *process.regions.back());
}

void FabricWorld::export_region(Process& process, Region& region) {
  for (int part = 0; part < Region::parts; ++part) {
    check_filled(region, part, Region::secret);
    if (!region.pool) fill(region, part, Region::fresh + region.generation);
  }
  ExportedArray array;
  array.name = region.name;
  array.bytes = Region::bytes;
  array.memory = region.shared;
  array.place = region.attached ? Place{nullptr, &region} : Place{region.data, nullptr};
  region.exported = true;
  if (const Status status = process.core->exports().add(array); !status) {
    return fail("an export was refused: " + status.error().text());
  }
  region.id = process.core->exports().find(region.name)->id();
}

void FabricWorld::fail(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

void FabricWorld::fill(Region& region, int part, std::uint64_t value) {
  for (std::int64_t k = 0; k < Region::part_bytes; k += 8) {
    std::memcpy(region.part_data(part) + k, &value, sizeof value);
  }
}

void FabricWorld::check_filled(const Region& region, int part, std::uint64_t value) {
  for (std::int64_t k = 0; k < Region::part_bytes; k += 8) {
    if (word(region.part_data(part) + k) == value) continue;
    fail("memory of process " + std::to_string(region.process) + " was overwritten (" +
         region.name + ")");
  }
}

/// Lets the region's process use its memory for something else from now on.
void FabricWorld::give_on(Region& region) {
  ++region.generation;
  region.exported = false;
  region.part = {};
  for (int part = 0; part < Region::parts; ++part) fill(region, part, Region::secret);
}

void FabricWorld::remember(std::uint64_t value, const SimLink& link, const SimLink::Found& found) {
  writers_[value] = {link.to, link.connection, found.generation};
}

void FabricWorld::lend_local(const std::byte* begin, bool lent) { local_[begin] = lent; }

void FabricWorld::check_touch(const SimLink& link, const SimLink::Found& found, const char* what) {
  const Process& there = process(link.to);
  if (!there.alive) return;
  const std::string where = found.region->name + " of process " + std::to_string(link.to);
  if (found.region->generation != found.generation) {
    fail(where + " was " + what + " after it had been given on");
  } else if (there.requesters_gone.contains(link.connection)) {
    fail(where + " was " + what + " by a requester that was said to be gone");
  }
}

void FabricWorld::check_loan(const SimLink& link, const Region& region, int part,
                             std::uint64_t serial) {
  if (!process(link.to).alive || region.part[at(part)].serial == serial) return;
  fail("a part of a pool was written after it had been given on");
}

void FabricWorld::check_served(const Region& region, std::int64_t offset, std::uint64_t value,
                               bool write) {
  if (!region.exported) fail("a command was carried out in " + region.name + ", which is given on");
  if (!write) return;
  const auto writer = writers_.find(value);
  if (writer == writers_.end() || writer->second.to != region.process) {
    return fail("a command wrote what nobody sent");
  }
  const Process& here = process(region.process);
  if (here.requesters_gone.contains(writer->second.connection)) {
    fail("a command was carried out for a requester that was said to be gone");
  }
  if (writer->second.generation != region.generation) fail("a command of an older export");
  const auto part = static_cast<std::size_t>(offset / Region::part_bytes);
  if (region.pool && region.part[part].serial != value) {
    fail("a command wrote to a part of a pool that was given on");
  }
}

/// Checks an access to an address, which may be an operation's local memory, a region or a slot.
void FabricWorld::check_address(const std::byte* address, const std::byte* source, bool write) {
  auto next = local_.upper_bound(address);
  if (next != local_.begin()) {
    const auto& [begin, lent] = *--next;
    if (address < begin + Region::part_bytes && !lent) {
      fail("memory of an operation that has ended was touched");
    }
  }
  if (const Region* region = region_at(address)) {
    check_served(*region, address - region->data, word(source), write);
  }
}

const Region* FabricWorld::region_at(const std::byte* address) const {
  auto next = regions_.upper_bound(address);
  if (next == regions_.begin()) return nullptr;
  const auto& [begin, region] = *--next;
  return address < begin + Region::bytes ? region : nullptr;
}

/// Checks words that arrive over a network without this side's copy function.
void FabricWorld::check_written(const std::byte* source, const std::byte* target,
                                std::size_t bytes) {
  for (std::size_t k = 0; k < bytes; k += 8) {
    check_address(source + k, source + k, false);
    check_address(target + k, source + k, true);
  }
  counts_.straight += region_at(source) != nullptr || region_at(target) != nullptr ? 1 : 0;
}

void FabricWorld::copy(std::span<const LoopNest> nests, const std::byte* source,
                       std::byte* target) {
  for (const LoopNest& nest : nests) {
    const std::int64_t count = nest.element_bytes == 0 ? 0 : nest.bytes() / nest.element_bytes;
    for (std::int64_t k = 0; k < count; ++k) {
      std::int64_t from = nest.source_offset;
      std::int64_t to = nest.target_offset;
      std::int64_t left = k;
      for (std::size_t loop = 0; loop < static_cast<std::size_t>(nest.rank); ++loop) {
        const std::int64_t index = left % nest.loops[loop].extent;
        left /= nest.loops[loop].extent;
        from += index * nest.loops[loop].source_stride;
        to += index * nest.loops[loop].target_stride;
      }
      check_address(source + from, source + from, false);
      check_address(target + to, source + from, true);
      std::memcpy(target + to, source + from, static_cast<std::size_t>(nest.element_bytes));
      others_step();
    }
  }
}

Result<std::size_t> FabricWorld::answer(int server, RequesterId from,
                                        std::span<const std::byte> question,
                                        std::span<std::byte> reply) {
  Region& pool = *process(server).regions[0];
  LoanQuestion asked;
  if (question.size() != sizeof asked) return Error{ErrorCode::invalid_argument, "no question"};
  std::memcpy(&asked, question.data(), sizeof asked);
  if (process(server).requesters_gone.contains(from.value)) fail("somebody gone asks");
  if (asked.kind == LoanQuestion::Kind::note) {
    ++process(server).notes[from.value];
  } else if (asked.kind == LoanQuestion::Kind::take) {
    for (int part = 0; part < Region::parts && asked.serial == 0; ++part) {
      if (pool.part[at(part)].serial != 0) continue;
      check_filled(pool, part, Region::secret);
      pool.part[at(part)].owner = from;
      pool.part[at(part)].serial = asked.serial = new_value();
      asked.part = part;
    }
  } else {
    Region::Part& part = pool.part[at(asked.part)];
    if (part.serial != asked.serial || part.owner != from) fail("a loan was given to another");
    if (asked.kind == LoanQuestion::Kind::commit) check_filled(pool, asked.part, asked.serial);
    part = {};
    fill(pool, asked.part, Region::secret);
  }
  std::memcpy(reply.data(), &asked, sizeof asked);
  return sizeof asked;
}

void FabricWorld::on_lost(int server, RequesterId requester, bool cleanly) {
  Process& here = process(server);
  if (!here.alive) return;
  const auto& connection = *network_.connection(requester.value);
  const Process& client = process(connection.ends[0].node);
  for (const auto& weak : links_) {
    const auto link = weak.lock();
    if (!link || link->connection != requester.value || here.closing || !client.alive) continue;
    if (cleanly && link->link->requester->in_use()) fail("a goodbye came before its copies ended");
    const std::int64_t since_ns = std::min(link->leaving_since_ns, client.closing_since_ns);
    const bool in_time = now_ns() < since_ns || now_ns() - since_ns < 2 * second_ns;
    if (!cleanly && since_ns != never_ns && in_time && !connection.disturbed) {
      fail("a process that ended its copies in time said no goodbye");
    }
  }
  if (ending_ && !cleanly && client.alive) fail("a process that closed well was lost");
  if (here.requesters_lost.contains(requester.value)) fail("a requester was lost twice");
  here.requesters_lost[requester.value] = steps_;
}

void FabricWorld::on_gone(int server, RequesterId requester) {
  Process& here = process(server);
  if (!here.alive) return;
  const auto lost = here.requesters_lost.find(requester.value);
  if (lost == here.requesters_lost.end()) return fail("a requester was gone before it was lost");
  if (!here.requesters_gone.insert(requester.value).second) fail("a requester was gone twice");
  counts_.fenced += lost->second != steps_ ? 1 : 0;
  Region& pool = *here.regions[0];
  for (int part = 0; part < Region::parts; ++part) {
    if (pool.part[at(part)].serial == 0 || pool.part[at(part)].owner != requester) continue;
    pool.part[at(part)] = {};
    fill(pool, part, Region::secret);
  }
}

}  // namespace tranship::test
