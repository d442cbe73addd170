// Arrays from Python buffers, layouts and files.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "base/hash.hpp"
#include "bindings.hpp"
#include "channels/file/file.hpp"
#include "data/lowering.hpp"
#include "data/slice.hpp"
#include "data/type_numbers.hpp"
#include "engine/whole_array.hpp"
#include "numpy_array.hpp"
#include "os/mapped_files.hpp"

namespace tranship::python {
namespace {

IndexSpace space_of(const Extents& extents) {
  IndexSpace space;
  for (const auto& [name, extent] : extents) space.push_back({name, extent});
  return space;
}

}  // namespace

std::shared_ptr<const Mapping> mapping_of(const Extents& extents, const Fields& fields,
                                          const std::string& layout) {
  FieldSpace values;
  for (const auto& [name, type, bytes] : fields) values.push_back({name, type, bytes});
  return unwrap(Mapping::make(space_of(extents), std::move(values), unwrap(Layout::parse(layout))));
}

std::shared_ptr<const Mapping> mapping_of(const Extents& extents, const StridedFields& fields) {
  std::vector<Mapping::StridedField> placed;
  for (const auto& [name, type, bytes, offset, strides] : fields) {
    placed.push_back({{name, type, bytes}, offset, strides});
  }
  return unwrap(Mapping::make_strided(space_of(extents), std::move(placed)));
}

std::shared_ptr<const Mapping> mapping_of_field(const Mapping& mapping, const Placement& placed,
                                                const std::string& type) {
  Mapping::StridedField field{placed.field, placed.offset, {}};
  field.field.type = type;
  for (std::size_t k = 0; k < mapping.space().size(); ++k) {
    if (placed.dimension[k].count > 1) {
      raise({ErrorCode::invalid_argument,
             "the layout " + mapping.layout().to_string() +
                 " has blocks, and one field of it has no strides",
             "copy all fields to an array without blocks, and take the field there"});
    }
    field.strides.push_back(placed.dimension[k].level[0].stride);
  }
  return unwrap(Mapping::make_strided(mapping.space(), {std::move(field)}));
}

namespace {

/// Returns NumPy's name of a buffer's element type, or null if Python code must interpret it.
const char* type_name(const char* format, std::int64_t bytes) {
  static constexpr std::array<const char*, 17> ints{"", "i1", "i2", "", "i4", "", "", "", "i8"};
  static constexpr std::array<const char*, 17> uints{"", "u1", "u2", "", "u4", "", "", "", "u8"};
  if (bytes < 1 || bytes > 16) return nullptr;
  if (format == nullptr) return "u1";
  if (std::strcmp(format, "Zd") == 0) return "c16";
  if (std::strcmp(format, "Zf") == 0) return "c8";
  if (std::strlen(format) != 1) return nullptr;
  switch (format[0]) {
    case 'e': return "f2";
    case 'f': return "f4";
    case 'd': return "f8";
    case '?': return "b1";
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return ints[static_cast<std::size_t>(bytes)];
    case 'c':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return uints[static_cast<std::size_t>(bytes)];
    default: return nullptr;
  }
}

/// A cache of the mappings of recent plain arrays: making a mapping costs more than a small copy.
class MappingCache {
 public:
  std::shared_ptr<const Mapping> find(const StridedShape& plain) {
#if defined(Py_GIL_DISABLED)
    // The interpreter has no lock that guards the cache: a thread that finds it in use makes its
    // own mapping.
    if (taken_.test_and_set(std::memory_order_acquire)) return make(key_of(plain).first);
    struct GiveBack {
      std::atomic_flag& taken;
      ~GiveBack() { taken.clear(std::memory_order_release); }
    } give_back{taken_};
#endif
    const auto [key, hash] = key_of(plain);
    Entry& entry = entries_[(hash >> 32) % entries_.size()];
    if (!entry.mapping || !(entry.key == key)) entry = {key, make(key)};
    return entry.mapping;
  }

 private:
  struct Key {
    int rank = 0;
    std::int64_t bytes = 0;
    std::array<char, 24> type{};  ///< of names such as "float8_e4m3b11fnuz"
    Point shape{};
    Point strides{};
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const Mapping> mapping;
  };

