#include "engine/same_bytes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "channels/file/file.hpp"
#include "fabric/links/remote_array.hpp"

namespace tranship {
namespace {

/// A part of an array, in a space of bytes.
struct Part {
  MemoryName name;
  std::int64_t begin = 0;  ///< bytes from the array's base to the part
  std::int64_t bytes = 0;
};

enum class End { source, target };

bool is_addressed(const Array& array) {
  return cpu_reaches(array.memory_kind) || array.memory_kind == MemoryKind::device;
}

bool is_of_this_process(const Array& array) { return is_addressed(array) && !array.liveness; }

std::int64_t first_of(const Array& array) { return array.view.mapping->begin_bytes(); }
std::int64_t length_of(const Array& array) { return array.view.mapping->span_bytes(); }

bool ranges_meet(std::int64_t a, std::int64_t a_bytes, std::int64_t b, std::int64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/// Returns whether the memory is mapped at no other address.
bool is_shown_once(const Array& array) {
  return array.backing == Backing::own || array.memory_kind == MemoryKind::device ||
         in_heap(first_byte(array), length_of(array));
}

/// Returns whether two arrays of this process share only those bytes whose addresses are the same.
bool addresses_decide(const Array& source, const Array& target) {
  if (source.liveness || target.liveness) return false;
  if (source.backing == Backing::shared && target.backing == Backing::shared) return true;
  return is_shown_once(source) || is_shown_once(target);
}

/// Returns an array of a peer; null if the array is none.
const fabric::RemoteArray* remote_of(const Array& array) {
  if (array.liveness) return &array.liveness->remote();
  return dynamic_cast<const fabric::RemoteArray*>(array.place.attachment);
}

/// Returns where a peer's array begins, as addresses of `array` count.
const std::byte* base_of(const Array& array, const fabric::RemoteArray& remote) {
  if (array.memory_kind == MemoryKind::device) {
    const auto opened = array.liveness->address_for(array.opened_for);
    return opened ? *opened : array.place.address;
  }
  return array.liveness ? remote.mapped() : nullptr;
}

/// Whether it is known at once that an array of this process shares no byte with another one, which
/// is a peer's or a file's.
bool lies_elsewhere(const Array& own, const Array& other) {
  const fabric::RemoteArray* remote = remote_of(other);
  if (remote == nullptr) return other.memory_kind == MemoryKind::file && is_shown_once(own);
  if (remote->origin() == fabric::Origin::other_process) return true;
  return remote->origin() == fabric::Origin::file && is_shown_once(own);
}

/// Returns the place of an array that is another process's, or a file's.
std::optional<Part> distant_part(const Array& array) {
  Part part{{}, first_of(array), length_of(array)};
  if (const fabric::RemoteArray* remote = remote_of(array)) {
    part.name = remote->memory_name();
    part.name.offset += array.place.address - base_of(array, *remote);
  } else if (const auto* file = dynamic_cast<const File*>(array.place.attachment)) {
    part.name = {file_space(file->number()), reinterpret_cast<std::intptr_t>(array.place.address)};
  }
  if (part.name.space.empty()) return std::nullopt;
  part.name.offset += part.begin;
  return part;
}

/// Appends the places of an array of this process; `mapped`: those in files, too, for which the
/// kernel is asked.
void add_own_parts(const Array& array, End end, bool mapped, std::vector<Part>& parts) {
  const std::byte* first = first_byte(array);
  parts.push_back(
      {{own_space(), reinterpret_cast<std::intptr_t>(first)}, first_of(array), length_of(array)});
  if (!mapped || is_shown_once(array)) return;
  for (const MappedPart& part : mapped_parts(first, length_of(array))) {
    if (end == End::target && !part.shared) continue;  // what is written stays in this process
    parts.push_back(
        {{file_space(part.file), part.offset}, first_of(array) + (part.begin - first), part.bytes});
  }
}

std::optional<std::int64_t> common_distance(const std::vector<Part>& source,
                                            const std::vector<Part>& target) {
  for (const Part& a : source) {
    for (const Part& b : target) {
      if (a.name.space != b.name.space) continue;
      if (!ranges_meet(a.name.offset, a.bytes, b.name.offset, b.bytes)) continue;
      return (b.name.offset - b.begin) - (a.name.offset - a.begin);
    }
  }
  return std::nullopt;
}

/// Compares the places of both arrays. The kernel is asked for an array of this process only if the
/// other one lies in a file or in shared memory.
std::optional<std::int64_t> distance_by_name(const Array& source, const Array& target) {
  for (const auto& [own, other] : {std::pair(&source, &target), {&target, &source}}) {
    if (is_of_this_process(*own) && lies_elsewhere(*own, *other)) return std::nullopt;
  }
  std::vector<Part> from;
  std::vector<Part> to;
  const auto add = [&](const Array& array, End end, bool mapped) {
    std::vector<Part>& parts = end == End::source ? from : to;
    if (is_of_this_process(array)) {
      add_own_parts(array, end, mapped, parts);
    } else if (auto part = distant_part(array)) {
      parts.push_back(std::move(*part));
    }
    return std::any_of(parts.begin(), parts.end(),
                       [](const Part& part) { return is_file_space(part.name.space); });
  };
  if (is_of_this_process(source)) {
    if (is_of_this_process(target) && is_shown_once(target)) return std::nullopt;
    const bool in_file = add(target, End::target, true);
    add(source, End::source, in_file);
  } else {
    const bool in_file = add(source, End::source, true);
    add(target, End::target, in_file);
  }
  return common_distance(from, to);
}

/// Whether both are parts of one file, which was opened once, or of one export.
bool of_one_object(const Array& source, const Array& target) {
  if (source.place.attachment == target.place.attachment) return true;
  const auto* from = dynamic_cast<const fabric::RemoteArray*>(source.place.attachment);
  const auto* to = dynamic_cast<const fabric::RemoteArray*>(target.place.attachment);
  return from != nullptr && to != nullptr && from->peer() == to->peer() &&
         from->remote().id == to->remote().id;
}

}  // namespace

std::optional<std::int64_t> distance_between(const Array& source, const Array& target) {
  const std::int64_t apart = target.place.address - source.place.address;
  if (is_addressed(source) && is_addressed(target)) {
    const bool meet = ranges_meet(first_of(source), length_of(source), apart + first_of(target),
                                  length_of(target));
    if (meet || addresses_decide(source, target)) return apart;
  } else if (!is_addressed(source) && !is_addressed(target) && of_one_object(source, target)) {
    return apart;
  }
  return distance_by_name(source, target);
}

bool lie_apart(const Mapping& source, const Mapping& target, std::int64_t distance) {
  return source.end_bytes() <= distance + target.begin_bytes() ||
         distance + target.end_bytes() <= source.begin_bytes();
}

MemoryName name_of_export(const Array& array) {
  const std::byte* first = first_byte(array);
  if (array.memory_kind == MemoryKind::device) {
    return {own_space(), reinterpret_cast<std::intptr_t>(first)};
  }
  if (is_addressed(array)) return name_of_memory(first, length_of(array));
  const auto part = distant_part(array);
  return part ? part->name : MemoryName{};
}

}  // namespace tranship
