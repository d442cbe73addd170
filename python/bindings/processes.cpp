// Exports, shared memory, and connections to other processes.
#include "engine/processes.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"

namespace tranship::python {
namespace {

std::shared_ptr<Processes> processes(Engine& engine) {
  return unwrap(run([&] { return engine.processes(); }));
}

/// Ends an export. After Ctrl-C the withdrawal continues on a separate thread.
void withdraw(Engine& engine, const std::string& name) {
  const auto links = processes(engine);
  const std::function<Result<bool>()> work = [links, name]() -> Result<bool> {
    if (Status status = links->withdraw(name); !status) return status.error();
    return true;
  };
  unwrap(run_apart<bool>(work, [](bool) {}));
}

fabric::PeerId connect(Engine& engine, const std::string& contact, double timeout) {
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  return unwrap(run_apart<fabric::PeerId>(
      [=] { return links->connect(contact, patience); },
      [links](fabric::PeerId unwanted) { (void)links->disconnect(unwanted); }));
}

std::vector<std::string> names(Engine& engine, fabric::PeerId peer, double timeout) {
  using Names = std::vector<std::string>;
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  return unwrap(
      run_apart<Names>([=] { return links->names(peer, patience); }, [](const Names&) {}));
}

Array lookup(Engine& engine, fabric::PeerId peer, const std::string& name, double timeout) {
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  Array array = unwrap(
      run_apart<Array>([=] { return links->lookup(peer, name, patience); }, [](const Array&) {}));
  // Closing an array of another process's GPU may wait for the driver.
  array.owner = ended_without_lock(std::move(array.owner));
  array.liveness = ended_without_lock(std::move(array.liveness));
  return array;
}

/// Returns notices as (name, name of the array, whether it was written, sender).
nb::list take_notices(Engine& engine, std::optional<fabric::PeerId> peer, double timeout) {
  const auto links = processes(engine);
  const auto patience = milliseconds(timeout);
  const auto taken = unwrap(run([&] { return links->take_notices(peer, patience, interrupted); }));
  nb::list notices;
  for (const fabric::CopyNotice& notice : taken) {
    notices.append(nb::make_tuple(notice.name, notice.array, notice.written, notice.label));
  }
  return notices;
}

void bind_shared_memory(nb::module_& module) {
  nb::class_<SharedMemory>(module, "SharedMemory")
      .def_prop_ro("bytes", &SharedMemory::bytes)
      .def_prop_ro("address", [](const SharedMemory& memory) {
        return reinterpret_cast<std::uintptr_t>(memory.data());
      });
  nb::class_<fabric::PeerId>(module, "PeerId");
  module.def(
      "allocate_shared",
      [](Engine& engine, std::int64_t bytes) {
        return unwrap(released([&] { return engine.allocate_shared(bytes); }));
      },
      nb::arg("engine"), nb::arg("bytes"));
}

}  // namespace

void bind_processes(nb::module_& module) {
  bind_shared_memory(module);
  module.def(
      "contact", [](Engine& engine) { return processes(engine)->contact(); }, nb::arg("engine"));
  module.def(
      "export_array",
      [](Engine& engine, const std::string& name, nb::handle array, bool notices) {
        const auto links = processes(engine);
        const Array exported = array_of(array, false, Hold::memory);
        if (const auto stream = stream_of(engine, exported)) {  // peers read what is written by now
          const StreamOrder order{{}, {}, {*stream}};
          unwrap(run([&] { return engine.wait_for_streams(order, stream->device, interrupted); }));
        }
        unwrap(released([&] { return links->export_array(name, exported, notices); }));
      },
      nb::arg("engine"), nb::arg("name"), nb::arg("array").none(), nb::arg("notices"));
  module.def("take_notices", &take_notices, nb::arg("engine"), nb::arg("peer").none(),
             nb::arg("timeout"),
             nb::sig("def take_notices(engine: EngineCore, peer: PeerId | None, timeout: float) -> "
                     "list[tuple[str, str, bool, str]]"));
  module.def("withdraw", &withdraw, nb::arg("engine"), nb::arg("name"));
  module.def("connect", &connect, nb::arg("engine"), nb::arg("contact"), nb::arg("timeout"));
  module.def(
      "disconnect",
      [](Engine& engine, fabric::PeerId peer) {
        const auto links = processes(engine);
        unwrap(released([&] { return links->disconnect(peer); }));
      },
      nb::arg("engine"), nb::arg("peer"));
  module.def(
      "describe_peer",
      [](Engine& engine, fabric::PeerId peer) {
        const auto links = processes(engine);
        return released([&] { return links->describe_peer(peer); });
      },
      nb::arg("engine"), nb::arg("peer"));
  module.def("names", &names, nb::arg("engine"), nb::arg("peer"), nb::arg("timeout"));
  module.def("lookup", &lookup, nb::arg("engine"), nb::arg("peer"), nb::arg("name"),
             nb::arg("timeout"));
}

}  // namespace tranship::python
