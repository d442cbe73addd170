// The engine: one call copies between any two memories and changes the layout on the way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array.hpp"
#include "copy_options.hpp"
#include "end.hpp"
#include "engine.h"
#include "engine_handle.hpp"
#include "engine_options.hpp"
#include "error.hpp"
#include "event.hpp"
#include "file.hpp"
#include "layout.hpp"
#include "notice.hpp"
#include "peer.hpp"
#include "peers.h"
#include "plan.hpp"
#include "prepared_copy.hpp"
#include "typed_copies.hpp"

namespace tranship {

/// Owns worker threads, intermediate buffers and links to other processes. Any thread may call any
/// member. The destructor closes it. Instances, events and peers may outlive it: their calls fail
/// with Closed then. In a fork of the process every call throws Closed: open an engine there.
class Engine : public TypedCopies {
 public:
  /// @throws InvalidArgument for a setting that does not exist or cannot be read; NotFound for a
  ///         profile that does not exist; Error for what the operating system refused
  explicit Engine(const EngineOptions& options = {}) : TypedCopies(opened(options)) {}

  /// Ends everything that is outstanding, within a bounded time: copies under way are cancelled,
  /// and every later call throws Closed. May be repeated.
  /// @throws Error if the trace could not be written; the engine is closed all the same
  void close() { detail::check(tranship_engine_close(handle())); }

  /// Returns host:port, by which other processes reach this engine; empty if it accepts none.
  std::string contact() const {
    const char* text = nullptr;
    detail::check(tranship_engine_contact(handle(), &text));
    return text;
  }

  /// Returns an instance of an array, whose dimensions are d0, d1 and so on: for an end that
  /// several copies use. Of const elements: it may only be read.
  /// @throws InvalidArgument for extents or strides that are not usable
  Instance instance(const Array& array) const { return instance_of(array); }

  /// Returns an instance of the caller's memory, read through a layout.
  /// @throws InvalidArgument if the layout is not usable or needs more bytes
  Instance instance(std::span<std::byte> memory, const Layout& layout) const {
    tranship_instance* made = nullptr;
    layout.with_c([&](const tranship_layout& given) {
      detail::check(tranship_instance_of_memory(
          handle(), memory.data(), static_cast<std::int64_t>(memory.size()), &given, &made));
    });
    return Instance(made);
  }
  template <ElementRange R>
  Instance instance(R&& memory, const Layout& layout) const {
    return instance(std::as_writable_bytes(std::span(memory)), layout);
  }

  /// Allocates memory for a layout. `memory`: "shared" (host memory that other processes of this
  /// machine map once it is exported), "pinned" (host memory that GPUs reach directly), or
  /// "device0", "device1" and so on.
  /// @throws Error with Code::unsupported for pinned and device memory if this process uses no GPU;
  ///         Error with Code::out_of_memory
  Instance allocate(const Layout& layout, const std::string& memory = "shared") const {
    tranship_instance* made = nullptr;
    layout.with_c([&](const tranship_layout& given) {
      detail::check(tranship_instance_allocate(handle(), &given, memory.c_str(), &made));
    });
    return Instance(made);
  }

  /// Opens a raw binary file.
  /// @throws NotFound; OutOfRange for a file that is shorter than the layout; InvalidArgument for a
  ///         directory or a pipe; Error for what the system refused
  File open(const std::string& path, const Layout& layout, const FileOptions& options = {}) const {
    tranship_file_options given{};
    given.size = sizeof given;
    given.mode = options.mode.c_str();
    given.offset = options.offset;
    given.cached = options.cached ? 1 : 0;
    given.durable = options.durable ? 1 : 0;
    tranship_instance* made = nullptr;
    layout.with_c([&](const tranship_layout& described) {
      detail::check(tranship_file_open(handle(), path.c_str(), &described, &given, &made));
    });
    return File(made);
  }

  using TypedCopies::copy;     // between types
  using TypedCopies::prepare;  // between types

