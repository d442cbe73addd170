// Arrays on GPUs: tensors handed over through DLPack, memory that an engine allocates, streams.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "exchange_table.hpp"
#include "gpu/gpus.hpp"

namespace tranship::python {
namespace {

/// The older of the two DLPack structures in which producers pass a tensor.
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};

/// Types that ml_dtypes adds to NumPy, by DLPack's type code; only bfloat16 has 16 bits.
constexpr std::array<const char*, 15> added_types{
    nullptr,         nullptr,           nullptr,       nullptr,           "bfloat16",
    nullptr,         nullptr,           "float8_e3m4", "float8_e4m3",     "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"};

/// The number of dimensions of a tensor that count: all, if there are no more than dimensions_max,
/// else those of several indices.
int counted_dimensions(const nb::dlpack::dltensor& tensor) {
  if (tensor.ndim <= dimensions_max) return tensor.ndim;
  return tensor.ndim - static_cast<int>(std::count(tensor.shape, tensor.shape + tensor.ndim, 1));
}

/// Returns the view of a tensor whose counted_dimensions() are at most dimensions_max.
View view_of(const nb::dlpack::dltensor& tensor, std::int64_t bytes) {
  std::array<std::int64_t, dimensions_max> shape{};
  std::array<std::int64_t, dimensions_max> strides{};
  const int rank = counted_dimensions(tensor);
  std::int64_t dense = bytes;
  auto at = static_cast<std::size_t>(rank);
  for (int k = tensor.ndim - 1; k >= 0; --k) {
    if (rank == tensor.ndim || tensor.shape[k] != 1) {
      shape[--at] = tensor.shape[k];
      strides[at] = tensor.strides != nullptr ? tensor.strides[k] * bytes : dense;
    }
    dense *= tensor.shape[k];
  }
  const std::string type = type_name(tensor.dtype, bytes);
  return View::whole(cached_mapping({type.c_str(), bytes, rank, shape.data(), strides.data()}));
}

/// Returns the array with its memory marked as "host", "pinned" or "device", ready after the work
/// in `stream`.
Array placed(Array array, const std::string& where, int device,
             std::optional<std::uintptr_t> stream) {
  array.memory_kind = unwrap(memory_kind_from(where));
  array.device = device;
  array.stream = stream;
  array.name = where == "device"   ? "a GPU array"
               : where == "pinned" ? "a pinned array"
                                   : "a host array";
  return array;
}

Array array_of_tensor(const nb::dlpack::dltensor& tensor, bool writable,
                      std::shared_ptr<void> owner) {
  const std::int64_t bits = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  if (bits < 8 || bits % 8 != 0) {
    raise({ErrorCode::invalid_argument,
           "the tensor's elements have " + std::to_string(bits) + " bits",
           "give one whose elements are whole bytes"});
  }
  if (counted_dimensions(tensor) > dimensions_max) {
    raise({ErrorCode::invalid_argument,
           "the tensor has " + std::to_string(counted_dimensions(tensor)) +
               " dimensions of several indices, and arrays have up to " +
               std::to_string(dimensions_max),
           "join some of them (reshape)"});
  }
  Array array;
  array.view = view_of(tensor, bits / 8);
  array.place.address = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  array.name = "a host array";
  array.writable = writable;
  array.owner = std::move(owner);
  switch (tensor.device.device_type) {
    case on_cpu:
    case on_cuda_host: return array;  // the engine asks the driver which host memory is pinned
    case on_cuda: return placed(std::move(array), "device", tensor.device.device_id, {});
    case on_cuda_managed: return placed(std::move(array), "device", -1, {});
    default:
      raise({ErrorCode::invalid_argument,
             "the tensor lies on a DLPack device of type " +
                 std::to_string(tensor.device.device_type) +
                 "; memory of the host and of CUDA GPUs can be read",
             "copy it there first"});
  }
}

/// A tensor that its producer's deleter releases.
template <typename Managed>
struct KeptTensor : Kept {
  explicit KeptTensor(Managed* given) : tensor(given) {}
  ~KeptTensor() override {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
  Managed* tensor;
};

/// Takes the tensor out of its capsule; the producer's deleter runs when the last user has ended.
template <typename Managed>
std::shared_ptr<void> take(PyObject* capsule, const char* name, const char* used_name,
                           Managed*& managed) {
  managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) throw nb::python_error();
  if (PyCapsule_SetName(capsule, used_name) != 0) throw nb::python_error();
  return hold(std::make_unique<KeptTensor<Managed>>(managed), managed);
}

Array from_dlpack(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    VersionedTensor* managed = nullptr;
    auto owner = take(capsule.ptr(), "dltensor_versioned", "used_dltensor_versioned", managed);
    if (managed->major != 1) {
      raise({ErrorCode::invalid_argument,
             "the tensor comes in version " + std::to_string(managed->major) +
                 " of DLPack, and version 1 is understood",
             "use an "
             "older release of the library that made it"});
    }
    return array_of_tensor(managed->tensor, (managed->flags & flag_read_only) == 0,
                           std::move(owner));
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    ManagedTensor* managed = nullptr;
    auto owner = take(capsule.ptr(), "dltensor", "used_dltensor", managed);
    return array_of_tensor(managed->tensor, true, std::move(owner));
  }
  raise({ErrorCode::invalid_argument, "__dlpack__() gave no tensor, or one that was taken before",
         "call it once a copy"});
}