  static std::pair<Key, std::uint64_t> key_of(const StridedShape& plain) {
    Key key{};
    key.rank = plain.rank;
    key.bytes = plain.item_bytes;
    std::memcpy(key.type.data(), plain.type, std::min(std::strlen(plain.type), std::size_t{23}));
    std::uint64_t hash = static_cast<std::uint64_t>(plain.rank * 64 + plain.item_bytes);
    for (int k = 0; k < plain.rank; ++k) {
      const auto index = static_cast<std::size_t>(k);
      key.shape[index] = plain.shape[k];
      key.strides[index] = plain.strides[k];
      hash = mixed(hash, static_cast<std::uint64_t>(plain.shape[k]));
      hash = mixed(hash, static_cast<std::uint64_t>(plain.strides[k]));
    }
    return {key, hash};
  }

  static std::shared_ptr<const Mapping> make(const Key& key) {
    IndexSpace space;
    Mapping::StridedField field{{"f0", key.type.data(), key.bytes}, 0, {}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(key.rank); ++k) {
      space.push_back({"d" + std::to_string(k), key.shape[k]});
      field.strides.push_back(key.strides[k]);
    }
    return unwrap(Mapping::make_strided(std::move(space), {field}));
  }

  std::array<Entry, 512> entries_;
#if defined(Py_GIL_DISABLED)
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
#endif
};

}  // namespace

std::shared_ptr<const Mapping> cached_mapping(const StridedShape& plain) {
  // Guarded by the interpreter's lock, where there is one. The cache is never destroyed, since
  // threads may still use it while the program ends.
  static MappingCache& cache = *new MappingCache;
  return cache.find(plain);
}

namespace {

PyTypeObject* numpy_array = nullptr;
PyTypeObject* shared_buffer = nullptr;  ///< of the objects over an Engine's shared memory
bool numpy_fields_known = false;
PyObject* int64_dtype = nullptr;

/// Returns the place in which this thread keeps the type of a dtype of this address.
NumpyType& remembered(const PyObject* dtype) {
  thread_local std::array<NumpyType, 16> types;
  return types[reinterpret_cast<std::uintptr_t>(dtype) / alignof(std::max_align_t) % types.size()];
}

void remember(PyObject* dtype, const char* name, std::int64_t bytes) {
  NumpyType& type = remembered(dtype);
  Py_INCREF(dtype);
  Py_XDECREF(std::exchange(type, {dtype, name, bytes, type_number_of(name, bytes)}).dtype);
}

const NumpyArray& fields_of(nb::handle array) {
  return *reinterpret_cast<const NumpyArray*>(array.ptr());
}

/// Makes an array from NumPy's, if its element type is remembered.
bool from_numpy(const NumpyArray& numpy, nb::handle object, Array& array, Hold held) {
  const NumpyType* type = type_of(numpy.type);
  if (type == nullptr || numpy.rank > dimensions_max) return false;
  array.view = View::whole(
      cached_mapping({type->name, type->bytes, numpy.rank, numpy.shape, numpy.strides}));
  array.place.address = reinterpret_cast<std::byte*>(numpy.data);
  array.writable = numpy.writable();
  array.backing = backing_of(object);
  array.name = "a host array";
  if (held != Hold::nothing) array.owner = keep(object);
  return true;
}

/// Returns whether this NumPy keeps the fields of an array where they are expected.
bool check_fields(nb::handle array) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return false;
  }
  const NumpyArray& numpy = fields_of(array);
  const bool same = numpy.data == buffer.buf && numpy.rank == buffer.ndim &&
                    std::equal(buffer.shape, buffer.shape + buffer.ndim, numpy.shape) &&
                    std::equal(buffer.strides, buffer.strides + buffer.ndim, numpy.strides) &&
                    nb::object(array.attr("dtype")).ptr() == numpy.type &&
                    nb::object(array.attr("base")).ptr() == numpy.base && !numpy.owns_data() &&
                    numpy.writable() == (buffer.readonly == 0);
  PyBuffer_Release(&buffer);
  return same;
}

