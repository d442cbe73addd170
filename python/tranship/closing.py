"""What is closed: at the end of a ``with`` statement, and when the interpreter ends."""

from __future__ import annotations

import atexit
import weakref
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import NoReturn, TypeVar

from . import _core

__all__ = ["Closing", "close_at_exit", "refuse_pickling"]

T = TypeVar("T", bound="Closing")


class Closing(ABC):
    """Enters as itself, and closes on the way out, whatever happened."""

    exit_order = 0
    """What is higher is closed earlier when the interpreter ends: it uses what is lower."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def _close_at_exit(self) -> None:
        """Ends it without waiting for what may take long."""
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
    """Lets the interpreter close it before it ends, unless it is gone by then."""
    _open.add(one)


@atexit.register
def close_all() -> None:
    """Closes all that is still open, even if some of it fails, and lets no thread return later.

    Threads of the core let go of Python objects, and daemon threads may be inside the core: neither
    may ask an interpreter for its lock that has ended.
    """
    with ExitStack() as stack:
        stack.callback(_core.leave_interpreter)
        for one in sorted(_open, key=lambda one: one.exit_order):
            stack.callback(one._close_at_exit)