/// Reads a tensor through its table: with its flags, for a target, and with its memory, if that is
/// asked for; another without an allocation. Returns false, without a Python exception, if the
/// library refuses, or the tensor has to be `writable` and is not. Stores in `writable` whether it
/// is known to be.
bool read_tensor(const TypeTable& found, nb::handle object, bool& writable, Hold held,
                 nb::dlpack::dltensor& tensor, std::shared_ptr<void>& owner) {
  const ExchangeTable& table = *found.table;
  const bool flags_matter = writable && !found.is_pytorch;
  if (!flags_matter && held != Hold::memory && table.to_tensor != nullptr) {
    writable = writable || found.is_pytorch;
    if (table.to_tensor(object.ptr(), &tensor) == 0) return true;
    PyErr_Clear();
    return false;
  }
  VersionedTensor* managed = nullptr;
  if (table.to_managed == nullptr || table.to_managed(object.ptr(), &managed) != 0) {
    PyErr_Clear();
    return false;
  }
  owner = hold(std::make_unique<KeptTensor<VersionedTensor>>(managed), managed);
  tensor = managed->tensor;
  const bool read_only = (managed->flags & flag_read_only) != 0;
  const bool usable = managed->major == 1 && !(writable && read_only);
  writable = !read_only;
  return usable;
}

}  // namespace

std::string type_name(const nb::dlpack::dtype& type, std::int64_t bytes) {
  using Code = nb::dlpack::dtype_code;
  const std::string size = std::to_string(bytes);
  if (type.lanes == 1) {
    switch (static_cast<Code>(type.code)) {
      case Code::Int: return "i" + size;
      case Code::UInt: return "u" + size;
      case Code::Float: return "f" + size;
      case Code::Complex: return "c" + size;
      case Code::Bool: return "b" + size;
      default: break;
    }
    if (type.code < added_types.size() && added_types[type.code] != nullptr &&
        bytes == (type.code == 4 ? 2 : 1)) {
      return added_types[type.code];
    }
  }
  return "V" + size;
}

bool from_exchange_table(nb::handle object, bool writable, Hold held, Follows follows,
                         Array& array) {
  const TypeTable found = table_of(Py_TYPE(object.ptr()));  // a copy: the tensor may run any code
  if (found.table == nullptr) return false;
  nb::dlpack::dltensor tensor{};
  std::shared_ptr<void> owner;
  if (!read_tensor(found, object, writable, held, tensor, owner)) return false;
  if (needs_checks(found, object, tensor.dtype)) return false;
  const std::int32_t where = tensor.device.device_type;
  const std::int64_t bits = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  const bool usable = (where == on_cpu || where == on_cuda || where == on_cuda_host) && bits >= 8 &&
                      bits % 8 == 0 && counted_dimensions(tensor) <= dimensions_max;
  if (!usable) return false;
  array.view = view_of(tensor, bits / 8);
  const bool empty = array.view.points() == 0;
  if (tensor.data == nullptr && !empty) return false;  // it has no memory of its own
  array.place.address = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  array.writable = writable;
  array.name = "a host array";
  array.owner = std::move(owner);
  if (!array.owner && held != Hold::nothing) array.owner = keep(object);
  if (where != on_cuda || empty) return true;
  array.memory_kind = MemoryKind::device;
  array.device = tensor.device.device_id;
  array.name = "a GPU array";
  if (follows != Follows::current) return true;
  std::uintptr_t stream = 0;
  if (!current_stream(*found.table, array.device, stream)) return false;
  array.stream = stream;
  return true;
}

