// The ends of requests: what was received is unpacked before the program sees the end.
#include <cstddef>
#include <utility>
#include <vector>

#include "mpi/requests.hpp"
#include "mpi/statuses.hpp"

namespace tranship::mpi {
namespace {

/// The requests of a call that may end them, taken out of the table of requests meanwhile.
class Taken {
 public:
  Taken(int count, MPI_Request* all)
      : count_(count), all_(all), found_(requests().take(count, all)) {
    if (!found_.empty()) handles_.assign(all, all + count);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  /// Puts back the requests that have not ended. The rest have failed, or MPI gave no status for
  /// them.
  ~Taken() {
    for (std::size_t k = 0; k < found_.size(); ++k) {
      if (!found_[k] || found_[k]->persistent()) continue;
      if (all_[k] != MPI_REQUEST_NULL) {
        requests().put_back(handles_[k], found_[k]);
      } else {
        found_[k]->drop();
      }
    }
  }

  /// Returns whether none of the requests has a message that is packed here: then the call goes to
  /// MPI as it is.
  bool none() const { return found_.empty(); }
  int count() const { return count_; }

  /// Returns whether a request that is not persistent has not ended.
  bool any_left() const {
    for (std::size_t k = 0; k < handles_.size(); ++k) {
      if (all_[k] != MPI_REQUEST_NULL && (!found_[k] || !found_[k]->persistent())) return true;
    }
    return false;
  }

  /// Ends a request that MPI has ended with this error code.
  void ended(int number, int code, const MPI_Status& status) {
    if (number < 0 || number >= count_) return;
    const auto k = static_cast<std::size_t>(number);
    if (!found_[k] || code == MPI_ERR_PENDING) return;
    if (!found_[k]->persistent() && all_[k] != MPI_REQUEST_NULL) return;
    found_[k]->end(code, status);
    if (!found_[k]->persistent()) found_[k].reset();
  }

  /// Ends several requests, of a call that returned `code`. `numbers[k]`: the request that status k
  /// belongs to; if `numbers` is null, request k.
  void ended(int code, int count, const int* numbers, const ManyStatuses& statuses) {
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return;
    for (int k = 0; k < count; ++k) {
      const int own = code == MPI_SUCCESS ? MPI_SUCCESS : statuses[k].MPI_ERROR;
      ended(numbers != nullptr ? numbers[k] : k, own, statuses[k]);
    }
  }

 private:
  int count_;
  MPI_Request* all_;
  std::vector<Found> found_;
  std::vector<MPI_Request> handles_;
};

/// Unpacks the messages of requests that the call does not free, of which it found `count`
/// complete. numbers: as in Taken::ended()
[[maybe_unused]] void unpack_some(const std::vector<Found>& found, int code, int count,
                                  const int* numbers, const ManyStatuses& statuses) {
  if (code != MPI_SUCCESS) return;
  for (int k = 0; k < count; ++k) {
    const Found& one = found[static_cast<std::size_t>(numbers != nullptr ? numbers[k] : k)];
    if (one) one->end(code, statuses[k]);
  }
}

int wait(MPI_Request* request, MPI_Status* given) {
  Taken taken(1, request);
  if (taken.none()) return PMPI_Wait(request, given);
  OneStatus status(given);
  const int code = PMPI_Wait(request, status.get());
  taken.ended(0, code, *status);
  return code;
}

int test(MPI_Request* request, int* given_flag, MPI_Status* given) {
  Taken taken(1, request);
  if (taken.none()) return PMPI_Test(request, given_flag, given);
  OneStatus status(given);
  OneNumber flag(given_flag);
  const int code = PMPI_Test(request, flag.get(), status.get());
  if (code != MPI_SUCCESS || flag.is_set()) taken.ended(0, code, *status);
  return code;
}

int wait_all(int count, MPI_Request* all, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Waitall(count, all, given);
  const auto wait_once = [&] {
    ManyStatuses statuses(given, count);
    const int code = PMPI_Waitall(count, all, statuses.get());
    taken.ended(code, count, nullptr, statuses);
    return code;
  };
  const int code = wait_once();
  // MPICH stops at an error. Without statuses the caller cannot tell which requests failed, and
  // expects that all have ended.
  if (given == MPI_STATUSES_IGNORE && code == MPI_ERR_IN_STATUS) {
    for (int k = 0; k < count && taken.any_left(); ++k) (void)wait_once();
  }
  return code;
}

int test_all(int count, MPI_Request* all, int* given_flag, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Testall(count, all, given_flag, given);
  ManyStatuses statuses(given, count);
  OneNumber flag(given_flag);
  const int code = PMPI_Testall(count, all, flag.get(), statuses.get());
  if (code != MPI_SUCCESS || flag.is_set()) taken.ended(code, count, nullptr, statuses);
  return code;
}

int wait_any(int count, MPI_Request* all, int* given_index, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Waitany(count, all, given_index, given);
  OneStatus status(given);
  OneNumber index(given_index);
  const int code = PMPI_Waitany(count, all, index.get(), status.get());
  taken.ended(index.value(), code, *status);
  return code;
}

int test_any(int count, MPI_Request* all, int* given_index, int* given_flag, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Testany(count, all, given_index, given_flag, given);
  OneStatus status(given);
  OneNumber index(given_index);
  OneNumber flag(given_flag);
  const int code = PMPI_Testany(count, all, index.get(), flag.get(), status.get());
  if (code != MPI_SUCCESS || flag.is_set()) taken.ended(index.value(), code, *status);
  return code;
}

using Some = int (*)(int, MPI_Request*, int*, int*, MPI_Status*);

int some(Some real, int count, MPI_Request* all, int* given_ended, int* places, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return real(count, all, given_ended, places, given);
  ManyStatuses statuses(given, count);
  OneNumber ended(given_ended);
  const int code = real(count, all, ended.get(), places, statuses.get());
  if (ended.value() != MPI_UNDEFINED) taken.ended(code, ended.value(), places, statuses);
  return code;
}

int get_status(MPI_Request request, int* given_flag, MPI_Status* given) {
  const Found pending = requests().find(request);
  if (!pending) return PMPI_Request_get_status(request, given_flag, given);
  OneStatus status(given);
  OneNumber flag(given_flag);
  const int code = PMPI_Request_get_status(request, flag.get(), status.get());
  if (flag.is_set()) pending->end(code, *status);
  return code;
}

#ifdef TRANSHIP_MPI_STATUS_OF_SEVERAL
int get_status_all(int count, const MPI_Request* all, int* given_flag, MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Request_get_status_all(count, all, given_flag, given);
  ManyStatuses statuses(given, count);
  OneNumber flag(given_flag);
  const int code = PMPI_Request_get_status_all(count, all, flag.get(), statuses.get());
  if (flag.is_set()) unpack_some(found, code, count, nullptr, statuses);
  return code;
}

int get_status_any(int count, const MPI_Request* all, int* given_index, int* given_flag,
                   MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) {
    return PMPI_Request_get_status_any(count, all, given_index, given_flag, given);
  }
  OneStatus status(given);
  OneNumber index(given_index);
  OneNumber flag(given_flag);
  const int code = PMPI_Request_get_status_any(count, all, index.get(), flag.get(), status.get());
  if (!flag.is_set() || index.value() == MPI_UNDEFINED) return code;
  if (const Found& one = found[static_cast<std::size_t>(index.value())]) one->end(code, *status);
  return code;
}

int get_status_some(int count, const MPI_Request* all, int* given_ended, int* places,
                    MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Request_get_status_some(count, all, given_ended, places, given);
  ManyStatuses statuses(given, count);
  OneNumber ended(given_ended);
  const int code = PMPI_Request_get_status_some(count, all, ended.get(), places, statuses.get());
  if (ended.value() != MPI_UNDEFINED) unpack_some(found, code, ended.value(), places, statuses);
  return code;
}
#endif

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

TRANSHIP_MPI_API int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return after(wait(request, status));
}

TRANSHIP_MPI_API int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return after(test(request, flag, status));
}

