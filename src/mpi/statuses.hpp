// What MPI writes for the caller of a completing call: statuses, numbers and requests.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "mpi/handles.hpp"

namespace tranship::mpi {

/// A source, an index and a flag that no MPI library writes: where it is still there, MPI has
/// written nothing.
constexpr int unwritten = -0x5a5a5a5b;

/// Makes a status ready for MPI: nothing has arrived until MPI writes it, and MPI_ERROR is the
/// caller's, which MPI leaves as it is in most calls.
inline MPI_Status fresh_status(const MPI_Status* given) {
  MPI_Status status{};
  status.MPI_SOURCE = unwritten;
  if (given != nullptr) status.MPI_ERROR = given->MPI_ERROR;
  return status;
}

/// Gives the caller what MPI wrote. Some libraries leave a status as it is where a call fails, and
/// write MPI_ERROR alone for a request that has not ended.
inline void hand_over(const MPI_Status& status, MPI_Status* given) {
  if (status.MPI_SOURCE != unwritten) {
    *given = status;
  } else {
    given->MPI_ERROR = status.MPI_ERROR;
  }
}

/// A status that a call writes, whether its caller wants it or not.
class OneStatus {
 public:
  explicit OneStatus(MPI_Status* given)
      : given_(given != MPI_STATUS_IGNORE ? given : nullptr),
        invalid_(given == nullptr && given != MPI_STATUS_IGNORE),
        own_(fresh_status(given_)) {}
  OneStatus(const OneStatus&) = delete;
  OneStatus& operator=(const OneStatus&) = delete;
  ~OneStatus() {
    if (given_ != nullptr) hand_over(own_, given_);
  }

  /// Returns where MPI writes; null if the caller gave null, which MPI refuses.
  MPI_Status* get() { return invalid_ ? nullptr : &own_; }
  const MPI_Status& operator*() const { return own_; }

 private:
  MPI_Status* given_;
  bool invalid_;
  MPI_Status own_;
};

/// The statuses of several requests.
class ManyStatuses {
 public:
  ManyStatuses(MPI_Status* given, int count)
      : given_(given != MPI_STATUSES_IGNORE ? given : nullptr),
        invalid_(given == nullptr && given != MPI_STATUSES_IGNORE) {
    own_.reserve(static_cast<std::size_t>(count));
    for (int k = 0; k < count; ++k) {
      own_.push_back(fresh_status(given_ != nullptr ? given_ + k : nullptr));
    }
  }
  ManyStatuses(const ManyStatuses&) = delete;
  ManyStatuses& operator=(const ManyStatuses&) = delete;
  ~ManyStatuses() {
    if (given_ == nullptr) return;
    for (std::size_t k = 0; k < own_.size(); ++k) hand_over(own_[k], given_ + k);
  }

  MPI_Status* get() { return invalid_ ? nullptr : own_.data(); }
  const MPI_Status& operator[](int k) const { return own_[static_cast<std::size_t>(k)]; }

 private:
  MPI_Status* given_;
  bool invalid_;
  std::vector<MPI_Status> own_;
};

/// A number that a call may write. The caller's stays as it is where MPI writes none.
class OneNumber {
 public:
  explicit OneNumber(int* given) : given_(given) {}
  OneNumber(const OneNumber&) = delete;
  OneNumber& operator=(const OneNumber&) = delete;
  ~OneNumber() {
    if (given_ != nullptr && own_ != unwritten) *given_ = own_;
  }

  int* get() { return given_ != nullptr ? &own_ : nullptr; }
  /// The number; MPI_UNDEFINED if MPI wrote none.
  int value() const { return own_ != unwritten ? own_ : MPI_UNDEFINED; }
  /// Whether MPI wrote a flag that is set.
  bool is_set() const { return own_ != unwritten && own_ != 0; }

 private:
  int* given_;
  int own_ = unwritten;
};

/// A request that a call may make. The caller's stays as it is where MPI makes none.
class OneRequest {
 public:
  explicit OneRequest(MPI_Request* given) : given_(given) { std::memset(&own_, 0x5a, sizeof own_); }
  OneRequest(const OneRequest&) = delete;
  OneRequest& operator=(const OneRequest&) = delete;
  ~OneRequest() {
    if (given_ != nullptr && written()) *given_ = own_;
  }

  MPI_Request* get() { return given_ != nullptr ? &own_ : nullptr; }
  /// The request; MPI_REQUEST_NULL if MPI made none.
  MPI_Request value() const { return written() ? own_ : MPI_REQUEST_NULL; }

 private:
  bool written() const {
    MPI_Request none;
    std::memset(&none, 0x5a, sizeof none);
    return number_of(own_) != number_of(none);
  }

  MPI_Request* given_;
  MPI_Request own_{};
};

}  // namespace tranship::mpi