namespace {

/// Returns DLPack's type of elements with this name.
/// @throws Error (unsupported) for a type that DLPack does not have
nb::dlpack::dtype dlpack_type(const Field& field) {
  using Code = nb::dlpack::dtype_code;
  nb::dlpack::dtype type;
  type.bits = static_cast<std::uint8_t>(field.bytes * 8);
  type.lanes = 1;
  const auto added = std::find_if(added_types.begin(), added_types.end(), [&](const char* name) {
    return name != nullptr && field.type == name;
  });
  if (added != added_types.end()) {
    type.code = static_cast<std::uint8_t>(added - added_types.begin());
    return type;
  }
  static constexpr std::array<std::pair<char, Code>, 5> plain{{{'i', Code::Int},
                                                               {'u', Code::UInt},
                                                               {'f', Code::Float},
                                                               {'c', Code::Complex},
                                                               {'b', Code::Bool}}};
  const auto found = std::find_if(plain.begin(), plain.end(), [&](const auto& one) {
    return field.type == one.first + std::to_string(field.bytes);
  });
  if (found == plain.end() || field.bytes > 16) {
    raise({ErrorCode::unsupported, "DLPack has no type " + field.type,
           "take one field, or view the array as a type that it has"});
  }
  type.code = static_cast<std::uint8_t>(found->second);
  return type;
}

/// What a tensor that was handed out refers to.
template <typename Managed>
struct HandedOut {
  Managed managed;
  Array array;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< elements
};

/// Fills in a tensor that refers to an array of one field.
template <typename Managed>
Managed* hand_out(const Array& array, std::int32_t device_type, int device) {
  const Mapping& mapping = *array.view.mapping;
  const Placement& field = mapping.fields().front();
  const nb::dlpack::dtype type = dlpack_type(field.field);
  auto kept = std::make_unique<HandedOut<Managed>>();
  kept->array = array;
  std::int64_t offset = field.offset;
  for (std::size_t k = 0; k < mapping.space().size(); ++k) {
    const std::int64_t stride = field.dimension[k].level[0].stride;
    if (field.dimension[k].count > 1 || stride % field.field.bytes != 0) {
      raise({ErrorCode::unsupported,
             "the elements do not lie whole elements apart, as DLPack requires",
             "hand over a copy: array.copy()"});
    }
    offset += array.view.lower[k] * stride;
    kept->shape.push_back(array.view.extents[k]);
    kept->strides.push_back(stride / field.field.bytes);
  }
  nb::dlpack::dltensor& tensor = kept->managed.tensor;
  tensor.data = array.view.points() == 0 ? nullptr : array.place.address + offset;
  tensor.device.device_type = device_type;
  tensor.device.device_id = device;
  tensor.ndim = static_cast<std::int32_t>(kept->shape.size());
  tensor.dtype = type;
  tensor.shape = kept->shape.data();
  tensor.strides = kept->strides.data();
  kept->managed.context = kept.get();
  kept->managed.deleter = [](Managed* managed) {
    delete static_cast<HandedOut<Managed>*>(managed->context);
  };
  return &kept.release()->managed;
}

/// Returns a capsule that whoever takes the tensor renames; else it deletes the tensor.
template <typename Managed>
nb::object capsule_of(Managed* managed, const char* name) {
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* object) {
    const char* named = PyCapsule_GetName(object);
    if (named == nullptr || std::strncmp(named, "used_", 5) == 0) return;
    auto* held = static_cast<Managed*>(PyCapsule_GetPointer(object, named));
    if (held != nullptr) held->deleter(held);
  });
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

/// Returns the DLPack capsule of an array of one field in memory of this process. versioned:
/// Whether it is of version 1 of the standard, which can say that an array is read-only.
nb::object to_dlpack(const Array& array, int device_type, int device, bool versioned) {
  if (!versioned) {
    if (!array.writable) {
      raise({ErrorCode::unsupported,
             "the array is read-only, which DLPack before version 1 "
             "cannot say",
             "hand over a copy: array.copy()"});
    }
    return capsule_of(hand_out<ManagedTensor>(array, device_type, device), "dltensor");
  }
  auto* managed = hand_out<VersionedTensor>(array, device_type, device);
  managed->major = 1;
  managed->flags = array.writable ? 0 : flag_read_only;
  return capsule_of(managed, "dltensor_versioned");
}

}  // namespace

void bind_device_arrays(nb::module_& module) {
  module.def("from_dlpack", &from_dlpack, nb::arg("capsule"),
             nb::sig("def from_dlpack(capsule: object) -> Array"));
  module.def("to_dlpack", &to_dlpack, nb::arg("array"), nb::arg("device_type"), nb::arg("device"),
             nb::arg("versioned"),
             nb::sig("def to_dlpack(array: Array, device_type: int, device: int, versioned: bool) "
                     "-> object"));
  module.def("placed", &placed, nb::arg("array"), nb::arg("where"), nb::arg("device"),
             nb::arg("stream").none());
}

}  // namespace tranship::python
