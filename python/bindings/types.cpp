// Types of elements at places, and copies between them, in Python.
#include <nanobind/stl/vector.h>

#include <span>
#include <vector>

#include "datatypes/type_form.hpp"
#include "integer_lists.hpp"
#include "known_copies.hpp"

namespace tranship::python {
namespace {

std::span<const std::int64_t> list_of(const Indices& indices) {
  return {indices.data(), indices.size()};
}

ArrayOrder order_from(const std::string& order) {
  return order == "F" ? ArrayOrder::fortran : ArrayOrder::c;
}

Datatype structure(const Indices& block_lengths, const Indices& displacements,
                   const std::vector<Datatype>& bases) {
  return unwrap(Datatype::structure(list_of(block_lengths), list_of(displacements), bases));
}

Datatype darray(std::int64_t rank, const Indices& sizes, const Indices& kinds,
                const Indices& arguments, const Indices& grid, const std::string& order,
                const Datatype& base) {
  std::vector<Distribution> distributions;
  for (std::size_t k = 0; k < std::min(kinds.size(), arguments.size()); ++k) {
    distributions.push_back(
        {static_cast<Distribution::Kind>(kinds.data()[k]), arguments.data()[k]});
  }
  return unwrap(Datatype::darray(rank, list_of(sizes), distributions, list_of(grid),
                                 order_from(order), base));
}

/// Returns the form as text, a line for each part.
std::string describe(const Datatype& type) {
  std::string text = type.text() + ": " + std::to_string(type.bytes()) + " bytes in " +
                     std::to_string(type.form().runs()) + " runs\n";
  for (const TypePart& part : type.form().parts()) {
    text += "  " + std::to_string(part.nest.element_bytes) + " bytes";
    for (int k = 0; k < part.nest.rank; ++k) {
      const Loop& loop = part.nest.loops[static_cast<std::size_t>(k)];
      text +=
          ", " + std::to_string(loop.extent) + " times every " + std::to_string(loop.source_stride);
    }
    if (part.entries.size() == 1) {
      if (part.entries[0].count > 1)
        text += ", " + std::to_string(part.entries[0].count) + " times";
      text +=
          ", from byte " + std::to_string(part.nest.source_offset + part.entries[0].source_offset);
    } else {
      text += ", at " + std::to_string(part.entries.size()) + " places";
    }
    text += "\n";
  }
  return text;
}

const Datatype& other_type(nb::handle other) {
  if (nb::isinstance<Datatype>(other)) return nb::cast<const Datatype&>(other);
  raise({ErrorCode::invalid_argument, "other=" + shown(other) + " is not a type",
         "give one of tranship.types"});
}

void bind_datatype(nb::module_& module) {
  nb::class_<Datatype>(module, "Datatype",
                       "Elements and the bytes at which they lie (MPI-4.1, chapter 5). Make one by "
                       "the functions of `tranship.types`. Immutable.")
      .def_prop_ro("nbytes", &Datatype::bytes, "Bytes of the elements, which `pack` writes.")
      .def_prop_ro("extent", &Datatype::extent, "Bytes from one item of the type to the next.")
      .def_prop_ro("lower_bound", &Datatype::lower_bound,
                   "Byte at which the extent begins; it may be negative.")
      .def_prop_ro("true_lower_bound", &Datatype::true_lower_bound,
                   "Lowest byte that an element occupies.")
      .def_prop_ro("true_upper_bound", &Datatype::true_upper_bound,
                   "One past the highest byte that an element occupies.")
      .def("describe", &describe,
           "Returns the canonical form as text: runs, loops and lists. Types that list the same "
           "bytes in the same order have the same.")
      .def(
          "same_bytes",
          [](const Datatype& self, nb::handle other) {
            return self.form() == other_type(other).form();
          },
          nb::arg("other").none(), nb::sig("def same_bytes(self, other: Datatype) -> bool"),
          "Returns whether both list the same bytes in the same order; of types of over 4,096 runs "
          "also False if they were built in different ways.")
      .def(
          "same_elements",
          [](const Datatype& self, nb::handle other) {
            return self.signature() == other_type(other).signature();
          },
          nb::arg("other").none(), nb::sig("def same_elements(self, other: Datatype) -> bool"),
          "Returns whether both have the same sequence of elements.")
      .def("__repr__", [](const Datatype& self) { return "<Datatype " + self.text() + ">"; });
}

void bind_constructors(nb::module_& module) {
  module.def(
      "type_element", [](const std::string& type) { return unwrap(Datatype::element(type)); },
      nb::arg("type"));
  module.def(
      "type_contiguous",
      [](std::int64_t count, const Datatype& base) {
        return unwrap(Datatype::contiguous(count, base));
      },
      nb::arg("count"), nb::arg("base"));
  module.def(
      "type_vector",
      [](std::int64_t count, std::int64_t block_length, std::int64_t stride, const Datatype& base,
         bool bytes) {
        return unwrap(bytes ? Datatype::hvector(count, block_length, stride, base)
                            : Datatype::vector(count, block_length, stride, base));
      },
      nb::arg("count"), nb::arg("block_length"), nb::arg("stride"), nb::arg("base"),
      nb::arg("bytes"));
  module.def(
      "type_indexed",
      [](const Indices& block_lengths, const Indices& displacements, const Datatype& base,
         bool bytes) {
        return unwrap(
            bytes ? Datatype::hindexed(list_of(block_lengths), list_of(displacements), base)
                  : Datatype::indexed(list_of(block_lengths), list_of(displacements), base));
      },
      nb::arg("block_lengths"), nb::arg("displacements"), nb::arg("base"), nb::arg("bytes"));
  module.def(
      "type_indexed_block",
      [](std::int64_t block_length, const Indices& displacements, const Datatype& base,
         bool bytes) {
        return unwrap(bytes ? Datatype::hindexed_block(block_length, list_of(displacements), base)
                            : Datatype::indexed_block(block_length, list_of(displacements), base));
      },
      nb::arg("block_length"), nb::arg("displacements"), nb::arg("base"), nb::arg("bytes"));
  module.def("type_struct", &structure, nb::arg("block_lengths"), nb::arg("displacements"),
             nb::arg("bases"));
  module.def(
      "type_subarray",
      [](const Indices& sizes, const Indices& subsizes, const Indices& starts,
         const std::string& order, const Datatype& base) {
        return unwrap(Datatype::subarray(list_of(sizes), list_of(subsizes), list_of(starts),
                                         order_from(order), base));
      },
      nb::arg("sizes"), nb::arg("subsizes"), nb::arg("starts"), nb::arg("order"), nb::arg("base"));
  module.def("type_darray", &darray, nb::arg("rank"), nb::arg("sizes"), nb::arg("kinds"),
             nb::arg("arguments"), nb::arg("grid"), nb::arg("order"), nb::arg("base"));
  module.def(
      "type_resized",
      [](std::int64_t lower_bound, std::int64_t extent, const Datatype& base) {
        return unwrap(Datatype::resized(lower_bound, extent, base));
      },
      nb::arg("lower_bound"), nb::arg("extent"), nb::arg("base"));
}

}  // namespace

void bind_types(nb::module_& module) {
  bind_datatype(module);
  bind_constructors(module);
  module.def("pack_known", &pack_known, nb::arg("engine"), nb::arg("places").none(),
             nb::arg("packed").none(), nb::arg("type"), nb::arg("unpacks"));
}

}  // namespace tranship::python
