"""Threads that run jobs in the background, and their futures."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ..errors import Cancelled, Closed, Error
from ..threads import no_thread, start_thread

__all__ = ["WAITS", "Attempt", "Awaitable", "Job", "Notices", "Waits", "Workers"]

T = TypeVar("T")

AGAIN_S = 0.25
"""Longest time until a job that waits is tried again."""
AGAIN_EACH_S = 0.001
"""Time between two tries for each job that waits: many of them together take little of a
processor."""
HASTY_S = 0.01
"""Longest time until a job is tried again for which something changed during two tries in a
row."""
SLICE_S = 0.05
"""Longest wait for a notice: jobs that begin to wait meanwhile are seen then."""


class Waits(enum.Enum):
    """The type of `WAITS`."""

    WAITS = 0


WAITS = Waits.WAITS
"""What an attempt returns that has changed nothing, since it would have to wait."""

Attempt = Callable[[float, bool], Any]
"""Carries a job out within so many seconds. Unless it may wait, it returns `WAITS` where it would
have to wait for what others do."""


class Notices(Protocol):
    """What tells that others have done something: a client of the core."""

    def notices(self) -> int:
        """Returns how many notices have come."""
        ...

    def wait_for_notice(self, seen: int, timeout: float) -> None:
        """Waits for more notices than `seen`."""
        ...


class Awaitable(Future[T]):
    """The future of a put or a get, as of `concurrent.futures`; coroutines may ``await`` it."""

    _give_up: Callable[[], bool] | None = None

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()

    def cancel(self) -> bool:
        """Ends a put or a get that has not begun, or that waits for others: it changes nothing.

        Returns:
            False if it is being carried out, or has ended. One that waited raises `Cancelled`.
        """
        return super().cancel() or (self._give_up is not None and self._give_up())


@dataclass(eq=False)
class Job:
    """A call that is carried out in the background.

    Attributes:
        attempt: carries it out.
        ends: when its time is up, as `time.monotonic` counts.
        lasting: whether closing waits for it.
        future: what the caller has got.
        due: when it is tried again at the latest.
        seen: notices that had come when it was tried.
        hasty: whether it was tried again at once.
        woken: whether it is to be tried again at once.
        unwanted: whether its caller has cancelled it while it was tried.
    """

    attempt: Attempt
    ends: float
    lasting: bool
    future: Awaitable[Any] = field(default_factory=Awaitable)
    due: float = 0.0
    seen: int = 0
    hasty: bool = False
    woken: bool = False
    unwanted: bool = False


class Pool:
    """The jobs of some workers, and their threads, which refer to nothing else.

    A job that waits has no thread: the thread that watches gives it back to the workers when
    something has changed. Half of the workers at most try such jobs again, so that new ones begin.
    """

    def __init__(self, most: int, notices: Notices, closed: tuple[str, str]) -> None:
        self.most = most
        self.notices = notices
        self.closed_text = closed
        self.changed = threading.Condition()
        self.fresh: deque[Job] = deque()
        self.again: deque[Job] = deque()
        self.waiting: list[Job] = []
        self.trying_again = 0
        self.idle = 0
        self.threads: list[threading.Thread] = []
        self.watcher: threading.Thread | None = None
        self.closed = False
        self.ending = False

    def ensure_threads(self, name: str) -> None:
        """Starts the threads that a new job needs. The caller holds the lock.

        Raises:
            Error: There is no thread for it.
        """
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        if self.watcher is None or not self.watcher.is_alive():
            self.watcher = start_thread(watch, f"{name}-watch", self)
        if self.threads and (len(self.threads) >= self.most or self.idle > len(self.fresh)):
            return
        try:
            number = len(self.threads) + 1
            self.threads.append(start_thread(serve, f"{name}-{number}", self))
        except Error:
            if not self.threads:
                raise

    def take(self) -> Job | None:
        """Waits for the next job; None: there will be no more."""
        with self.changed:
            while True:
                if self.fresh:
                    return self.fresh.popleft()
                if self.again and self.trying_again < max(self.most // 2, 1):
                    self.trying_again += 1
                    return self.again.popleft()
                if self.ending and not (self.again or self.waiting):
                    return None
                self.idle += 1
                try:
                    self.changed.wait()
                finally:
                    self.idle -= 1

    def put_off(self, job: Job, seen: int) -> None:
        """Keeps a job until something changes."""
        haste = job.seen != self.notices.notices()
        refused = False
        with self.changed:
            refused = self.ending or (self.closed and not job.lasting)
            at_once = job.woken or (haste and not job.hasty)
            job.hasty = haste
            job.woken = False
            if job.unwanted:
                refused = True
            elif at_once and not refused:
                self.again.append(job)
            elif not refused:
                pause = HASTY_S if haste else max(AGAIN_S, AGAIN_EACH_S * len(self.waiting))
                job.due = min(time.monotonic() + pause, job.ends)
                self.waiting.append(job)
            self.changed.notify_all()
        if job.unwanted:
            job.future.set_exception(given_up())
        elif refused:
            job.future.set_exception(Closed(*self.closed_text))

    def give_up(self, job: Job) -> bool:
        """Ends a job that waits; returns whether it waited. One that is tried now waits no more."""
        with self.changed:
            job.unwanted = True
            for jobs in (self.waiting, self.again):
                if job in jobs:
                    jobs.remove(job)
                    break
            else:
                return False
        job.future.set_exception(given_up())
        return True

    def wake(self, job: Job) -> None:
        """Has a job tried again, now if it waits."""
        with self.changed:
            if job in self.waiting:
                self.waiting.remove(job)
                self.again.append(job)
                self.changed.notify_all()
            else:
                job.woken = True

    def end(self) -> None:
        """Lets the threads end once all jobs have."""
        with self.changed:
            self.closed = True
            self.ending = True
            self.changed.notify_all()


def given_up() -> Cancelled:
    """Returns the error of a job that was cancelled while it waited."""
    return Cancelled("the call was cancelled while it waited")


class Workers:
    """Runs jobs on up to `most` daemon threads, which are started when there is work.

    Jobs that wait for others take no thread, so that no number of them keeps others from running.
    Unlike the threads of an executor of the standard library, these do not keep the interpreter
    from ending.

    Args:
        name: Name of the threads.
        most: Largest number of threads.
        notices: What tells that jobs that wait may go on.
        closed: Message of the error of later jobs, and of those that never begin.
        hint: Hint of that error.
    """

    def __init__(self, name: str, most: int, notices: Notices, closed: str, hint: str = "") -> None:
        self._name = name
        self._pool = Pool(most, notices, (closed, hint))
        self._lasting: set[Future[Any]] = set()
        weakref.finalize(self, self._pool.end).atexit = False

    def run(self, attempt: Attempt, seconds: float, *, lasting: bool) -> Job:
        """Begins a job. `close` waits for it if it is `lasting`.

        Raises:
            Closed: `close` was called.
            Error: There is no thread for it; nothing was begun.
        """
        pool = self._pool
        try:
            job = Job(attempt, time.monotonic() + seconds, lasting)
            waiting = weakref.ref(job)  # the job refers to its future
            job.future._give_up = lambda: (one := waiting()) is not None and pool.give_up(one)
        except MemoryError as refused:
            raise no_thread(refused) from None
        try:
            with pool.changed:
                if pool.closed:
                    raise Closed(*pool.closed_text)
                pool.ensure_threads(self._name)
                if lasting:
                    self._lasting.add(job.future)
                    job.future.add_done_callback(self._lasting.discard)
                pool.fresh.append(job)
                pool.changed.notify_all()
        except BaseException:
            job.future.cancel()
            raise
        return job

    def wake(self, job: Job) -> None:
        """Has a job tried again that waits for something which gives no notice."""
        self._pool.wake(job)

    def close(self, *, finish: bool) -> None:
        """Takes no more jobs. Those that have not ended fail with `Closed`.

        Args:
            finish: Whether lasting jobs are carried out and waited for instead.
        """
        pool = self._pool
        with pool.changed:
            pool.closed = True
            refused = []
            for jobs in (pool.fresh, pool.again, pool.waiting):
                kept = [job for job in jobs if finish and job.lasting]
                refused += [job for job in jobs if not (finish and job.lasting)]
                jobs.clear()
                jobs.extend(kept)
            pool.changed.notify_all()
        for job in refused:
            if job.future.running() or job.future.set_running_or_notify_cancel():
                job.future.set_exception(Closed(*pool.closed_text))
        try:
            if finish:
                wait(tuple(self._lasting))
        finally:
            pool.end()


def serve(pool: Pool) -> None:
    """Carries out jobs until there will be no more."""
    while True:
        job = pool.take()
        if job is None:
            return
        again = job.future.running()
        try:
            carry_out(pool, job)
        finally:
            with pool.changed:
                pool.trying_again -= again
                pool.changed.notify_all()
        del job  # an idle thread keeps nothing alive


def carry_out(pool: Pool, job: Job) -> None:
    """Tries a job, unless its future was cancelled."""
    future = job.future
    if not (future.running() or future.set_running_or_notify_cancel()):
        return
    left = job.ends - time.monotonic()
    try:
        job.seen = pool.notices.notices()
        result = job.attempt(max(left, 0.0), left <= 0.0)
    except BaseException as failure:
        future.set_exception(failure)
        return
    if result is WAITS:
        pool.put_off(job, job.seen)
    else:
        future.set_result(result)


def watch(pool: Pool) -> None:
    """Gives jobs that wait back to the workers when something has changed for them."""
    while True:
        with pool.changed:
            while pool.again or not pool.waiting:  # all are tried once before any is tried twice
                if pool.ending and not (pool.again or pool.waiting or pool.fresh):
                    return
                pool.changed.wait()
        seen = pool.notices.notices()
        now = time.monotonic()
        with pool.changed:
            due: list[Job] = []
            later: list[Job] = []
            for job in pool.waiting:
                is_due = pool.ending or job.seen != seen or job.due <= now
                (due if is_due else later).append(job)
            pool.waiting = later
            pool.again.extend(due)
            if due:
                pool.changed.notify_all()
                continue
            first = min((job.due for job in pool.waiting), default=now)
        pool.notices.wait_for_notice(seen, min(max(first - now, 0.0), SLICE_S))
