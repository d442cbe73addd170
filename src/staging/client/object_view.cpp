#include "staging/client/object_view.hpp"

#include <new>
#include <utility>

#include "base/at.hpp"
#include "base/crc32c.hpp"
#include "os/fork.hpp"
#include "staging/model/residency.hpp"
#include "staging/protocol/messages.hpp"

namespace tranship::staging {
namespace {

Error on_another_machine(const LeasedBox& held) {
  return {ErrorCode::invalid_argument,
          version_of(held.variable, held.version) +
              " lies on another machine, or on a GPU: a view is of host memory of a server on this "
              "machine",
          "let it be copied"};
}

}  // namespace

ViewLease::ViewLease(Parts parts) : parts_(std::move(parts)), fork_generation_(fork_generation()) {}

ViewLease::~ViewLease() {
  if (fork_generation_ != fork_generation()) {
    // Threads of the parent may have held locks at the fork that destructors take.
    (void)new (std::nothrow) Parts(std::move(parts_));
    return;
  }
  // Once the connection has ended, the end of the use ends the lease as well.
  const auto processes = parts_.processes.lock();
  if (processes == nullptr) return;
  try {
    (void)processes->tell(parts_.peer, parts_.release);
  } catch (const std::bad_alloc&) {
    return;  // the lease ends with the connection
  }
}

std::int64_t ObjectView::span_bytes() const {
  std::int64_t span = element_bytes;
  for (std::size_t k = 0; k < shape.size(); ++k) span += (shape[k] - 1) * strides[k];
  return span;
}

Result<std::variant<ObjectView, NoView>> make_view(const ViewSource& source) {
  using Answer = std::variant<ObjectView, NoView>;
  const LeasedBox& held = source.held;
  const Box& box = source.box;
  const Array& memory = source.memory;
  const StoredObject& object = held.objects[held.parts[0].object];
  if (memory.place.attachment != nullptr || memory.shared == nullptr) {
    return Answer(NoView{on_another_machine(held)});
  }
  std::int64_t bytes = 0;
  const bool countable = !__builtin_mul_overflow(object.box.points(), held.element_bytes, &bytes);
  if (!countable || !lies_inside(object.range, bytes, memory.view.bytes())) return not_a_server();
  ViewLease::Parts parts;
  // Before the memory is read: from here on the server's fence holds, whatever ends the lease.
  parts.use = memory.liveness->view();
  if (parts.use == nullptr) {
    const Status why = memory.liveness->check();
    return why ? Error{ErrorCode::peer_lost, "the connection to the server has ended"}
               : why.error();
  }
  if (!memory.shared->guard_in_children()) {
    return Error{ErrorCode::out_of_memory, "this process has views of too many servers' memories",
                 "let the box be copied"};
  }
  ObjectView view{held.version, held.type, held.element_bytes, nullptr, {}, {}, nullptr};
  view.address = memory.place.address + object.range.offset;
  if (box == object.box && object.checksum.known != 0 &&
      crc32c({view.address, static_cast<std::size_t>(bytes)}) != object.checksum.crc) {
    return other_checksum(held, object);
  }
  view.shape.resize(at(box.rank));
  view.strides.resize(at(box.rank));
  std::int64_t stride = held.element_bytes;
  for (int k = box.rank - 1; k >= 0; --k) {
    view.shape[at(k)] = box.extent(k);
    view.strides[at(k)] = stride;
    view.address += (box.lower[at(k)] - object.box.lower[at(k)]) * stride;
    stride *= object.box.extent(k);
  }
  const protocol::Release release{object.lease, held.variable, true,
                                  box.points() * held.element_bytes, std::string(view_path)};
  parts.release = message_of(release).bytes();
  parts.processes = source.processes;
  parts.peer = source.peer;
  parts.memory = memory.shared;
  view.lease = std::make_shared<const ViewLease>(std::move(parts));
  return Answer(std::move(view));
}

Error other_checksum(const LeasedBox& held, const StoredObject& object) {
  return {ErrorCode::io,
          version_of(held.variable, held.version) + ", " + object.box.text() +
              ", is not what was put: its checksum is another",
          "get it again, and check whether its writer changed the array while it was put"};
}

}  // namespace tranship::staging
