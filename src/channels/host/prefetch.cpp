#include "channels/host/prefetch.hpp"

namespace tranship::host {

Prefetcher::Prefetcher(const Shape& shape) : run_(shape.source), run_bytes_(shape.element_bytes) {
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
  const std::int64_t lines = runs_left_ * (run_bytes_ / line_bytes + 1);
  pace_ = lines * 512 / shape.bytes() + 1;
  begin_run();
}

void Prefetcher::begin_run() {
  at_ = run_ - reinterpret_cast<std::uintptr_t>(run_) % static_cast<std::uintptr_t>(line_bytes);
}

void Prefetcher::advance(std::int64_t count) {
  for (; count > 0 && runs_left_ > 0; --count) {
    __builtin_prefetch(at_, 0, 2);
    at_ += line_bytes;
    if (at_ >= run_ + run_bytes_) next_run();
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
