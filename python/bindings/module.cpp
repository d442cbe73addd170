#include "bindings.hpp"

namespace tranship::python {

namespace {

/// A message, in which bytes that are no UTF-8 are written as \\xff: it can be printed.
nb::object message_of(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.c_str(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

}  // namespace

void raise(const Error& error) {
  nb::gil_scoped_acquire held;
  nb::object make = nb::module_::import_("tranship.errors").attr("make");
  nb::object exception =
      make(to_string(error.code), message_of(error.message), message_of(error.hint));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

std::string shown(nb::handle object) {
  const nb::object show = nb::module_::import_("tranship.arguments").attr("shown");
  return nb::cast<std::string>(show(object));
}

bool is_of_module(PyTypeObject* type, const char* name) {
  static PyObject* const attribute_name = PyUnicode_InternFromString("__module__");
  const nb::object module = attribute(reinterpret_cast<PyObject*>(type), attribute_name);
  return module.is_valid() && PyUnicode_Check(module.ptr()) != 0 &&
         PyUnicode_CompareWithASCIIString(module.ptr(), name) == 0;
}

void check_interpreter() {
  if (interpreter_ends())
    raise({ErrorCode::closed, "the interpreter is ending", "open engines and files earlier"});
}

}  // namespace tranship::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // objects that live until the interpreter ends are not leaks
  module.doc() = "The C++ core of Tranship; use the names of the package tranship instead.";
  tranship::python::prepare_arrays();
  tranship::python::bind_interpreter(module);
  tranship::python::bind_arrays(module);
  tranship::python::bind_array_views(module);
  tranship::python::bind_device_arrays(module);
  tranship::python::bind_planning(module);
  tranship::python::bind_engine(module);
  tranship::python::bind_types(module);
  tranship::python::bind_prepared(module);
  tranship::python::bind_device_memory(module);
  tranship::python::bind_calibration(module);
  tranship::python::bind_processes(module);
  tranship::python::bind_simulation(module);
  tranship::python::bind_staging(module);
}
