#include "channels/remote/remote_channel.hpp"

#include <algorithm>
#include <array>

#include "fabric/messages/command.hpp"
#include "fabric/messages/runs.hpp"

namespace tranship::fabric {
namespace {

struct Ends {
  RemoteArray* array = nullptr;
  Operation operation = Operation::write;
};

Result<Ends> ends_of(const Request& request) {
  auto* source = dynamic_cast<RemoteArray*>(request.source.attachment);
  auto* target = dynamic_cast<RemoteArray*>(request.target.attachment);
  const bool one_remote = (source == nullptr) != (target == nullptr);
  const Place& local = target != nullptr ? request.source : request.target;
  if (!one_remote || local.attachment != nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "this channel joins memory of this process with an array of another one: exactly "
                 "one end of a request must be remote, and the other plain memory"};
  }
  if (target != nullptr) return Ends{target, Operation::write};
  return Ends{source, Operation::read};
}

Status check_range(const Request& request, const Ends& ends) {
  const RemoteArray& array = *ends.array;
  const Side side = ends.operation == Operation::write ? Side::target : Side::source;
  bool inside = true;
  for (const LoopNest& nest : request.payload.nests()) {
    const auto extent = touched(nest, side);
    inside &= extent && extent->first >= 0 && extent->end <= array.bytes();
  }
  (void)for_each_run(request.payload.indexed(), [&](const Run& run) {
    const std::int64_t first = side == Side::target ? run.target_offset : run.source_offset;
    inside &= first >= 0 && first <= array.bytes() - run.bytes;
    return inside;
  });
  if (inside) return {};
  return Error{ErrorCode::out_of_range, "a request leaves '" + array.name() + "' of " +
                                            array.link().label + ", which has " +
                                            std::to_string(array.bytes()) + " bytes"};
}

/// Copies within memory that both processes have mapped.
void copy_mapped(const Copier& copy, const Request& request, const std::byte* source,
                 std::byte* target) {
  copy.nests(request.payload.nests(), source, target, request.cold);
  std::vector<Run> runs;
  (void)for_each_run(request.payload.indexed(), [&](const Run& run) {
    runs.push_back(run);
    return true;
  });
  copy.runs(runs, source, target, request.cold);
}

Status check_array(const Ends& ends) {
  const RemoteArray& array = *ends.array;
  const std::string named = "'" + array.name() + "' of " + array.link().label;
  if (ends.operation == Operation::write && !array.writable()) {
    return Error{
        ErrorCode::permission,
        named + " is exported read-only: its process can export an array that is writable instead"};
  }
  if (array.withdrawn()) {
    return Error{ErrorCode::not_found, named + " was withdrawn: look it up again"};
  }
  if (array.link().requester->lost()) return array.link().requester->lost_error();
  return {};
}

Error cancelled() { return {ErrorCode::cancelled, "the copy was cancelled"}; }

}  // namespace

RemoteChannel::RemoteChannel(Fabric& fabric, Options options)
    : fabric_(fabric), options_(std::move(options)), rings_seen_(fabric.bell().rings()) {
  capabilities_.width = 1;
  capabilities_.synchronous = false;
  capabilities_.lists = Lists::runs;
  capabilities_.bytes_in_flight_max = options_.bytes_in_flight_max;
  const int threads = std::max(options_.carriers, options_.carrier_threads);
  if (threads == 0) return;
  carriers_ =
      std::make_unique<Carriers>(threads, [this](Carriers::Job job, std::optional<Status> status) {
        on_job_ended(std::move(job), std::move(status));
      });
}

void RemoteChannel::on_job_ended(Carriers::Job job, std::optional<Status> status) {
  const std::uint64_t tag = job.transfer.request.tag;
  {
    std::lock_guard lock(mutex_);
    if (status) carried_.erase(tag);
    if (!status) returned_.push_back(std::move(job));
  }
  if (status) finished_->push({tag, std::move(*status)});
  wake();
}

