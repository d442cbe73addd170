// What a stranger or a broken peer may send, as functions of bytes, which fuzzers search.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace tranship::fuzz {

/// Feeds the bytes to a part of the program that reads a peer's messages. Stops the program (CHECK,
/// a sanitizer) if that part does anything but accept or refuse them.
using Run = void (*)(std::span<const std::byte> input);

struct Target {
  const char* name;
  Run run;
};

/// Returns all targets. Each has a folder of inputs in tests/fuzz/corpus that reach deep into its
/// code.
std::span<const Target> targets();

void run_frames(std::span<const std::byte> input);
void run_messages(std::span<const std::byte> input);
void run_socket(std::span<const std::byte> input);
void run_link(std::span<const std::byte> input);
void run_commands(std::span<const std::byte> input);
void run_slots(std::span<const std::byte> input);
void run_requester(std::span<const std::byte> input);
void run_placed(std::span<const std::byte> input);
void run_service(std::span<const std::byte> input);
void run_answers(std::span<const std::byte> input);
void run_contacts(std::span<const std::byte> input);

/// Takes values from an input; after its end all values are zero.
class Source {
 public:
  explicit Source(std::span<const std::byte> input) : left_(input) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value{};
    const auto taken = take(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  unsigned byte() { return get<unsigned char>(); }
  /// Returns the next `count` bytes, or as many as are left.
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = left_.first(count < left_.size() ? count : left_.size());
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return take(left_.size()); }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace tranship::fuzz
