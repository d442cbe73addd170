#include "channels/host/type_packer.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "channels/host/host_program.hpp"
#include "datatypes/type_form.hpp"
#include "datatypes/type_lowering.hpp"
#include "os/caches.hpp"

namespace tranship {
namespace {

/// Returns the packed bytes of a type, as a type.
Result<Datatype> packed_type(const Datatype& type) {
  const auto byte = Datatype::element("V1");
  if (!byte) return byte.error();
  return Datatype::contiguous(type.bytes(), *byte);
}

/// Compiles the copy between the elements of a type, whose offsets count from the address that a
/// copy is given, and packed bytes.
/// @error invalid_argument for an unpack if the type names a byte twice; unsupported as
/// lower_types()
Result<HostProgram> compiled(const Datatype& type, bool unpacks) {
  if (unpacks && !type.disjoint()) {
    return Error{
        ErrorCode::invalid_argument,
        "the type " + type.text() + " names a byte twice, so nothing can be unpacked to it",
        "unpack to a type whose elements do not share bytes"};
  }
  const auto packed = packed_type(type);
  if (!packed) return packed.error();
  const TypeForm& places = type.form();
  const TypeForm& dense = packed->form();
  IndexedCopy copy;
  Status lowered =
      lower_types(unpacks ? dense : places, unpacks ? places : dense, 0, 0, type.bytes(), copy);
  if (!lowered) return lowered.error();
  copy.finish();
  return HostProgram(copy.nests());
}

/// Checks that no element of a type at `items` shares a byte with the packed bytes.
Status check_apart(const Datatype& type, const std::byte* items, const std::byte* packed) {
  const std::int64_t distance =
      reinterpret_cast<std::intptr_t>(packed) - reinterpret_cast<std::intptr_t>(items);
  if (type.true_upper_bound() <= distance || distance + type.bytes() <= type.true_lower_bound()) {
    return {};
  }
  const auto dense = packed_type(type);
  if (!dense) return dense.error();
  if (!share_bytes(type.form(), dense->form(), distance)) return {};
  return Error{ErrorCode::invalid_argument, "the items and the packed bytes overlap",
               "use memory of their own for the packed bytes"};
}

/// A program that is compiled at its first use.
class Compiled {
 public:
  template <typename Compile>
  const Result<HostProgram>& get(const Compile& compile) {
    std::call_once(once_, [&] { program_.emplace(compile()); });
    return *program_;
  }

 private:
  std::once_flag once_;
  std::optional<Result<HostProgram>> program_;
};

/// Returns the argument `cold` of copy_nests() for a copy of this many bytes.
bool is_cold(std::int64_t bytes) {
  static const std::int64_t cache_bytes = cache_bytes_at_hand();
  return 2 * bytes > cache_bytes;
}

}  // namespace

struct TypePacker::Programs {
  Compiled pack;
  Compiled unpack;
};

TypePacker::TypePacker(Datatype type)
    : type_(std::move(type)), programs_(std::make_shared<Programs>()) {}

Result<TypePacker> TypePacker::make(const Datatype& type, std::int64_t count) {
  auto items = Datatype::contiguous(count, type);
  if (!items) return items.error();
  return TypePacker(std::move(*items));
}

/// Checks that items at a null address have addresses of their own.
/// @error invalid_argument if the type begins in the first page, which no program has
Status TypePacker::check(const std::byte* items) const {
  constexpr std::int64_t page_bytes = 4096;
  if (items != nullptr || type_.true_lower_bound() >= page_bytes) return {};
  return Error{ErrorCode::invalid_argument, "the argument `items` is NULL",
               "pass an address, or a type of absolute addresses"};
}

Status TypePacker::pack(const std::byte* items, std::byte* packed) const {
  if (bytes() == 0) return {};
  if (Status status = check(items); !status) return status;
  const auto& program = programs_->pack.get([&] { return compiled(type_, false); });
  if (!program) return program.error();
  if (Status apart = check_apart(type_, items, packed); !apart) return apart;
  program->copy(items, packed, is_cold(bytes()));
  return {};
}

Status TypePacker::unpack(const std::byte* packed, std::byte* items) const {
  if (bytes() == 0) return {};
  if (Status status = check(items); !status) return status;
  const auto& program = programs_->unpack.get([&] { return compiled(type_, true); });
  if (!program) return program.error();
  if (Status apart = check_apart(type_, items, packed); !apart) return apart;
  program->copy(packed, items, is_cold(bytes()));
  return {};
}

}  // namespace tranship