/// Makes an array from the buffer protocol. Returns false if Python code must interpret the type.
bool from_buffer(nb::handle object, Array& array, Hold held) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return false;
  }
  const char* type = type_name(buffer.format, buffer.itemsize);
  // NumPy's scalars of dates describe their buffers in part.
  const bool whole = buffer.ndim == 0 || (buffer.shape != nullptr && buffer.strides != nullptr);
  const bool usable = type != nullptr && whole && buffer.ndim <= dimensions_max;
  if (usable) {
    array.view = View::whole(
        cached_mapping({type, buffer.itemsize, buffer.ndim, buffer.shape, buffer.strides}));
    array.place.address = static_cast<std::byte*>(buffer.buf);
    array.writable = !buffer.readonly;
    array.backing = backing_of(object);
    array.name = "a host array";
    if (numpy_array == nullptr || !PyObject_TypeCheck(object.ptr(), numpy_array)) {
      array.owner = keep(buffer);
      return true;
    }
    if (numpy_fields_known) remember(fields_of(object).type, type, buffer.itemsize);
    if (held != Hold::nothing) array.owner = keep(object);
  }
  PyBuffer_Release(&buffer);
  return usable;
}

/// Returns whether an object may mean more than its buffer holds, such as a mask, so that Python
/// code must read it. Arrays of exactly NumPy's type and Python's own buffers do not.
bool has_more_than_buffer(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (type == numpy_array || type == &PyByteArray_Type || type == &PyMemoryView_Type ||
      type == &PyBytes_Type) {
    return false;
  }
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "mask") != 0;
}

Array instance(nb::handle memory, const Extents& extents, const Fields& fields,
               const std::string& layout, std::int64_t offset) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(memory.ptr(), &buffer, PyBUF_ANY_CONTIGUOUS) != 0) {
    PyErr_Clear();
    raise({ErrorCode::invalid_argument, "the buffer of an Instance is not contiguous memory",
           "give a NumPy array, a bytearray or an mmap"});
  }
  auto owner = keep(buffer);
  auto* const address = static_cast<std::byte*>(buffer.buf) + offset;
  const std::int64_t bytes = offset < 0 ? -1 : buffer.len - offset;
  Array array = unwrap(array_in_memory(mapping_of(extents, fields, layout), address, bytes));
  array.writable = !buffer.readonly;
  array.backing = backing_of(memory);
  array.owner = std::move(owner);
  return array;
}

/// Fields of an array whose strides are the same: name, type, bytes and offset in bytes.
using PlacedFields = std::vector<std::tuple<std::string, std::string, std::int64_t, std::int64_t>>;

/// Returns an array in host memory. names: Dimensions; if empty, they are d0, d1 and so on.
Array strided(nb::handle owner, std::uintptr_t address, const std::vector<std::int64_t>& shape,
              const std::vector<std::int64_t>& strides, const PlacedFields& fields, bool writable,
              const std::vector<std::string>& names) {
  IndexSpace space;
  const bool named = names.size() == shape.size() && !names.empty();
  for (std::size_t k = 0; k < shape.size(); ++k) {
    space.push_back({named ? names[k] : "d" + std::to_string(k), shape[k]});
  }
  std::vector<Mapping::StridedField> placed;
  for (const auto& [name, type, bytes, offset] : fields) {
    placed.push_back({{name, type, bytes}, offset, strides});
  }
  Array array;
  array.view = View::whole(unwrap(Mapping::make_strided(std::move(space), std::move(placed))));
  array.place.address = reinterpret_cast<std::byte*>(address);
  array.named = named;
  array.name = "a host array";
  array.writable = writable;
  array.backing = backing_of(owner);
  array.owner = keep(owner);
  return array;
}

/// Opens a file as an array. header: First bytes of a new file. mode: "r", "w" or "r+". records:
/// Fields with padding between them, as NumPy has them, which no layout describes; empty: the
/// layout says where the fields lie. record_bytes: Bytes of all records, if there are any.
Array file(const std::string& path, const Extents& extents, const Fields& fields,
           const std::string& layout, std::int64_t offset, const std::string& mode, bool direct,
           bool named, bool durable, const nb::bytes& header, bool npy,
           const StridedFields& records, std::int64_t record_bytes) {
  const auto mapping =
      records.empty() ? mapping_of(extents, fields, layout) : mapping_of(extents, records);
  FileOptions options;
  options.mode = unwrap(file_mode_from(mode));
  options.bytes_min = record_bytes;
  options.direct = direct;
  options.durable = durable;
  options.npy = npy;
  options.head.assign(header.c_str(), header.size());
  Array array = unwrap(released([&] { return array_in_file(mapping, path, offset, options); }));
  array.named = named;
  array.owner = ended_without_lock(std::move(array.owner));
  return array;
}

