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
  runs_ = 1;
  rank_ -= joined;
  for (int k = 0; k < rank_; ++k) {
    strides_[k] = strides_[k + joined];
    extents_[k] = extents_[k + joined];
    index_[k] = 0;
    runs_ *= extents_[k];
  }
  runs_left_ = runs_;
}

void Prefetcher::advance(std::int64_t count) {
  for (; count > 0 && runs_left_ > 0; --count) {
    __builtin_prefetch(run_ + at_, 0, 2);
    at_ += line_bytes;
    if (at_ >= run_bytes_) next_run();
  }
}

void Prefetcher::next_run() {
  at_ = 0;
  --runs_left_;
  for (int k = 0; k < rank_; ++k) {
    run_ += strides_[k];
    if (++index_[k] < extents_[k]) return;
    index_[k] = 0;
    run_ -= strides_[k] * extents_[k];
  }
}

}  // namespace tranship::host