bool RemoteChannel::fits_carrier(const Request& request, const RemoteArray& array) const {
  return array.carried() && options_.carrier_threads > 0 && request.bytes > 0 &&
         request.bytes >= options_.carrier_run_bytes * runs_of(request);
}

void RemoteChannel::submit_to_carrier(Carriers::Job job, const RemoteArray& array) {
  job.memory = array.carried();
  job.cancelled = std::make_shared<std::atomic<bool>>(false);
  {
    std::lock_guard lock(mutex_);
    carried_[job.transfer.request.tag] = job.cancelled;
  }
  carriers_->post(std::move(job));
}

/// Submits jobs that carriers could not complete through slots: the peer reports why, or carries
/// them out.
void RemoteChannel::submit_returned() {
  std::vector<Carriers::Job> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(returned_);
    for (const Carriers::Job& job : jobs) carried_.erase(job.transfer.request.tag);
  }
  for (Carriers::Job& job : jobs) {
    if (job.cancelled && job.cancelled->load()) {
      finished_->push({job.transfer.request.tag, cancelled()});
      continue;
    }
    if (Status status = submit_to_slots(job); !status) {
      finished_->push({job.transfer.request.tag, std::move(status)});
    }
  }
}

/// Carries scattered requests for which no thread is free through the slots of their link, one at a
/// time: both ways together are faster than either.
void RemoteChannel::share_with_slots() {
  const auto idle = [](const Link& link) { return !link.requester->outstanding(); };
  while (auto job = carriers_->take_scattered(idle)) {
    if (Status status = submit_to_slots(*job); !status) {
      finished_->push({job->transfer.request.tag, std::move(status)});
    }
  }
}

/// Polls a link from now on, until it has no requests.
void RemoteChannel::watch(const std::shared_ptr<Link>& link) {
  if (std::find(active_.begin(), active_.end(), link) == active_.end()) active_.push_back(link);
}

Status RemoteChannel::submit_to_slots(const Carriers::Job& job) {
  watch(job.link);
  return job.link->requester->submit(job.transfer, finished_);
}

Status RemoteChannel::submit_notice(const Request& request, const OutgoingNotice& notice) {
  RemoteArray& array = notice.array();
  if (notice.sent() != nullptr) {
    watch(array.shared_link());
    sent_notices_.push_back({array.shared_link(), notice.sent(), request.tag});
    return {};
  }
  if (Status status = check_array({&array, Operation::read}); !status) return status;
  watch(array.shared_link());
  return array.link().requester->submit_notice({request, array.remote(), Operation::notice},
                                               notice.body(), finished_);
}

void RemoteChannel::end_sent_notices() {
  std::erase_if(sent_notices_, [&](const SentNotice& notice) {
    std::array<Finished, 1> finished;
    if (notice.queue->take(finished) == 0) return false;
    finished_->push({notice.tag, std::move(finished[0].status)});
    return true;
  });
}

Status RemoteChannel::submit(const Request& request) {
  const auto ends = ends_of(request);
  if (!ends) {
    const auto* notice = dynamic_cast<const OutgoingNotice*>(request.target.attachment);
    return notice != nullptr ? submit_notice(request, *notice) : Status(ends.error());
  }
  RemoteArray& array = *ends->array;
  const bool usable = !array.withdrawn() && !array.link().requester->lost() &&
                      (array.writable() || ends->operation == Operation::read);
  if (!usable) return check_array(*ends);
  if (auto status = check_range(request, *ends); !status) return status;
  if (array.mapped() != nullptr) {
    const bool write = ends->operation == Operation::write;
    const auto held = array.link().requester->use(array.remote());
    if (!held) return check_array(*ends);
    copy_mapped(array.link().copy, request, write ? request.source.address : array.mapped(),
                write ? array.mapped() : request.target.address);
    finished_->push({request.tag, {}});
    return {};
  }
  const Requester::Transfer transfer{request, array.remote(), ends->operation};
  Requester& requester = *array.link().requester;
  if (fits_carrier(request, array)) {
    submit_to_carrier({transfer, array.shared_link()}, array);
    return {};
  }
  if (auto status = requester.direct(transfer)) {
    finished_->push({request.tag, std::move(*status)});
    return {};
  }
  Carriers::Job job{transfer, array.shared_link()};
  if (options_.carriers == 0 || !requester.direct_at_length_possible(transfer)) {
    return submit_to_slots(job);
  }
  job.scattered = Requester::is_scattered(transfer);
  carriers_->post(std::move(job));
  return {};
}

