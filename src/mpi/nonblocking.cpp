// Sends and receives that end later: non-blocking and persistent ones.
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/message.hpp"
#include "mpi/requests.hpp"
#include "mpi/statuses.hpp"

namespace tranship::mpi {
namespace {

template <typename Count>
using Send = int (*)(const void*, Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
template <typename Count>
using Receive = int (*)(void*, Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

std::shared_ptr<Message> shared(Message& message) {
  return std::make_shared<Message>(std::move(message));
}

/// Returns a function that owns a message until it is sent, and does nothing.
Pending::Arrived sending(std::shared_ptr<Message> message) {
  return [message = std::move(message)](const MPI_Status&) {};
}

/// Returns a function that unpacks a message when it has arrived.
Pending::Arrived receiving(std::shared_ptr<Message> message) {
  return
      [message = std::move(message)](const MPI_Status& status) { message->unpack_arrived(status); };
}

template <typename Count>
int send(Send<Count> real, const void* items, Count count, MPI_Datatype type, int target, int tag,
         MPI_Comm comm, MPI_Request* request) {
  auto message = packed_to_send(items, count, type, target);
  if (!message) return real(items, count, type, target, tag, comm, request);
  OneRequest made(request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, target,
                        tag, comm, made.get());
  if (code == MPI_SUCCESS) follow(made.value(), {.comm = comm}, sending(shared(*message)));
  return code;
}

/// persistent: Whether the call makes a request that is started later, again and again.
template <typename Count>
int receive(Receive<Count> real, bool persistent, void* items, Count count, MPI_Datatype type,
            int source, int tag, MPI_Comm comm, MPI_Request* request) {
  auto message = ready_to_receive(items, count, type, source);
  if (!message) return real(items, count, type, source, tag, comm, request);
  OneRequest made(request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, source,
                        tag, comm, made.get());
  if (code == MPI_SUCCESS) {
    keep(made.value(), {Pending::Kind::receive, comm, persistent}, receiving(shared(*message)));
  }
  return code;
}

template <typename Count>
int receive_matched(int (*real)(void*, Count, MPI_Datatype, MPI_Message*, MPI_Request*),
                    void* items, Count count, MPI_Datatype type, MPI_Message* matched,
                    MPI_Request* request) {
  const bool nobody = matched == nullptr || *matched == MPI_MESSAGE_NO_PROC;
  auto message = ready_to_receive(items, count, type, nobody ? MPI_PROC_NULL : MPI_ANY_SOURCE);
  if (!message) return real(items, count, type, matched, request);
  OneRequest made(request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED,
                        matched, made.get());
  if (code == MPI_SUCCESS) {
    keep(made.value(), {.kind = Pending::Kind::receive}, receiving(shared(*message)));
  }
  return code;
}

template <typename Count>
int prepare_send(Send<Count> real, const void* items, Count count, MPI_Datatype type, int target,
                 int tag, MPI_Comm comm, MPI_Request* request) {
  auto message = Message::to_pack(Task::message, items, count, type, most_of<Count>());
  if (target == MPI_PROC_NULL || !message || !message->take_buffer()) {
    return real(items, count, type, target, tag, comm, request);
  }
  OneRequest made(request);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, target,
                        tag, comm, made.get());
  if (code != MPI_SUCCESS) return code;
  const auto kept = shared(*message);
  keep(made.value(), {.comm = comm, .persistent = true}, sending(kept),
       [kept] { return kept->pack(Report::sent); });
  return code;
}

/// Makes a persistent request ready to be started.
int before_start(MPI_Request request, const Found& pending) {
  if (!pending || !pending->persistent()) return MPI_SUCCESS;
  return pending->start(request) ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/// Open MPI starts another request if the one before has not quite ended, and changes the handle.
void after_start(MPI_Request before, MPI_Request now, const Found& pending) {
  if (!pending || number_of(before) == number_of(now)) return;
  requests().remove(before, pending.get());
  requests().put_back(now, pending);
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
    return receive<Count>(&PMPI_Irecv##suffix, false, items, count, type, source, tag, comm,      \
                          request);                                                               \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Imrecv##suffix(void* items, Count count, MPI_Datatype type,            \
                                          MPI_Message* message, MPI_Request* request) {           \
    return receive_matched<Count>(&PMPI_Imrecv##suffix, items, count, type, message, request);    \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Recv_init##suffix(void* items, Count count, MPI_Datatype type,         \
                                             int source, int tag, MPI_Comm comm,                  \
                                             MPI_Request* request) {                              \
    return receive<Count>(&PMPI_Recv_init##suffix, true, items, count, type, source, tag, comm,   \
                          request);                                                               \
  }
TRANSHIP_RECEIVE(, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_RECEIVE(_c, MPI_Count)
#endif

TRANSHIP_MPI_API int MPI_Start(MPI_Request* request) {
  if (request == nullptr) return PMPI_Start(request);
  const MPI_Request before = *request;
  const Found pending = requests().find(before);
  if (const int code = before_start(before, pending); code != MPI_SUCCESS) return code;
  const int code = PMPI_Start(request);
  after_start(before, *request, pending);
  return code;
}

TRANSHIP_MPI_API int MPI_Startall(int count, MPI_Request* all) {
  const std::vector<Found> found = requests().find(count, all);
  if (found.empty()) return PMPI_Startall(count, all);
  const std::vector<MPI_Request> before(all, all + count);
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (const int code = before_start(before[k], found[k]); code != MPI_SUCCESS) return code;
  }
  const int code = PMPI_Startall(count, all);
  for (std::size_t k = 0; k < found.size(); ++k) after_start(before[k], all[k], found[k]);
  return code;
}
