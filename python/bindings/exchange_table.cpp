#include "exchange_table.hpp"

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
  static PyObject* const gradient = PyUnicode_InternFromString("requires_grad");
  static PyObject* const negated = PyUnicode_InternFromString("is_neg");
  static PyObject* const conjugated = PyUnicode_InternFromString("is_conj");
  const bool is_pytorch = is_of_module(type, "torch");
  PyTypeObject* const direct = is_pytorch ? type : nullptr;
  return {table, is_pytorch, Question(gradient, false, direct), Question(negated, true, direct),
          Question(conjugated, true, direct)};
}

/// Clears the exception that says that an object lacks an attribute.
/// @throws any other
void clear_missing() {
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
  PyErr_Clear();
}

}  // namespace

Question::Question(PyObject* name, bool called, PyTypeObject* direct_type)
    : name_(name), called_(called) {
  if (direct_type == nullptr) return;
  const nb::object found = attribute(reinterpret_cast<PyObject*>(direct_type), name);
  if (!found.is_valid()) return;
  if (!called && Py_IS_TYPE(found.ptr(), &PyGetSetDescr_Type)) {
    const auto* described = reinterpret_cast<const PyGetSetDescrObject*>(found.ptr());
    get_ = described->d_getset->get;
    closure_ = described->d_getset->closure;
  } else if (called && Py_IS_TYPE(found.ptr(), &PyMethodDescr_Type)) {
    const PyMethodDef& method = *reinterpret_cast<PyMethodDescrObject*>(found.ptr())->d_method;
    if (method.ml_flags == METH_NOARGS) function_ = method.ml_meth;
  }
}

bool Question::yes(nb::handle object) const {
  PyObject* const asked = object.ptr();
  const nb::object answer = nb::steal(get_ != nullptr        ? get_(asked, closure_)
                                      : function_ != nullptr ? function_(asked, nullptr)
                                      : called_ ? PyObject_CallMethodNoArgs(asked, name_)
                                                : PyObject_GetAttr(asked, name_));
  if (answer.is_valid()) return answer.ptr() != Py_False;
  clear_missing();
  return false;
}

const TypeTable& table_of(PyTypeObject* type) {
  thread_local PyTypeObject* last = nullptr;  // kept for ever: a thread may outlive the interpreter
  thread_local TypeTable last_found;
  static const TypeTable none;
  if (type == last) return last_found;
  const TypeTable found = find_table(type);
  if (found.table == nullptr) return none;
  Py_INCREF(type);
  Py_XDECREF(std::exchange(last, type));
  last_found = found;
  return last_found;
}

bool needs_checks(const TypeTable& found, nb::handle object, const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  if (code == Code::Int || code == Code::UInt || code == Code::Bool) return false;
  return found.requires_gradient.yes(object) || found.is_negated.yes(object) ||
         (code == Code::Complex && found.is_conjugated.yes(object));
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