TRANSHIP_MPI_API int MPI_Waitall(int count, MPI_Request* all, MPI_Status* statuses) {
  return after(wait_all(count, all, statuses));
}

TRANSHIP_MPI_API int MPI_Testall(int count, MPI_Request* all, int* flag, MPI_Status* statuses) {
  return after(test_all(count, all, flag, statuses));
}

TRANSHIP_MPI_API int MPI_Waitany(int count, MPI_Request* all, int* index, MPI_Status* status) {
  return after(wait_any(count, all, index, status));
}

TRANSHIP_MPI_API int MPI_Testany(int count, MPI_Request* all, int* index, int* flag,
                                 MPI_Status* status) {
  return after(test_any(count, all, index, flag, status));
}

TRANSHIP_MPI_API int MPI_Waitsome(int count, MPI_Request* all, int* ended, int* places,
                                  MPI_Status* statuses) {
  return after(some(&PMPI_Waitsome, count, all, ended, places, statuses));
}

TRANSHIP_MPI_API int MPI_Testsome(int count, MPI_Request* all, int* ended, int* places,
                                  MPI_Status* statuses) {
  return after(some(&PMPI_Testsome, count, all, ended, places, statuses));
}

TRANSHIP_MPI_API int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  return after(get_status(request, flag, status));
}

#ifdef TRANSHIP_MPI_STATUS_OF_SEVERAL
TRANSHIP_MPI_API int MPI_Request_get_status_all(int count, const MPI_Request* all, int* flag,
                                                MPI_Status* statuses) {
  return after(get_status_all(count, all, flag, statuses));
}

TRANSHIP_MPI_API int MPI_Request_get_status_any(int count, const MPI_Request* all, int* index,
                                                int* flag, MPI_Status* status) {
  return after(get_status_any(count, all, index, flag, status));
}

TRANSHIP_MPI_API int MPI_Request_get_status_some(int count, const MPI_Request* all, int* ended,
                                                 int* places, MPI_Status* statuses) {
  return after(get_status_some(count, all, ended, places, statuses));
}
#endif

TRANSHIP_MPI_API int MPI_Request_free(MPI_Request* request) {
  const Found pending = request != nullptr ? requests().find(*request) : nullptr;
  if (!pending) return PMPI_Request_free(request);
#ifdef OMPI_MAJOR_VERSION
  // Open MPI refuses to free an active collective request, as the standard says; MPICH does not.
  if (pending->kind() == Pending::Kind::collective) return PMPI_Request_free(request);
#endif
  requests().remove(*request, pending.get());
  if (pending->ended()) return PMPI_Request_free(request);
  requests().abandon(*request, pending);
  *request = MPI_REQUEST_NULL;
  return after(MPI_SUCCESS);
}
