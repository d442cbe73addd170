"""The versions of a variable as an iterator, for loops and for coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future

from ..errors import Closed, Timeout
from ..threads import start_thread
from .following import VersionFollower
from .reader import Reader, VariableBox
from .waiting import QUIET_S, on_terminal, say_waiting

__all__ = ["Versions"]

LOOK_S = 0.25
"""Seconds until a wait for a coroutine notices that nobody iterates any more."""


class Versions(Iterator[int], AsyncIterator[int]):
    """The versions of a variable, in rising order, as they become whole.

    `Variable.versions` makes one. Both ``for`` and ``async for`` iterate over it, one of them at a
    time. A coroutine that is cancelled while it waits loses no version: the next one that iterates
    gets it. `close` ends the iteration.
    """

    def __init__(
        self, staging: Reader, name: str, follower: VersionFollower, timeout: float
    ) -> None:
        self._staging = staging
        self._name = name
        self._follower = follower
        self._timeout = timeout
        self._stop = threading.Event()
        self._next: Future[VariableBox | None] | None = None
        weakref.finalize(self, self._stop.set).atexit = False

    def __iter__(self) -> Versions:
        return self

    def __next__(self) -> int:
        """Waits for the next version.

        Raises:
            Error: As for `Variable.versions`.
        """
        while not self._stop.is_set():
            try:
                found = self._wait()
            except BaseException as failure:
                self._end(failure)
            self._follower.report()
            if found is not None:
                return self._follower.version
        raise StopIteration

    def __aiter__(self) -> Versions:
        return self

    async def __anext__(self) -> int:
        """Waits for the next version, and lets other coroutines run meanwhile.

        Raises:
            Error: As for `Variable.versions`.
        """
        while not self._stop.is_set():
            if self._next is None:
                self._next = wait_beside(self._follower, self._timeout, self._stop, self._name)
            try:
                found = await asyncio.shield(asyncio.wrap_future(self._next))
            except asyncio.CancelledError:
                raise
            except Exception as failure:
                self._next = None
                self._stop.set()
                if self._ends(failure):
                    raise StopAsyncIteration from None
                raise
            self._next = None
            self._follower.report()
            if found is not None:
                return self._follower.version
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the iteration; a coroutine that waits for a version ends within a quarter second."""
        self._stop.set()

    async def aclose(self) -> None:
        """Ends the iteration, as `close` does."""
        self.close()

    def _wait(self) -> VariableBox | None:
        """Waits for the next version; says so on a terminal."""
        if self._next is not None:  # a coroutine was cancelled while it waited
            pending, self._next = self._next, None
            return pending.result()
        timeout = self._timeout
        if on_terminal() and timeout > QUIET_S:
            try:
                return self._follower.wait(QUIET_S)
            except Timeout:
                say_waiting(f'the next version of "{self._name}"', timeout)
                timeout -= QUIET_S
        return self._follower.wait(timeout)

    def _ends(self, failure: BaseException) -> bool:
        """Returns whether all processes that put to the variable have closed."""
        closed = isinstance(failure, Closed)
        return closed and not (self._staging.closed or self._staging.forked)

    def _end(self, failure: BaseException) -> None:
        """Raises what a wait has failed with, and ends the iteration.

        Raises:
            StopIteration: All processes that put to the variable have closed.
        """
        if self._ends(failure):
            self._stop.set()
            raise StopIteration from None
        if not isinstance(failure, KeyboardInterrupt):
            self._stop.set()
        raise failure


def wait_beside(
    follower: VersionFollower, timeout: float, stop: threading.Event, name: str
) -> Future[VariableBox | None]:
    """Waits for the next version on a thread, until `stop` is set.

    Raises:
        Error: The system has no thread for it.
    """
    ended: Future[VariableBox | None] = Future()

    def run() -> None:
        end = time.monotonic() + timeout
        while not stop.is_set():
            left = end - time.monotonic()
            try:
                ended.set_result(follower.wait(max(min(LOOK_S, left), 0.0)))
            except Timeout as failure:
                if left > LOOK_S:
                    continue
                ended.set_exception(failure)
            except BaseException as failure:
                ended.set_exception(failure)
            return
        ended.set_exception(Closed("the iteration over versions was closed"))

    start_thread(run, f"tranship-{name}")
    return ended
