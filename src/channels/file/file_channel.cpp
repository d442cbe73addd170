#include "channels/file/file_channel.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>

#include "base/check.hpp"
#include "base/refusals.hpp"

namespace tranship {

/// A request in flight.
struct FileChannel::Job {
  Request request;
  File* file = nullptr;
  file::Direction direction = file::Direction::read;
  std::int64_t file_base = 0;
  std::byte* memory = nullptr;
  std::shared_ptr<const FileMap> view;  ///< null: nothing is carried through a map
  bool cached = false;                  ///< whether all that is touched is in the page cache
  std::int64_t file_begin = 0;          ///< of all that is touched
  std::int64_t file_end = 0;

  std::size_t group_begin = 0;  ///< first nest of the current group
  file::PiecePlan plan;         ///< of that group
  std::int64_t next_piece = 0;
  std::size_t apart = 0;  ///< next nests that are divided one by one

  int carried = 0;  ///< pieces that threads carry now
  bool handed_out = false;
  Status status;
  Job* next = nullptr;

  bool by_lists = false;  ///< whether the lists are carried as they are, in one piece
  bool lists_begun = false;
  std::vector<LoopNest> expanded;  ///< the lists, otherwise
};

namespace {

/// The bytes of a file between the first and the last that a nest touches.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

ByteRange span_of(const LoopNest& nest, std::int64_t file_base, file::Direction direction) {
  const bool reading = direction == file::Direction::read;
  ByteRange span;
  span.begin = file_base + (reading ? nest.source_offset : nest.target_offset);
  span.end = span.begin + nest.element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    const Loop& loop = nest.loops[k];
    const std::int64_t reach =
        (reading ? loop.source_stride : loop.target_stride) * (loop.extent - 1);
    (reach < 0 ? span.begin : span.end) += reach;
  }
  return span;
}

/// A request is looked for in the page cache as a whole if it spans at most so many times its own
/// bytes, or so many bytes; otherwise nest by nest.
constexpr std::int64_t sparse_factor = 64;
constexpr std::int64_t looked_at_bytes_max = std::int64_t{1} << 30;
constexpr std::int64_t page_bytes = 4096;

bool worth_looking(const ByteRange& span, std::int64_t bytes) {
  return span.end - span.begin <= std::max(sparse_factor * bytes, looked_at_bytes_max);
}

}  // namespace

void FileChannel::Chain::append(Job& job) {
  job.next = nullptr;
  (first == nullptr ? first : last->next) = &job;
  last = &job;
}

FileChannel::Job* FileChannel::Chain::take() {
  Job* job = first;
  if (job != nullptr) first = job->next;
  return job;
}

FileChannel::FileChannel(FileChannelOptions options) : options_(std::move(options)) {
  CHECK(options_.copy != nullptr, "a file channel needs a copier");
  CHECK(options_.queue_depth >= 1, "a file channel needs a thread");
  capabilities_.width = 1;
  capabilities_.synchronous = false;
  capabilities_.bytes_in_flight_max = options_.bytes_in_flight_max;
  if (options_.copy_lists != nullptr) capabilities_.lists = Lists::all;
  // Whole pages, so that the blocks of a long run are whole pages, too.
  constexpr std::int64_t step_bytes = 64 * 1024;
  limits_.window_bytes =
      std::max(step_bytes, (options_.io_bytes + step_bytes - 1) / step_bytes * step_bytes);
  limits_.large_bytes = file::direct_bytes_min;
  planned_.resize(file::group_members_max);
}

/// Starts the threads, under the mutex. The first request does so, since most engines use no file.
/// If the system refuses some of the threads, the others carry all requests.
Status FileChannel::start_threads() {
  if (!threads_.empty()) return {};
  const auto all = static_cast<std::size_t>(options_.queue_depth);
  const Status status = refusals_as_errors([&]() -> Status {
    threads_.reserve(all);
    while (threads_.size() < all) {
      auto carrier =
          std::make_unique<file::Carrier>(options_.copy, options_.copy_lists, limits_.window_bytes);
      threads_.emplace_back([this, carrier = std::move(carrier)] { serve(*carrier); });
    }
    return {};
  });
  return threads_.empty() ? status : Status{};
}

