#include "plain_types.hpp"

#include <cstddef>
#include <memory>

#include "channels/host/type_packer.hpp"
#include "datatypes/type_form.hpp"
#include "known_copies.hpp"
#include "numpy_array.hpp"
#include "remembered.hpp"

namespace tranship::python {
namespace {

/// A type that was packed or unpacked before. It keeps the type, so that the address of its form is
/// not another's.
struct Entry {
  const TypeForm* form = nullptr;
  bool unpacks = false;
  Datatype type;
  std::shared_ptr<const HostProgram> program;
};

std::shared_ptr<const HostProgram> make_program(const Datatype& type, bool unpacks) {
  return std::make_shared<const HostProgram>(
      unwrap(unpacks ? unpacking_program(type) : packing_program(type)));
}

const HostProgram& program_of(const Datatype& type, bool unpacks) {
  const TypeForm* form = &type.form();
  const auto hash =
      reinterpret_cast<std::uintptr_t>(form) * 0x9e3779b97f4a7c15u + (unpacks ? 1 : 0);
  Entry& entry = remembered<Entry>(hash);
  if (entry.form != form || entry.unpacks != unpacks) {
    entry = {form, unpacks, type, make_program(type, unpacks)};
  }
  return *entry.program;
}

bool is_contiguous(const NumpyArray& array) { return (array.flags & 0x0001) != 0; }

}  // namespace

bool pack_now(const Engine& engine, nb::handle array, std::int64_t array_bytes,
              const Datatype& type, nb::handle packed, std::int64_t packed_bytes, bool unpacks) {
  const NumpyArray* places = plain_numpy(array);
  const NumpyArray* dense = plain_numpy(packed);
  if (places == nullptr || dense == nullptr) return false;
  if (!is_contiguous(*places) || !is_contiguous(*dense)) return false;
  const std::int64_t bytes = type.bytes();
  const bool fits = bytes > 0 && bytes <= small_bytes && bytes <= packed_bytes &&
                    type.true_lower_bound() >= 0 && type.true_upper_bound() <= array_bytes;
  if (!fits || !(unpacks ? places : dense)->writable()) return false;
  const bool apart =
      places->data + array_bytes <= dense->data || dense->data + packed_bytes <= places->data;
  if (!apart || !addresses_decide(array, packed)) return false;
  if (!engine.usable() || engine.trace() != nullptr) return false;
  if (unpacks && !type.disjoint()) return false;
  const auto* from = reinterpret_cast<const std::byte*>(unpacks ? dense->data : places->data);
  auto* to = reinterpret_cast<std::byte*>(unpacks ? places->data : dense->data);
  program_of(type, unpacks).copy(from, to, false);
  return true;
}

}  // namespace tranship::python
