#include "plain_arrays.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "data/type_numbers.hpp"
#include "numpy_array.hpp"

namespace tranship::python {
namespace {

/// Returns type_number_of() a tensor's elements; 0 if they are not whole bytes.
std::int64_t type_number_of(const nb::dlpack::dtype& type) {
  struct Remembered {
    nb::dlpack::dtype type{};
    std::int64_t number = 0;
  };
  thread_local Remembered last;
  const bool same = last.number != 0 && last.type.code == type.code &&
                    last.type.bits == type.bits && last.type.lanes == type.lanes;
  if (!same) {
    const std::int64_t bits = std::int64_t{type.bits} * type.lanes;
    if (bits < 8 || bits % 8 != 0) return 0;
    last = {type, tranship::type_number_of(type_name(type, bits / 8), bits / 8)};
  }
  return last.number;
}

bool has_elements(const PlainArray& array) {
  return std::all_of(array.shape, array.shape + array.rank,
                     [](std::int64_t extent) { return extent > 0; });
}

}  // namespace

bool read_numpy(nb::handle object, bool writable, PlainArray& array) {
  const NumpyArray* numpy = plain_numpy(object);
  if (numpy == nullptr || numpy->rank > dimensions_max || (writable && !numpy->writable())) {
    return false;
  }
  const NumpyType* type = type_of(numpy->type);
  if (type == nullptr) return false;
  array.address = reinterpret_cast<std::byte*>(numpy->data);
  array.type = type->number;
  array.item_bytes = type->bytes;
  array.rank = numpy->rank;
  array.shape = numpy->shape;
  array.strides = numpy->strides;
  return array.type != 0 && has_elements(array);
}

namespace {

bool read_tensor(const TypeTable& found, nb::handle object, bool writable, PlainArray& array) {
  const bool readable = found.table->to_tensor != nullptr;
  if (!readable || (writable && !found.is_pytorch)) return false;
  nb::dlpack::dltensor tensor{};
  if (found.table->to_tensor(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  if (tensor.device.device_type != on_cuda || tensor.data == nullptr) return false;
  if (tensor.ndim > dimensions_max || needs_checks(found, object, tensor.dtype)) return false;
  // What needs_checks() asks may run code that changes the tensor, but for PyTorch's own types.
  if (!found.is_pytorch && found.table->to_tensor(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  array.address = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  array.device = tensor.device.device_id;
  array.type = type_number_of(tensor.dtype);
  array.item_bytes = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  array.rank = tensor.ndim;
  array.shape = tensor.shape;
  array.strides = tensor.strides;
  array.stride_unit = array.item_bytes;
  return true;
}

/// Reads the arrays of this package, which the core describes.
bool read_own(const Array& own, bool writable, ReadArray& array) {
  const Mapping& mapping = *own.view.mapping;
  const bool plain = own.memory_kind == MemoryKind::device && own.device >= 0 && !own.named &&
                     own.liveness == nullptr && mapping.type_number() != 0;
  if (!plain || (writable && !own.writable)) return false;
  const Placement& field = mapping.fields()[0];
  array.address = own.place.address + field.offset;
  array.device = own.device;
  array.type = mapping.type_number();
  array.item_bytes = field.field.bytes;
  array.rank = mapping.rank();
  for (std::size_t k = 0; k < static_cast<std::size_t>(array.rank); ++k) {
    array.own_shape[k] = own.view.extents[k];
    array.own_strides[k] = field.dimension[k].level[0].stride;
    array.address += own.view.lower[k] * array.own_strides[k];
  }
  array.shape = array.own_shape.data();
  array.strides = array.own_strides.data();
  return true;
}

/// Names of attributes of CuPy's arrays.
struct CupyNames {
  PyObject* data = PyUnicode_InternFromString("data");
  PyObject* ptr = PyUnicode_InternFromString("ptr");
  PyObject* device_id = PyUnicode_InternFromString("device_id");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* strides = PyUnicode_InternFromString("strides");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
};

/// Stores the whole numbers of a tuple. Returns their count; -1 if they are something else.
int read_tuple(const nb::object& tuple, Point& numbers) {
  if (!tuple.is_valid() || PyTuple_CheckExact(tuple.ptr()) == 0) return -1;
  const Py_ssize_t count = PyTuple_GET_SIZE(tuple.ptr());
  if (count > dimensions_max) return -1;
  for (Py_ssize_t k = 0; k < count; ++k) {
    const long long number = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), k));
    if (number == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return -1;
    }
    numbers[static_cast<std::size_t>(k)] = number;
  }
  return static_cast<int>(count);
}

bool is_cupy(PyTypeObject* type) {
  return is_of_module(type, "cupy") && std::string_view(type->tp_name).ends_with("ndarray");
}

/// Who describes the arrays of a type.
enum class Reader { none, table, own, cupy };

/// Returns the reader of an object's type. Each thread remembers the last type without an exchange
/// table (table_of() remembers the last one with a table): to find out that a type has no table
/// takes longer than to read an array.
Reader reader_of(nb::handle object, TypeTable& found) {
  struct Last {
    PyTypeObject* type = nullptr;  // kept for ever: a thread may outlive the interpreter
    Reader reader = Reader::none;
  };
  thread_local Last last;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (type == last.type) return last.reader;
  found = table_of(type);
  if (found.table != nullptr) return Reader::table;
  const Reader reader = own_array(object) != nullptr ? Reader::own
                        : is_cupy(type)              ? Reader::cupy
                                                     : Reader::none;
  Py_INCREF(type);
  Py_XDECREF(std::exchange(last, {type, reader}).type);
  return reader;
}

/// Reads CuPy's arrays by their attributes: it has no exchange table. None of them is read-only.
bool read_cupy(nb::handle object, ReadArray& array) {
  static const CupyNames& names = *new CupyNames;
  const nb::object data = attribute(object, names.data);
  const nb::object address = data.is_valid() ? attribute(data, names.ptr) : nb::object();
  const nb::object device = data.is_valid() ? attribute(data, names.device_id) : nb::object();
  const nb::object dtype = attribute(object, names.dtype);
  if (!address.is_valid() || !device.is_valid() || !dtype.is_valid()) return false;
  const int rank = read_tuple(attribute(object, names.shape), array.own_shape);
  if (rank < 0 || read_tuple(attribute(object, names.strides), array.own_strides) != rank) {
    return false;
  }
  const NumpyType* type = learned_type(dtype);
  std::uintptr_t pointer = 0;
  if (type == nullptr || !nb::try_cast(address, pointer) || pointer == 0 ||
      !nb::try_cast(device, array.device)) {
    return false;
  }
  array.address = reinterpret_cast<std::byte*>(pointer);
  array.type = type->number;
  array.item_bytes = type->bytes;
  array.rank = rank;
  array.shape = array.own_shape.data();
  array.strides = array.own_strides.data();
  return true;
}

}  // namespace

bool read_gpu_array(nb::handle object, bool writable, ReadArray& array, StreamAsked& asked) {
  array.memory_kind = MemoryKind::device;
  asked = {};
  TypeTable found;
  const Array* own = nullptr;
  bool read = false;
  switch (reader_of(object, found)) {
    case Reader::none: break;
    case Reader::table:
      asked.table = found.table;
      read = read_tensor(found, object, writable, array);
      break;
    case Reader::own:
      own = own_array(object);
      read = own != nullptr && read_own(*own, writable, array);
      break;
    case Reader::cupy:
      asked.type = Py_TYPE(object.ptr());
      read = read_cupy(object, array);
      break;
  }
  return read && array.type != 0 && has_elements(array);
}

std::optional<std::uintptr_t> current_stream(const StreamAsked& asked, nb::handle array,
                                             int device) {
  std::uintptr_t stream = 0;
  if (asked.table != nullptr) {
    return current_stream(*asked.table, device, stream) ? std::optional(stream) : std::nullopt;
  }
  return library_stream(array, device);
}

std::int64_t block_bytes(const PlainArray& array) {
  std::int64_t points = 1;
  for (int k = array.rank - 1; k >= 0; --k) {
    const bool dense = array.strides == nullptr || array.shape[k] == 1 ||
                       array.strides[k] * array.stride_unit == points * array.item_bytes;
    if (!dense) return 0;
    points *= array.shape[k];
  }
  return points * array.item_bytes;
}

}  // namespace tranship::python