FileChannel::~FileChannel() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status FileChannel::submit(const Request& request) {
  auto* source = dynamic_cast<File*>(request.source.attachment);
  auto* target = dynamic_cast<File*>(request.target.attachment);
  const bool reading = source != nullptr;
  const Place& file_end = reading ? request.source : request.target;
  const Place& memory_end = reading ? request.target : request.source;
  File* file = reading ? source : target;
  CHECK(file != nullptr, "a file channel's request has a file at one end");
  CHECK(memory_end.attachment == nullptr, "the other end of a file request is plain memory");
  if (Status admitted = file->admits(reading); !admitted) return admitted;
  const auto file_base =
      static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(file_end.address));
  const file::Direction direction = reading ? file::Direction::read : file::Direction::write;
  Job asked;
  asked.request = request;
  asked.file = file;
  asked.direction = direction;
  asked.file_base = file_base;
  asked.memory = memory_end.address;
  if (!find_span(asked)) {
    return Error{ErrorCode::out_of_range,
                 "the array would begin before the start of '" + file->path() + "'",
                 "check its offset and strides"};
  }
  look_at(asked);
  if (!asked.by_lists && !request.payload.indexed().empty()) {
    asked.request.payload = tranship::expanded(request.payload, asked.expanded);
  }
  {
    std::lock_guard lock(mutex_);
    if (Status started = start_threads(); !started) return started;
    Job* job = spare_.take();
    if (job == nullptr) job = jobs_.emplace_back(std::make_unique<Job>()).get();
    *job = std::move(asked);
    waiting_.append(*job);
  }
  work_.notify_all();
  return {};
}

/// Calls `visit` with the span in the file of each nest of a request, and its bytes, until a call
/// returns false. Returns whether none did.
template <typename Visit>
bool for_each_span(const Request& request, std::int64_t file_base, file::Direction direction,
                   const Visit& visit) {
  for (const LoopNest& nest : request.payload.nests()) {
    const std::int64_t bytes = nest.bytes();
    if (bytes > 0 && !visit(span_of(nest, file_base, direction), bytes)) return false;
  }
  for (const IndexedNest& list : request.payload.indexed()) {
    const std::int64_t bytes = list.nest.bytes();
    if (bytes <= 0) continue;
    const ByteRange one = span_of(list.nest, file_base, direction);
    const bool reading = direction == file::Direction::read;
    for (const IndexedEntry& entry : list.entries) {
      const std::int64_t begin = one.begin + (reading ? entry.source_offset : entry.target_offset);
      const std::int64_t reach =
          (reading ? list.source_step : list.target_step) * (entry.count - 1);
      ByteRange span{begin, begin + one.end - one.begin};
      (reach < 0 ? span.begin : span.end) += reach;
      if (entry.count > 0 && !visit(span, entry.count * bytes)) return false;
    }
  }
  return true;
}

/// Finds the bytes between the first and the last that a job touches; returns false if they begin
/// before the file.
bool FileChannel::find_span(Job& job) {
  bool first = true;
  (void)for_each_span(job.request, job.file_base, job.direction, [&](const ByteRange& span, auto) {
    job.file_begin = first ? span.begin : std::min(job.file_begin, span.begin);
    job.file_end = first ? span.end : std::max(job.file_end, span.end);
    first = false;
    return true;
  });
  return job.file_begin >= 0;
}

/// Finds out whether a job may be carried through a map, and whether all of it is in the page
/// cache.
void FileChannel::look_at(Job& job) {
  const std::span<const LoopNest> nests = job.request.payload.nests();
  const std::span<const IndexedNest> lists = job.request.payload.indexed();
  const bool one_run = lists.empty() && nests.size() == 1 && nests.front().rank == 0;
  if (one_run || job.file_end <= job.file_begin) return;
  const bool reading = job.direction == file::Direction::read;
  job.view =
      job.file->view(job.file_end, reading ? FileMap::Access::read : FileMap::Access::read_write);
  if (job.view == nullptr) return;
  const auto cached = [&](const ByteRange& span, std::int64_t bytes) {
    return worth_looking(span, bytes) &&
           file::is_cached(*job.file, span.begin, span.end - span.begin);
  };
  job.cached = cached({job.file_begin, job.file_end}, job.request.bytes);
  if (!job.cached && (nests.size() > 1 || !lists.empty())) {
    job.cached = for_each_span(job.request, job.file_base, job.direction, cached);
  }
  job.by_lists = job.cached && nests.empty() &&
                 std::all_of(lists.begin(), lists.end(), [](const IndexedNest& list) {
                   return list.nest.element_bytes < file::direct_bytes_min;
                 });
}

