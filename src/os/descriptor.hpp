// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "os/fork.hpp"

namespace tranship {

/// Owns a file descriptor, and closes it; -1 is none. A forked child closes its copy at once, and
/// never again: by then the number may belong to something of the child's own.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {
    if (number_ < 0) return;
    generation_ = fork_generation();
    close_in_children(number_);
  }
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)), generation_(other.generation_) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this == &other) return *this;
    reset();
    number_ = std::exchange(other.number_, -1);
    generation_ = other.generation_;
    return *this;
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  void reset() {
    if (number_ < 0) return;
    const int number = std::exchange(number_, -1);
    if (generation_ != fork_generation()) return;
    keep_in_children(number);
    (void)::close(number);
  }

 private:
  int number_ = -1;
  std::uint64_t generation_ = 0;
};

}  // namespace tranship