File* file_in(const Array& array) { return dynamic_cast<File*>(array.place.attachment); }

/// Waits until the copies into a file have ended, in slices, so that Ctrl-C works; then calls
/// `end`, which is File::flush or File::close.
void end_file(const Array& array, Status (File::*end)()) {
  File* opened = file_in(array);
  if (opened == nullptr) return;
  while (true) {
    constexpr std::chrono::milliseconds slice{50};
    if (released([&] { return opened->wait_for_transfers(slice); })) break;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  unwrap(released([&] { return (opened->*end)(); }));
}

Array sliced(const Array& array,
             const std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>>& cuts) {
  std::vector<DimensionSlice> parts;
  for (const auto& [start, count, step, drop] : cuts) parts.push_back({start, count, step, drop});
  Array part = array;
  part.view = unwrap(slice(array.view, parts));
  return part;
}

/// Returns one field at all points of an array.
Array field_of(const Array& array, const std::string& name) {
  std::string known;
  for (const Placement& placement : array.view.mapping->fields()) {
    if (placement.field.name == name) {
      Array part = array;
      part.view.mapping = mapping_of_field(*array.view.mapping, placement, placement.field.type);
      return part;
    }
    known += (known.empty() ? "" : ", ") + placement.field.name;
  }
  raise({ErrorCode::not_found, array.name + " has no field '" + name + "'",
         "name one of its fields: " + known});
}

nb::list described_fields(const Array& array) {
  nb::list fields;
  for (const Placement& placement : array.view.mapping->fields()) {
    fields.append(nb::make_tuple(placement.field.name, placement.field.type, placement.field.bytes,
                                 placement.offset));
  }
  return fields;
}

nb::list described_extents(const Array& array) {
  nb::list extents;
  for (std::size_t k = 0; k < array.view.mapping->space().size(); ++k) {
    extents.append(nb::make_tuple(array.view.mapping->space()[k].name, array.view.extents[k]));
  }
  return extents;
}

/// Returns the nests that copy one array to the other as tuples, for tests and inspection.
nb::list lowered(nb::handle source, nb::handle target) {
  const Array from = array_of(source, false);
  const Array to = array_of(target, false);
  const auto fields = unwrap(match_fields(*from.view.mapping, *to.view.mapping));
  std::vector<LoopNest> nests;
  lower({from.view.mapping.get(), from.view.lower}, {to.view.mapping.get(), to.view.lower},
        from.view.extents, fields, nests);
  nb::list result;
  for (const LoopNest& nest : nests) {
    nb::list loops;
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      loops.append(nb::make_tuple(nest.loops[k].extent, nest.loops[k].source_stride,
                                  nest.loops[k].target_stride));
    }
    result.append(
        nb::make_tuple(nest.element_bytes, nest.source_offset, nest.target_offset, loops));
  }
  return result;
}

}  // namespace

void prepare_arrays() {
  nb::object numpy;
  try {
    numpy = nb::module_::import_("numpy");
  } catch (nb::python_error& error) {
    // The build loads the module to write its stub, in an environment without NumPy. No array is
    // NumPy's there, and the package does not load without it.
    if (!error.matches(PyExc_ModuleNotFoundError)) throw;
    return;
  }
  nb::object type = numpy.attr("ndarray");
  numpy_array = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  int64_dtype = numpy.attr("dtype")("int64").release().ptr();
  nb::object array = numpy.attr("zeros")(nb::make_tuple(2, 3, 5)).attr("T");
  numpy_fields_known = check_fields(array);
  array.attr("flags").attr("writeable") = false;
  numpy_fields_known = numpy_fields_known && check_fields(array);
}

const PyObject* numpy_int64() { return int64_dtype; }

