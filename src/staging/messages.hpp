// What clients and servers of the staging service say to each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fabric/protocol.hpp"
#include "staging/object_store.hpp"

namespace tranship::staging {

constexpr std::uint32_t staging_version = 2;

/// What a question begins with.
enum class Ask : std::uint32_t {
  hello = 1,  ///< who I am; the answer says who the server is
  put,        ///< an object and its data, visible with the answer
  begin,      ///< room for an object
  commit,
  abort,
  get,      ///< the data if they are few, else where they lie
  more,     ///< parts of a get that its answer had no room for
  release,  ///< of what a get returned
  wait,     ///< the version that a get would return now
  discard,
  describe,  ///< a variable, as soon as something was put to it
  list,
};

/// What an answer begins with.
enum class Said : std::uint32_t {
  done = 1,
  waiting,  ///< ask again when a notice has come
  parts,    ///< of a get
  data,     ///< of a get: the elements themselves, dense, the last dimension fastest
};

/// Segments of a server's memory are exported by this name and their number.
constexpr const char* segment_name = "staging/segment/";

/// What every server's messages hold at least.
constexpr std::int64_t message_bytes_least = 4096;

/// An object's data go inside a message of at most `message_bytes_max` up to here: beyond it a copy
/// of its own is as fast.
constexpr std::int64_t inline_bytes(std::int64_t message_bytes_max) {
  return std::min<std::int64_t>(64 * 1024, message_bytes_max / 4);
}

void add(MessageWriter& out, const Box& box);
/// A box that holds no point makes the reader fail.
Box read_box(MessageReader& in, bool& ok);

void add(MessageWriter& out, const PutRequest& request);
bool read(MessageReader& in, PutRequest& request);
void add(MessageWriter& out, const GetRequest& request);
bool read(MessageReader& in, GetRequest& request);
/// From part `first` on, as many as a message of `message_bytes` still has room for. Returns how
/// many come after them.
std::size_t add(MessageWriter& out, const Found& found, std::size_t first,
                std::size_t message_bytes);
/// Appends the parts; `left` is how many come after them.
bool read(MessageReader& in, Found& found, std::size_t& left);
void add(MessageWriter& out, const VariableInfo& info);
bool read(MessageReader& in, VariableInfo& info);

/// Between dense arrays of two boxes, the elements of `part`, which lies in both.
LoopNest nest_of(const Box& part, const Box& source, const Box& target, std::int64_t element_bytes);

}  // namespace tranship::staging
