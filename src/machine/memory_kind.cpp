#include "machine/memory_kind.hpp"

#include <array>
#include <span>

#include "machine/kind_names.hpp"

namespace tranship {
namespace {

struct MemoryKindEntry {
  MemoryKind kind;
  const char* name;
  bool readable;  ///< a profile may list memories of this kind
};

constexpr std::array<MemoryKindEntry, memory_kind_count> memory_kinds{{
    {MemoryKind::host, "host", true},
    {MemoryKind::pinned, "pinned", true},
    {MemoryKind::registered, "registered", true},
    {MemoryKind::device, "device", true},
    {MemoryKind::managed, "managed", false},
    {MemoryKind::shared, "shared", false},
    {MemoryKind::file, "file", true},
    {MemoryKind::near_process, "near_process", false},
    {MemoryKind::far_process, "far_process", false},
}};
static_assert(in_order(memory_kinds));

}  // namespace

const char* to_string(MemoryKind kind) { return entry_of(memory_kinds, kind).name; }

Result<MemoryKind> memory_kind_from(const std::string& text) {
  return kind_named<MemoryKind>(std::span<const MemoryKindEntry>(memory_kinds), text);
}

}  // namespace tranship