Backing backing_of(nb::handle object) {
  constexpr int bases_most = 8;
  const auto by_address = [&] {
    if (!numpy_fields_known || !PyObject_TypeCheck(object.ptr(), numpy_array)) {
      return Backing::unknown;
    }
    const auto* data = reinterpret_cast<const std::byte*>(fields_of(object).data);
    return in_heap(data, 1) ? Backing::own : Backing::unknown;  // the heap is one block
  };
  PyObject* at = object.ptr();
  for (int k = 0; k < bases_most; ++k) {
    PyTypeObject* type = Py_TYPE(at);
    if (type == &PyBytes_Type || type == &PyByteArray_Type) return Backing::own;
    if (type == shared_buffer) return Backing::shared;
    if (!numpy_fields_known || !PyObject_TypeCheck(at, numpy_array)) return by_address();
    const NumpyArray& numpy = fields_of(at);
    if (numpy.base == nullptr) return numpy.owns_data() ? Backing::own : by_address();
    at = numpy.base;
  }
  return by_address();
}

bool addresses_decide(nb::handle source, nb::handle target) {
  const Backing from = backing_of(source);
  if (from == Backing::own) return true;
  const Backing to = backing_of(target);
  return to == Backing::own || (from == Backing::shared && to == Backing::shared);
}

const NumpyType* type_of(nb::handle dtype) {
  const NumpyType& type = remembered(dtype.ptr());
  return type.dtype == dtype.ptr() ? &type : nullptr;
}

const NumpyType* learned_type(nb::handle dtype) {
  if (const NumpyType* known = type_of(dtype)) return known;
  if (!nb::hasattr(dtype, "char") || !nb::hasattr(dtype, "isnative")) return nullptr;
  std::string format;
  std::int64_t bytes = 0;
  const bool read = nb::try_cast(nb::object(dtype.attr("char")), format) &&
                    nb::try_cast(nb::object(dtype.attr("itemsize")), bytes) &&
                    nb::cast<bool>(dtype.attr("isnative"));
  // NumPy's characters of complex numbers are the second of those in buffers.
  if (format == "F" || format == "D") format = format == "F" ? "Zf" : "Zd";
  const char* name = read ? type_name(format.c_str(), bytes) : nullptr;
  if (name == nullptr) return nullptr;
  remember(dtype.ptr(), name, bytes);
  return type_of(dtype);
}

const NumpyArray* plain_numpy(nb::handle object) {
  const bool plain = Py_TYPE(object.ptr()) == numpy_array && numpy_fields_known;
  return plain ? &fields_of(object) : nullptr;
}

namespace {

/// Whether the object is an array of this package, which holds the core's form.
bool is_core_array(nb::handle object) {
  // Not initialised in place: an import lets other threads run, which would wait for it.
  static std::atomic<PyObject*> known{nullptr};
  PyObject* base = known.load(std::memory_order_acquire);
  if (base == nullptr) {
    nb::object found = nb::module_::import_("tranship.arrays.core_array").attr("CoreArray");
    base = found.release().ptr();
    known.store(base, std::memory_order_release);
  }
  return PyType_IsSubtype(Py_TYPE(object.ptr()), reinterpret_cast<PyTypeObject*>(base)) != 0;
}

nb::object core_of(nb::handle object) {
  static PyObject* const name = PyUnicode_InternFromString("_core");
  PyObject* core = PyObject_GetAttr(object.ptr(), name);
  if (core == nullptr) throw nb::python_error();
  return nb::steal(core);
}

}  // namespace

const Array* own_array(nb::handle object) {
  if (nb::isinstance<Array>(object)) return nb::inst_ptr<Array>(object);
  if (!is_core_array(object)) return nullptr;
  const nb::object core = core_of(object);  // the object refers to it
  return nb::isinstance<Array>(core) ? nb::inst_ptr<Array>(core) : nullptr;
}

Array array_of(nb::handle object, bool writable, Hold held, Follows follows) {
  Array array;
  const NumpyArray* numpy = plain_numpy(object);
  if (numpy != nullptr && from_numpy(*numpy, object, array, held)) return array;
  if (nb::isinstance<Array>(object)) return nb::cast<Array>(object);
  if (is_core_array(object)) return nb::cast<Array>(core_of(object));
  const bool plain = PyObject_CheckBuffer(object.ptr()) != 0 && !has_more_than_buffer(object);
  if (plain && from_buffer(object, array, held)) return array;
  if (!plain && from_exchange_table(object, writable, held, follows, array)) return array;
  nb::object converted =
      nb::module_::import_("tranship.arrays").attr("to_core")(nb::borrow(object), writable);
  array = nb::cast<Array>(converted);
  if (follows == Follows::nothing) array.stream.reset();
  return array;
}

