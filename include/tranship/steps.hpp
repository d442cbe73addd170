// Steps: many variables and attributes of one number, which are seen whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "array.hpp"
#include "attributes.hpp"
#include "error.hpp"
#include "request.hpp"
#include "steps.h"
#include "variable.hpp"

namespace tranship {

/// This process's part of a step that is being written; Staging::begin_step() makes it. The
/// destructor gives the step up unless end() was called: so does an exception that leaves the block
/// in which it was made. Any thread may call any member.
class StepWriter {
 public:
  /// Takes ownership of a handle of the C API.
  StepWriter(tranship_step_writer* handle, Seconds timeout) noexcept
      : handle_(handle), timeout_s_(timeout.count()) {}

  /// Puts an array as a box of a variable, as Staging::put() does, within the step.
  /// @throws as Staging::put(); InvalidArgument if this part has ended; NotFound if the step is
  ///         broken
  void put(const std::string& variable, const Array& array) {
    detail::check(tranship_step_put(handle(), variable.c_str(), &array.c(), timeout_s_));
  }

  /// Starts such a put. end() waits for it, and fails if it has failed.
  Request put_async(const std::string& variable, const Array& array) {
    tranship_request* made = nullptr;
    detail::check(
        tranship_step_put_async(handle(), variable.c_str(), &array.c(), timeout_s_, &made));
    return Request(made);
  }

  /// Sets an attribute of the step; it is sent with the end. Set again, it has the later value.
  /// @throws InvalidArgument for a name that is none, a text that is not UTF-8, and as put()
  template <AttributeValue T>
  void set(const std::string& name, const T& value) {
    set_of(nullptr, name, value);
  }
  /// Does the same with an attribute of a variable in the step.
  template <AttributeValue T>
  void set(const std::string& variable, const std::string& name, const T& value) {
    set_of(variable.c_str(), name, value);
  }
  /// Sets an attribute of the step, or of a variable in it, to any JSON value.
  /// @throws as set(); InvalidArgument for what is none
  void set_json(const std::string& name, const std::string& json) {
    detail::check(tranship_step_set_json(handle(), nullptr, name.c_str(), json.c_str()));
  }
  void set_json(const std::string& variable, const std::string& name, const std::string& json) {
    detail::check(tranship_step_set_json(handle(), variable.c_str(), name.c_str(), json.c_str()));
  }

  /// Ends this process's part, after all its puts: the step is whole when all writers have ended
  /// theirs. Whatever it throws, the part has ended, and the step is broken.
  /// @throws NotFound if it is broken; InvalidArgument if another writer has set an attribute to
  ///         another value, and if this part had ended before; what an asynchronous put failed with
  void end() { detail::check(tranship_step_end(handle(), timeout_s_)); }

  /// Breaks the step: nothing of it is kept, and readers are told why.
  /// @throws InvalidArgument if this part has ended
  void give_up(const std::string& why = "no reason was given") {
    detail::check(tranship_step_give_up(handle(), why.c_str()));
  }

  tranship_step_writer* handle() const noexcept { return handle_.get(); }

 private:
  template <typename T>
  void set_of(const char* variable, const std::string& name, const T& value) {
    const char* key = name.c_str();
    detail::check(detail::by_type(
        value, [&](double v) { return tranship_step_set_double(handle(), variable, key, v); },
        [&](std::int64_t v) { return tranship_step_set_int64(handle(), variable, key, v); },
        [&](const char* v) { return tranship_step_set_text(handle(), variable, key, v); },
        [&](const char* v) { return tranship_step_set_json(handle(), variable, key, v); }));
  }

  std::unique_ptr<tranship_step_writer, detail::Free<tranship_step_writer_free>> handle_;
  double timeout_s_;
};

/// A whole step that was found. It does not change. Any thread may call any member. Copies share
/// it.
class Step {
 public:
  /// Takes ownership of a handle of the C API.
  Step(tranship_step* handle, Seconds timeout)
      : handle_(handle, tranship_step_free), timeout_s_(timeout.count()) {}

  std::int64_t number() const noexcept { return tranship_step_number(handle()); }

  /// Returns the names of its variables, in their order.
  std::vector<std::string> variables() const {
    std::vector<std::string> names;
    for (std::int64_t k = 0; k < tranship_step_size(handle()); ++k) {
      const char* name = nullptr;
      detail::check(tranship_step_name(handle(), k, &name));
      names.emplace_back(name);
    }
    return names;
  }

  /// Describes a variable by the box around what the step has of it.
  /// @throws NotFound if it has nothing of it
  Variable describe(const std::string& variable) const {
    tranship_variable found{};
    detail::check(tranship_step_describe(handle(), variable.c_str(), &found));
    return detail::variable_of(variable, found);
  }

  /// Gets a box of a variable, as Staging::get() does. Nothing is waited for but the servers'
  /// answers.
  /// @throws NotFound if the step does not have all of the box, or was discarded
  void get(const std::string& variable, const Array& array) const {
    detail::check(tranship_step_get(handle(), variable.c_str(), &array.writable_c(), timeout_s_));
  }

  /// Returns the attributes of the step, or those that it has of a variable.
  /// @throws NotFound if the step has nothing of the variable
  Attributes attributes(const std::string& variable = {}) const {
    const tranship_attributes* found = nullptr;
    detail::check(tranship_step_attributes(handle(), variable.c_str(), &found));
    return Attributes(std::shared_ptr<const tranship_attributes>(handle_, found));
  }

  const tranship_step* handle() const noexcept { return handle_.get(); }

 private:
  std::shared_ptr<tranship_step> handle_;
  double timeout_s_;
};

}  // namespace tranship
