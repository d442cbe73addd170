#include "channels/gpu/gpu_channel.hpp"

#include <algorithm>
#include <thread>

namespace tranship {
/// Runs only when the copy is done: the table of a kernel that still runs must not be overwritten
/// by another request.
GpuFlight::~GpuFlight() { channel_->forget(*this); }

bool GpuFlight::done() const {
  if (done_.load(std::memory_order_acquire)) return true;
  Kept kept;
  std::lock_guard lock(mutex_);
  if (done_.load(std::memory_order_relaxed)) return true;
  auto reached = channel_->options_.gpus->reached(event_);
  if (reached && !*reached) return false;
  end(reached ? Status{} : Status(reached.error()), kept);
  return true;
}

void GpuFlight::mark_done() const {
  Kept kept;
  std::lock_guard lock(mutex_);
  if (!done_.load(std::memory_order_relaxed)) end({}, kept);
}

void GpuFlight::end(Status status, Kept& kept) const {
  status_ = status && final_check_ ? final_check_() : std::move(status);
  kept.leases.swap(leases_);
  kept.owners.swap(owners_);
  done_.store(true, std::memory_order_release);
}

Status GpuFlight::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

Result<std::shared_ptr<GpuChannel>> GpuChannel::open(Options options) {
  std::shared_ptr<GpuChannel> channel(new GpuChannel(std::move(options)));
  if (Status status = channel->make_streams(); !status) return status.error();
  return channel;
}

Status GpuChannel::make_streams() {
  capabilities_.synchronous = false;
  capabilities_.lists = Lists::all;
  capabilities_.run_lists = true;
  capabilities_.casts = true;
  capabilities_.bytes_in_flight_max = options_.bytes_in_flight_max;
  for (int k = 0; k < options_.streams; ++k) {
    auto stream = options_.gpus->make_stream(options_.device, false);
    if (!stream) return stream.error();
    streams_.push_back(*stream);
  }
  auto urgent = options_.gpus->make_stream(options_.device, true);
  if (!urgent) return urgent.error();
  urgent_ = *urgent;
  has_urgent_ = true;
  return {};
}

GpuChannel::~GpuChannel() {
  for (const InFlight& one : in_flight_) {
    for (auto reached = options_.gpus->reached(one.event); reached && !*reached;
         reached = options_.gpus->reached(one.event)) {
      std::this_thread::yield();
    }
    options_.gpus->release(one.event);
  }
  for (const GpuEvent& event : events_) options_.gpus->release(event);
  for (const GpuStream& stream : streams_) options_.gpus->release(stream);
  if (has_urgent_) options_.gpus->release(urgent_);
}

const GpuStream& GpuChannel::stream_for(int priority) {
  if (priority > 0) return urgent_;
  return streams_[next_stream_.fetch_add(1, std::memory_order_relaxed) % streams_.size()];
}

GpuWay GpuChannel::way_of(const Request& request) const {
  if (!options_.over_link) return GpuWay::in_memory;
  // What stands in a copy engine is not overtaken, whatever the streams' priorities.
  return request.priority > 0 ? GpuWay::past_engines : GpuWay::over_link;
}

Result<GpuEvent> GpuChannel::take_event() {
  {
    std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      const GpuEvent event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  return options_.gpus->make_event(options_.device);
}

std::unique_ptr<GpuWork> GpuChannel::take_work(std::int64_t table_bytes_most) {
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(works_.rbegin(), works_.rend(), [&](const auto& work) {
      return work->kept_table_bytes() <= table_bytes_most;
    });
    if (found != works_.rend()) {
      std::swap(*found, works_.back());
      std::unique_ptr<GpuWork> work = std::move(works_.back());
      works_.pop_back();
      return work;
    }
  }
  return std::make_unique<GpuWork>(options_.gpus);
}

void GpuChannel::give_back(const GpuEvent& event, std::unique_ptr<GpuWork> work) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
  if (work) works_.push_back(std::move(work));
}

/// Called in place of the destructor when nothing refers to the flight any more.
void GpuChannel::retire(GpuFlight* flight) {
  const std::shared_ptr<GpuChannel> channel = flight->channel_;
  // In a fork the locks below may be held by threads that live in the parent.
  if (channel->fork_generation_ != fork_generation()) return;
  const bool over = flight->asked_late_ ? flight->done_.load() : flight->done();
  if (!over && channel->keep_unowned(flight)) return;
  while (!flight->done()) std::this_thread::yield();
  delete flight;
}

/// Keeps a flight until it has ended; returns false if the channel is closed.
bool GpuChannel::keep_unowned(GpuFlight* flight) {
  bool many = false;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    unowned_.push_back(flight);
    unowned_count_.store(static_cast<int>(unowned_.size()), std::memory_order_relaxed);
    many = unowned_.size() >= unowned_max_;
  }
  if (many) delete_ended();
  return true;
}

void GpuChannel::forget(GpuFlight& flight) {
  std::lock_guard lock(mutex_);
  flights_[flight.place_] = flights_.back();
  flights_[flight.place_]->place_ = flight.place_;
  flights_.pop_back();
  events_.push_back(flight.event_);
  if (flight.work_.own) works_.push_back(std::move(flight.work_.own));
}

