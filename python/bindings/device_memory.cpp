// An engine's GPUs in Python: their list, memory on them, and streams of other libraries.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "bindings.hpp"
#include "engine/gpu_side.hpp"
#include "exchange_table.hpp"
#include "gpu/cuda_build.hpp"
#include "gpu/gpus.hpp"

namespace tranship::python {
namespace {

/// Frees GPU or pinned memory without the interpreter's lock, since CUDA may wait for the GPU.
void let_go(std::shared_ptr<void>& memory) {
  if (!attached()) return memory.reset();
  const Released released;
  memory.reset();
}

/// Memory that an engine allocated; freed when Python drops its last reference.
struct DeviceMemory {
  DeviceMemory(std::shared_ptr<void> given, int number, std::int64_t size)
      : owner(std::move(given)), device(number), bytes(size) {}
  DeviceMemory(DeviceMemory&&) = default;
  ~DeviceMemory() {
    if (owner) let_go(owner);
  }

  std::shared_ptr<void> owner;
  int device = -1;
  std::int64_t bytes = 0;
};

DeviceMemory allocate(Engine& engine, const std::string& where, int device, std::int64_t bytes) {
  const MemoryKind kind = unwrap(memory_kind_from(where));
  return {unwrap(released([&] { return engine.allocate(kind, device, bytes); })), device, bytes};
}

/// Pageable memory of an array that has been pinned; keeps the array alive.
struct Pinned {
  Pinned(std::shared_ptr<void> given, nb::object owner, std::int64_t size)
      : pages(std::move(given)), array(std::move(owner)), bytes(size) {}
  Pinned(Pinned&&) = default;
  ~Pinned() { release(); }

  void release() {
    // The members are moved before the lock is released, so that a second caller finds them empty.
    std::shared_ptr<void> held = std::move(pages);
    const nb::object owner = std::move(array);
    if (held) let_go(held);
  }

