// The begin and the end of MPI, and the types that are committed between them.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "mpi/report.hpp"
#include "mpi/requests.hpp"
#include "mpi/settings.hpp"
#include "mpi/type_plan.hpp"

namespace tranship::mpi {
namespace {

#if defined(MPI_ABI)
constexpr const char* built_for = "the MPI standard ABI";
#elif defined(OMPI_MAJOR_VERSION)
constexpr const char* built_for = "Open MPI";
#else
constexpr const char* built_for = "MPICH";
#endif

/// Returns the kind of MPI library that the program uses. Its handles are numbers in MPICH and
/// those that descend from it, and pointers in the others.
std::string kind_at_hand() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&PMPI_Init), &info) != 0 && info.dli_fname != nullptr) {
    const std::string path = info.dli_fname;
    if (path.find("libmpi_abi", path.rfind('/') + 1) != std::string::npos) {
      return "the MPI standard ABI";
    }
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  (void)PMPI_Get_library_version(version, &length);
  return std::strstr(version, "Open MPI") != nullptr ? "Open MPI" : "MPICH";
}

/// Ends the process before MPI begins if its handles are not those that this library knows.
void check_kind() {
  const std::string kind = kind_at_hand();
  if (kind == built_for) return;
  (void)std::fprintf(stderr,
                     "tranship-mpi: this library was built for %s, and the program uses %s: give "
                     "`tranship mpi-run --mpicxx` the compiler of the program's MPI\n",
                     built_for, kind.c_str());
  std::_Exit(2);
}

/// Sessions that the program has begun and not ended.
std::atomic<int> sessions{0};

/// Whether the program is between MPI_Init and MPI_Finalize, in whatever language it called them.
bool world_is_in_use() {
  int begun = 0;
  int ended = 0;
  (void)PMPI_Initialized(&begun);
  (void)PMPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// Prepares for the end of the world or of a session. `last`: The other of the two, and other
/// sessions, are not in use: then MPI ends, and all that is kept of its requests and types with it.
void before_end(bool last) {
  if (last) {
    requests().give_back();
    forget_plans();
  } else {
    requests().await_freed_receives();
  }
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

TRANSHIP_MPI_API int MPI_Init(int* argc, char*** argv) {
  check_kind();
  (void)settings();
  return PMPI_Init(argc, argv);
}

TRANSHIP_MPI_API int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  check_kind();
  (void)settings();
  return PMPI_Init_thread(argc, argv, required, provided);
}

#ifdef TRANSHIP_MPI_SESSIONS
TRANSHIP_MPI_API int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session* session) {
  check_kind();
  (void)settings();
  const int code = PMPI_Session_init(info, handler, session);
  if (code == MPI_SUCCESS) sessions.fetch_add(1);
  return code;
}

TRANSHIP_MPI_API int MPI_Session_finalize(MPI_Session* session) {
  before_end(sessions.load() <= 1 && !world_is_in_use());
  const int code = PMPI_Session_finalize(session);
  if (code == MPI_SUCCESS) sessions.fetch_sub(1);
  return code;
}
#endif

TRANSHIP_MPI_API int MPI_Finalize() {
  int rank = 0;
  (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  before_end(sessions.load() <= 0);
  const int code = PMPI_Finalize();
  report().print(rank);
  return code;
}

TRANSHIP_MPI_API int MPI_Type_commit(MPI_Datatype* type) {
  const int code = PMPI_Type_commit(type);
  if (code == MPI_SUCCESS) keep_plan(*type);
  return code;
}

TRANSHIP_MPI_API int MPI_Type_dup(MPI_Datatype type, MPI_Datatype* made) {
  const int code = PMPI_Type_dup(type, made);
  // A duplicate is committed if the type is.
  if (code == MPI_SUCCESS && is_kept(type)) keep_plan(*made);
  return code;
}
