#include "staging/server/mover.hpp"

#include <utility>

namespace tranship::staging {
namespace {

/// Small objects are flushed together, up to so many bytes.
constexpr std::int64_t flushed_bytes = std::int64_t{8} << 20;

}  // namespace

Mover::Mover(std::unique_ptr<Disk> disk, Ended ended)
    : disk_(std::move(disk)), ended_(std::move(ended)), thread_([this] { run(); }) {}

Mover::~Mover() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    condition_.notify_all();
  }
  thread_.join();
}

void Mover::add(const Move& move, std::byte* memory) {
  std::lock_guard lock(mutex_);
  queue_.push_back({move, memory, {}});
  condition_.notify_all();
}

void Mover::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    condition_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    std::vector<QueuedMove> batch;
    std::int64_t bytes = 0;
    do {
      bytes += queue_.front().move.memory.bytes;
      batch.push_back(std::move(queue_.front()));
      queue_.pop_front();
    } while (!queue_.empty() && queue_.front().move.kind == batch.front().move.kind &&
             batch.front().move.kind == Move::Kind::out && bytes < flushed_bytes);
    lock.unlock();
    carry_out(batch);
    for (const QueuedMove& queued : batch) {
      if (queued.move.kind != Move::Kind::drop) ended_(queued.move, queued.status);
    }
    lock.lock();
  }
}

/// One move, or several of them out.
void Mover::carry_out(std::vector<QueuedMove>& batch) {
  bool written = false;
  for (QueuedMove& queued : batch) {
    const auto bytes = static_cast<std::size_t>(queued.move.memory.bytes);
    const std::int64_t offset = queued.move.disk.offset;
    switch (queued.move.kind) {
      case Move::Kind::out:
        queued.status = disk_->write(offset, {queued.memory, bytes});
        written = written || queued.status;
        break;
      case Move::Kind::in: queued.status = disk_->read(offset, {queued.memory, bytes}); break;
      case Move::Kind::drop: disk_->drop(offset, queued.move.disk.bytes); break;
    }
  }
  if (!written) return;
  const Status flushed = disk_->flush();
  for (QueuedMove& queued : batch) {
    if (queued.status) queued.status = flushed;
  }
}

}  // namespace tranship::staging