  std::shared_ptr<void> pages;
  nb::object array;
  std::int64_t bytes;
};

std::string text_of(const Pinned& pinned) {
  if (!pinned.pages) return "<Pinned: released>";
  return "<Pinned: " + std::to_string(pinned.bytes) + " bytes>";
}

Pinned pin(Engine& engine, nb::object array) {
  const Array pinned = array_of(array, false);
  auto pages = unwrap(released([&] { return engine.pin(pinned); }));
  return {std::move(pages), std::move(array), pinned.view.bytes()};
}

nb::dict described(const Gpus& gpus, int device) {
  const GpuInfo& info = gpus.list()[static_cast<std::size_t>(device)];
  nb::list peers;
  for (int other = 0; other < static_cast<int>(gpus.list().size()); ++other) {
    if (other != device && gpus.peers(device, other)) peers.append(other);
  }
  nb::dict row;
  row["device"] = device;
  row["name"] = info.name;
  row["bus"] = info.bus;
  row["memory_bytes"] = info.memory_bytes;
  row["multiprocessors"] = info.multiprocessors;
  row["numa_node"] = info.numa_node;
  row["peers"] = peers;
  row["emulated"] = gpus.emulated();
  return row;
}

nb::list described(const Gpus& gpus) {
  nb::list rows;
  for (int device = 0; device < static_cast<int>(gpus.list().size()); ++device) {
    rows.append(described(gpus, device));
  }
  return rows;
}

/// Returns descriptions of an engine's GPUs, and the reason if there are none.
nb::tuple list_gpus(const Engine& engine) {
  if (engine.gpus() != nullptr) return nb::make_tuple(described(*engine.gpus()), "");
  if (!engine.config().gpus) return nb::make_tuple(nb::list(), "the setting gpus is 0");
  const auto found = released([] { return Gpus::open(); });
  return nb::make_tuple(
      nb::list(), found ? "the engine could not use them; open another one" : found.error().text());
}

/// Returns descriptions of the GPUs that a new engine would use, and the reason if there are none.
nb::tuple find_gpus() {
  const Config config = config_with({});
  if (!config.gpus) return nb::make_tuple(nb::list(), "the setting gpus is 0");
  std::unique_ptr<GpuSide> side = unwrap(released([&] { return GpuSide::open(config); }));
  if (side) {
    nb::tuple gpus = nb::make_tuple(described(*side->gpus()), "");
    const Released released;
    side.reset();
    return gpus;
  }
  const auto refused = released([] { return Gpus::open(); });
  return nb::make_tuple(nb::list(), refused ? "they could not be used at first; run it again"
                                            : refused.error().text());
}

nb::dict describe_build() {
  const CudaBuild build = cuda_build();
  nb::dict row;
  row["built_in"] = build.built_in;
  row["version"] = build.version;
  row["architectures"] = build.architectures;
  return row;
}

std::optional<std::uintptr_t> integer(nb::handle object) {
  if (!PyLong_Check(object.ptr())) return {};
  const std::size_t value = PyLong_AsSize_t(object.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return {};
  }
  return value;
}

/// The attributes in which an object holds a stream. Looking for those that it lacks costs more
/// than the start of a prepared copy.
struct StreamType {
  PyObject* type = nullptr;
  PyObject* handle = nullptr;  ///< an attribute's name; null: the object is no stream
  PyObject* device = nullptr;  ///< null: it does not say
  bool calls = false;          ///< the handle is the second item that a call of it returns
};

StreamType stream_type_of(nb::handle object) {
  const auto name = [](const char* text) { return PyUnicode_InternFromString(text); };
  static PyObject* const protocol = name("__cuda_stream__");
  static const std::array<PyObject*, 3> handles{name("ptr"), name("cuda_stream"), protocol};
  static const std::array<PyObject*, 2> devices{name("device_id"), name("device_index")};
  StreamType found{object.type().inc_ref().ptr()};
  for (PyObject* handle : handles) {
    if (PyObject_HasAttr(object.ptr(), handle) != 0) found.handle = handle;
  }
  for (PyObject* device : devices) {
    if (PyObject_HasAttr(object.ptr(), device) != 0) found.device = device;
  }
  found.calls = found.handle == protocol;
  return found;
}

/// Returns the stream in an object of PyTorch (cuda_stream), CuPy (ptr) or cuda.core
/// (__cuda_stream__).
std::optional<CallerStream> stream_in_object(nb::handle object) {
  // Each thread keeps the last type for ever: a thread may outlive the interpreter.
  thread_local StreamType last;
  StreamType known = last;  // a copy, since attributes may run any code
  nb::object held;
  if (known.handle != nullptr && known.type == object.type().ptr()) {
    held = attribute(object, known.handle);
  }
  if (!held.is_valid()) {
    known = stream_type_of(object);
    Py_XDECREF(std::exchange(last, known).type);
    if (known.handle == nullptr) return {};
    held = nb::object(object.attr(nb::handle(known.handle)));
  }
  if (known.calls) held = held()[1];
  const auto handle = integer(held);
  if (!handle) return {};
  const nb::object number =
      known.device != nullptr ? attribute(object, known.device) : nb::object();
  const auto device = number.is_valid() ? integer(number) : std::nullopt;
  return CallerStream{*handle, device ? static_cast<int>(*device) : -1};
}

}  // namespace

std::optional<std::uintptr_t> library_stream(nb::handle array, int device) {
  const nb::object stream = nb::module_::import_("tranship.arrays.conversion")
                                .attr("library_stream")(nb::borrow(array), device);
  return stream.is_none() ? std::nullopt : integer(stream);
}

std::optional<CallerStream> stream_in(nb::handle object) {
  const auto number = integer(object);
  auto stream = number ? std::optional(CallerStream{*number, -1}) : stream_in_object(object);
  // The null stream is the legacy default stream.
  if (stream && stream->handle == 0) stream->handle = legacy_stream;
  return stream;
}

StreamChoice stream_choice(nb::handle stream) {
  if (stream.is_none()) return {};
  if (PyUnicode_Check(stream.ptr()) != 0 &&
      PyUnicode_CompareWithASCIIString(stream.ptr(), "none") == 0) {
    return {Follows::nothing, {}};
  }
  if (const auto named = stream_in(stream)) return {Follows::given, named};
  raise({ErrorCode::invalid_argument, "stream=" + shown(stream) + " is not a CUDA stream",
         "give the number of a cudaStream_t, an object that holds one as cuda_stream (PyTorch) or "
         "ptr (CuPy), or \"none\" to see to the order yourself"});
}

std::optional<CallerStream> stream_of(const Engine& engine, const Array& array) {
  if (!array.stream) return {};
  const std::shared_ptr<Gpus> gpus = engine.gpus();
  const bool known = array.device >= 0 || gpus == nullptr || array.place.address == nullptr;
  return CallerStream{*array.stream,
                      known ? array.device : gpus->where(array.place.address).device};
}

StreamSource::StreamSource(nb::handle object, const CallerStream& named)
    : table_(table_of(Py_TYPE(object.ptr())).table), fixed_(named) {
  if (table_ == nullptr || table_->current_stream == nullptr) {
    table_ = nullptr;
    if (library_stream(object, fixed_.device)) object_ = nb::borrow(object);
  }
}

CallerStream StreamSource::now() const {
  CallerStream stream = fixed_;
  if (table_ != nullptr) {
    (void)current_stream(*table_, stream.device, stream.handle);
  } else if (object_.is_valid()) {
    stream.handle = library_stream(object_, stream.device).value_or(stream.handle);
  }
  return stream;
}

bool StreamSource::operator==(const StreamSource& other) const {
  if (table_ != other.table_ || fixed_.device != other.fixed_.device) return false;
  if (table_ != nullptr) return true;
  if (object_.is_valid() != other.object_.is_valid()) return false;
  if (object_.is_valid() && !object_.type().is(other.object_.type())) return false;
  return fixed_.handle == other.fixed_.handle;
}

/// A stream of an emulated GPU, as of another library.
class EmulatedStream {
 public:
  EmulatedStream(const Engine& engine, int device) : gpus_(engine.gpus()) {
    streams_ = dynamic_cast<EmulatedStreams*>(gpus_.get());
    if (streams_ == nullptr) {
      raise({ErrorCode::unsupported, "the engine's GPUs are not emulated",
             "open it with emulated_gpus=2"});
    }
    stream_ = unwrap(streams_->make_held_stream(device));
  }
  EmulatedStream(const EmulatedStream&) = delete;
  EmulatedStream& operator=(const EmulatedStream&) = delete;
  ~EmulatedStream() {
    streams_->let_go(stream_);
    gpus_->release(stream_);
  }

