"""Versions of a variable, or steps, as an iterator for loops and for coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from ..errors import Closed, Timeout
from ..threads import start_thread
from .following import VersionFollower
from .reader import Reader
from .waiting import QUIET_S, on_terminal, say_waiting

__all__ = ["Followed", "Versions"]

T = TypeVar("T")

LOOK_S = 0.25
"""Seconds until a wait for a coroutine notices that nobody iterates any more."""


class Follower(Protocol):
    """What waits for one version or step after another."""

    def wait(self, timeout: float) -> Any:
        """Waits for the next one; returns None if some were passed by, and none is known yet."""
        ...

    def report(self) -> None:
        """Warns of those that were passed by, or raises."""
        ...


class Followed(Iterator[T], AsyncIterator[T], Generic[T]):
    """Versions or steps, in rising order, as they become whole.

    Both ``for`` and ``async for`` iterate over it, one of them at a time. A coroutine that is
    cancelled while it waits loses nothing: the next one that iterates gets it. `close` ends the
    iteration.
    """

    def __init__(self, staging: Reader, what: str, follower: Follower, timeout: float) -> None:
        self._staging = staging
        self._what = what
        self._follower = follower
        self._timeout = timeout
        self._stop = threading.Event()
        self._next: Future[Any] | None = None
        self._pending: list[T] = []
        weakref.finalize(self, self._stop.set).atexit = False

    def _item(self, found: Any) -> T:
        """Returns what the iteration yields for what was found."""
        item: T = found
        return item

    def __iter__(self) -> Followed[T]:
        return self

    def __next__(self) -> T:
        """Waits for the next one.

        Raises:
            Error: As for `Variable.versions` or `Staging.steps`.
        """
        while not self._stop.is_set():
            if not self._pending:
                try:
                    found = self._wait()
                except BaseException as failure:
                    self._end(failure)
                self._keep(found)
            self._follower.report()
            if self._pending:
                return self._pending.pop()
        raise StopIteration

    def _keep(self, found: Any) -> None:
        """Keeps what was found until it is yielded: the report of what was passed by may raise."""
        if found is not None:
            self._pending.append(self._item(found))

    def __aiter__(self) -> Followed[T]:
        return self

    async def __anext__(self) -> T:
        """Waits for the next one, and lets other coroutines run meanwhile.

        Raises:
            Error: As for `Variable.versions` or `Staging.steps`.
        """
        while not self._stop.is_set():
            if self._pending:
                self._follower.report()
                return self._pending.pop()
            if self._next is None:
                self._next = wait_beside(self._follower, self._timeout, self._stop, self._what)
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
            self._keep(found)
            self._follower.report()
            if self._pending:
                return self._pending.pop()
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the iteration; a coroutine that waits ends within a quarter second."""
        self._stop.set()

    async def aclose(self) -> None:
        """Ends the iteration, as `close` does."""
        await asyncio.to_thread(self.close)

    def _wait(self) -> Any:
        """Waits for the next one; says so on a terminal."""
        if self._next is not None:  # a coroutine was cancelled while it waited
            pending, self._next = self._next, None
            return pending.result()
        timeout = self._timeout
        if on_terminal() and timeout > QUIET_S:
            try:
                return self._follower.wait(QUIET_S)
            except Timeout:
                say_waiting(self._what, timeout)
                timeout -= QUIET_S
        return self._follower.wait(timeout)

    def _ends(self, failure: BaseException) -> bool:
        """Returns whether all processes that write have closed."""
        closed = isinstance(failure, Closed)
        return closed and not (self._staging.closed or self._staging.forked)

    def _end(self, failure: BaseException) -> None:
        """Raises what a wait has failed with, and ends the iteration.

        Raises:
            StopIteration: All processes that write have closed.
        """
        if self._ends(failure):
            self._stop.set()
            raise StopIteration from None
        if not isinstance(failure, KeyboardInterrupt):
            self._stop.set()
        raise failure


class Versions(Followed[int]):
    """The versions of a variable, in rising order, as they become whole.

    `Variable.versions` makes one.
    """

    def __init__(
        self, staging: Reader, name: str, follower: VersionFollower, timeout: float
    ) -> None:
        super().__init__(staging, f'the next version of "{name}"', follower, timeout)
        self._version_of = follower

    def _item(self, found: Any) -> int:
        return self._version_of.version


def wait_beside(
    follower: Follower, timeout: float, stop: threading.Event, what: str
) -> Future[Any]:
    """Waits for the next one on a thread, until `stop` is set.

    Raises:
        Error: The system has no thread for it.
    """
    ended: Future[Any] = Future()

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
        ended.set_exception(Closed("the iteration was closed"))

    start_thread(run, f"tranship-{what}")
    return ended
