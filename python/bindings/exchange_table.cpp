#include "exchange_table.hpp"

#include <array>
#include <span>
#include <utility>

namespace tranship::python {
namespace {

TypeTable find_table(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const nb::object capsule = attribute(reinterpret_cast<PyObject*>(type), name);
  if (!capsule.is_valid()) return {};
  constexpr const char* capsule_name = "dlpack_exchange_api";
  if (PyCapsule_IsValid(capsule.ptr(), capsule_name) == 0) return {};
  const auto* table =
      static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), capsule_name));
  while (table != nullptr && table->major > 1) table = table->previous;
  if (table == nullptr || table->major != 1) return {};
  return {table, is_of_module(type, "torch")};
}

/// Clears the exception that says that an object lacks an attribute.
/// @throws any other
void clear_missing() {
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
  PyErr_Clear();
}

}  // namespace

TypeTable table_of(PyTypeObject* type) {
  thread_local PyTypeObject* last = nullptr;  // kept for ever: a thread may outlive the interpreter
  thread_local TypeTable last_found;
  if (type == last) return last_found;
  const TypeTable found = find_table(type);
  if (found.table == nullptr) return {};
  Py_INCREF(type);
  Py_XDECREF(std::exchange(last, type));
  last_found = found;
  return found;
}

bool needs_checks(nb::handle object, const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  if (code == Code::Int || code == Code::UInt || code == Code::Bool) return false;
  static PyObject* const gradient = PyUnicode_InternFromString("requires_grad");
  static const std::array<PyObject*, 2> lazy{PyUnicode_InternFromString("is_neg"),
                                             PyUnicode_InternFromString("is_conj")};
  const nb::object required = nb::steal(PyObject_GetAttr(object.ptr(), gradient));
  if (!required.is_valid()) {
    clear_missing();
  } else if (required.ptr() != Py_False) {
    return true;
  }
  const std::size_t asked = code == Code::Float ? 1 : lazy.size();
  for (PyObject* name : std::span(lazy).first(asked)) {
    const nb::object answer = nb::steal(PyObject_CallMethodNoArgs(object.ptr(), name));
    if (!answer.is_valid()) {
      clear_missing();
    } else if (answer.ptr() != Py_False) {
      return true;
    }
  }
  return false;
}

bool current_stream(const ExchangeTable& table, int device, std::uintptr_t& stream) {
  void* handle = nullptr;
  if (table.current_stream == nullptr || table.current_stream(on_cuda, device, &handle) != 0) {
    PyErr_Clear();
    return false;
  }
  stream = handle == nullptr ? 1 : reinterpret_cast<std::uintptr_t>(handle);
  return true;
}

}  // namespace tranship::python
