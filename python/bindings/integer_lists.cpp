#include "integer_lists.hpp"

#include "numpy_array.hpp"

namespace tranship::python {

IntegerLists::IntegerLists(std::initializer_list<nb::handle> given, const char* converter) {
  if (read(given)) return;
  nb::list all;
  for (const nb::handle one : given) all.append(one);
  const nb::object made = nb::module_::import_("tranship.arguments").attr(converter)(*all);
  for (std::size_t k = 0; k < given.size(); ++k) {
    converted_[k] = nb::cast<Indices>(made[k]);
    lists_[k] = {converted_[k].data(), converted_[k].size()};
  }
}

bool IntegerLists::read(std::initializer_list<nb::handle> given) {
  std::size_t number = 0;
  for (const nb::handle one : given) {
    const NumpyArray* array = plain_numpy(one);
    const bool plain = array != nullptr && array->type == numpy_int64() && array->rank == 1 &&
                       (array->shape[0] < 2 || array->strides[0] == sizeof(std::int64_t)) &&
                       reinterpret_cast<std::uintptr_t>(array->data) % alignof(std::int64_t) == 0;
    if (!plain) return false;
    lists_[number++] = {reinterpret_cast<const std::int64_t*>(array->data),
                        static_cast<std::size_t>(array->shape[0])};
  }
  return true;
}

}  // namespace tranship::python