  /// Starts a copy. Both ends have the same extents and fields; the target may be written and does
  /// not overlap the source. A small copy in memory has ended on return. What fails later is thrown
  /// by Event::wait().
  /// @throws InvalidArgument for ends that do not match or overlap, for a target that may only be
  ///         read, and for a notice that has no name, is not taken, or is sent while the stream is
  ///         captured; NoRoute; OutOfRange for a region outside the ends
  Event copy(End source, End target, const CopyOptions& options = {}) const {
    const Held from = held(source, false);
    const Held to = held(target, true);
    return started(options, [&](const tranship_copy_options& given, tranship_event** made) {
      return tranship_copy(handle(), from.handle(), to.handle(), &given, made);
    });
  }

  /// Starts several copies; the event is that of the end of all. No two targets may overlap, and no
  /// target may overlap the source of another pair; neither is checked.
  /// @throws as copy(), for any pair; then none of the copies goes on
  Event copy_all(std::span<const CopyPair> pairs, const CopyOptions& options = {}) const {
    const std::vector<tranship_pair> ends = detail::c_pairs(pairs);
    return started(options, [&](const tranship_copy_options& given, tranship_event** made) {
      return tranship_copy_all(handle(), ends.data(), static_cast<std::int64_t>(ends.size()),
                               &given, made);
    });
  }

  /// Starts a copy of pages, which are indices of the first dimension: page source_pages[k] goes to
  /// page target_pages[k].
  /// @throws as copy(); OutOfRange for an index outside its end; InvalidArgument for lists of
  ///         different lengths, or a target page that is named twice
  Event copy_pages(End source, End target, std::span<const std::int64_t> source_pages,
                   std::span<const std::int64_t> target_pages,
                   const CopyOptions& options = {}) const {
    const tranship_pages pages = detail::c_pages(source_pages, target_pages);
    const Held from = held(source, false);
    const Held to = held(target, true);
    return started(options, [&](const tranship_copy_options& given, tranship_event** made) {
      return tranship_copy_pages(handle(), from.handle(), to.handle(), &pages, &given, made);
    });
  }

  /// Starts a copy of pieces, which are ranges of bytes, counted from the first byte of each end:
  /// lengths[k] bytes at source_offsets[k] go to target_offsets[k]. Both ends have no gaps.
  /// @throws as copy_pages(), and InvalidArgument for pieces that overlap in the target
  Event copy_pieces(End source, End target, std::span<const std::int64_t> source_offsets,
                    std::span<const std::int64_t> target_offsets,
                    std::span<const std::int64_t> lengths, const CopyOptions& options = {}) const {
    const tranship_pieces pieces = detail::c_pieces(source_offsets, target_offsets, lengths);
    const Held from = held(source, false);
    const Held to = held(target, true);
    return started(options, [&](const tranship_copy_options& given, tranship_event** made) {
      return tranship_copy_pieces(handle(), from.handle(), to.handle(), &pieces, &given, made);
    });
  }

  /// Prepares what copy(), copy_all(), copy_pages() or copy_pieces() would start, to start it again
  /// and again. May wait for a GPU. The options have neither a region nor events, a stream or a
  /// notice.
  /// @throws as those
  PreparedCopy prepare(End source, End target, const CopyOptions& options = {}) const {
    const Held from = held(source, false);
    const Held to = held(target, true);
    return prepared(options, [&](const tranship_copy_options& given, tranship_prepared** made) {
      return tranship_prepare(handle(), from.handle(), to.handle(), &given, made);
    });
  }
  PreparedCopy prepare_all(std::span<const CopyPair> pairs, const CopyOptions& options = {}) const {
    const std::vector<tranship_pair> ends = detail::c_pairs(pairs);
    return prepared(options, [&](const tranship_copy_options& given, tranship_prepared** made) {
      return tranship_prepare_all(handle(), ends.data(), static_cast<std::int64_t>(ends.size()),
                                  &given, made);
    });
  }
  PreparedCopy prepare_pages(End source, End target, std::span<const std::int64_t> source_pages,
                             std::span<const std::int64_t> target_pages,
                             const CopyOptions& options = {}) const {
    const tranship_pages pages = detail::c_pages(source_pages, target_pages);
    const Held from = held(source, false);
    const Held to = held(target, true);
    return prepared(options, [&](const tranship_copy_options& given, tranship_prepared** made) {
      return tranship_prepare_pages(handle(), from.handle(), to.handle(), &pages, &given, made);
    });
  }
  PreparedCopy prepare_pieces(End source, End target, std::span<const std::int64_t> source_offsets,
                              std::span<const std::int64_t> target_offsets,
                              std::span<const std::int64_t> lengths,
                              const CopyOptions& options = {}) const {
    const tranship_pieces pieces = detail::c_pieces(source_offsets, target_offsets, lengths);
    const Held from = held(source, false);
    const Held to = held(target, true);
    return prepared(options, [&](const tranship_copy_options& given, tranship_prepared** made) {
      return tranship_prepare_pieces(handle(), from.handle(), to.handle(), &pieces, &given, made);
    });
  }

