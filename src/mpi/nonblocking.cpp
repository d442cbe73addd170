// Sends and receives that end later: non-blocking and persistent ones.
#include <memory>
#include <utility>

#include "mpi/message.hpp"
#include "mpi/requests.hpp"

namespace tranship::mpi {
namespace {

template <typename Count>
using Send = int (*)(const void*, Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
template <typename Count>
using Receive = int (*)(void*, Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

/// Returns what keeps a message until it is sent.
Pending sending(std::shared_ptr<Message> message) {
  return {.arrived = [message = std::move(message)](const MPI_Status&) {}};
}

/// Returns what unpacks a message when it is there.
Pending receiving(std::shared_ptr<Message> message) {
  return {.arrived = [message = std::move(message)](const MPI_Status& status) {
    message->unpack(bytes_of(status), Report::received);
  }};
}

std::shared_ptr<Message> shared(Message& message) {
  return std::make_shared<Message>(std::move(message));
}

/// Keeps what belongs to a persistent request, which is not started yet.
void keep_persistent(MPI_Request request, Pending pending) {
  pending.persistent = true;
  pending.ended = true;
  requests().add(request, std::make_shared<Pending>(std::move(pending)));
}

template <typename Count>
int send(Send<Count> real, const void* items, Count count, MPI_Datatype type, int target, int tag,
         MPI_Comm comm, MPI_Request* request) {
  auto message = packed_to_send(items, count, type, target);
  if (!message) return real(items, count, type, target, tag, comm, request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, target,
                        tag, comm, request);
  if (code == MPI_SUCCESS) follow(*request, sending(shared(*message)));
  return code;
}

template <typename Count>
int receive(Receive<Count> real, void* items, Count count, MPI_Datatype type, int source, int tag,
            MPI_Comm comm, MPI_Request* request) {
  auto message = ready_to_receive(items, count, type, source);
  if (!message) return real(items, count, type, source, tag, comm, request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, source,
                        tag, comm, request);
  if (code == MPI_SUCCESS) follow(*request, receiving(shared(*message)));
  return code;
}

template <typename Count>
int receive_matched(int (*real)(void*, Count, MPI_Datatype, MPI_Message*, MPI_Request*),
                    void* items, Count count, MPI_Datatype type, MPI_Message* matched,
                    MPI_Request* request) {
  const bool nobody = *matched == MPI_MESSAGE_NO_PROC;
  auto message = ready_to_receive(items, count, type, nobody ? MPI_PROC_NULL : MPI_ANY_SOURCE);
  if (!message) return real(items, count, type, matched, request);
  const int code =
      real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, matched, request);
  if (code == MPI_SUCCESS) follow(*request, receiving(shared(*message)));
  return code;
}

template <typename Count>
int prepare_send(Send<Count> real, const void* items, Count count, MPI_Datatype type, int target,
                 int tag, MPI_Comm comm, MPI_Request* request) {
  auto message = Message::to_pack(Task::message, items, count, type, most_of<Count>());
  if (target == MPI_PROC_NULL || !message || !message->take_buffer()) {
    return real(items, count, type, target, tag, comm, request);
  }
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, target,
                        tag, comm, request);
  if (code != MPI_SUCCESS) return code;
  const auto kept = shared(*message);
  Pending pending = sending(kept);
  pending.starts = [kept] { return kept->pack(Report::sent); };
  keep_persistent(*request, std::move(pending));
  return code;
}

template <typename Count>
int prepare_receive(Receive<Count> real, void* items, Count count, MPI_Datatype type, int source,
                    int tag, MPI_Comm comm, MPI_Request* request) {
  auto message = ready_to_receive(items, count, type, source);
  if (!message) return real(items, count, type, source, tag, comm, request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, source,
                        tag, comm, request);
  if (code == MPI_SUCCESS) keep_persistent(*request, receiving(shared(*message)));
  return code;
}

/// Makes a persistent request ready to be started: packs what it sends.
int before_start(const std::shared_ptr<Pending>& pending) {
  if (!pending || !pending->persistent) return MPI_SUCCESS;
  if (pending->starts && !pending->starts()) return MPI_ERR_OTHER;
  pending->ended = false;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

#define TRANSHIP_SEND(function, name, Count)                                                     \
  TRANSHIP_MPI_API int MPI_##name(const void* items, Count count, MPI_Datatype type, int target, \
                                  int tag, MPI_Comm comm, MPI_Request* request) {                \
    return function(&PMPI_##name, items, count, type, target, tag, comm, request);               \
  }
TRANSHIP_SEND(send, Isend, int)
TRANSHIP_SEND(send, Issend, int)
TRANSHIP_SEND(send, Irsend, int)
TRANSHIP_SEND(send, Ibsend, int)
TRANSHIP_SEND(prepare_send, Send_init, int)
TRANSHIP_SEND(prepare_send, Ssend_init, int)
TRANSHIP_SEND(prepare_send, Rsend_init, int)
TRANSHIP_SEND(prepare_send, Bsend_init, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_SEND(send, Isend_c, MPI_Count)
TRANSHIP_SEND(send, Issend_c, MPI_Count)
TRANSHIP_SEND(send, Irsend_c, MPI_Count)
TRANSHIP_SEND(send, Ibsend_c, MPI_Count)
TRANSHIP_SEND(prepare_send, Send_init_c, MPI_Count)
TRANSHIP_SEND(prepare_send, Ssend_init_c, MPI_Count)
TRANSHIP_SEND(prepare_send, Rsend_init_c, MPI_Count)
TRANSHIP_SEND(prepare_send, Bsend_init_c, MPI_Count)
#endif

#define TRANSHIP_RECEIVE(suffix, Count)                                                           \
  TRANSHIP_MPI_API int MPI_Irecv##suffix(void* items, Count count, MPI_Datatype type, int source, \
                                         int tag, MPI_Comm comm, MPI_Request* request) {          \
    return receive<Count>(&PMPI_Irecv##suffix, items, count, type, source, tag, comm, request);   \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Imrecv##suffix(void* items, Count count, MPI_Datatype type,            \
                                          MPI_Message* message, MPI_Request* request) {           \
    return receive_matched<Count>(&PMPI_Imrecv##suffix, items, count, type, message, request);    \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Recv_init##suffix(void* items, Count count, MPI_Datatype type,         \
                                             int source, int tag, MPI_Comm comm,                  \
                                             MPI_Request* request) {                              \
    return prepare_receive<Count>(&PMPI_Recv_init##suffix, items, count, type, source, tag, comm, \
                                  request);                                                       \
  }
TRANSHIP_RECEIVE(, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_RECEIVE(_c, MPI_Count)
#endif

TRANSHIP_MPI_API int MPI_Start(MPI_Request* request) {
  const int code = before_start(requests().find(*request));
  return code == MPI_SUCCESS ? PMPI_Start(request) : code;
}

TRANSHIP_MPI_API int MPI_Startall(int count, MPI_Request* all) {
  for (const auto& pending : requests().find(count, all)) {
    if (const int code = before_start(pending); code != MPI_SUCCESS) return code;
  }
  return PMPI_Startall(count, all);
}
