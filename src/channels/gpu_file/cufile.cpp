#include "channels/gpu_file/cufile.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tranship {
namespace {

/// CUfileError_t.
struct Outcome {
  int error;  ///< CUfileOpError; 0: well
  int cuda;   ///< CUresult
};

/// CUfileDescr_t for a descriptor of POSIX.
struct Description {
  int type;
  union {
    int descriptor;
    void* other;
  } handle;
  const void* operations;
};

constexpr int of_a_descriptor = 1;  // CU_FILE_HANDLE_TYPE_OPAQUE_FD

Error refused(const char* call, long number) {
  const bool system = number == -1;
  return Error{ErrorCode::io,
               std::string(call) + ": " +
                   (system ? std::strerror(errno) : "error " + std::to_string(-number)) +
                   "; set gpu_direct_storage to off to go through pinned memory"};
}

}  // namespace

struct CuFile::Functions {
  Outcome (*open_driver)() = nullptr;
  Outcome (*attach)(void** handle, Description* description) = nullptr;
  void (*detach)(void* handle) = nullptr;
  ssize_t (*read)(void* handle, void* base, std::size_t bytes, off_t file, off_t memory) = nullptr;
  ssize_t (*write)(void* handle, const void* base, std::size_t bytes, off_t file,
                   off_t memory) = nullptr;
};

CuFile::CuFile(void* library, std::unique_ptr<Functions> functions)
    : library_(library), functions_(std::move(functions)) {}

/// The driver stays open until the process ends: other users of the library may need it.
CuFile::~CuFile() { (void)dlclose(library_); }

CuFile::Handle::~Handle() { library_->functions_->detach(handle_); }

Result<std::shared_ptr<const CuFile>> CuFile::open(const std::string& library) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return Error{ErrorCode::unsupported, std::string("GPUDirect Storage: ") + dlerror()};
  }
  auto functions = std::make_unique<Functions>();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(opened, name));
    return function != nullptr;
  };
  Functions& all = *functions;
  const bool complete = find(all.open_driver, "cuFileDriverOpen") &&
                        find(all.attach, "cuFileHandleRegister") &&
                        find(all.detach, "cuFileHandleDeregister") &&
                        find(all.read, "cuFileRead") && find(all.write, "cuFileWrite");
  std::shared_ptr<CuFile> made(new CuFile(opened, std::move(functions)));
  made->self_ = made;
  if (!complete) {
    return Error{ErrorCode::unsupported, "GPUDirect Storage: " + library + " lacks a function"};
  }
  const Outcome outcome = made->functions_->open_driver();
  if (outcome.error != 0) {
    return Error{ErrorCode::unsupported,
                 "GPUDirect Storage: cuFileDriverOpen: error " + std::to_string(outcome.error)};
  }
  return std::shared_ptr<const CuFile>(made);
}

bool CuFile::in_kernel() { return access("/sys/module/nvidia_fs", F_OK) == 0; }

Result<std::shared_ptr<CuFile::Handle>> CuFile::attach(int descriptor) const {
  Description description{};
  description.type = of_a_descriptor;
  description.handle.descriptor = descriptor;
  void* handle = nullptr;
  const Outcome outcome = functions_->attach(&handle, &description);
  if (outcome.error != 0) return refused("cuFileHandleRegister", -outcome.error);
  return std::shared_ptr<Handle>(new Handle(self_.lock(), handle));
}

Result<std::int64_t> CuFile::read(const Handle& file, std::byte* memory, std::int64_t bytes,
                                  std::int64_t offset) const {
  const ssize_t done =
      functions_->read(file.handle_, memory, static_cast<std::size_t>(bytes), offset, 0);
  if (done < 0) return refused("cuFileRead", done);
  return static_cast<std::int64_t>(done);
}

Result<std::int64_t> CuFile::write(const Handle& file, const std::byte* memory, std::int64_t bytes,
                                   std::int64_t offset) const {
  const ssize_t done =
      functions_->write(file.handle_, memory, static_cast<std::size_t>(bytes), offset, 0);
  if (done < 0) return refused("cuFileWrite", done);
  return static_cast<std::int64_t>(done);
}

}  // namespace tranship