void bind_arrays(nb::module_& module) {
  nb::class_<Array>(module, "Array", "A box of an array and where it lies.")
      .def_prop_ro("extents", &described_extents,
                   nb::sig("def extents(self, /) -> list[tuple[str, int]]"))
      .def_prop_ro("fields", &described_fields,
                   nb::sig("def fields(self, /) -> list[tuple[str, str, int, int]]"))
      .def_prop_ro("layout",
                   [](const Array& array) { return array.view.mapping->layout().to_string(); })
      .def_prop_ro("name", [](const Array& array) { return array.name; })
      .def_prop_ro("writable", [](const Array& array) { return array.writable; })
      .def_prop_ro("named", [](const Array& array) { return array.named; })
      .def_prop_ro("bytes", [](const Array& array) { return array.view.bytes(); })
      .def_prop_ro("where", [](const Array& array) { return to_string(array.memory_kind); })
      .def_prop_ro("device", [](const Array& array) { return array.device; })
      .def_prop_ro("remote", [](const Array& array) { return array.liveness != nullptr; })
      .def_prop_ro("stream", [](const Array& array) { return array.stream; })
      .def("slice", &sliced, nb::arg("cuts"))
      .def("field", &field_of, nb::arg("name"))
      .def("flush", [](const Array& array) { end_file(array, &File::flush); })
      .def("close", [](const Array& array) { end_file(array, &File::close); })
      .def("missing",
           [](const Array& array) {
             const File* opened = file_in(array);
             return opened == nullptr ? std::string() : opened->missing();
           })
      .def("discard", [](const Array& array) {
        if (File* opened = file_in(array)) opened->discard();
      });
  module.def("instance", &instance, nb::arg("buffer"), nb::arg("extents"), nb::arg("fields"),
             nb::arg("layout"), nb::arg("offset"));
  module.def("strided", &strided, nb::arg("owner"), nb::arg("address"), nb::arg("shape"),
             nb::arg("strides"), nb::arg("fields"), nb::arg("writable"),
             nb::arg("names") = std::vector<std::string>{});
  module.def("file", &file, nb::arg("path"), nb::arg("extents"), nb::arg("fields"),
             nb::arg("layout"), nb::arg("offset"), nb::arg("mode"), nb::arg("direct"),
             nb::arg("named"), nb::arg("durable"), nb::arg("header"), nb::arg("npy"),
             nb::arg("records"), nb::arg("record_bytes"));
  nb::class_<NewFile>(module, "NewFile", "A file that gets its name when it is whole.")
      .def_prop_ro("descriptor", &NewFile::descriptor)
      .def("publish", [](NewFile& file) { unwrap(file.publish(false)); });
  module.def(
      "new_file",
      [](const std::string& path) { return std::shared_ptr<NewFile>(unwrap(NewFile::make(path))); },
      nb::arg("path"));
  module.def(
      "note_shared_buffers",
      [](nb::handle type) {
        shared_buffer = reinterpret_cast<PyTypeObject*>(nb::borrow(type).release().ptr());
      },
      nb::arg("type"), nb::sig("def note_shared_buffers(type: type) -> None"),
      "Sets the type of the objects that keep an Engine's shared and pinned memory for NumPy.");
  module.def(
      "array_of", [](nb::handle object) { return array_of(object, false); },
      nb::arg("object").none());
  module.def("lower", &lowered, nb::arg("source"), nb::arg("target"),
             nb::sig("def lower(source: object, target: object) -> "
                     "list[tuple[int, int, int, list[tuple[int, int, int]]]]"));
  module.def(
      "layout_bytes",
      [](const Extents& extents, const Fields& fields, const std::string& layout) {
        return mapping_of(extents, fields, layout)->end_bytes();
      },
      nb::arg("extents"), nb::arg("fields"), nb::arg("layout"));
}

}  // namespace tranship::python
