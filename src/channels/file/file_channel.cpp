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

  std::size_t group_begin = 0;  ///< first nest of the current group
  file::PiecePlan plan;         ///< of that group
  std::int64_t next_piece = 0;
  std::size_t apart = 0;  ///< next nests that are divided one by one

  int carried = 0;  ///< pieces that threads carry now
  bool handed_out = false;
  Status status;
  Job* next = nullptr;
};

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
      auto carrier = std::make_unique<file::Carrier>(options_.copy, limits_.window_bytes);
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
  for (const LoopNest& nest : request.nests) {
    if (file::from_file(nest, file_base, direction).file_offset >= 0) continue;
    return Error{ErrorCode::out_of_range,
                 "the array would begin before the start of '" + file->path() + "'",
                 "check its offset and strides"};
  }
  {
    std::lock_guard lock(mutex_);
    if (Status started = start_threads(); !started) return started;
    Job* job = spare_.take();
    if (job == nullptr) job = jobs_.emplace_back(std::make_unique<Job>()).get();
    *job = Job{};
    job->request = request;
    job->file = file;
    job->direction = direction;
    job->file_base = file_base;
    job->memory = memory_end.address;
    waiting_.append(*job);
  }
  work_.notify_all();
  return {};
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
  const std::span<const LoopNest> nests = job.request.nests;
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
  job.plan = plan_pieces(std::span(planned_).first(count), limits, job.direction);
  job.apart = job.apart > 0 ? job.apart - 1 : job.plan.apart;
  return true;
}

/// Takes the next piece of the oldest request that has one; returns null if none has. Called under
/// the mutex.
FileChannel::Job* FileChannel::take_piece(file::PieceTask& piece) {
  while (waiting_.first != nullptr) {
    Job& job = *waiting_.first;
    if ((job.status && job.next_piece < job.plan.pieces) || plan_group(job)) {
      piece.file = job.file;
      piece.direction = job.direction;
      piece.nests = job.request.nests.subspan(job.group_begin, job.plan.members);
      piece.file_base = job.file_base;
      piece.memory = job.memory;
      piece.cold = job.request.cold;
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
