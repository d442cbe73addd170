"""Callbacks and coroutines that wait for events, on one thread for each process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ._core import Event
from .arguments import check_seconds, shown
from .errors import Error, InvalidArgument
from .threads import start_thread

__all__ = ["Progress", "add_done_callback", "ending_of", "exception_of", "wait_for"]

Callback = Callable[[Event], object]


class Progress(NamedTuple):
    """How far a copy has come, as `Event.progress` returns it.

    A copy that failed or was cancelled stays where it was, with no seconds left.
    """

    bytes_done: int
    """Bytes that have arrived. Tiles count once all their bytes are there; a copy without tiles,
    such as one that runs in the call or in one launch of a GPU, has none or all."""
    bytes_total: int
    """Bytes of the whole copy."""
    seconds_left: float | None
    """Seconds to the end: the part of the time that the plan predicts for the bytes that are left.
    0 after the end; None where the plan predicts nothing."""


WAIT_S = 0.05
"""Longest wait for the oldest event while no other event is watched."""
TURN_S = 0.0005
"""Wait for the oldest event before all others are looked at."""


class Watcher:
    """Calls callbacks when their events have ended, on a daemon thread that starts on first use.

    Callbacks run one after another; what one raises is reported as of any thread, and the
    others run all the same.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._watched: list[tuple[Event, Callback]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, event: Event, callback: Callback) -> None:
        """Watches an event."""
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = start_thread(self._run, "tranship-events")
            self._watched.append((event, callback))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched:
                    self._changed.wait()
                watched = list(self._watched)
            await_one(watched[0][0], WAIT_S if len(watched) == 1 else TURN_S)
            ended = [pair for pair in watched if pair[0].done()]
            if not ended:
                continue
            with self._changed:
                self._watched = [pair for pair in self._watched if pair not in ended]
            for event, callback in ended:
                call(callback, event)
            del watched, ended, event, callback  # an idle thread keeps nothing alive


def await_one(event: Event, seconds: float) -> None:
    """Waits a while; how the event ended is raised by the `wait` of the caller."""
    with contextlib.suppress(Error):
        event.wait(seconds)


def call(callback: Callback, event: Event) -> None:
    """Runs a callback; an exception goes where those of threads go."""
    try:
        callback(event)
    except BaseException:
        kind, value, trace = sys.exc_info()
        assert kind is not None
        threading.excepthook(
            threading.ExceptHookArgs((kind, value, trace, threading.current_thread()))
        )


_watcher = Watcher()


def add_done_callback(event: Event, callback: Callback) -> None:
    """Calls `callback(event)` when the event has ended; soon, if it has ended already.

    Raises:
        InvalidArgument: The callback cannot be called.
        Error: There is no thread that could wait for the event.
    """
    global _watcher
    if not callable(callback):
        raise InvalidArgument(
            f"callback={shown(callback)} cannot be called", "give a function of one event"
        )
    if _watcher.process != os.getpid():  # a fork has none of its parent's threads
        _watcher = Watcher()
    _watcher.add(event, callback)


def wait_for(event: Event) -> Generator[Any, None, None]:
    """Returns what ``await event`` runs: it raises what the copy failed with.

    A coroutine that is cancelled stops waiting; the copy goes on.
    """
    if event.done():
        event.wait(0)
        return
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not ended.done():
            ended.set_result(None)

    def wake(_: Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(finish)

    add_done_callback(event, wake)
    yield from ended
    event.wait(0)


def exception_of(event: Event, timeout: float | None) -> Exception | None:
    """Waits for the end, and returns what the copy failed with; None if it ended well.

    Raises:
        InvalidArgument: The timeout is not a number of seconds.
        Timeout: The copy has not ended by then.
    """
    seconds = None if timeout is None else check_seconds("timeout", timeout)
    try:
        event.wait(seconds)
    except Error as error:
        if not event.done():
            raise
        return error
    return None


class Ending:
    """What `concurrent.futures` reads of a future, and tells when the future has ended."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._state = "PENDING"
        self._waiters: list[Any] = []

    def end(self, event: Event) -> None:
        """Tells those who wait how an event has ended."""
        with self._condition:
            cancelled = event.cancelled()
            self._state = "CANCELLED_AND_NOTIFIED" if cancelled else "FINISHED"
            for waiter in self._waiters:
                if cancelled:
                    waiter.add_cancelled(event)
                elif exception_of(event, 0) is not None:
                    waiter.add_exception(event)
                else:
                    waiter.add_result(event)


_endings: weakref.WeakKeyDictionary[Event, Ending] = weakref.WeakKeyDictionary()
_adding = threading.Lock()


def ending_of(event: Event) -> Ending:
    """Returns the part of a future that an event has for `concurrent.futures`."""
    with _adding:
        ending = _endings.get(event)
        if ending is not None:
            return ending
        ending = _endings[event] = Ending()
    if event.done():
        ending.end(event)
    else:
        add_done_callback(event, ending.end)
    return ending
