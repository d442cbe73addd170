"""The writers and readers of a staging benchmark, each a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from tranship.closing import Closing
from tranship.errors import Error

from ..harness import MismatchError
from ..processes.peer import Program, child_environment

__all__ = ["Crew", "all_same", "together"]


def together(
    members: Sequence[Program], do: str, each: Sequence[dict[str, Any]] = (), **common: Any
) -> list[dict[str, Any]]:
    """Sends a request to all at once, with `each` member's arguments; returns the answers."""
    own = each or [{}] * len(members)
    for member, arguments in zip(members, own, strict=True):
        member.send(do, **common, **arguments)
    return [member.answer() for member in members]


def all_same(answers: Sequence[dict[str, Any]], words: str) -> None:
    """Refuses wrong data.

    Raises:
        MismatchError: A process did not get what was put.
    """
    if not all(answer["same"] for answer in answers):
        raise MismatchError(
            f"{words}: what was got differs from what was put. This is a bug: please report it "
            "with this line and `tranship topology`"
        )


class Crew(Closing):
    """Processes that are connected to the servers of a contact file.

    Attributes:
        workers: The processes.
        contacts: The contact of each process's engine.

    Raises:
        Error: One of the processes has failed.
    """

    def __init__(self, count: int, contact: str, module: str = "worker") -> None:
        command = [sys.executable, "-m", f"tranship_bench.staging.{module}"]
        with ExitStack() as stack:
            self.workers = [
                stack.enter_context(Program(command, child_environment(), name=f"process {k}"))
                for k in range(count)
            ]
            self.contacts = [worker.answer()["contact"] for worker in self.workers]
            names = [{"name": f"process {k}"} for k in range(count)]
            together(self.workers, "join", names, contact=contact)
            self._open = stack.pop_all()

    def close(self) -> None:
        """Disconnects and ends the processes."""
        with self._open:
            for worker in self.workers:
                with suppress(Error):  # a process that failed has reported it before
                    worker.ask("leave")
