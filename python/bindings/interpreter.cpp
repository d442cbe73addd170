#include "interpreter.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tranship::python {
namespace {

/// Longest time that the ending interpreter waits for Released sections; their engines are closed
/// by then.
constexpr std::chrono::seconds leave_max{5};
constexpr std::chrono::microseconds poll_interval{200};

/// State of the Released sections of all threads of the process.
struct Sections {
  std::atomic<int> inside{0};     ///< threads in a Released section, until they hold the lock again
  std::atomic<int> returning{0};  ///< threads that wait for the lock, or ask for a pending call
  std::atomic<bool> ending{false};  ///< true: new sections keep the lock
  std::atomic<bool> over{false};    ///< true: no thread takes the lock any more
};
Sections sections;

std::atomic<Kept*> dropped{nullptr};
std::atomic<bool> asked{false};  ///< true: the interpreter was asked to empty the list

/// Blocks until the process ends. A thread that asks an ended interpreter for its lock would be
/// unwound inside C++ code, which aborts the process.
[[noreturn]] void wait_for_end() {
  while (true) pause();
}

/// Registers a thread that is about to call the interpreter. Returns false if it must not.
bool may_return() {
  sections.returning.fetch_add(1);
  if (!sections.over.load()) return true;
  sections.returning.fetch_sub(1);
  return false;
}

struct KeptObject : Kept {
  explicit KeptObject(nb::handle given) : object(given.inc_ref()) {}
  ~KeptObject() override { object.dec_ref(); }
  nb::handle object;
};

struct KeptBuffer : Kept {
  explicit KeptBuffer(const Py_buffer& given) : buffer(given) {
    // PyBuffer_FillInfo() may point `shape` and `strides` into the Py_buffer itself.
    if (given.shape == &given.len) buffer.shape = &buffer.len;
    if (given.strides == &given.itemsize) buffer.strides = &buffer.itemsize;
  }
  ~KeptBuffer() override { PyBuffer_Release(&buffer); }
  Py_buffer buffer;
};

int drop_kept_later(void*) {
  drop_kept();
  return 0;
}

void release(Kept* kept) {
  if (attached()) {
    delete kept;
    return;
  }
  if (!may_return()) return;  // the interpreter has ended
  kept->next = dropped.load(std::memory_order_relaxed);
  while (!dropped.compare_exchange_weak(kept->next, kept, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  // If the interpreter's own list is full, the next call of this module empties this list.
  if (!asked.exchange(true) && Py_AddPendingCall(drop_kept_later, nullptr) != 0) asked = false;
  sections.returning.fetch_sub(1);
}

/// Runs when the interpreter is about to end, after all objects that may wait have been closed.
void leave_interpreter() {
  sections.ending = true;
  drop_kept();
  PyThreadState* state = PyEval_SaveThread();
  const auto end = std::chrono::steady_clock::now() + leave_max;
  while (sections.inside.load() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(poll_interval);
  }
  sections.over = true;
  while (sections.returning.load() > 0) std::this_thread::sleep_for(poll_interval);
  PyEval_RestoreThread(state);
}

}  // namespace

bool attached() {
  PyThreadState* own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return own != nullptr && own == PyThreadState_GetUnchecked();
#else
  return own != nullptr && own == _PyThreadState_UncheckedGet();
#endif
}

Released::Released() {
  sections.inside.fetch_add(1);
  if (sections.ending.load()) {
    sections.inside.fetch_sub(1);
    return;
  }
  state_ = PyEval_SaveThread();
}

Released::~Released() {
  if (state_ == nullptr) return;
  if (!may_return()) wait_for_end();
  PyEval_RestoreThread(state_);
  sections.returning.fetch_sub(1);
  sections.inside.fetch_sub(1);
  drop_kept();
}

Acquired::Acquired() {
  if (!may_return()) return;
  state_ = PyGILState_Ensure();
  sections.returning.fetch_sub(1);
  held_ = true;
}

Acquired::~Acquired() {
  if (held_) PyGILState_Release(state_);
}

std::shared_ptr<void> hold(std::unique_ptr<Kept> kept, void* address) {
  Kept* const raw = kept.release();
  return {address, [raw](void*) { release(raw); }};
}

std::shared_ptr<void> keep(nb::handle object) {
  return hold(std::make_unique<KeptObject>(object), object.ptr());
}

std::shared_ptr<void> keep(const Py_buffer& buffer) {
  return hold(std::make_unique<KeptBuffer>(buffer), buffer.buf);
}

void drop_kept() {
  if (dropped.load(std::memory_order_relaxed) == nullptr) return;
  asked = false;
  Kept* kept = dropped.exchange(nullptr, std::memory_order_acquire);
  // Destructors may run any Python code, which must not see a pending exception.
  nb::error_scope raised;
  while (kept != nullptr) delete std::exchange(kept, kept->next);
}

bool interpreter_ends() { return sections.ending.load(); }

bool on_main_thread() { return getpid() == static_cast<pid_t>(syscall(SYS_gettid)); }

bool interrupted() {
  if (sections.over.load()) return true;
  if (!on_main_thread()) return false;
  const Acquired held;
  // An exception stays set until the call ends, and is not raised again.
  return !held || PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

void bind_interpreter(nb::module_& module) {
  // A forked process has one thread, which is in no Released section.
  pthread_atfork(nullptr, nullptr, [] {
    sections.inside = 0;
    sections.returning = 0;
    asked = false;
  });
  module.def("leave_interpreter", &leave_interpreter);
}

}  // namespace tranship::python
