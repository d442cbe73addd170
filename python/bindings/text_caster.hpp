// Texts between Python and the core, in place of nanobind/stl/string.h.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace nanobind::detail {

/// A Python str is UTF-8 in the core. Bytes that are no UTF-8, which names of files may have, are
/// lone surrogates in Python, as os.fsdecode() makes them. Any other lone surrogate is refused.
template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    Py_ssize_t size = 0;
    if (const char* text = PyUnicode_AsUTF8AndSize(source.ptr(), &size); text != nullptr) {
      value.assign(text, static_cast<std::size_t>(size));
      return true;
    }
    PyErr_Clear();
    if (!PyUnicode_Check(source.ptr())) return false;
    const object bytes = steal(PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
    if (!bytes.is_valid()) {
      PyErr_Clear();
      return false;
    }
    value.assign(PyBytes_AS_STRING(bytes.ptr()),
                 static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
    return true;
  }

  static handle from_cpp(const std::string& value, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(value.c_str(), static_cast<Py_ssize_t>(value.size()),
                                "surrogateescape");
  }
};

}  // namespace nanobind::detail
