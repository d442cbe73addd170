// The ends of requests: what was received is unpacked before the program sees the end.
#include <vector>

#include "mpi/requests.hpp"

namespace tranship::mpi {
namespace {

using Found = std::shared_ptr<Pending>;

/// Where MPI writes one status; the caller may not want it.
class One {
 public:
  explicit One(MPI_Status* given) : used_(given != MPI_STATUS_IGNORE ? given : &own_) {}
  MPI_Status* get() { return used_; }

 private:
  MPI_Status own_{};
  MPI_Status* used_;
};

/// The same for several.
class Many {
 public:
  Many(MPI_Status* given, int count) : used_(given) {
    if (given != MPI_STATUSES_IGNORE) return;
    own_.resize(static_cast<std::size_t>(count));
    used_ = own_.data();
  }
  MPI_Status* get() { return used_; }
  MPI_Status& operator[](int k) { return used_[k]; }

 private:
  std::vector<MPI_Status> own_;
  MPI_Status* used_;
};

void end(MPI_Request request, const Found& pending, const MPI_Status& status) {
  pending->end(status);
  if (!pending->persistent) requests().remove(request, pending.get());
}

/// Of a request that ended with an error.
void drop(MPI_Request request, const Found& pending) {
  pending->ended = true;
  if (!pending->persistent) requests().remove(request, pending.get());
}

/// Ends those of several requests that a call has completed. code: what the call returned;
/// `places[k]`: the number of the request that `statuses[k]` belongs to, k itself if null.
void end_some(int code, int count, const int* places, const std::vector<MPI_Request>& handles,
              const std::vector<Found>& found, Many& statuses) {
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return;
  for (int k = 0; k < count; ++k) {
    const auto place = static_cast<std::size_t>(places != nullptr ? places[k] : k);
    if (!found[place]) continue;
    const int own = code == MPI_SUCCESS ? MPI_SUCCESS : statuses[k].MPI_ERROR;
    if (own == MPI_SUCCESS) {
      end(handles[place], found[place], statuses[k]);
    } else if (own != MPI_ERR_PENDING) {
      drop(handles[place], found[place]);
    }
  }
}

std::vector<MPI_Request> handles_of(int count, const MPI_Request* requests) {
  return {requests, requests + count};
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

TRANSHIP_MPI_API int MPI_Wait(MPI_Request* request, MPI_Status* given) {
  const Found pending = requests().find(*request);
  if (!pending) return PMPI_Wait(request, given);
  const MPI_Request handle = *request;
  One status(given);
  const int code = PMPI_Wait(request, status.get());
  code == MPI_SUCCESS ? end(handle, pending, *status.get()) : drop(handle, pending);
  return code;
}

TRANSHIP_MPI_API int MPI_Test(MPI_Request* request, int* flag, MPI_Status* given) {
  const Found pending = requests().find(*request);
  if (!pending) return PMPI_Test(request, flag, given);
  const MPI_Request handle = *request;
  One status(given);
  const int code = PMPI_Test(request, flag, status.get());
  if (code != MPI_SUCCESS) {
    drop(handle, pending);
  } else if (*flag != 0) {
    end(handle, pending, *status.get());
  }
  return code;
}

TRANSHIP_MPI_API int MPI_Waitall(int count, MPI_Request* all, MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Waitall(count, all, given);
  const auto handles = handles_of(count, all);
  Many statuses(given, count);
  const int code = PMPI_Waitall(count, all, statuses.get());
  end_some(code, count, nullptr, handles, found, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Testall(int count, MPI_Request* all, int* flag, MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Testall(count, all, flag, given);
  const auto handles = handles_of(count, all);
  Many statuses(given, count);
  const int code = PMPI_Testall(count, all, flag, statuses.get());
  if (code != MPI_SUCCESS || *flag != 0) {
    end_some(code, count, nullptr, handles, found, statuses);
  }
  return code;
}

TRANSHIP_MPI_API int MPI_Waitany(int count, MPI_Request* all, int* index, MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Waitany(count, all, index, given);
  const auto handles = handles_of(count, all);
  One status(given);
  const int code = PMPI_Waitany(count, all, index, status.get());
  if (code != MPI_SUCCESS || *index == MPI_UNDEFINED) return code;
  const auto place = static_cast<std::size_t>(*index);
  if (found[place]) end(handles[place], found[place], *status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Testany(int count, MPI_Request* all, int* index, int* flag,
                                 MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Testany(count, all, index, flag, given);
  const auto handles = handles_of(count, all);
  One status(given);
  const int code = PMPI_Testany(count, all, index, flag, status.get());
  if (code != MPI_SUCCESS || *flag == 0 || *index == MPI_UNDEFINED) return code;
  const auto place = static_cast<std::size_t>(*index);
  if (found[place]) end(handles[place], found[place], *status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Waitsome(int count, MPI_Request* all, int* ended, int* places,
                                  MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Waitsome(count, all, ended, places, given);
  const auto handles = handles_of(count, all);
  Many statuses(given, count);
  const int code = PMPI_Waitsome(count, all, ended, places, statuses.get());
  if (*ended != MPI_UNDEFINED) end_some(code, *ended, places, handles, found, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Testsome(int count, MPI_Request* all, int* ended, int* places,
                                  MPI_Status* given) {
  const auto found = requests().find(count, all);
  if (found.empty()) return PMPI_Testsome(count, all, ended, places, given);
  const auto handles = handles_of(count, all);
  Many statuses(given, count);
  const int code = PMPI_Testsome(count, all, ended, places, statuses.get());
  if (*ended != MPI_UNDEFINED) end_some(code, *ended, places, handles, found, statuses);
  return code;
}

TRANSHIP_MPI_API int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* given) {
  const Found pending = requests().find(request);
  if (!pending) return PMPI_Request_get_status(request, flag, given);
  One status(given);
  const int code = PMPI_Request_get_status(request, flag, status.get());
  if (code == MPI_SUCCESS && *flag != 0) pending->end(*status.get());
  return code;
}

TRANSHIP_MPI_API int MPI_Request_free(MPI_Request* request) {
  const Found pending = requests().find(*request);
  if (!pending) return PMPI_Request_free(request);
  requests().remove(*request, pending.get());
  if (pending->ended) return PMPI_Request_free(request);
  requests().abandon(*request, pending);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
