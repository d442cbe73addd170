// The fields of NumPy arrays, read without a call of NumPy.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>

#include "engine/array.hpp"

namespace tranship::python {

namespace nb = nanobind;

/// The beginning of a NumPy array, which NumPy's binary interface fixes (PyArrayObject_fields).
/// Reading it costs a fraction of the buffer protocol, which describes the type as text.
struct NumpyArray {
  PyObject head;
  char* data;
  int rank;
  const Py_ssize_t* shape;
  const Py_ssize_t* strides;
  PyObject* base;
  PyObject* type;  ///< the dtype, which is never changed
  int flags;

  /// Whether its elements fill one block from `data` on, the first or the last dimension fastest.
  bool contiguous() const { return (flags & 0x0003) != 0; }
  bool writable() const { return (flags & 0x0400) != 0; }
  bool owns_data() const { return (flags & 0x0004) != 0; }
  /// Returns whether the other array has the same type, shape and strides.
  bool same_form(const NumpyArray& other) const {
    return type == other.type && rank == other.rank &&
           std::equal(shape, shape + rank, other.shape) &&
           std::equal(strides, strides + rank, other.strides);
  }
};

/// Returns the fields of an array of exactly NumPy's type; null for any other object, and if this
/// NumPy keeps its fields elsewhere.
const NumpyArray* plain_numpy(nb::handle object);

/// An element type, with the name that the buffer protocol gives it. A dtype is never changed.
struct NumpyType {
  PyObject* dtype = nullptr;  ///< owned, so that its address is not given to another one
  const char* name = nullptr;
  std::int64_t bytes = 0;
  std::int64_t number = 0;  ///< type_number_of()
};

/// Returns the element type of a dtype that this thread has read before; null for any other.
const NumpyType* type_of(nb::handle dtype);
/// Returns the element type of a dtype of plain numbers; null for any other. Reads a dtype that
/// type_of() does not find.
const NumpyType* learned_type(nb::handle dtype);

/// Returns the backing of an array's memory, which the last of its base objects has allocated.
Backing backing_of(nb::handle object);

/// Returns whether two arrays can share bytes only where their addresses are the same: at most one
/// of them lies in memory that may be mapped at a second address.
bool addresses_decide(nb::handle source, nb::handle target);

/// Returns NumPy's dtype of 64-bit integers, which all its arrays of them share.
const PyObject* numpy_int64();

}  // namespace tranship::python
