#include "plain_arrays.hpp"

#include <algorithm>

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
  const bool same = last.number != 0 && last.type.code == type.code && last.type.bits == type.bits &&
                    last.type.lanes == type.lanes;
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
  const NumpyType* type = type_of(*numpy);
  if (type == nullptr) return false;
  array.address = reinterpret_cast<std::byte*>(numpy->data);
  array.type = type->number;
  array.item_bytes = type->bytes;
  array.rank = numpy->rank;
  array.shape = numpy->shape;
  array.strides = numpy->strides;
  return array.type != 0 && has_elements(array);
}

bool read_gpu_tensor(nb::handle object, bool writable, PlainArray& array,
                     const ExchangeTable*& table) {
  const TypeTable found = table_of(Py_TYPE(object.ptr()));
  const bool readable = found.table != nullptr && found.table->to_tensor != nullptr;
  if (!readable || (writable && !found.is_pytorch)) return false;
  nb::dlpack::dltensor tensor{};
  if (found.table->to_tensor(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  if (tensor.device.device_type != on_cuda || tensor.data == nullptr) return false;
  if (tensor.ndim > dimensions_max || needs_checks(object, tensor.dtype)) return false;
  // What needs_checks() asks may run code that changes the tensor, but for PyTorch's own types.
  if (!found.is_pytorch && found.table->to_tensor(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  table = found.table;
  array.address = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  array.memory_kind = MemoryKind::device;
  array.device = tensor.device.device_id;
  array.type = type_number_of(tensor.dtype);
  array.item_bytes = std::int64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  array.rank = tensor.ndim;
  array.shape = tensor.shape;
  array.strides = tensor.strides;
  array.stride_unit = array.item_bytes;
  return array.type != 0 && has_elements(array);
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
