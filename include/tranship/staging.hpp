// The client of the staging service: put boxes of arrays, version by version, and get any box.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "array.hpp"
#include "attributes.hpp"
#include "error.hpp"
#include "request.hpp"
#include "staging.h"
#include "steps.hpp"
#include "variable.hpp"

namespace tranship {

/// How a staging client connects.
struct StagingOptions {
  std::string name{};             ///< client name; empty: host name and process id
  Seconds timeout = Seconds(30);  ///< longest wait of the constructor and of each call
};

/// A connection to a staging server. Any thread may call any member. The destructor closes it, and
/// ignores what that fails with: call close() to see it. docs/concepts/staging.md says what the
/// service promises.
class Staging {
 public:
  /// The version below all others, for get_next() and wait_next().
  static constexpr std::int64_t before_first = std::numeric_limits<std::int64_t>::min();

  /// Connects to a server; waits until the server is there. `contact`: the file that it writes, or
  /// host:port.
  /// @throws NotFound; PeerLost; Timeout
  explicit Staging(const std::string& contact, const StagingOptions& options = {})
      : timeout_s_(options.timeout.count()) {
    tranship_staging* made = nullptr;
    detail::check(
        tranship_open(contact.c_str(), detail::optional_text(options.name), timeout_s_, &made));
    handle_.reset(made);
  }

  /// Waits for asynchronous puts, declares that this client puts nothing more, and disconnects. May
  /// be repeated; every other call throws Closed then.
  /// @throws PeerLost
  void close() { detail::check(tranship_close(handle())); }

  /// Defines a variable: its element type, the box of its domain, and the number of processes that
  /// will put to it, 0 if that is not known.
  /// @throws InvalidArgument for another type than before
  void define(const std::string& variable, const std::string& type, const Array& domain,
              int writers = 0) {
    detail::check(tranship_define(handle(), variable.c_str(), type.c_str(), &domain.c(), writers));
  }

  /// Puts an array as a box of a variable; the box begins at the array's lower indices. When it
  /// returns, every client sees the whole box. Waits while the server's memory is full.
  /// @throws InvalidArgument for what does not fit the variable; Timeout; PeerLost; Closed
  void put(const std::string& variable, std::int64_t version, const Array& array) {
    detail::check(tranship_put(handle(), variable.c_str(), version, &array.c(), timeout_s_));
  }

  /// Waits until the array's whole box has been put at this version, and writes it into the array.
  /// @throws as put(); NotFound for a version that was discarded
  void get(const std::string& variable, std::int64_t version, const Array& array) {
    detail::check(
        tranship_get(handle(), variable.c_str(), version, &array.writable_c(), timeout_s_));
  }

  /// Does the same with the lowest version above `after`, and returns that version; nothing if
  /// every producer of the variable has closed and there is none.
  /// @throws as get()
  std::optional<std::int64_t> get_next(const std::string& variable, std::int64_t after,
                                       const Array& array) {
    std::int64_t version = 0;
    const tranship_code code = tranship_get_next(handle(), variable.c_str(), after,
                                                 &array.writable_c(), timeout_s_, &version);
    return unless_ended(code, version);
  }

  /// Does the same with the highest version that covers the box, and returns that version.
  /// @throws as get()
  std::int64_t get_latest(const std::string& variable, const Array& array) {
    std::int64_t version = 0;
    detail::check(
        tranship_get_latest(handle(), variable.c_str(), &array.writable_c(), timeout_s_, &version));
    return version;
  }

  /// Waits as get_next() does, and moves nothing: of `box` only extents and lower indices are used.
  std::optional<std::int64_t> wait_next(const std::string& variable, std::int64_t after,
                                        const Array& box) {
    std::int64_t version = 0;
    const tranship_code code =
        tranship_wait_next(handle(), variable.c_str(), after, &box.c(), timeout_s_, &version);
    return unless_ended(code, version);
  }

  /// Starts a put, or a get; its timeout begins when a thread starts to work on it.
  /// @throws as put()
  Request put_async(const std::string& variable, std::int64_t version, const Array& array) {
    tranship_request* made = nullptr;
    detail::check(
        tranship_put_async(handle(), variable.c_str(), version, &array.c(), timeout_s_, &made));
    return Request(made);
  }
  Request get_async(const std::string& variable, std::int64_t version, const Array& array) {
    tranship_request* made = nullptr;
    detail::check(tranship_get_async(handle(), variable.c_str(), version, &array.writable_c(),
                                     timeout_s_, &made));
    return Request(made);
  }

  /// Discards a version. Gets that are reading it are not disturbed.
  /// @throws NotFound
  void discard(const std::string& variable, std::int64_t version) {
    detail::check(tranship_discard(handle(), variable.c_str(), version));
  }

  /// Waits until a box has been put to the variable, and describes the variable.
  /// @throws Timeout
  Variable describe(const std::string& name) {
    tranship_variable found{};
    detail::check(tranship_describe(handle(), name.c_str(), timeout_s_, &found));
    return detail::variable_of(name, found);
  }

  /// Does the same for one version, with the box around what was put to it; more may still come.
  /// @throws as describe(); NotFound for a version that was discarded
  Variable describe(const std::string& name, std::int64_t version) {
    tranship_variable found{};
    detail::check(tranship_describe_version(handle(), name.c_str(), version, timeout_s_, &found));
    return detail::variable_of(name, found);
  }

  /// Waits for the lowest version above `after` that is whole by its own bounds, and returns it,
  /// with its bounds in `bounds`; nothing if every producer of the variable has closed and there is
  /// none.
  /// @throws Timeout; PeerLost
  std::optional<std::int64_t> wait_next_version(const std::string& name, std::int64_t after,
                                                Variable& bounds) {
    std::int64_t version = 0;
    tranship_variable found{};
    const tranship_code code =
        tranship_wait_next_version(handle(), name.c_str(), after, timeout_s_, &version, &found);
    if (code == TRANSHIP_OK) bounds = detail::variable_of(name, found);
    return unless_ended(code, version);
  }

