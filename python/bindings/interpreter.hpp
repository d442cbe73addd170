// The interpreter's lock, and what other threads hold of Python's objects.
//
// 1. Nothing waits while it holds the lock: whatever may wait is called inside a Released section.
// 2. Threads that do not hold the lock never take it to let go of an object: they put it on a list,
//    which is emptied by the next call of this module, or by the interpreter itself soon after.
// 3. When the interpreter ends, it waits for the sections; later ones keep the lock, since a thread
//    that asks for it then is ended in the middle of C++.
// A build of Python without the lock has threads that are attached to the interpreter, or are not:
// "holds the lock" means "is attached" there.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/unless_interrupted.hpp"
#include "os/fork.hpp"

namespace tranship::python {

namespace nb = nanobind;

/// Whether the calling thread holds the interpreter's lock.
bool attached();

/// Gives the lock away from its making to its end. The calling thread holds it before and after.
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
/// nothing of Python may be touched, and what runs should end.
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

/// Something of Python's that C++ holds. Deleted by a thread that holds the lock.
struct Kept {
  virtual ~Kept() = default;
  Kept* next = nullptr;
};

/// Owns `kept`, and has the address `address`. Any thread may let go of it, at any time, without
/// waiting.
std::shared_ptr<void> hold(std::unique_ptr<Kept> kept, void* address);

/// Keeps an object alive.
std::shared_ptr<void> keep(nb::handle object);

/// Keeps a buffer exported: its owner cannot resize or close it, as Python has it.
std::shared_ptr<void> keep(const Py_buffer& buffer);

/// Deletes what other threads have let go of. With the lock.
void drop_kept();

/// Whether the interpreter is ending: nothing new may be opened.
bool interpreter_ends();

/// What waits asks this now and then, without the lock: whether Ctrl-C, or a handler of another
/// signal, has raised; or the interpreter has ended.
bool interrupted();

/// Runs `work` without the lock; what a signal handler raised goes before what it returns.
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

/// Whether the calling thread is the one on which signal handlers run.
bool on_main_thread();

/// The same for work that does not ask interrupted(): after Ctrl-C it goes on by itself, so that it
/// must own what it uses, and `undo` gets what comes of it.
template <typename T>
Result<T> run_apart(std::function<Result<T>()> work, std::function<void(T)> undo) {
  if (!on_main_thread()) return run(work);
  return run([&]() -> Result<T> {
    auto result = unless_interrupted<T>(std::move(work), interrupted, std::move(undo));
    if (result) return std::move(*result);
    return Error{ErrorCode::cancelled, "interrupted"};
  });
}

/// Owns an object whose destructor may wait. In a fork it is not deleted: what it waits for lives
/// in the parent.
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

/// Owns something whose end may wait: a thread that holds the lock gives it away meanwhile.
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

/// Closes an object of Python's; after Ctrl-C that goes on by itself.
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