std::size_t RemoteChannel::poll(std::span<Finished> finished) {
  rings_seen_ = fabric_.bell().rings();
  wakes_seen_ = bell_.rings();
  if (carriers_) submit_returned();
  for (std::size_t k = 0; k < active_.size();) {
    Requester& requester = *active_[k]->requester;
    requester.progress();
    if (requester.outstanding()) {
      ++k;
    } else {
      active_[k] = std::move(active_.back());
      active_.pop_back();
    }
  }
  end_sent_notices();
  if (carriers_ && options_.carriers > 0) share_with_slots();
  return finished_->take(finished);
}

void RemoteChannel::idle(std::chrono::nanoseconds at_most) {
  if (!finished_->empty()) return;
  if (active_.empty()) {
    bell_.wait(wakes_seen_, at_most);
  } else {
    // Peers of this machine ring the bell by themselves.
    const bool far = std::all_of(active_.begin(), active_.end(),
                                 [](const auto& link) { return link->requester->attended(); });
    if (far) {
      active_[0]->requester->attend(rings_seen_, at_most);
    } else {
      fabric_.bell().wait(rings_seen_, at_most);
    }
  }
}

void RemoteChannel::wake() {
  bell_.ring();
  fabric_.ring();
}

void RemoteChannel::cancel(std::uint64_t tag) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = carried_.find(tag); found != carried_.end()) found->second->store(true);
  }
  for (const auto& link : active_) link->requester->cancel(*finished_, tag);
  for (const SentNotice& notice : sent_notices_) {
    if (notice.tag == tag) notice.link->requester->cancel(*notice.queue, 0);
  }
}

std::string RemoteChannel::explain(const Request& request) const {
  const auto ends = ends_of(request);
  if (!ends) return ends.error().text();
  const Link& link = ends->array->link();
  if (auto status = check_array(*ends); !status) return status.error().text();
  if (auto status = check_range(request, *ends); !status) return status.error().text();
  if (ends->array->mapped() != nullptr) {
    return "mapped: the array lies in shared memory that this process maps too; one copy";
  }
  const Requester::Transfer transfer{request, ends->array->remote(), ends->operation};
  const bool write = ends->operation == Operation::write;
  if (fits_carrier(request, *ends->array)) return "carrier: long runs; " + link.way;
  if (link.requester->direct_possible(transfer)) {
    return std::string("direct: small and in few runs; ") +
           (write ? "process_vm_writev" : "process_vm_readv");
  }
  if (options_.carriers > 0 && link.requester->direct_at_length_possible(transfer)) {
    const bool scattered = Requester::is_scattered(transfer);
    return std::string(scattered ? "carried: runs that are not short, beside slots"
                                 : "carried: long runs") +
           ", on " + std::to_string(options_.carriers) + " threads; " +
           (write ? "process_vm_writev" : "process_vm_readv");
  }
  const SlotGeometry& geometry = link.requester->segment().geometry();
  const std::string slots = std::to_string(geometry.slots) + " slots of " +
                            std::to_string(geometry.slot_bytes / 1024) + " KiB";
  return (link.mode == LinkMode::shared ? "slots: " : "network: ") + slots + "; " + link.way;
}

}  // namespace tranship::fabric
