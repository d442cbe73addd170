// Options of copies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "array.hpp"
#include "engine.h"
#include "error.hpp"
#include "event.hpp"
#include "layout.hpp"

namespace tranship {

/// How a copy is carried out.
struct CopyOptions {
  /// The ranges to copy, on both sides; dimensions that are not named are whole. Not for copy_all()
  /// and copy_pages().
  std::vector<Range> region{};
  /// Higher goes first on every channel; a transfer of lower priority pauses meanwhile.
  int priority = 0;
  /// "automatic", "full", "simple", "spsl" or "spdl" (Isometry, sections 4.2, 4.4 and 6.3).
  std::string planner = "automatic";
  /// Most bytes that the buffers between hops may take. 0: no limit of its own.
  std::int64_t buffer_bytes = 0;
  /// The copy starts when these have ended. The events must stay during the call.
  std::vector<const Event*> after{};
  /// Whether the copy starts after what is in `stream`. To or from the memory of a GPU that reaches
  /// the other end, too (pinned memory, GPUs that reach each other), it runs in the stream itself;
  /// after any other, wait for the event before you use the target.
  bool has_stream = false;
  void* stream = nullptr;  ///< a cudaStream_t
  /// "safe", "same_kind" or "unsafe": numbers whose types differ are converted on the way, where
  /// this rule of NumPy's allows it. Empty: types must be equal. Not for pieces and derived types.
  std::string cast{};
  /// Name of the notice that the process which exports the target, or else the source, gets once
  /// all bytes have arrived: UTF-8 text of up to 256 bytes without control characters. It returns
  /// the notice by Engine::notices(). Empty: none is sent.
  std::string notify{};
};

/// One of several copies. Both instances must stay during the call.
struct CopyPair {
  const Instance* source = nullptr;
  const Instance* target = nullptr;
};

namespace detail {

inline std::vector<tranship_pair> c_pairs(std::span<const CopyPair> pairs) {
  std::vector<tranship_pair> ends;
  for (const CopyPair& pair : pairs) ends.push_back({pair.source->handle(), pair.target->handle()});
  return ends;
}

/// @throws InvalidArgument for lists of different lengths
inline tranship_pages c_pages(std::span<const std::int64_t> source,
                              std::span<const std::int64_t> target) {
  if (source.size() != target.size()) {
    throw InvalidArgument("there are " + std::to_string(source.size()) + " source pages and " +
                              std::to_string(target.size()) + " target pages",
                          "give lists of the same length");
  }
  return {source.data(), target.data(), static_cast<std::int64_t>(source.size())};
}

/// @throws InvalidArgument for lists of different lengths
inline tranship_pieces c_pieces(std::span<const std::int64_t> source_offsets,
                                std::span<const std::int64_t> target_offsets,
                                std::span<const std::int64_t> lengths) {
  if (source_offsets.size() != lengths.size() || target_offsets.size() != lengths.size()) {
    throw InvalidArgument("there are " + std::to_string(source_offsets.size()) +
                              " source offsets, " + std::to_string(target_offsets.size()) +
                              " target offsets and " + std::to_string(lengths.size()) + " lengths",
                          "give as many of each");
  }
  return {source_offsets.data(), target_offsets.data(), lengths.data(),
          static_cast<std::int64_t>(lengths.size())};
}

/// Calls `use` with the options as C has them, valid during the call.
template <typename Use>
void with_c(const CopyOptions& options, const Use& use) {
  const auto region = detail::c_ranges(options.region);
  std::vector<tranship_event*> after;
  for (const Event* event : options.after) after.push_back(event->handle());
  tranship_copy_options given{};
  given.size = sizeof given;
  given.region = region.data();
  given.region_count = static_cast<std::int64_t>(region.size());
  given.priority = options.priority;
  given.planner = detail::optional_text(options.planner);
  given.buffer_bytes = options.buffer_bytes;
  given.after = after.data();
  given.after_count = static_cast<std::int64_t>(after.size());
  given.stream = options.stream;
  given.has_stream = options.has_stream ? 1 : 0;
  given.cast = detail::optional_text(options.cast);
  given.notify = detail::optional_text(options.notify);
  use(given);
}

}  // namespace detail
}  // namespace tranship