std::size_t FileChannel::poll(std::span<Finished> finished) {
  std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < finished.size()) {
    Job* job = finished_.take();
    if (job == nullptr) break;
    finished[count++] = {job->request.tag, std::move(job->status)};
    spare_.append(*job);
  }
  return count;
}

/// Divides the next group of the job's nests into pieces; returns false if there is none. Called
/// under the mutex: it costs about as much as a system call, once for each group.
bool FileChannel::plan_group(Job& job) {
  job.group_begin += job.plan.members;
  job.plan = file::PiecePlan{};
  job.next_piece = 0;
  if (!job.status) return false;
  if (job.by_lists && !job.lists_begun) {
    job.lists_begun = true;
    job.plan.method = file::PieceMethod::viewed;
    job.plan.pieces = 1;
    return true;
  }
  const std::span<const LoopNest> nests = job.request.payload.nests();
  const auto seen = [&](std::size_t i) {
    return file::from_file(nests[i], job.file_base, job.direction);
  };
  while (job.group_begin < nests.size() && seen(job.group_begin).empty()) {
    ++job.group_begin;
    job.apart -= std::min<std::size_t>(job.apart, 1);
  }
  if (job.group_begin == nests.size()) return false;
  std::size_t count = std::min(nests.size() - job.group_begin, file::group_members_max);
  if (job.apart > 0) count = 1;
  for (std::size_t i = 0; i < count; ++i) planned_[i] = seen(job.group_begin + i);
  file::PieceLimits limits = limits_;
  limits.page_bytes = job.file->direct_align_bytes();
  limits.viewed = job.view != nullptr;
  limits.cached = job.cached;
  job.plan = plan_pieces(std::span(planned_).first(count), limits, job.direction);
  job.apart = job.apart > 0 ? job.apart - 1 : job.plan.apart;
  if (job.plan.whole) add_nests(job);
  return true;
}

/// Adds the next nests to a group that is read through a map as it is.
void FileChannel::add_nests(Job& job) const {
  const std::span<const LoopNest> nests = job.request.payload.nests();
  const auto cost = [](const LoopNest& nest) {
    return nest.element_bytes <= 0 ? 0
                                   : nest.bytes() / nest.element_bytes *
                                         std::max(nest.element_bytes, file::viewed_run_bytes);
  };
  std::int64_t left = limits_.view_bytes - cost(nests[job.group_begin]);
  while (job.group_begin + job.plan.members < nests.size()) {
    const std::int64_t next = cost(nests[job.group_begin + job.plan.members]);
    if (next <= 0 || next > left) break;
    left -= next;
    ++job.plan.members;
  }
  job.apart -= std::min(job.apart, job.plan.members - 1);
}

/// Takes the next piece of the oldest request that has one; returns null if none has. Called under
/// the mutex.
FileChannel::Job* FileChannel::take_piece(file::PieceTask& piece) {
  while (waiting_.first != nullptr) {
    Job& job = *waiting_.first;
    if ((job.status && job.next_piece < job.plan.pieces) || plan_group(job)) {
      piece.file = job.file;
      piece.direction = job.direction;
      piece.nests = job.request.payload.nests().subspan(job.group_begin, job.plan.members);
      piece.lists = job.by_lists ? job.request.payload.indexed() : std::span<const IndexedNest>();
      piece.file_base = job.file_base;
      piece.memory = job.memory;
      piece.cold = job.request.cold;
      piece.view = job.view.get();
      piece.cached = job.cached;
      piece.file_end = job.file_end;
      piece.plan = job.plan;
      piece.index = job.next_piece++;
      ++job.carried;
      return &job;
    }
    waiting_.take();
    job.handed_out = true;
    if (job.carried == 0) finish(job);
  }
  return nullptr;
}

void FileChannel::finish(Job& job) {
  job.view.reset();
  finished_.append(job);
  wake();
}

void FileChannel::end_piece(Job& job, Status status) {
  if (!status && job.status) job.status = std::move(status);
  if (--job.carried == 0 && job.handed_out) finish(job);
}

void FileChannel::serve(file::Carrier& carrier) {
  // Signals are the application's: its handlers must not run here, and SIGXFSZ comes as EFBIG.
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // FileMap handles it
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  file::PieceTask piece;
  std::unique_lock lock(mutex_);
  while (true) {
    Job* job = take_piece(piece);
    if (job == nullptr) {
      if (stopping_) return;
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    Status status = carrier.carry(piece);
    lock.lock();
    end_piece(*job, std::move(status));
  }
}

}  // namespace tranship