  std::uintptr_t handle() const { return reinterpret_cast<std::uintptr_t>(stream_.handle); }
  void hold() { streams_->hold(stream_); }
  void let_go() {
    const Released released;
    streams_->let_go(stream_);
  }
  void fill(std::uintptr_t address, std::int64_t bytes, int value) {
    unwrap(streams_->fill(stream_, reinterpret_cast<std::byte*>(address), bytes,
                          static_cast<std::byte>(value)));
  }

 private:
  std::shared_ptr<Gpus> gpus_;
  EmulatedStreams* streams_ = nullptr;
  GpuStream stream_;
};

void bind_device_memory(nb::module_& module) {
  nb::class_<DeviceMemory>(module, "DeviceMemory")
      .def_prop_ro("bytes", [](const DeviceMemory& memory) { return memory.bytes; })
      .def_prop_ro("device", [](const DeviceMemory& memory) { return memory.device; })
      .def_prop_ro("address", [](const DeviceMemory& memory) {
        return reinterpret_cast<std::uintptr_t>(memory.owner.get());
      });
  nb::class_<Pinned>(module, "Pinned",
                     "Memory that is pinned until `release`, or the end of a ``with`` statement.")
      .def("release", &Pinned::release, nb::lock_self(),
           "Makes it pageable again. Copies with it must have ended; a second call does nothing.")
      .def("__repr__", &text_of)
      .def(
          "__enter__", [](nb::handle self) { return self; },
          nb::sig("def __enter__(self) -> Pinned"))
      .def(
          "__exit__", [](Pinned& self, nb::args) { self.release(); },
          nb::sig("def __exit__(self, *details: object) -> None"));
  nb::class_<EmulatedStream>(module, "EmulatedStream")
      .def(nb::init<const Engine&, int>(), nb::arg("engine"), nb::arg("device"))
      .def_prop_ro("handle", &EmulatedStream::handle)
      .def("hold", &EmulatedStream::hold)
      .def("let_go", &EmulatedStream::let_go)
      .def("fill", &EmulatedStream::fill, nb::arg("address"), nb::arg("bytes"), nb::arg("value"));
  module.def("pin", &pin, nb::arg("engine"), nb::arg("array").none());
  module.def("allocate", &allocate, nb::arg("engine"), nb::arg("where"), nb::arg("device"),
             nb::arg("bytes"));
  module.def("list_gpus", &list_gpus, nb::arg("engine"),
             nb::sig("def list_gpus(engine: EngineCore) -> tuple[list[dict[str, object]], str]"));
  module.def("find_gpus", &find_gpus,
             nb::sig("def find_gpus() -> tuple[list[dict[str, object]], str]"));
  module.def("cuda_build", &describe_build, nb::sig("def cuda_build() -> dict[str, bool | str]"));
}

}  // namespace tranship::python
