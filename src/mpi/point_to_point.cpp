// Blocking sends and receives.
#include "mpi/message.hpp"
#include "mpi/requests.hpp"
#include "mpi/statuses.hpp"

namespace tranship::mpi {
namespace {

template <typename Count>
using Send = int (*)(const void*, Count, MPI_Datatype, int, int, MPI_Comm);
template <typename Count>
using Receive = int (*)(void*, Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);

template <typename Count>
int send(Send<Count> real, const void* items, Count count, MPI_Datatype type, int target, int tag,
         MPI_Comm comm) {
  const auto message = packed_to_send(items, count, type, target);
  if (!message) return real(items, count, type, target, tag, comm);
  return real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, target, tag,
              comm);
}

template <typename Count>
int receive(Receive<Count> real, void* items, Count count, MPI_Datatype type, int source, int tag,
            MPI_Comm comm, MPI_Status* given) {
  auto message = ready_to_receive(items, count, type, source);
  if (!message) return real(items, count, type, source, tag, comm, given);
  OneStatus status(given);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, source,
                        tag, comm, status.get());
  if (brought_message(code)) message->unpack_arrived(*status);
  return code;
}

template <typename Count>
int receive_matched(int (*real)(void*, Count, MPI_Datatype, MPI_Message*, MPI_Status*), void* items,
                    Count count, MPI_Datatype type, MPI_Message* matched, MPI_Status* given) {
  const bool nobody = matched == nullptr || *matched == MPI_MESSAGE_NO_PROC;
  auto message = ready_to_receive(items, count, type, nobody ? MPI_PROC_NULL : MPI_ANY_SOURCE);
  if (!message) return real(items, count, type, matched, given);
  OneStatus status(given);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED,
                        matched, status.get());
  if (brought_message(code)) message->unpack_arrived(*status);
  return code;
}

/// The arguments of one side of a call that sends and receives.
template <typename Items, typename Count>
struct MessageEnd {
  Items items;
  Count count;
  MPI_Datatype type;
  int peer;
  int tag;

  /// Replaces the arguments of the call by those of the packed elements.
  void replace(const Message& message) {
    items = message.packed();
    count = static_cast<Count>(message.bytes());
    type = MPI_PACKED;
  }
};

template <typename Count>
using SendReceive = int (*)(const void*, Count, MPI_Datatype, int, int, void*, Count, MPI_Datatype,
                            int, int, MPI_Comm, MPI_Status*);

template <typename Count>
int send_receive(SendReceive<Count> real, MessageEnd<const void*, Count> sent,
                 MessageEnd<void*, Count> got, MPI_Comm comm, MPI_Status* given) {
  const auto to_send = packed_to_send(sent.items, sent.count, sent.type, sent.peer);
  auto received = ready_to_receive(got.items, got.count, got.type, got.peer);
  if (to_send) sent.replace(*to_send);
  if (received) got.replace(*received);
  OneStatus status(given);
  const int code = real(sent.items, sent.count, sent.type, sent.peer, sent.tag, got.items,
                        got.count, got.type, got.peer, got.tag, comm, status.get());
  if (received && brought_message(code)) received->unpack_arrived(*status);
  return code;
}

template <typename Count>
using Replace = int (*)(void*, Count, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Status*);

template <typename Count>
int send_receive_replace(Replace<Count> real, void* items, Count count, MPI_Datatype type,
                         int target, int sent_tag, int source, int got_tag, MPI_Comm comm,
                         MPI_Status* given) {
  auto message = ready_to_receive(items, count, type, target == MPI_PROC_NULL ? target : source);
  if (!message || !message->pack(Report::sent)) {
    return real(items, count, type, target, sent_tag, source, got_tag, comm, given);
  }
  OneStatus status(given);
  const int code = real(message->packed(), static_cast<Count>(message->bytes()), MPI_PACKED, target,
                        sent_tag, source, got_tag, comm, status.get());
  if (brought_message(code)) message->unpack_arrived(*status);
  return code;
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

#define TRANSHIP_SEND(name, Count)                                                               \
  TRANSHIP_MPI_API int MPI_##name(const void* items, Count count, MPI_Datatype type, int target, \
                                  int tag, MPI_Comm comm) {                                      \
    return after(send<Count>(&PMPI_##name, items, count, type, target, tag, comm));              \
  }
TRANSHIP_SEND(Send, int)
TRANSHIP_SEND(Ssend, int)
TRANSHIP_SEND(Rsend, int)
TRANSHIP_SEND(Bsend, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_SEND(Send_c, MPI_Count)
TRANSHIP_SEND(Ssend_c, MPI_Count)
TRANSHIP_SEND(Rsend_c, MPI_Count)
TRANSHIP_SEND(Bsend_c, MPI_Count)
#endif

#define TRANSHIP_RECEIVE(suffix, Count)                                                           \
  TRANSHIP_MPI_API int MPI_Recv##suffix(void* items, Count count, MPI_Datatype type, int source,  \
                                        int tag, MPI_Comm comm, MPI_Status* status) {             \
    return after(                                                                                 \
        receive<Count>(&PMPI_Recv##suffix, items, count, type, source, tag, comm, status));       \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Mrecv##suffix(void* items, Count count, MPI_Datatype type,             \
                                         MPI_Message* message, MPI_Status* status) {              \
    return after(                                                                                 \
        receive_matched<Count>(&PMPI_Mrecv##suffix, items, count, type, message, status));        \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Sendrecv##suffix(                                                      \
      const void* sent, Count sent_count, MPI_Datatype sent_type, int target, int sent_tag,       \
      void* got, Count got_count, MPI_Datatype got_type, int source, int got_tag, MPI_Comm comm,  \
      MPI_Status* status) {                                                                       \
    return after(send_receive<Count>(&PMPI_Sendrecv##suffix,                                      \
                                     {sent, sent_count, sent_type, target, sent_tag},             \
                                     {got, got_count, got_type, source, got_tag}, comm, status)); \
  }                                                                                               \
  TRANSHIP_MPI_API int MPI_Sendrecv_replace##suffix(                                              \
      void* items, Count count, MPI_Datatype type, int target, int sent_tag, int source,          \
      int got_tag, MPI_Comm comm, MPI_Status* status) {                                           \
    return after(send_receive_replace<Count>(&PMPI_Sendrecv_replace##suffix, items, count, type,  \
                                             target, sent_tag, source, got_tag, comm, status));   \
  }
TRANSHIP_RECEIVE(, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_RECEIVE(_c, MPI_Count)
#endif
