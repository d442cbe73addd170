#include "channels/host/prefetch.hpp"

namespace tranship::host {

Prefetcher::Prefetcher(const Shape& shape, std::int64_t work_bytes) {
  Shape element = shape;
  element.rank = 0;
  const MemoryRange range = source_range(element);
  run_ = range.low;
  run_bytes_ = range.high - range.low;
  for (int k = 0; k < shape.rank; ++k) {
    std::int64_t stride = shape.axes[k].source_stride;
    const std::int64_t extent = shape.axes[k].extent;
    if (stride == 0 || extent == 1) continue;
    if (stride < 0) {
      run_ += (extent - 1) * stride;
      stride = -stride;
    }
    int at = rank_++;
    for (; at > 0 && strides_[at - 1] > stride; --at) {
      strides_[at] = strides_[at - 1];
      extents_[at] = extents_[at - 1];
    }
    strides_[at] = stride;
    extents_[at] = extent;
  }
  int joined = 0;
  while (joined < rank_ && strides_[joined] <= run_bytes_ + line_bytes / 2) {
    run_bytes_ += (extents_[joined] - 1) * strides_[joined];
    ++joined;
  }
  runs_left_ = 1;
  rank_ -= joined;
  for (int k = 0; k < rank_; ++k) {
    strides_[k] = strides_[k + joined];
    extents_[k] = extents_[k + joined];
    index_[k] = 0;
    runs_left_ *= extents_[k];
  }
  begin_run();
  spread(work_bytes);
}

void Prefetcher::spread(std::int64_t work_bytes) {
  // The last lines are wanted some time before the work ends.
  // A run touches (bytes + 63) / 64 lines on average.
  const auto lines = static_cast<float>(runs_left_ * (run_bytes_ + line_bytes - 1)) /
                     static_cast<float>(line_bytes);
  lines_per_byte_ = 1.1F * lines / static_cast<float>(work_bytes);
}

void Prefetcher::begin_run() {
  at_ = run_ - reinterpret_cast<std::uintptr_t>(run_) % static_cast<std::uintptr_t>(line_bytes);
}

void Prefetcher::next_line() {
  at_ += line_bytes;
  if (at_ >= run_ + run_bytes_) next_run();
}

void Prefetcher::advance(std::int64_t count) {
  for (; count > 0 && runs_left_ > 0; --count) {
    __builtin_prefetch(at_, 0, 2);
    next_line();
  }
}

void Prefetcher::read_all() {
  while (runs_left_ > 0) {
    const volatile std::byte* byte = at_ < run_ ? run_ : at_;
    (void)*byte;
    next_line();
  }
}

void Prefetcher::next_run() {
  --runs_left_;
  for (int k = 0; k < rank_; ++k) {
    run_ += strides_[k];
    if (++index_[k] < extents_[k]) break;
    index_[k] = 0;
    run_ -= strides_[k] * extents_[k];
  }
  begin_run();
}

}  // namespace tranship::host
