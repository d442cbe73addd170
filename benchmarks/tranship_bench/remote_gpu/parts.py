"""Code that the remote-GPU experiment's client and server share: its parts, and how they wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tranship.errors import Timeout

from ..harness import Array

__all__ = ["DIRECT", "NAMES", "PAGEABLE", "PARTS", "PINNED", "WAIT_SECONDS", "wait_for"]

PAGEABLE, PINNED, DIRECT = 1, 2, 3
PARTS = {
    PAGEABLE: "through pageable memory",
    PINNED: "through pinned memory",
    DIRECT: "direct to the GPU",
}
"""Parts of the paper, by the memory through which the data pass on the server."""

NAMES = ("left", "right", "total")

WAIT_SECONDS = 60.0
"""Longest time of one step of an experiment."""

SPIN_SECONDS = 0.005
"""Time for which a wait spins before it sleeps: small experiments never sleep."""

NAP_SECONDS = 0.00005


def wait_for(cell: Array, number: int, what: str, check: Callable[[], None] | None = None) -> None:
    """Waits until another process has written `number` into `cell`.

    Args:
        cell: Array of one integer.
        number: Value to wait for.
        what: Description of the awaited event, for the error.
        check: Function that is called now and then; what it raises ends the wait.

    Raises:
        Timeout: The number did not arrive within `WAIT_SECONDS`.
    """
    begin = time.perf_counter()
    while cell[0] != number:
        waited_s = time.perf_counter() - begin
        if waited_s < SPIN_SECONDS:
            os.sched_yield()  # with few cores, the thread that writes the number needs this core
            continue
        if check is not None:
            check()
        if waited_s > WAIT_SECONDS:
            raise Timeout(
                f"{what} did not come in {WAIT_SECONDS:.0f} s",
                "see what the other process says, or lower --limit",
            )
        time.sleep(NAP_SECONDS)
