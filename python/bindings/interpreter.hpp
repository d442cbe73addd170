// The interpreter's lock, and the Python objects that C++ threads refer to.
//
// 1. No thread waits while it holds the lock: calls that may wait are made in a Released section.
// 2. A thread without the lock never takes it to release an object: it puts the object on a list,
//    which the next call of this module empties, or the interpreter itself soon after.
// 3. The interpreter, before it ends, waits for all sections to end. Sections that begin later keep
//    the lock, because the interpreter ends a thread that asks for the lock then, inside C++ code.
// In a build of Python without the lock, "holds the lock" means "is attached to the interpreter".
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <utility>

#include "base/unless_interrupted.hpp"
#include "os/fork.hpp"

namespace tranship::python {

namespace nb = nanobind;

/// Returns whether the calling thread holds the interpreter's lock.
bool attached();

/// Releases the lock during its lifetime. The calling thread holds the lock before and after.
class Released {
 public:
  Released();
  ~Released();
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_ = nullptr;  ///< null: the interpreter is ending, and the lock is kept
};

/// Takes the lock inside a Released section. Converts to false if the interpreter has ended: then
/// no Python object may be used, and the caller should return.
class Acquired {
 public:
  Acquired();
  ~Acquired();
  Acquired(const Acquired&) = delete;
  Acquired& operator=(const Acquired&) = delete;
  explicit operator bool() const { return held_; }

 private:
  bool held_ = false;
  PyGILState_STATE state_{};
};

/// A Python object or buffer that C++ refers to. A thread that holds the lock deletes it.
struct Kept {
  virtual ~Kept() = default;
  Kept* next = nullptr;
};

/// Returns a pointer with the address `address` that owns `kept`. Any thread may drop it at any
/// time, without a wait.
std::shared_ptr<void> hold(std::unique_ptr<Kept> kept, void* address);

/// Returns a pointer that keeps an object alive.
std::shared_ptr<void> keep(nb::handle object);

/// Returns a pointer that keeps a buffer exported: Python refuses to resize or close it.
std::shared_ptr<void> keep(const Py_buffer& buffer);

/// Deletes the objects that other threads have released. The caller holds the lock.
void drop_kept();

/// Returns whether the interpreter is ending; no engine or file may be opened then.
bool interpreter_ends();

/// Returns whether Ctrl-C or another signal handler has raised, or the interpreter has ended.
/// Waiting threads call this function repeatedly, without the lock.
bool interrupted();

/// Runs `work` without the lock and returns its result.
/// @throws nb::python_error if a signal handler raised meanwhile
template <typename Work>
auto run(const Work& work) {
  auto result = [&] {
    const Released released;
    return work();
  }();
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return result;
}

/// Runs `body` without the lock; signal handlers run later.
template <typename Body>
auto released(const Body& body) {
  const Released unlocked;
  return body();
}

/// Returns whether the calling thread is the one on which signal handlers run.
bool on_main_thread();

/// Runs work that does not call interrupted(). After Ctrl-C the work continues on a separate
/// thread: `work` must own what it uses, and `undo` receives its result.
template <typename T>
Result<T> run_apart(std::function<Result<T>()> work, std::function<void(T)> undo) {
  if (!on_main_thread()) return run(work);
  return run([&]() -> Result<T> {
    auto result = unless_interrupted<T>(std::move(work), interrupted, std::move(undo));
    if (result) return std::move(*result);
    return Error{ErrorCode::cancelled, "interrupted"};
  });
}

/// Returns a pointer to an object whose destructor may wait. A forked process does not delete the
/// object, since the threads that the destructor waits for run in the parent.
template <typename T>
std::shared_ptr<T> owned(std::unique_ptr<T> object) {
  return {object.release(), [generation = fork_generation()](T* last) {
            if (generation != fork_generation()) return;
            if (!attached()) {
              delete last;
              return;
            }
            const Released released;
            delete last;
          }};
}

/// Returns a pointer to an object whose destructor may wait; the lock is released meanwhile.
template <typename T>
std::shared_ptr<T> ended_without_lock(std::shared_ptr<T> object) {
  T* const raw = object.get();
  if (raw == nullptr) return nullptr;
  return {raw, [held = std::move(object)](T*) mutable {
            if (!attached()) return held.reset();
            const Released released;
            held.reset();
          }};
}

/// Closes the object of a Python class. After Ctrl-C the close continues on a separate thread.
template <typename T>
Status close_apart(nb::handle self, T& object) {
  const std::function<Result<bool>()> work = [kept = keep(self), &object]() -> Result<bool> {
    if (Status status = object.close(); !status) return status.error();
    return true;
  };
  const auto closed = run_apart<bool>(work, [](bool) {});
  return closed ? Status{} : Status(closed.error());
}

void bind_interpreter(nb::module_& module);

}  // namespace tranship::python
