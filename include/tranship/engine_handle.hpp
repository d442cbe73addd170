// The handle of an engine, and what its calls do with the ends and the options of a copy.
#pragma once

#include <memory>
#include <utility>

#include "array.hpp"
#include "copy_options.hpp"
#include "end.hpp"
#include "engine.h"
#include "error.hpp"
#include "event.hpp"
#include "prepared_copy.hpp"

namespace tranship::detail {

/// Owns the handle of an engine: a base of Engine. Any thread may call any member.
class EngineHandle {
 public:
  tranship_engine* handle() const noexcept { return handle_.get(); }

 protected:
  explicit EngineHandle(tranship_engine* handle) noexcept : handle_(handle) {}

  Instance instance_of(const Array& array) const {
    tranship_instance* handle_made = nullptr;
    check(tranship_instance_of_array(handle(), &array.c(), &handle_made));
    Instance made(handle_made);
    return array.read_only() ? made.read_only() : std::move(made);
  }

  /// The handle of an end: the instance's own, or one made of the array for this call.
  class Held {
   public:
    explicit Held(tranship_instance* borrowed) noexcept : handle_(borrowed) {}
    explicit Held(Instance made) noexcept : made_(std::move(made)), handle_(made_.handle()) {}
    tranship_instance* handle() const noexcept { return handle_; }

   private:
    Instance made_{nullptr};
    tranship_instance* handle_;
  };

  Held held(const End& end, bool written) const {
    if (end.array_ == nullptr) return Held(end.instance_->handle());
    if (written) (void)end.array_->writable_c();
    return Held(instance_of(*end.array_));
  }

  /// Starts copies by a function of the C API.
  template <typename Start>
  static Event started(const CopyOptions& options, const Start& start) {
    tranship_event* made = nullptr;
    with_c(options, [&](const tranship_copy_options& given) { check(start(given, &made)); });
    return Event(made);
  }

  /// Prepares copies by a function of the C API.
  template <typename Prepare>
  static PreparedCopy prepared(const CopyOptions& options, const Prepare& prepare) {
    tranship_prepared* made = nullptr;
    with_c(options, [&](const tranship_copy_options& given) { check(prepare(given, &made)); });
    return PreparedCopy(made);
  }

 private:
  static void close_quietly(tranship_engine* engine) noexcept {
    (void)tranship_engine_close(engine);
  }

  std::unique_ptr<tranship_engine, Free<close_quietly>> handle_;
};

}  // namespace tranship::detail
