// The kinds of channels, and what the planner and the engine need to know about each.
#pragma once

#include <array>
#include <string>

#include "base/error.hpp"
#include "machine/kind_names.hpp"

namespace tranship {

enum class ChannelKind {
  memcpy,
  gpu_read,
  gpu_write,
  gpu_copy,
  gpu_peer,
  file_read,
  file_write,
  remote_write,
  remote_read,
};

/// The properties of one kind of channel.
struct ChannelTraits {
  ChannelKind kind;
  const char* name;      ///< in profiles and explanations
  bool gpu;              ///< a GPU carries it out: the caller only starts it
  bool crosses_bus;      ///< it connects host memory with a GPU's memory
  bool converts_well;    ///< it changes the layout (nearly) as fast as it copies
  bool file;             ///< one of its ends is a file
  bool remote;           ///< its ends belong to two processes
  bool casts;            ///< it can convert numbers on the way
  bool reads;            ///< this process is the target's side: it reads from what lies elsewhere
  bool readable = true;  ///< its name is read from profiles
};

/// One line for each kind, in the order of the enum. A new kind of channel is a new line.
inline constexpr std::array<ChannelTraits, 9> channel_kinds{{
    // kind, name, gpu, crosses_bus, converts_well, file, remote, casts, reads
    {ChannelKind::memcpy, "memcpy", false, false, true, false, false, true, false},
    {ChannelKind::gpu_read, "gpu_read", true, true, false, false, false, true, true},
    {ChannelKind::gpu_write, "gpu_write", true, true, false, false, false, true, false},
    {ChannelKind::gpu_copy, "gpu_copy", true, false, true, false, false, true, false},
    {ChannelKind::gpu_peer, "gpu_peer", true, false, false, false, false, true, false},
    {ChannelKind::file_read, "file_read", false, false, false, true, false, false, true},
    {ChannelKind::file_write, "file_write", false, false, false, true, false, false, false},
    {ChannelKind::remote_write, "remote_write", false, false, false, false, true, false, false},
    {ChannelKind::remote_read, "remote_read", false, false, false, false, true, false, true},
}};
static_assert(in_order(channel_kinds));

constexpr const ChannelTraits& traits_of(ChannelKind kind) { return entry_of(channel_kinds, kind); }

/// Returns the name of the kind, such as "gpu_write".
constexpr const char* to_string(ChannelKind kind) { return traits_of(kind).name; }

/// Returns the kind of that name.
/// @error invalid_argument if there is none; the message lists the names
Result<ChannelKind> channel_kind_from(const std::string& text);

}  // namespace tranship