  /// Says that this process has nothing in a version of a variable, which need not exist yet.
  void nothing(const std::string& variable, std::int64_t version) {
    detail::check(tranship_nothing(handle(), variable.c_str(), version));
  }

  /// Begins a step that `writers` processes write; each of them begins it, puts, and ends it.
  /// @throws InvalidArgument if it is whole, or a higher one was begun before
  StepWriter begin_step(std::int64_t number, int writers = 1) {
    tranship_step_writer* made = nullptr;
    detail::check(tranship_step_begin(handle(), number, writers, timeout_s_, &made));
    return StepWriter(made, Seconds(timeout_s_));
  }

  /// Waits for the lowest whole step above `after`; broken ones are passed by. Returns nothing if
  /// all processes that wrote steps have closed and there is none.
  /// @throws Timeout; PeerLost if one of them has died
  std::optional<Step> next_step(std::int64_t after = before_first) {
    tranship_step* made = nullptr;
    const tranship_code code = tranship_step_next(handle(), after, timeout_s_, &made);
    if (!unless_ended(code, 0)) return std::nullopt;
    return Step(made, Seconds(timeout_s_));
  }

  /// Returns the highest whole step; waits while there is none.
  /// @throws as next_step(); Closed
  Step latest_step() {
    tranship_step* made = nullptr;
    detail::check(tranship_step_latest(handle(), timeout_s_, &made));
    return Step(made, Seconds(timeout_s_));
  }

  /// Waits until the step with this number is whole.
  /// @throws as latest_step(); NotFound, which says why, if it is broken or was discarded
  Step step(std::int64_t number) {
    tranship_step* made = nullptr;
    detail::check(tranship_step_find(handle(), number, timeout_s_, &made));
    return Step(made, Seconds(timeout_s_));
  }

  /// Discards a whole step with the versions of its variables.
  /// @throws NotFound
  void discard_step(std::int64_t number) { detail::check(tranship_step_discard(handle(), number)); }

  /// Returns the attributes of the run, or of a variable, as they are now.
  Attributes attributes(const std::string& variable = {}) {
    tranship_attributes* made = nullptr;
    detail::check(tranship_attributes_of(handle(), variable.c_str(), &made));
    return Attributes(std::shared_ptr<tranship_attributes>(made, tranship_attributes_free));
  }

  /// Sets an attribute of the run. Of several clients that set one, the last is seen.
  /// @throws InvalidArgument for a name that is none, and for a text that is not UTF-8
  template <AttributeValue T>
  void set(const std::string& name, const T& value) {
    set_of(nullptr, name, value);
  }
  /// Does the same with an attribute of a variable, which need not exist yet.
  template <AttributeValue T>
  void set(const std::string& variable, const std::string& name, const T& value) {
    set_of(variable.c_str(), name, value);
  }
  /// Sets an attribute of the run, or of a variable, to any JSON value.
  /// @throws as set(); InvalidArgument for what is none
  void set_json(const std::string& name, const std::string& json) {
    detail::check(tranship_set_json(handle(), nullptr, name.c_str(), json.c_str()));
  }
  void set_json(const std::string& variable, const std::string& name, const std::string& json) {
    detail::check(tranship_set_json(handle(), variable.c_str(), name.c_str(), json.c_str()));
  }

  /// Deletes an attribute of the run, or of a variable.
  /// @throws NotFound
  void unset(const std::string& name) {
    detail::check(tranship_unset(handle(), nullptr, name.c_str()));
  }
  void unset(const std::string& variable, const std::string& name) {
    detail::check(tranship_unset(handle(), variable.c_str(), name.c_str()));
  }

  /// Returns the variables of the server, in the order of their names.
  std::vector<Variable> list() {
    tranship_listing* given = nullptr;
    detail::check(tranship_ls(handle(), &given));
    const std::unique_ptr<tranship_listing, detail::Free<tranship_listing_free>> held(given);
    std::vector<Variable> variables;
    for (std::int64_t k = 0; k < tranship_listing_size(given); ++k) {
      tranship_entry entry{};
      detail::check(tranship_listing_entry(given, k, &entry));
      Variable variable = detail::variable_of(entry.name, entry.variable);
      variable.versions = entry.versions;
      variable.version_first = entry.version_first;
      variable.version_last = entry.version_last;
      variable.bytes = entry.bytes;
      variables.push_back(std::move(variable));
    }
    return variables;
  }

  tranship_staging* handle() const noexcept { return handle_.get(); }

 private:
  static void close_quietly(tranship_staging* staging) noexcept { (void)tranship_close(staging); }

  template <typename T>
  void set_of(const char* variable, const std::string& name, const T& value) {
    const char* key = name.c_str();
    detail::check(detail::by_type(
        value, [&](double v) { return tranship_set_double(handle(), variable, key, v); },
        [&](std::int64_t v) { return tranship_set_int64(handle(), variable, key, v); },
        [&](const char* v) { return tranship_set_text(handle(), variable, key, v); },
        [&](const char* v) { return tranship_set_json(handle(), variable, key, v); }));
  }

  /// The code is the same for a closed connection and for a variable whose producers have closed.
  std::optional<std::int64_t> unless_ended(tranship_code code, std::int64_t version) const {
    if (code == TRANSHIP_CLOSED && tranship_is_open(handle()) != 0) return std::nullopt;
    detail::check(code);
    return version;
  }

  std::unique_ptr<tranship_staging, detail::Free<close_quietly>> handle_;
  double timeout_s_;
};

}  // namespace tranship
