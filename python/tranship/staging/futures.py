"""Threads for what goes on behind the caller's back, and its futures."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from ..errors import Closed

__all__ = ["Workers"]

Job = tuple["Future[Any]", Callable[[], Any], bool]


class Workers:
    """Runs jobs on up to `most` daemon threads, which are started when there is work.

    Unlike those of an executor of the standard library, they do not keep the interpreter from
    ending.

    Args:
        name: of the threads.
        most: how many there are at most.
        closed: text of the error that later jobs, and those that never begin, are refused with.
    """

    def __init__(self, name: str, most: int, closed: str) -> None:
        self._name = name
        self._most = most
        self._text = closed
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._closed = False
        self._lasting: set[Future[Any]] = set()

    def run(self, work: Callable[[], Any], *, lasting: bool) -> Future[Any]:
        """Begins a job; one that is `lasting` is waited for by `close`.

        Raises:
            Closed: after `close`.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise Closed(self._text)
            if lasting:
                self._lasting.add(future)
                future.add_done_callback(self._lasting.discard)
            self._jobs.put((future, work, lasting))
            if self._threads < self._most and not self._idle.acquire(blocking=False):
                self._threads += 1
                arguments = (self._jobs, self._idle)
                name = f"{self._name}-{self._threads}"
                threading.Thread(target=serve, args=arguments, name=name, daemon=True).start()
        return future

    def close(self, *, finish: bool) -> None:
        """Takes no more jobs. Those that have not begun fail with `Closed`.

        Args:
            finish: lasting jobs are carried out instead, by this thread if by no other, and waited
                for.
        """
        with self._lock:
            self._closed = True
        try:
            while True:
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is not None:
                    self._end(job, finish)
            if finish:
                wait(tuple(self._lasting))
        finally:
            self._end_threads()

    def _end(self, job: Job, finish: bool) -> None:
        future, work, lasting = job
        if finish and lasting:
            carry_out(future, work)
        elif future.set_running_or_notify_cancel():
            future.set_exception(Closed(self._text))

    def _end_threads(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def __del__(self) -> None:
        self._end_threads()


def serve(jobs: queue.SimpleQueue[Job | None], idle: threading.Semaphore) -> None:
    """Carries out jobs until there is None."""
    while True:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            idle.release()
            job = jobs.get()
        if job is None:
            return
        carry_out(job[0], job[1])
        del job  # an idle thread keeps nothing alive


def carry_out(future: Future[Any], work: Callable[[], Any]) -> None:
    """Does a job whose future was not cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as failure:
        future.set_exception(failure)
    else:
        future.set_result(result)
