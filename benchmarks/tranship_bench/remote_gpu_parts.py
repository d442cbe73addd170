"""What client and server of the remote-GPU experiment share: its parts, and how they wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tranship.errors import Timeout

from .harness import Array

__all__ = ["DIRECT", "NAMES", "PAGEABLE", "PARTS", "PINNED", "WAIT_SECONDS", "wait_for"]

PAGEABLE, PINNED, DIRECT = 1, 2, 3
PARTS = {
    PAGEABLE: "through pageable memory",
    PINNED: "through pinned memory",
    DIRECT: "direct to the GPU",
}
"""The paper's parts, by what the data pass on the server."""

NAMES = ("left", "right", "total")

WAIT_SECONDS = 60.0
"""The longest that one step of an experiment may take."""

SPIN_SECONDS = 0.005
"""How long a wait spins before it begins to sleep: small experiments never sleep."""

NAP_SECONDS = 0.00005


def wait_for(cell: Array, number: int, what: str, check: Callable[[], None] | None = None) -> None:
    """Waits until another process has written `number` into `cell`.

    Args:
        cell: Array of one integer.
        number: Value to wait for.
        what: words for the error.
        check: Function that is called now and then; what it raises ends the wait.

    Raises:
        Timeout: nothing came in `WAIT_SECONDS`.
    """
    begin = time.perf_counter()
    while cell[0] != number:
        waited_s = time.perf_counter() - begin
        if waited_s < SPIN_SECONDS:
            os.sched_yield()  # on few cores the thread that brings the number needs this one
            continue
        if check is not None:
            check()
        if waited_s > WAIT_SECONDS:
            raise Timeout(
                f"{what} did not come in {WAIT_SECONDS:.0f} s",
                "see what the other process says, or lower --limit",
            )
        time.sleep(NAP_SECONDS)
