"""Objects that are closed at the end of a ``with`` statement, and when the interpreter ends."""

from __future__ import annotations

import atexit
import weakref
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import NoReturn, TypeVar

from . import _core

__all__ = ["Closing", "close_at_exit", "open_engine", "refuse_pickling"]

T = TypeVar("T", bound="Closing")


class Closing(ABC):
    """A context manager that closes itself at its end, also after an exception."""

    _exit_order = 0
    """Objects of higher order are closed first when the interpreter ends: they use the others."""

    @abstractmethod
    def close(self) -> None:
        """Closes the object."""

    def _close_at_exit(self) -> None:
        """Closes the object without waits that may take long."""
        self.close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_pickling(one: object, hint: str) -> NoReturn:
    """Says why an object cannot be sent to another process.

    Raises:
        TypeError: Always, as `pickle` expects of such objects.
    """
    kind = type(one).__name__
    article = "an" if kind[0] in "AEIOU" else "a"
    raise TypeError(f"{article} {kind} cannot be pickled: it belongs to this process; {hint}")


_open: weakref.WeakSet[Closing] = weakref.WeakSet()


def close_at_exit(one: Closing) -> None:
    """Registers an object to be closed when the interpreter ends, if it still exists."""
    _open.add(one)


def open_engine() -> _core.EngineCore | None:
    """Returns an engine of this process that is open; None if there is none."""
    cores = [getattr(one, "_core", None) for one in list(_open)]
    engines = [core for core in cores if isinstance(core, _core.EngineCore)]
    return next((engine for engine in engines if not engine.closed), None)


@atexit.register
def close_all() -> None:
    """Closes all registered objects, even if some fail, and then stops calls into the interpreter.

    Threads of the core release Python objects, and daemon threads may be inside the core: neither
    may take the lock of an interpreter that has ended.
    """
    with ExitStack() as stack:
        stack.callback(_core.leave_interpreter)
        for one in sorted(_open, key=lambda one: one._exit_order):
            stack.callback(one._close_at_exit)