/// Deletes flights without the lock: the owners that a flight releases may take locks of their own.
void GpuChannel::delete_ended() {
  std::vector<GpuFlight*> unowned;
  {
    std::lock_guard lock(mutex_);
    unowned.swap(unowned_);
  }
  mark_ended(unowned);
  const auto over = std::partition(unowned.begin(), unowned.end(),
                                   [](const GpuFlight* flight) { return !flight->done_.load(); });
  const std::vector<GpuFlight*> ended(over, unowned.end());
  {
    std::lock_guard lock(mutex_);
    unowned_.insert(unowned_.end(), unowned.begin(), over);
    unowned_count_.store(static_cast<int>(unowned_.size()), std::memory_order_relaxed);
    unowned_max_ = std::max(unowned_least, 2 * unowned_.size());
  }
  const auto self = shared_from_this();  // the last of them may hold the last reference
  for (GpuFlight* flight : ended) delete flight;
}

namespace {

/// Returns how many flights of one stream, in their order, have ended: mostly all.
std::size_t count_ended(std::span<GpuFlight* const> flights) {
  if (flights.back()->done()) return flights.size();
  std::size_t ended = 0;
  for (std::size_t end = flights.size() - 1; ended < end;) {
    const std::size_t middle = ended + (end - ended) / 2;
    if (flights[middle]->done()) {
      ended = middle + 1;
    } else {
      end = middle;
    }
  }
  return ended;
}

}  // namespace

/// Asks the driver which flights have ended, which takes a microsecond for each question. Events of
/// one stream are reached in order, so that one question answers for all earlier flights of it.
void GpuChannel::mark_ended(std::vector<GpuFlight*> flights) {
  std::sort(flights.begin(), flights.end(), [](const GpuFlight* a, const GpuFlight* b) {
    return std::pair(a->stream_, a->number_) < std::pair(b->stream_, b->number_);
  });
  for (std::size_t first = 0, end = 0; first < flights.size(); first = end) {
    const std::uint64_t stream = flights[first]->stream_;
    while (end < flights.size() && flights[end]->stream_ == stream) ++end;
    const std::span of_stream(flights.data() + first, end - first);
    const bool ordered = stream != 0;
    const std::size_t over = ordered ? count_ended(of_stream) : 0;
    const bool failed = over > 0 && !of_stream[over - 1]->status();
    if (!ordered || failed) {  // each flight has to be asked
      for (GpuFlight* flight : of_stream) (void)flight->done();
    } else {
      for (GpuFlight* flight : of_stream.first(over)) flight->mark_done();
    }
  }
}

/// Returns whether all flights are known to have ended, also those that delete_ended() has taken on
/// another thread and may still give back. None is deleted while the lock is held.
bool GpuChannel::all_ended() {
  std::lock_guard lock(mutex_);
  return std::all_of(flights_.begin(), flights_.end(),
                     [](const GpuFlight* flight) { return flight->done_.load(); });
}

