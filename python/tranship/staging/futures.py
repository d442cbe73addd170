"""Threads that run jobs in the background, and their futures."""

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

    Unlike the threads of an executor of the standard library, they do not keep the interpreter
    from ending.

    Args:
        name: Name of the threads.
        most: Largest number of threads.
        closed: Message of the error of later jobs, and of those that never begin.
        hint: Hint of that error.
    """

    def __init__(self, name: str, most: int, closed: str, hint: str = "") -> None:
        self._name = name
        self._most = most
        self._closed_text = closed, hint
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._closed = False
        self._lasting: set[Future[Any]] = set()

    def run(self, work: Callable[[], Any], *, lasting: bool) -> Future[Any]:
        """Begins a job. `close` waits for it if it is `lasting`.

        Raises:
            Closed: `close` was called.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise Closed(*self._closed_text)
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
            finish: Whether lasting jobs are carried out and waited for instead. This thread
                carries out those that have not begun.
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
            future.set_exception(Closed(*self._closed_text))

    def _end_threads(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def __del__(self) -> None:
        self._end_threads()


def serve(jobs: queue.SimpleQueue[Job | None], idle: threading.Semaphore) -> None:
    """Carries out jobs until it takes None from the queue."""
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
    """Carries out a job, unless its future was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as failure:
        future.set_exception(failure)
    else:
        future.set_result(result)
