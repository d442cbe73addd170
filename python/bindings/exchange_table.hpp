// DLPack's C exchange table, by which a library's tensors are read without a call of Python code.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

#include "bindings.hpp"

namespace tranship::python {

/// A tensor and what its producer keeps of it; the standard defines the layout.
struct VersionedTensor {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  void* context = nullptr;
  void (*deleter)(VersionedTensor*) = nullptr;
  std::uint64_t flags = 0;
  nb::dlpack::dltensor tensor;
};

constexpr std::uint64_t flag_read_only = 1;

/// DLPack's numbers of device types whose memory has an address.
enum : std::int32_t { on_cpu = 1, on_cuda = 2, on_cuda_host = 3, on_cuda_managed = 13 };

/// DLPack's C exchange table (version 1.2 of the standard and later), which defines its layout.
struct ExchangeTable {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  ExchangeTable* previous = nullptr;
  int (*allocate)(void*, void**, void*, void (*)(void*, const char*, const char*)) = nullptr;
  int (*to_managed)(void* object, VersionedTensor** tensor) = nullptr;
  int (*from_managed)(VersionedTensor* tensor, void** object) = nullptr;
  int (*to_tensor)(void* object, nb::dlpack::dltensor* tensor) = nullptr;  ///< may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream) = nullptr;
};

/// An attribute of tensors that is true or false, or a method without arguments that returns one.
class Question {
 public:
  Question() = default;
  /// name: Of the attribute, kept for ever. called: Whether it is a method. direct_type: A type of
  /// which all instances have what it has itself, so that its C function answers, without a search
  /// for the name; null: the name is looked up each time.
  Question(PyObject* name, bool called, PyTypeObject* direct_type);

  /// Whether an object answers something else than no. An object without the attribute says no.
  /// @throws what the object's library raises
  bool yes(nb::handle object) const;

 private:
  PyObject* name_ = nullptr;
  bool called_ = false;
  getter get_ = nullptr;  ///< null: the attribute is looked up by its name
  void* closure_ = nullptr;
  PyCFunction function_ = nullptr;  ///< null: the method is looked up by its name
};

/// The exchange table of a type, and what is known of its library.
struct TypeTable {
  const ExchangeTable* table = nullptr;  ///< in a version that is understood; null: there is none
  /// The type is one of PyTorch's own: none of its tensors is read-only, and none runs code of the
  /// user's when it is asked for an attribute.
  bool is_pytorch = false;
  Question requires_gradient;
  Question is_negated;
  Question is_conjugated;
};

/// Returns the table of a type; each thread remembers that of the last type that had one, and the
/// result is valid until it asks for another.
const TypeTable& table_of(PyTypeObject* type);

/// Returns whether a tensor says by itself that its memory does not hold all that it means, or that
/// its library refuses to hand it over: it requires a gradient, or is conjugated or negated when it
/// is read. The tensor's library defines what it has of these; no whole numbers have any, and
/// complex numbers alone are conjugated.
/// @throws what the library raises when it is asked
bool needs_checks(const TypeTable& found, nb::handle object, const nb::dlpack::dtype& type);

/// Returns NumPy's name of a type; "V2" and the like for types that NumPy does not have.
std::string type_name(const nb::dlpack::dtype& type, std::int64_t bytes);

/// Stores the stream that the table's library works in on the GPU now (1: the default stream).
/// Returns false, without a Python exception, if the library does not say.
bool current_stream(const ExchangeTable& table, int device, std::uintptr_t& stream);

}  // namespace tranship::python
