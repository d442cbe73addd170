#include "bindings.hpp"

namespace tranship::python {

void raise(const Error& error) {
  nb::gil_scoped_acquire held;
  nb::object make = nb::module_::import_("tranship.errors").attr("make");
  nb::object exception = make(to_string(error.code), error.message);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

std::shared_ptr<void> keep(nb::handle object) {
  object.inc_ref();
  return {object.ptr(), [](void* held) {
            if (!Py_IsInitialized()) return;
            nb::gil_scoped_acquire lock;
            Py_DECREF(static_cast<PyObject*>(held));
          }};
}

}  // namespace tranship::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // what scripts keep until the interpreter ends is no leak
  module.doc() = "The C++ core of Tranship; use the names of the package tranship instead.";
  tranship::python::bind_arrays(module);
  tranship::python::bind_device_arrays(module);
  tranship::python::bind_planning(module);
  tranship::python::bind_engine(module);
  tranship::python::bind_device_memory(module);
  tranship::python::bind_measuring(module);
  tranship::python::bind_simulation(module);
  tranship::python::bind_staging(module);
}
