// How a call is ordered with work that its caller has put into streams of GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/event.hpp"

namespace tranship {

class Carriers;
class GpuSide;

/// Handle of the legacy default stream (cudaStreamLegacy), the same on each GPU.
constexpr std::uintptr_t legacy_stream = 1;

/// A stream that a caller or an array names.
struct CallerStream {
  std::uintptr_t handle = 0;  ///< cudaStream_t
  int device = -1;            ///< -1: unknown
  bool operator==(const CallerStream&) const = default;
};

/// The streams of a call.
struct StreamOrder {
  /// The stream that carries the copy where it can; what it cannot carry starts after its work.
  std::optional<CallerStream> own;
  /// The call starts after the work in these.
  std::vector<CallerStream> before;
  /// The call starts after the work in these, and their later work after the call's copies: the
  /// current streams of the libraries that made the arrays.
  std::vector<CallerStream> around;

  bool empty() const { return !own && before.empty() && around.empty(); }
  /// Adds a stream to a list that lacks it.
  static void add(std::vector<CallerStream>& list, const CallerStream& stream);
};

/// The part of a StreamOrder that a copy's start needs.
struct OrderedStart {
  std::optional<CallerStream> stream;   ///< for StartOptions::stream and stream_device
  std::vector<Event> after;             ///< for StartOptions::after
  bool in_order = false;                ///< for StartOptions::in_order
  std::vector<CallerStream> followers;  ///< streams that must wait for copies in other streams
};

/// Returns what a copy starts with so that it follows the work in all streams. A single stream
/// carries the copy; of several, each gets an event, which the copy waits for.
/// gpus: Null if the engine has none. device: The GPU of streams that do not say theirs.
/// @error invalid_argument without GPUs, for a stream of a GPU that does not exist, and for a
///        stream that is being captured beside others; what the driver refused
Result<OrderedStart> begin_order(const GpuSide* gpus, const StreamOrder& order, int device);

/// Makes later work in the streams StreamOrder::around follow the copies of `event`. Streams wait
/// for copies on GPUs; for all others, which no stream can wait for without a risk that it stands
/// still (docs/decisions/0028-streams-follow-the-arrays.md), this call waits.
/// @error how such a copy failed; cancelled if `interrupted` returned true: the copy has ended
Status end_order(const Carriers& carriers, const GpuSide* gpus, const OrderedStart& started,
                 const Event& event, bool (*interrupted)());

/// Waits until the work in all streams of `order` has ended.
/// @error as begin_order(); cancelled if `interrupted` returned true
Status wait_for_streams(const Carriers& carriers, const GpuSide* gpus, const StreamOrder& order,
                        int device, bool (*interrupted)());

}  // namespace tranship
