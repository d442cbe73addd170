// Encoding of the staging messages: an encoder and a decoder that visit the same list of fields, so
// that writer and reader of a message cannot diverge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "fabric/messages/protocol.hpp"

namespace tranship::staging {

/// The fields of a type that is not a message itself: a specialization has
/// `static void visit(auto& coder, auto& value)`, which hands each field to the coder, in order,
/// with the checks on it. A message has the same as a static member.
template <typename T>
struct Fields;

/// Elements inside a message. When decoded, a view of the message. When encoded, `length` bytes
/// that `write` stores straight into the message.
struct Payload {
  std::span<const std::byte> bytes{};
  std::size_t length = 0;
  std::function<Status(std::span<std::byte>)> write{};
};

/// Returns a payload that stores these bytes, which stay as long as it.
inline Payload payload_of(std::span<const std::byte> bytes) {
  const auto store = [bytes](std::span<std::byte> room) {
    std::memcpy(room.data(), bytes.data(), bytes.size());
    return Status{};
  };
  return {bytes, bytes.size(), store};
}

/// Most elements of a list in a message.
constexpr std::uint32_t list_max = 1U << 20;

/// Counts the bytes of a message.
class CountingSink {
 public:
  void append(const void*, std::size_t length) { bytes_ += length; }
  std::span<std::byte> extend(std::size_t length) {
    bytes_ += length;
    return {};
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Writes into given memory. Beyond its end nothing is written, and fits() is false.
class SpanSink {
 public:
  explicit SpanSink(std::span<std::byte> room) : room_(room) {}

  void append(const void* data, std::size_t length) {
    const auto target = extend(length);
    if (!target.empty()) std::memcpy(target.data(), data, length);
  }
  std::span<std::byte> extend(std::size_t length) {
    fits_ = fits_ && length <= room_.size() - used_;
    if (!fits_) return {};
    used_ += length;
    return room_.subspan(used_ - length, length);
  }
  bool fits() const { return fits_; }
  std::size_t bytes() const { return used_; }

 private:
  std::span<std::byte> room_;
  std::size_t used_ = 0;
  bool fits_ = true;
};

template <typename T>
concept HasFields = requires(T& value, int& coder) { std::remove_const_t<T>::visit(coder, value); };

/// Appends each field that it is called with. Checks belong to the reader, and cost nothing here.
template <typename Sink>
class Encoder {
 public:
  static constexpr bool reads = false;

  explicit Encoder(Sink& sink) : sink_(sink) {}

  template <typename T>
  Encoder& operator()(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      raw(static_cast<std::uint32_t>(value ? 1 : 0));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      raw(value);
    } else if constexpr (HasFields<const T>) {
      T::visit(*this, value);
    } else {
      Fields<T>::visit(*this, value);
    }
    return *this;
  }
  Encoder& operator()(const std::string& text) {
    raw(static_cast<std::uint32_t>(text.size()));
    sink_.append(text.data(), text.size());
    return *this;
  }
  Encoder& operator()(const Payload& payload) {
    raw(static_cast<std::uint32_t>(payload.length));
    const auto room = sink_.extend(payload.length);
    if (room.size() == payload.length && payload.length > 0) status_ = payload.write(room);
    return *this;
  }
  template <typename T>
  Encoder& operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    return value ? (*this)(*value) : *this;
  }
  /// A text for people.
  Encoder& explanation(const std::string& text) { return (*this)(text); }
  template <typename T>
  Encoder& list(const std::vector<T>& values, std::uint32_t = list_max) {
    raw(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) (*this)(value);
    return *this;
  }
  /// Counts by name.
  template <typename Map>
  Encoder& counts(const Map& values, std::uint32_t) {
    raw(static_cast<std::uint32_t>(values.size()));
    for (const auto& [name, count] : values) (*this)(name)(count);
    return *this;
  }
  Encoder& check(bool) { return *this; }
  template <typename Check>
  Encoder& require(const Check&) {
    return *this;
  }
  bool ok() const { return true; }
  /// Returns the error of storing a payload, if any.
  const Status& status() const { return status_; }

 private:
  template <typename T>
  void raw(const T& value) {
    sink_.append(&value, sizeof value);
  }

  Sink& sink_;
  Status status_;
};

/// Reads each field that it is called with. After a failed check, or the end of a message that is
/// too short, ok() is false, and what was read must not be used.
class Decoder {
 public:
  static constexpr bool reads = true;

  explicit Decoder(std::span<const std::byte> message) : in_(message) {}

  template <typename T>
  Decoder& operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto number = in_.get<std::uint32_t>();
      value = number == 1;
      check(number <= 1);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      value = in_.get<T>();
    } else if constexpr (HasFields<T>) {
      T::visit(*this, value);
    } else {
      Fields<T>::visit(*this, value);
    }
    return *this;
  }
  Decoder& operator()(std::string& text) {
    const auto bytes = in_.data();
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  Decoder& operator()(Payload& payload) {
    payload.bytes = in_.data();
    payload.length = payload.bytes.size();
    return *this;
  }
  template <typename T>
  Decoder& operator()(std::optional<T>& value) {
    bool there = false;
    (*this)(there);
    return there && ok() ? (*this)(value.emplace()) : *this;
  }
  /// Reads a text for people: bounded in length, without control characters.
  Decoder& explanation(std::string& text) {
    constexpr std::size_t bytes_most = 2000;
    (*this)(text);
    const bool fits = text.size() <= bytes_most && is_plain_text(text);
    if (!fits) text = in_quotes(text, bytes_most / 10);
    return *this;
  }
  /// Reads at most `count_max` values.
  template <typename T>
  Decoder& list(std::vector<T>& values, std::uint32_t count_max = list_max) {
    const auto count = in_.get<std::uint32_t>();
    check(count <= count_max);
    for (std::uint32_t k = 0; k < count && ok(); ++k) (*this)(values.emplace_back());
    return *this;
  }
  template <typename Map>
  Decoder& counts(Map& values, std::uint32_t count_max) {
    const auto count = in_.get<std::uint32_t>();
    check(count <= count_max);
    for (std::uint32_t k = 0; k < count && ok(); ++k) {
      std::string name;
      explanation(name);
      auto& number = values[name];
      (*this)(number).check(number >= 0);
    }
    return *this;
  }
  /// Checks what was just read.
  Decoder& check(bool possible) {
    ok_ = ok_ && possible;
    return *this;
  }
  /// Checks by a function that returns the reason of a refusal. It is called if all fields so far
  /// could be read.
  template <typename Check>
  Decoder& require(const Check& why) {
    if (!ok()) return *this;
    if (Status status = why(); !status) {
      ok_ = false;
      refusal_ = status.error();
    }
    return *this;
  }
  bool ok() const { return ok_ && in_.ok(); }
  /// Returns whether nothing is left of the message.
  bool at_end() const { return in_.at_end(); }
  Error refusal() const {
    const Error unreadable{ErrorCode::invalid_argument, "a message that cannot be read"};
    return refusal_.value_or(unreadable);
  }

 private:
  fabric::MessageReader in_;
  bool ok_ = true;
  std::optional<Error> refusal_;
};

}  // namespace tranship::staging
