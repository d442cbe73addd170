// The ends of requests: what was received is unpacked before the program sees the end.
#include <cstddef>
#include <utility>
#include <vector>

#include "mpi/requests.hpp"
#include "mpi/statuses.hpp"

namespace tranship::mpi {
namespace {

/// Requests of a call that may end them.
class Taken {
 public:
  Taken(int count, MPI_Request* all)
      : count_(count), all_(all), found_(requests().take(count, all)) {
    if (!found_.empty()) handles_.assign(all, all + count);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  /// Puts back those that have not ended; the others failed, or their status was not told.
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

  /// Whether no request is here: then the call is MPI's alone.
  bool none() const { return found_.empty(); }
  int count() const { return count_; }

  /// Takes note that a request has ended, with its own error code.
  void ended(int number, int code, const MPI_Status& status) {
    const auto k = static_cast<std::size_t>(number);
    if (!found_[k] || code == MPI_ERR_PENDING) return;
    if (!found_[k]->persistent() && all_[k] != MPI_REQUEST_NULL) return;
    if (code == MPI_SUCCESS) {
      found_[k]->end(status);
    } else {
      found_[k]->drop();
    }
    if (!found_[k]->persistent()) found_[k].reset();
  }

  /// The same for several, of a call that returned `code`. `numbers[k]`: the request that status k
  /// belongs to; k itself if it is null
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

#ifdef TRANSHIP_MPI_STATUS_OF_SEVERAL
/// Unpacks what has arrived for requests that stay: of a call that returned `code` and found
/// `count` of them complete.
void unpack_some(const std::vector<Found>& found, int code, int count, const int* numbers,
                 const ManyStatuses& statuses) {
  if (code != MPI_SUCCESS) return;
  for (int k = 0; k < count; ++k) {
    const Found& one = found[static_cast<std::size_t>(numbers != nullptr ? numbers[k] : k)];
    if (one) one->end(statuses[k]);
  }
}
#endif

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

TRANSHIP_MPI_API int MPI_Wait(MPI_Request* request, MPI_Status* given) {
  Taken taken(1, request);
  if (taken.none()) return PMPI_Wait(request, given);
  OneStatus status(given);
  const int code = PMPI_Wait(request, status.get());
  taken.ended(0, code, *status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Test(MPI_Request* request, int* flag, MPI_Status* given) {
  Taken taken(1, request);
  if (taken.none()) return PMPI_Test(request, flag, given);
  OneStatus status(given);
  const int code = PMPI_Test(request, flag, status.get());
  if (code != MPI_SUCCESS || *flag != 0) taken.ended(0, code, *status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Waitall(int count, MPI_Request* all, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Waitall(count, all, given);
  ManyStatuses statuses(given, count);
  const int code = PMPI_Waitall(count, all, statuses.get());
  taken.ended(code, count, nullptr, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Testall(int count, MPI_Request* all, int* flag, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Testall(count, all, flag, given);
  ManyStatuses statuses(given, count);
  const int code = PMPI_Testall(count, all, flag, statuses.get());
  if (code != MPI_SUCCESS || *flag != 0) taken.ended(code, count, nullptr, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Waitany(int count, MPI_Request* all, int* index, MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Waitany(count, all, index, given);
  OneStatus status(given);
  *index = MPI_UNDEFINED;
  const int code = PMPI_Waitany(count, all, index, status.get());
  if (*index != MPI_UNDEFINED) taken.ended(*index, code, *status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Testany(int count, MPI_Request* all, int* index, int* flag,
                                 MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Testany(count, all, index, flag, given);
  OneStatus status(given);
  *index = MPI_UNDEFINED;
  *flag = 0;
  const int code = PMPI_Testany(count, all, index, flag, status.get());
  const bool told = *index != MPI_UNDEFINED && (code != MPI_SUCCESS || *flag != 0);
  if (told) taken.ended(*index, code, *status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Waitsome(int count, MPI_Request* all, int* ended, int* places,
                                  MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Waitsome(count, all, ended, places, given);
  ManyStatuses statuses(given, count);
  *ended = MPI_UNDEFINED;
  const int code = PMPI_Waitsome(count, all, ended, places, statuses.get());
  if (*ended != MPI_UNDEFINED) taken.ended(code, *ended, places, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Testsome(int count, MPI_Request* all, int* ended, int* places,
                                  MPI_Status* given) {
  Taken taken(count, all);
  if (taken.none()) return PMPI_Testsome(count, all, ended, places, given);
  ManyStatuses statuses(given, count);
  *ended = MPI_UNDEFINED;
  const int code = PMPI_Testsome(count, all, ended, places, statuses.get());
  if (*ended != MPI_UNDEFINED) taken.ended(code, *ended, places, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* given) {
  const Found pending = requests().find(request);
  if (!pending) return PMPI_Request_get_status(request, flag, given);
  OneStatus status(given);
  *flag = 0;
  const int code = PMPI_Request_get_status(request, flag, status.get());
  if (code == MPI_SUCCESS && *flag != 0) pending->end(*status.get());
  return code;
}

#ifdef TRANSHIP_MPI_STATUS_OF_SEVERAL
TRANSHIP_MPI_API int MPI_Request_get_status_all(int count, const MPI_Request* all, int* flag,
                                                MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Request_get_status_all(count, all, flag, given);
  ManyStatuses statuses(given, count);
  *flag = 0;
  const int code = PMPI_Request_get_status_all(count, all, flag, statuses.get());
  if (*flag != 0) unpack_some(found, code, count, nullptr, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Request_get_status_any(int count, const MPI_Request* all, int* index,
                                                int* flag, MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Request_get_status_any(count, all, index, flag, given);
  OneStatus status(given);
  *index = MPI_UNDEFINED;
  *flag = 0;
  const int code = PMPI_Request_get_status_any(count, all, index, flag, status.get());
  if (code != MPI_SUCCESS || *flag == 0 || *index == MPI_UNDEFINED) return code;
  if (const Found& one = found[static_cast<std::size_t>(*index)]) one->end(*status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Request_get_status_some(int count, const MPI_Request* all, int* ended,
                                                 int* places, MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Request_get_status_some(count, all, ended, places, given);
  ManyStatuses statuses(given, count);
  *ended = MPI_UNDEFINED;
  const int code = PMPI_Request_get_status_some(count, all, ended, places, statuses.get());
  if (*ended != MPI_UNDEFINED) unpack_some(found, code, *ended, places, statuses);
  return code;
}
#endif

TRANSHIP_MPI_API int MPI_Request_free(MPI_Request* request) {
  const Found pending = requests().find(*request);
  if (!pending) return PMPI_Request_free(request);
  requests().remove(*request, pending.get());
  if (pending->ended()) return PMPI_Request_free(request);
  requests().abandon(*request, pending);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
