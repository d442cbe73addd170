// What a caller hands to copy(): a box of an array, and where it lies.
#pragma once

#include <memory>
#include <string>

#include "data/mapping.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// Where an array lies, as far as a path is concerned.
enum class Where {
  host,          ///< memory of this process
  shared,        ///< memory of another process on this machine that is mapped into this one
  file,          ///< place.attachment is a File
  near_process,  ///< on this machine, not mapped: place.attachment is a RemoteArray of a process on
                 ///< this machine
  far_process,   ///< the same, on another machine
};

/// Whether what an array refers to is still there. Any thread.
class Liveness {
 public:
  virtual ~Liveness() = default;
  virtual Status check() const = 0;
};

/// Whether the place is an address in this process.
inline bool in_memory(Where where) { return where == Where::host || where == Where::shared; }

/// A value. It keeps what it refers to alive through `owner`.
struct Array {
  View view;
  Place place;
  Where where = Where::host;
  bool writable = true;
  bool named = false;  ///< its dimensions have names of the user's; else they match by position
  std::shared_ptr<void> owner;
  std::shared_ptr<const Liveness> liveness;  ///< null: nothing to check
  std::string name;  ///< for messages: "host memory", a file's path, a peer's export
};

}  // namespace tranship