  /// Returns the plan that copy() would follow, with what it would cost now.
  /// @throws as copy()
  Plan plan(End source, End target, const CopyOptions& options = {}) const {
    const Held from = held(source, false);
    const Held to = held(target, true);
    tranship_plan* made = nullptr;
    detail::with_c(options, [&](const tranship_copy_options& given) {
      detail::check(tranship_plan_copy(handle(), from.handle(), to.handle(), &given, &made));
    });
    return Plan(made);
  }

  /// Lets processes that connect read the instance by a name, and write it if it may be written,
  /// until withdraw() or close(). Memory that the caller gave must stay valid as long.
  /// @throws InvalidArgument if the name is taken, or the instance is another process's
  void export_as(const std::string& name, const Instance& instance,
                 const ExportOptions& options = {}) const {
    tranship_export_options given{};
    given.size = sizeof given;
    given.notices = options.notices ? 1 : 0;
    detail::check(tranship_export_with(handle(), name.c_str(), instance.handle(), &given));
  }

  /// Ends an export. No other process touches the memory after it returned.
  /// @throws NotFound; Timeout if a peer's copy takes longer than the setting peer_timeout_ms: the
  ///         memory must stay valid until that copy is over
  void withdraw(const std::string& name) const {
    detail::check(tranship_withdraw(handle(), name.c_str()));
  }

  /// Connects to another engine. `contact`: the file that it writes, or host:port; `timeout`: most
  /// that this call, and later each question to the peer, takes.
  /// @throws NotFound for a contact file that does not exist; PeerLost; Timeout
  Peer connect(const std::string& contact, Seconds timeout = Seconds(10)) const {
    tranship_peer* made = nullptr;
    detail::check(tranship_connect(handle(), contact.c_str(), timeout.count(), &made));
    return Peer(made, timeout);
  }

  /// Returns the notices that have arrived from all processes, each once, in the order of their
  /// arrival. Waits up to `timeout` for the first, if there is none; returns none if none came.
  /// @throws InvalidArgument for an engine that accepts no connections; Closed if the engine is
  ///         closed, also while the call waits
  std::vector<Notice> notices(Seconds timeout = Seconds(0)) const {
    tranship_notices* taken = nullptr;
    detail::check(tranship_engine_notices(handle(), timeout.count(), &taken));
    return detail::c_notices(taken);
  }

 private:
  static tranship_engine* opened(const EngineOptions& options) {
    std::vector<tranship_setting> settings;
    for (const auto& [name, value] : options.settings) {
      settings.push_back({name.c_str(), value.c_str()});
    }
    tranship_engine_options given{};
    given.size = sizeof given;
    given.settings = settings.data();
    given.setting_count = static_cast<std::int64_t>(settings.size());
    given.profile = detail::optional_text(options.profile);
    given.contact_file = detail::optional_text(options.contact_file);
    given.accept = options.accept ? 1 : 0;
    given.trace_file = detail::optional_text(options.trace_file);
    tranship_engine* made = nullptr;
    detail::check(tranship_engine_open(&given, &made));
    return made;
  }
};

}  // namespace tranship
