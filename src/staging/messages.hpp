// What clients and servers of the staging service say to each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/protocol.hpp"
#include "staging/object_store.hpp"
#include "staging/registry.hpp"

namespace tranship::staging {

constexpr std::uint32_t staging_version = 6;

/// What a question begins with. Those of a variable go to its keeper, those of an object to its
/// home, those of a box to the servers that own it (staging/distribution.hpp).
enum class Ask : std::uint32_t {
  hello = 1,  ///< who I am; the answer says who the server is, and which others there are
  join,       ///< to the first server: I am one of them
  define,     ///< to the keeper: the domain of a variable, and how many will put to it
  declare,    ///< to the keeper: I shall put to a variable; the answer says what it knows of it
  describe,   ///< to the keeper: the same, without that
  bounds,     ///< of what was put to a variable here
  put,        ///< an object and its data, visible with the answer
  begin,      ///< room for an object, and how hard to try
  commit,
  abort,
  enter,    ///< an object that is being put elsewhere
  leave,    ///< of what was entered
  settle,   ///< of what was entered: it was committed, and in which order
  get,      ///< the data if they are few, else where they lie; or that others must be asked, too
  find,     ///< the objects that meet a box, of other servers, too
  lease,    ///< what became of objects that another server's answer to find named
  more,     ///< objects of a get or find that the answer had no room for
  recall,   ///< of an object of a lease that lies on disk: it is to be in memory
  release,  ///< of what a get, find or lease returned
  undo,     ///< of a begin, get, find or lease whose answer did not come, by its ticket
  forget,   ///< to the home of objects that an answer named as strays
  wait,     ///< the version that a get would return now
  discard,
  remove,  ///< a variable: first of its keeper, which numbers it, then of all others
  list,
  status,  ///< of the server itself
};

const char* to_string(Ask ask);
/// What a question is; nothing that anybody asks if it is too short.
Ask ask_of(std::span<const std::byte> question);

/// A question that begins with that; what it asks follows.
inline MessageWriter question_of(Ask ask) {
  MessageWriter question;
  question.add(ask);
  return question;
}

/// What an answer begins with.
enum class Said : std::uint32_t {
  done = 1,
  waiting,  ///< ask again when a notice has come
  objects,  ///< of a get
  data,     ///< of a get: the elements themselves, dense, the last dimension fastest
  spread,   ///< of a get: objects of other servers meet the box; ask find of all its owners
  stale,    ///< the variable was deleted: ask its keeper what there is of it, and then anew
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

/// Appends an entry: variable, version, home and object, as leave and settle name it.
void add_entry(MessageWriter& out, const std::string& variable, std::int64_t version,
               const ObjectAt& object);

void add(MessageWriter& out, const Range& range);
Range read_range(MessageReader& in);
/// Whether an object of `bytes` bytes that begins where a server says lies inside the segment.
bool lies_inside(const Range& range, std::int64_t bytes, std::int64_t segment_bytes);
void add(MessageWriter& out, const Box& box);
/// A box that holds no point makes the reader fail.
Box read_box(MessageReader& in, bool& ok);
void add(MessageWriter& out, const std::optional<Box>& box);
std::optional<Box> read_optional_box(MessageReader& in, bool& ok);
/// The same of bounds, which may hold more points than can be counted.
Box read_bounds(MessageReader& in, bool& ok);
std::optional<Box> read_optional_bounds(MessageReader& in, bool& ok);

/// A text that explains something, made fit to be shown: of bounded length, without control
/// characters.
std::string read_why(MessageReader& in);

void add(MessageWriter& out, const PutRequest& request);
bool read(MessageReader& in, PutRequest& request);
void add(MessageWriter& out, const GetRequest& request);
bool read(MessageReader& in, GetRequest& request);
/// From object `first` on, as many as a message of `message_bytes` still has room for. Returns how
/// many come after them.
std::size_t add(MessageWriter& out, const Found& found, std::size_t first,
                std::size_t message_bytes);
/// Appends the objects; `left` is how many come after them.
bool read(MessageReader& in, Found& found, std::size_t& left);
void add(MessageWriter& out, const ServerInfo& info);
bool read(MessageReader& in, ServerInfo& info);
void add(MessageWriter& out, const Facts& facts);
bool read(MessageReader& in, Facts& facts);
/// What an answer to a put, begin, enter or commit ends with: as many as are told at once.
void add(MessageWriter& out, const std::vector<Stray>& strays);
bool read(MessageReader& in, std::vector<Stray>& strays);
constexpr std::size_t strays_max = 64;
void add(MessageWriter& out, const Leased& leased);
bool read(MessageReader& in, Leased& leased);
void add(MessageWriter& out, const VariableInfo& info);
bool read(MessageReader& in, VariableInfo& info);

}  // namespace tranship::staging