void GpuChannel::close(std::chrono::steady_clock::time_point deadline) {
  constexpr std::chrono::microseconds look_again{100};
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  while (true) {
    std::vector<std::shared_ptr<GpuFlight>> flights;
    {
      std::lock_guard lock(mutex_);
      for (GpuFlight* flight : flights_) {
        if (auto held = flight->weak_from_this().lock()) flights.push_back(std::move(held));
      }
    }
    for (const auto& flight : flights) (void)flight->done();
    flights.clear();
    delete_ended();
    if (all_ended() || std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(look_again);
  }
}

void GpuChannel::wait_for(const GpuEvent& event) {
  while (true) {
    const auto reached = options_.gpus->reached(event);
    if (!reached || *reached) return;
    std::this_thread::yield();
  }
}

/// Gives back the event and the work of a request that failed. A part of the request may have begun
/// by then, and must end before the error is returned.
void GpuChannel::abandon(const GpuEvent& event, bool recorded, std::unique_ptr<GpuWork> work) {
  if (recorded) wait_for(event);
  give_back(event, std::move(work));
}

Status GpuChannel::submit(const Request& request) {
  auto event = take_event();
  if (!event) return event.error();
  auto work = take_work();
  const GpuStream& stream = stream_for(request.priority);
  Status status = work->enqueue(stream, request, way_of(request));
  const Status recorded = options_.gpus->record(*event, stream);
  if (!status || !recorded) {
    abandon(*event, recorded.ok(), std::move(work));
    return status ? recorded : status;
  }
  in_flight_.push_back({request.tag, *event, std::move(work)});
  return {};
}

std::size_t GpuChannel::poll(std::span<Finished> finished) {
  if (unowned_count_.load(std::memory_order_relaxed) > 0) delete_ended();
  std::size_t count = 0;
  for (std::size_t k = 0; k < in_flight_.size() && count < finished.size();) {
    InFlight& one = in_flight_[k];
    Status status;
    auto reached = options_.gpus->reached(one.event);
    if (reached && !*reached) {
      ++k;
      continue;
    }
    if (!reached) status = reached.error();
    give_back(one.event, std::move(one.work));
    finished[count++] = {one.tag, std::move(status)};
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return count;
}

void GpuChannel::idle(std::chrono::nanoseconds at_most) {
  // Most requests are shorter than the shortest sleep.
  if (!in_flight_.empty()) return std::this_thread::yield();
  Channel::idle(at_most);
}

Status GpuChannel::wait_in(const GpuStream& stream, std::span<const GpuEvent> after) {
  for (const GpuEvent& event : after) {
    if (Status status = options_.gpus->wait(stream, event); !status) return status;
  }
  return {};
}

Result<std::shared_ptr<GpuFlight>> GpuChannel::start(const Request& request,
                                                     const GpuStream* stream,
                                                     std::span<const GpuEvent> after) {
  auto event = take_event();
  if (!event) return event.error();
  auto work = take_work();
  const GpuStream& chosen = stream_for(stream, request.priority);
  Status status = wait_in(chosen, after);
  if (status) status = work->enqueue(chosen, request, way_of(request));
  return flight_of(std::move(status), chosen, stream != nullptr, *event,
                   {std::move(work), nullptr});
}

Result<std::shared_ptr<GpuFlight>> GpuChannel::start(const std::shared_ptr<const GpuWork>& work,
                                                     const Request& request,
                                                     const GpuStream* stream,
                                                     std::span<const GpuEvent> after) {
  auto event = take_event();
  if (!event) return event.error();
  const GpuStream& chosen = stream_for(stream, request.priority);
  Status status = wait_in(chosen, after);
  if (status) status = work->launch(chosen, request.source.address, request.target.address);
  return flight_of(std::move(status), chosen, stream != nullptr, *event, {nullptr, work});
}

Result<std::shared_ptr<GpuFlight>> GpuChannel::flight_of(Status enqueued, const GpuStream& stream,
                                                         bool callers, const GpuEvent& event,
                                                         FlightWork work) {
  if (callers && options_.gpus->capturing(stream)) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
    captured_.insert(work.own ? std::shared_ptr<const GpuWork>(std::move(work.own))
                              : std::move(work.prepared));
    if (!enqueued) return enqueued.error();
    return std::shared_ptr<GpuFlight>();
  }
  std::uint64_t number = 0;
  const Status recorded = [&] {
    std::lock_guard lock(order_mutex_);
    number = ++numbers_;
    return options_.gpus->record(event, stream);
  }();
  if (!enqueued || !recorded) {
    abandon(event, recorded.ok(), std::move(work.own));
    return enqueued ? recorded.error() : enqueued.error();
  }
  auto* flight = new GpuFlight(shared_from_this(), event, std::move(work));
  flight->stream_ = options_.gpus->identity(stream);
  flight->number_ = number;
  {
    std::lock_guard lock(mutex_);
    flight->place_ = flights_.size();
    flights_.push_back(flight);
  }
  return std::shared_ptr<GpuFlight>(flight, retire);
}

std::shared_ptr<const GpuWork> GpuChannel::plan(const Request& request) {
  // The work is not taken from the pool: without a table it owns no memory of the driver, and so
  // need not go back there.
  auto work = std::make_shared<GpuWork>(options_.gpus);
  return work->plan_without_table(request, way_of(request)) ? work : nullptr;
}

/// Returns shared work whose last reference gives it back to the channel: to free its memory could
/// wait for the GPU.
std::shared_ptr<const GpuWork> GpuChannel::shared_work(std::unique_ptr<GpuWork> work) {
  const auto give_back_work = [weak = weak_from_this(), made = fork_generation_](GpuWork* last) {
    // In a fork the lock may be held by a thread that lives in the parent.
    if (made != fork_generation()) return;
    std::unique_ptr<GpuWork> unused(last);
    const auto channel = weak.lock();
    if (!channel) return;
    std::lock_guard lock(channel->mutex_);
    channel->works_.push_back(std::move(unused));
  };
  return std::shared_ptr<GpuWork>(work.release(), give_back_work);
}

Result<GpuChannel::Preparation> GpuChannel::begin_prepare(const Request& request,
                                                          std::int64_t table_bytes_most) {
  auto event = take_event();
  if (!event) return event.error();
  auto work = take_work(table_bytes_most);
  const GpuStream& stream = stream_for(request.priority);
  Status status = work->prepare(stream, request, way_of(request));
  auto prepared = shared_work(std::move(work));
  auto ready = flight_of(std::move(status), stream, false, *event, {nullptr, prepared});
  if (!ready) return ready.error();
  return Preparation{std::move(prepared), std::move(*ready)};
}

Result<std::shared_ptr<const GpuWork>> GpuChannel::prepare(const Request& request) {
  auto begun = begin_prepare(request);
  if (!begun) return begun.error();
  while (!begun->ready->done()) std::this_thread::yield();
  if (Status status = begun->ready->status(); !status) return status.error();
  return std::move(begun->work);
}

Result<std::shared_ptr<GpuFlight>> GpuChannel::event_behind(const GpuStream& stream) {
  return start({}, &stream, {});
}

}  // namespace tranship
