"""Puts of arrays, in the calling thread and in the background."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

from .. import _core
from .._core import Event
from ..arguments import guard_methods
from .arguments import (
    as_elements,
    at_origin,
    check_flag,
    corner_of,
    in_calling_thread,
    variable_name,
    whole_version,
)
from .futures import WAITS, Awaitable, Job, Waits, Workers
from .labelled_puts import ReadyPut
from .reader import Lower

__all__ = ["Puts"]


@guard_methods
class Puts:
    """What the puts of a client and those of its steps have in common."""

    _core: _core.StagingClientCore
    _workers: Workers

    def nothing(self, name: str, version: SupportsIndex) -> None:
        """Says that this process has nothing in a version of a variable, which need not exist yet.

        It counts as one that puts to the variable from then on. Readers that take a version whole
        wait for all of these: see `Variable.versions`. An array without elements says the same, and
        also that the version exists.

        Args:
            name: Variable name.
            version: A whole number.

        Raises:
            InvalidArgument: An argument has a wrong type.
            PeerLost: A server has exited.
        """
        number = whole_version(version)
        self._core.nothing(variable_name(name), number, number)

    def _put_in_step(
        self,
        step: int,
        puts: Sequence[ReadyPut],
        version: int,
        seconds: float,
        after: Event | Iterable[Event] | None,
        checksum: bool,
    ) -> None:
        """Puts arrays: within a step together, and else one after another.

        The events in `after` write the last one.
        """
        if step and len(puts) > 1:
            ready = [core_put(put) for put in puts]
            checks = check_flag("checksum", checksum)
            self._core.put_all(version, ready, seconds, after, checks, step)
            return
        end = time.monotonic() + seconds
        for put in puts:
            events = after if put is puts[-1] else None
            left = seconds if put is puts[0] else max(end - time.monotonic(), 0.0)
            self._put(put.name, version, put.array, put.lower, events, checksum, left, step=step)

    def _put(
        self,
        name: str,
        version: SupportsIndex,
        array: Any,
        lower: Lower | None,
        after: Event | Iterable[Event] | None,
        checksum: bool,
        seconds: float,
        waits: bool = True,
        step: int = 0,
    ) -> bool:
        """Puts an array; returns False if it would have to wait, and must not."""
        name, array, corner, text = core_put(ReadyPut(name, array, lower))
        return self._core.put(
            name,
            whole_version(version),
            array,
            corner,
            seconds,
            after,
            check_flag("checksum", checksum),
            text,
            waits,
            step,
        )

    def _put_async_in_step(
        self,
        step: int,
        puts: Sequence[ReadyPut],
        version: SupportsIndex,
        seconds: float,
        after: Event | Iterable[Event] | None,
        checksum: bool,
    ) -> Awaitable[None]:
        """Begins to put arrays one after another; the events in `after` write the last one."""
        arrays = [in_calling_thread(put.array) for put in puts]
        events = list(after) if isinstance(after, Iterable) else after
        begun: list[Job] = []
        done: list[bool] = []

        def attempt(left: float, waits: bool) -> Waits | None:
            for k in range(len(done), len(puts)):
                name, lower, last = puts[k].name, puts[k].lower, k + 1 == len(puts)
                its = events if last else None
                if not self._put(name, version, arrays[k], lower, its, checksum, left, waits, step):
                    return WAITS
                done.append(True)
            return None

        def wake(_: Event) -> None:
            for job in begun:
                self._workers.wake(job)

        for event in events if isinstance(events, list) else [events]:
            if isinstance(event, Event) and not event.done():
                event.add_done_callback(wake)
        begun.append(self._workers.run(attempt, seconds, lasting=True))
        return begun[0].future


def core_put(put: ReadyPut) -> tuple[str, Any, list[int], str]:
    """Returns the name, the array, the corner and the type's text that the core takes.

    Raises:
        InvalidArgument: The name, the corner or the type of the elements cannot be those of a box.
    """
    array, text = as_elements(put.array)
    if put.lower is None:
        array, corner = at_origin(array)
    else:
        corner = corner_of("lower", put.lower)
    return variable_name(put.name), array, corner, text
