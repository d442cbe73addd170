#include "sim/fabric_tasks.hpp"

#include <algorithm>
#include <cstring>

namespace tranship::test {
namespace {

template <typename T>
bool ready(std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// The common part of tasks, some of which have a time limit.
class Limited : public Task {
 public:
  explicit Limited(FabricWorld& world) {
    began_ns = world.now_ns();
    if (world.chances().impatient && world.random().chance(0.5)) {
      limit_ns_ = began_ns + world.random().below(2 * second_ns);
    }
  }
  bool late(const FabricWorld& world) const { return world.now_ns() >= limit_ns_; }
  void count_failure(FabricWorld& world, const std::string& why) const {
    ++world.counts().failed;
    if (world.chances().gentle()) {
      world.fail("an operation failed though nothing was lost: " + name() + ": " + why);
    }
  }

 private:
  std::int64_t limit_ns_ = never_ns;
};

class Connect final : public Limited {
 public:
  Connect(FabricWorld& world, int from, int to) : Limited(world), from_(from), to_(to) {}
  std::string name() const override { return "connect"; }

  bool step(FabricWorld& world) override {
    Process& process = world.process(from_);
    if (!connecting_) return begin(world, process);
    if (ready(connecting_->result)) {
      const auto peer = connecting_->result.get();
      if (!peer) {
        count_failure(world, peer.error().text());
        return true;
      }
      link_->peer = *peer;
      auto link = process.core->link(*peer);
      if (!link) return true;  // the link was closed meanwhile
      link_->link = std::move(*link);
      if (stale_) world.fail("connected to another process than the contact says");
      process.links.push_back(link_);
      world.add(link_);
      ++world.counts().links;
      return true;
    }
    if (!late(world)) return false;
    process.core->abandon(*connecting_);
    return true;
  }

 private:
  bool begin(FabricWorld& world, Process& process) {
    Contact contact;
    contact.local = contact.network = world.network().node(to_).name;
    contact.identity.pid = to_ + 1;
    contact.identity.boot = "boot";
    auto connecting = process.core->start_connect(contact, contact.local);
    if (!connecting) {
      count_failure(world, connecting.error().text());
      return true;
    }
    connecting_ = std::move(*connecting);
    link_ = std::make_shared<SimLink>();
    link_->from = from_;
    link_->connection = process.wire->last_made();
    const auto& ends = world.network().connection(link_->connection)->ends;
    // A restarted process listens where its predecessor did, and is another process.
    if (ends[1].node != to_) stale_ = true;
    link_->to = to_;
    return false;
  }

  int from_;
  int to_;
  bool stale_ = false;
  std::optional<FabricCore::Connecting> connecting_;
  std::shared_ptr<SimLink> link_;
};

class Lookup final : public Limited {
 public:
  Lookup(FabricWorld& world, std::shared_ptr<SimLink> link, Region& region)
      : Limited(world), link_(std::move(link)), region_(region) {}
  std::string name() const override { return "lookup"; }

  bool step(FabricWorld& world) override {
    FabricCore& core = *world.process(link_->from).core;
    if (!calling_) {
      auto calling = core.start_call(link_->peer, MessageType::lookup, encode_text(region_.name));
      if (!calling) {
        count_failure(world, calling.error().text());
        return true;
      }
      calling_ = std::move(*calling);
      return false;
    }
    if (!ready(calling_->reply)) {
      if (!late(world)) return false;
      core.abandon(*calling_);
      return true;
    }
    const auto array = core.found(link_->peer, region_.name, calling_->reply.get());
    if (!array) {
      count_failure(world, array.error().text());
      return true;
    }
    SimLink::Found found{*array, &region_, 0};
    // The array may be of an older generation, whose id is not in use any more.
    if ((*array)->remote().id == region_.id) found.generation = region_.generation;
    link_->arrays.push_back(found);
    return true;
  }

 private:
  std::shared_ptr<SimLink> link_;
  Region& region_;
  std::optional<FabricCore::Calling> calling_;
};

/// A task that holds a part of a region while it lasts.
class OnPart : public Limited {
 public:
  OnPart(FabricWorld& world, std::shared_ptr<SimLink> link, std::size_t found, int part)
      : Limited(world),
        link_(std::move(link)),
        found_(link_->arrays[found]),
        part_(part),
        local_(world.new_local()) {
    if (!found_.region->pool) mine().busy = true;
    value_ = world.new_value();
    world.remember(value_, *link_, found_);
    fill_local();
  }

 protected:
  Region::Part& mine() const { return found_.region->part[static_cast<std::size_t>(part_)]; }
  bool current() const { return found_.region->generation == found_.generation; }
  void fill_local() {
    for (std::size_t k = 0; k < local_.size(); k += 8) std::memcpy(&local_[k], &value_, 8);
  }
  void let_go() {
    if (current()) mine().busy = false;
  }
  void wrote() {
    if (!current()) return;
    mine().value = value_;
  }
  /// Records that the part may or may not have been written.
  void in_doubt() {
    if (current()) mine().certain = false;
  }
  void check_read(FabricWorld& world) {
    if (!current() || !mine().certain) return;
    std::array<std::byte, Region::part_bytes> expected{};
    const std::uint64_t value =
        mine().value != 0 ? mine().value : Region::fresh + found_.generation;
    for (std::size_t k = 0; k < expected.size(); k += 8) std::memcpy(&expected[k], &value, 8);
    if (expected != local_) world.fail("a read returned other bytes than were written");
  }

  std::shared_ptr<SimLink> link_;
  SimLink::Found found_;
  int part_;
  bool write_ = true;
  std::uint64_t value_ = 0;
  FabricWorld::Local& local_;
};

class SlotTransfer final : public OnPart {
 public:
  SlotTransfer(FabricWorld& world, std::shared_ptr<SimLink> link, std::size_t found, int part)
      : OnPart(world, std::move(link), found, part) {
    write_ = world.random().chance(0.6);
    if (!write_) local_.fill(std::byte{0});
  }
  std::string name() const override { return write_ ? "write" : "read"; }

  bool step(FabricWorld& world) override {
    Requester& requester = *link_->link->requester;
    if (!queue_) return begin(world, requester);
    (void)requester.progress();
    std::array<Finished, 1> finished;
    if (queue_->take(finished) == 1) return end(world, finished[0].status);
    if (!late(world)) return false;
    requester.cancel(*queue_, tag);
    if (queue_->take(finished) != 1) {
      world.fail("a cancelled transfer did not end");
      return true;
    }
    return end(world, finished[0].status);
  }

 private:
  static constexpr std::uint64_t tag = 7;

  bool begin(FabricWorld& world, Requester& requester) {
    queue_ = std::make_shared<FinishedQueue>();
    const std::int64_t there = part_ * Region::part_bytes;
    // The nest has two runs, so that other events can come between them.
    nest_.element_bytes = Region::part_bytes / 2;
    nest_.rank = 1;
    nest_.loops[0] = {2, nest_.element_bytes, nest_.element_bytes};
    (write_ ? nest_.target_offset : nest_.source_offset) = there;
    Requester::Transfer transfer;
    if (world.random().chance(0.5)) {
      transfer.request.payload = std::span(&nest_, 1);
    } else {
      nest_.rank = 0;
      list_ = {nest_, 0, 0, true, halves_};
      transfer.request.payload = std::span(&list_, 1);
    }
    (write_ ? transfer.request.source : transfer.request.target).address = local_.data();
    transfer.request.bytes = Region::part_bytes;
    transfer.request.tag = tag;
    transfer.remote = found_.array->remote();
    transfer.operation = write_ ? Operation::write : Operation::read;
    world.lend_local(local_.data(), true);
    if (const Status status = requester.submit(transfer, queue_); !status) {
      return end(world, status);
    }
    return false;
  }

  bool end(FabricWorld& world, const Status& status) {
    world.lend_local(local_.data(), false);
    let_go();
    if (!status) {
      if (write_) in_doubt();
      count_failure(world, status.error().text());
      return true;
    }
    if (write_) {
      wrote();
      ++world.counts().written;
    } else {
      check_read(world);
      ++world.counts().read;
    }
    return true;
  }

  LoopNest nest_;
  IndexedNest list_;
  std::array<IndexedEntry, 2> halves_{
      {{0, 0, 1}, {Region::part_bytes / 2, Region::part_bytes / 2, 1}}};
  std::shared_ptr<FinishedQueue> queue_;
};

/// A copy into or out of mapped memory, in pieces between which other events may come.
class MappedCopy {
 public:
  /// Takes a lease. Returns false if the array cannot be used any more.
  bool begin(const SimLink& link, const SimLink::Found& found) {
    use_ = link.link->requester->use(found.array->remote());
    return use_ != nullptr;
  }
  /// Copies up to 8 bytes; returns whether the copy is complete.
  bool step(FabricWorld& world, std::span<std::byte> local, std::byte* there, bool write) {
    const std::size_t bytes = std::min<std::size_t>(8, local.size() - copied_);
    (void)world;
    std::byte* source = write ? local.data() : there;
    std::byte* target = write ? there : local.data();
    std::memcpy(target + copied_, source + copied_, bytes);
    copied_ += bytes;
    return copied_ == local.size();
  }
  void end() { use_.reset(); }

 private:
  std::shared_ptr<void> use_;
  std::size_t copied_ = 0;
};

class MappedTransfer final : public OnPart {
 public:
  MappedTransfer(FabricWorld& world, std::shared_ptr<SimLink> link, std::size_t found, int part)
      : OnPart(world, std::move(link), found, part) {
    write_ = world.random().chance(0.6);
  }
  std::string name() const override { return write_ ? "mapped write" : "mapped read"; }

  bool step(FabricWorld& world) override {
    const bool lost = link_->link->requester->lost();
    if (!begun_) {
      begun_ = true;
      if (!copy_.begin(*link_, found_)) {
        if (!lost && current() && !found_.region->withdrawing) {
          count_failure(world, "a lease was refused");
        }
        let_go();
        return true;
      }
      lost_before_ = lost;
      return false;
    }
    // Some copies end with their link, others do not notice its loss.
    if (lost && world.random().chance(0.2)) {
      if (write_) in_doubt();
      return end();
    }
    outlived_ |= lost && !lost_before_;
    world.check_touch(*link_, found_, write_ ? "written" : "read");
    if (!copy_.step(world, local_, found_.array->mapped() + part_ * Region::part_bytes, write_)) {
      return false;
    }
    if (write_) {
      wrote();
    } else {
      check_read(world);
    }
    ++world.counts().mapped;
    world.counts().outlived += outlived_ ? 1 : 0;
    return end();
  }

 private:
  bool end() {
    copy_.end();
    let_go();
    return true;
  }

  MappedCopy copy_;
  bool begun_ = false;
  bool lost_before_ = false;
  bool outlived_ = false;
};

/// Takes a part of a pool, writes to it through the mapping or the slots, and commits it.
class Loan final : public OnPart {
 public:
  Loan(FabricWorld& world, std::shared_ptr<SimLink> link, std::size_t found)
      : OnPart(world, std::move(link), found, 0) {}
  std::string name() const override { return "loan"; }

  bool step(FabricWorld& world) override {
    switch (phase_) {
      case Phase::asking: return ask(world, {LoanQuestion::Kind::take, 0, 0});
      case Phase::copying: return copy(world);
      case Phase::sending: return send(world);
      case Phase::committing: return ask(world, {LoanQuestion::Kind::commit, part_, value_});
      case Phase::returning: return ask(world, {LoanQuestion::Kind::give_back, part_, value_});
    }
    return true;
  }

 private:
  enum class Phase { asking, copying, sending, committing, returning };

  bool ask(FabricWorld& world, const LoanQuestion& question) {
    Requester& requester = *link_->link->requester;
    if (!asked_) {
      asked_ = true;
      question_ = question;
      call_ = std::make_unique<Requester::Call>();
      call_->question = std::as_bytes(std::span(&question_, 1));
      call_->reply = std::as_writable_bytes(std::span(&answer_, 1));
      if (const Status status = requester.start(*call_); !status) return lose(world, status);
    }
    (void)requester.progress();
    if (!call_->ended.load()) {
      if (!late(world) || !requester.abandon(*call_)) return false;
      // The part stays lent to this requester until the link is lost.
      return true;
    }
    asked_ = false;
    if (!call_->status) return lose(world, call_->status);
    return answered(world);
  }

  bool answered(FabricWorld& world) {
    if (phase_ == Phase::committing || phase_ == Phase::returning) {
      world.counts().loans += phase_ == Phase::committing ? 1 : 0;
      return true;
    }
    if (answer_.serial == 0) return true;  // the pool has no free part
    part_ = answer_.part;
    value_ = answer_.serial;
    world.remember(value_, *link_, found_);
    fill_local();
    const bool mapped = found_.array->mapped() != nullptr && world.random().chance(0.6);
    phase_ = mapped ? Phase::copying : Phase::sending;
    return false;
  }

  bool copy(FabricWorld& world) {
    if (!begun_) {
      begun_ = true;
      if (!copy_.begin(*link_, found_)) return true;
      return false;
    }
    world.check_touch(*link_, found_, "written");
    world.check_loan(*link_, *found_.region, part_, value_);
    if (!copy_.step(world, local_, found_.array->mapped() + part_ * Region::part_bytes, true)) {
      return false;
    }
    copy_.end();
    phase_ = Phase::committing;
    return false;
  }

  bool send(FabricWorld& world) {
    Requester& requester = *link_->link->requester;
    std::array<Finished, 1> finished;
    if (!queue_) {
      queue_ = std::make_shared<FinishedQueue>();
      nest_.element_bytes = Region::part_bytes;
      nest_.target_offset = part_ * Region::part_bytes;
      Requester::Transfer transfer;
      transfer.request.payload = std::span(&nest_, 1);
      transfer.request.source.address = local_.data();
      transfer.request.bytes = Region::part_bytes;
      transfer.remote = found_.array->remote();
      world.lend_local(local_.data(), true);
      const Status status = requester.submit(transfer, queue_);
      if (status) return false;
      world.lend_local(local_.data(), false);
      return lose(world, status);
    }
    (void)requester.progress();
    if (queue_->take(finished) != 1) {
      if (!late(world)) return false;
      requester.cancel(*queue_, 0);
      world.lend_local(local_.data(), false);
      // The question follows the command, which may still be carried out.
      phase_ = Phase::returning;
      return false;
    }
    world.lend_local(local_.data(), false);
    if (!finished[0].status) return lose(world, finished[0].status);
    phase_ = Phase::committing;
    return false;
  }

  bool lose(FabricWorld& world, const Status& status) {
    count_failure(world, status.error().text());
    return true;
  }

  Phase phase_ = Phase::asking;
  bool asked_ = false;
  bool begun_ = false;
  LoanQuestion question_;
  LoanQuestion answer_;
  std::unique_ptr<Requester::Call> call_;
  MappedCopy copy_;
  LoopNest nest_;
  std::shared_ptr<FinishedQueue> queue_;
};

class Withdraw final : public Task {
 public:
  Withdraw(FabricWorld& world, Process& process, Region& region)
      : process_(process), region_(region) {
    began_ns = world.now_ns();
    region.withdrawing = true;
  }
  std::string name() const override { return "withdraw"; }

  bool step(FabricWorld& world) override {
    if (!withdrawal_) {
      auto withdrawal = process_.core->start_withdraw(region_.name);
      if (!withdrawal) {
        world.fail("a withdrawal was refused: " + withdrawal.error().text());
        return true;
      }
      withdrawal_ = std::move(*withdrawal);
      return false;
    }
    const auto ended = process_.core->look(*withdrawal_);
    if (!ended) return false;
    withdrawal_.reset();
    if (!*ended) {
      ++world.counts().refused_withdrawals;
      return false;  // the withdrawal is tried again
    }
    ++world.counts().withdrawn;
    region_.withdrawing = false;
    if (region_.exported) world.give_on(region_);
    return true;
  }

 private:
  Process& process_;
  Region& region_;
  std::optional<FabricCore::Withdrawal> withdrawal_;
};

class Disconnect final : public Task {
 public:
  Disconnect(FabricWorld& world, std::shared_ptr<SimLink> link) : link_(std::move(link)) {
    began_ns = world.now_ns();
    link_->leaving = true;
    link_->leaving_since_ns = began_ns;
  }
  std::string name() const override { return "disconnect"; }

  bool step(FabricWorld& world) override {
    const Process& process = world.process(link_->from);
    if (!departure_) {
      departure_ = process.core->start_disconnect(link_->peer);
      return false;
    }
    const auto ended = process.core->look(*departure_);
    if (ended && !*ended && !process.closed)
      world.fail("a departure failed: " + ended->error().text());
    return ended.has_value();
  }

 private:
  std::shared_ptr<SimLink> link_;
  std::optional<FabricCore::Departure> departure_;
};

}  // namespace

void tell(FabricWorld& world, SimLink& link) {
  const LoanQuestion note{LoanQuestion::Kind::note, 0, 0};
  const Status told = link.link->requester->tell(std::as_bytes(std::span(&note, 1)));
  if (told) ++link.told;
  if (!told && world.chances().gentle()) world.fail("a note was refused: " + told.error().text());
}

std::unique_ptr<Task> connect_task(FabricWorld& world, int from, int to) {
  return std::make_unique<Connect>(world, from, to);
}

std::unique_ptr<Task> lookup_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                  Region& region) {
  return std::make_unique<Lookup>(world, std::move(link), region);
}

std::unique_ptr<Task> transfer_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                    std::size_t found, int part) {
  return std::make_unique<SlotTransfer>(world, std::move(link), found, part);
}

std::unique_ptr<Task> mapped_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                  std::size_t found, int part) {
  return std::make_unique<MappedTransfer>(world, std::move(link), found, part);
}

std::unique_ptr<Task> loan_task(FabricWorld& world, std::shared_ptr<SimLink> link,
                                std::size_t found) {
  return std::make_unique<Loan>(world, std::move(link), found);
}

std::unique_ptr<Task> withdraw_task(FabricWorld& world, Process& process, Region& region) {
  return std::make_unique<Withdraw>(world, process, region);
}

std::unique_ptr<Task> disconnect_task(FabricWorld& world, std::shared_ptr<SimLink> link) {
  return std::make_unique<Disconnect>(world, std::move(link));
}

}  // namespace tranship::test
