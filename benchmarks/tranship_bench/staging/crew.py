"""The writers and readers of a staging benchmark, each a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from tranship.closing import Closing
from tranship.errors import Error

from ..processes.peer import Program, child_environment

__all__ = ["WORKER", "Crew", "Member", "together"]

WORKER = "tranship_bench.staging.worker"

Answer = Callable[[], dict[str, Any]]


class Member(Program):
    """One process of a crew."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__([sys.executable, "-m", module], child_environment())
        self._name = name
        self.contact = ""

    def ready(self) -> None:
        """Waits until the process accepts requests."""
        self.contact = self.answer()["contact"]

    def begin(self, do: str, **arguments: Any) -> Answer:
        """Sends a request; returns a function that waits for the answer."""
        self.send(do, **arguments)
        return self.answer


def together(
    members: Sequence[Member], do: str, each: Sequence[dict[str, Any]] = (), **common: Any
) -> list[dict[str, Any]]:
    """Sends a request to all at once, with `each` member's arguments; returns the answers."""
    own = each or [{}] * len(members)
    answers = [
        member.begin(do, **common, **arguments)
        for member, arguments in zip(members, own, strict=True)
    ]
    return [answer() for answer in answers]


class Crew(Closing):
    """Processes that are connected to the servers of a contact file.

    Raises:
        Error: One of the processes has failed.
    """

    def __init__(self, count: int, contact: str, module: str = WORKER) -> None:
        self.cores = os.cpu_count() or 1
        with ExitStack() as stack:
            names = [f"process {k}" for k in range(count)]
            self.workers = [stack.enter_context(Member(name, module)) for name in names]
            for name, worker in zip(names, self.workers, strict=True):
                worker.ready()
                worker.ask("join", contact=contact, name=name)
            self._open = stack.pop_all()

    def close(self) -> None:
        """Disconnects and ends the processes."""
        with self._open:
            for worker in self.workers:
                with suppress(Error):  # a process that failed has reported it before
                    worker.ask("leave")
